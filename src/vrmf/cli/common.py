"""What commands have in common."""

from __future__ import annotations

import difflib
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from sklearn.exceptions import ConvergenceWarning

from vrmf.cli.screen import printable, wrapped
from vrmf.estimators import ESTIMATORS

T = TypeVar("T", bound=Callable[..., Any])

#: The exit code of a command that was interrupted from the keyboard.
INTERRUPTED = 130

#: The exit code of a fit whose budget ended before it was stationary. The model is written.
UNFINISHED = 3

force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
model_argument = click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))


class ModelName(click.ParamType):
    """The name of a model, in any case, with or without hyphens."""

    name = "model"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name as the table of estimators has it."""
        known = {_letters(name): name for name in ESTIMATORS}
        known |= {_letters(kind.__name__): name for name, kind in ESTIMATORS.items()}
        if _letters(value) in known:
            return known[_letters(value)]
        close = difflib.get_close_matches(_letters(value), known, n=1)
        meant = f"Did you mean {known[close[0]]}? " if close else ""
        self.fail(f"{value!r} is no model. {meant}Use one of {', '.join(ESTIMATORS)}.", param, ctx)

    def get_metavar(self, param: Any, ctx: Any = None) -> str:
        return f"[{'|'.join(ESTIMATORS)}]"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        found = [name for name in ESTIMATORS if name.startswith(incomplete.lower())]
        return [click.shell_completion.CompletionItem(name) for name in found]


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def output_option(default: str | None, text: str, *names: str) -> Callable[[T], T]:
    """Return the option for a file of results."""
    kind = click.Path(path_type=Path)
    return click.option(
        *(names or ("-o", "--output")), type=kind, default=default and Path(default), help=text
    )


@contextmanager
def errors_as_lines(debug: bool = False) -> Iterator[None]:
    """Turn user errors and warnings into lines without a traceback.

    If there is an error, warnings are not printed.
    """
    warned: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", ConvergenceWarning)
            yield
    except click.exceptions.Exit:  # which is a RuntimeError
        _tell_warnings(warned)
        raise
    except (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if debug:
            raise
        raise click.ClickException(_one_line(str(error)) or type(error).__name__) from error
    _tell_warnings(warned)


def _tell_warnings(warned: list[warnings.WarningMessage]) -> None:
    """Print each warning once."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for message in dict.fromkeys(str(warning.message) for warning in warned):
        click.echo(wrapped(f"Warning: {_one_line(message)}", width), err=True)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def stopped(message: str) -> click.exceptions.Exit:
    """Print how an interrupted command ended, and return the exception that ends it."""
    click.echo(f"Stopped: {printable(message)}", err=True)
    return click.exceptions.Exit(INTERRUPTED)
