"""What commands that read and write files have in common."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from sklearn.exceptions import ConvergenceWarning

from vrmf.sources import AbstractSource, as_source
from vrmf.sources.files import INSIDE
from vrmf.sources.lazy import dask_array
from vrmf.sources.tables import as_table

T = TypeVar("T", bound=Callable[..., Any])

#: The exit code of a command that was interrupted from the keyboard.
INTERRUPTED = 130

force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
jobs_option = click.option("--jobs", type=int, help="Threads.  [default: all cores]")
chunk_rows_option = click.option(
    "--chunk-rows", type=click.IntRange(min=1), help="Rows read at once.  [default: about 32 MB]"
)


def output_option(default: str, text: str) -> Callable[[T], T]:
    """Return the option for the file of results."""
    kind = click.Path(path_type=Path)
    return click.option("-o", "--output", type=kind, default=Path(default), help=text)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn errors of the user's making, warnings and interrupts into messages without a traceback."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                yield
            finally:
                for message in dict.fromkeys(str(warning.message) for warning in warned):
                    click.echo(f"Warning: {message}", err=True)
    except click.exceptions.Exit:  # which is a RuntimeError
        raise
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def stopped(message: str) -> click.exceptions.Exit:
    """Say how a command ended that was interrupted, and return what ends it."""
    click.echo(f"Stopped: {message}", err=True)
    return click.exceptions.Exit(INTERRUPTED)


def file_of(data: str) -> Path:
    """Return the file in which data are, without the name of a data set inside of it."""
    return Path(data) if Path(data).exists() else Path(data.partition(INSIDE)[0])


def rows_in(data: str, chunk_rows: int | None, jobs: int | None, lazily: bool = False) -> AbstractSource:
    """Return the source of the rows in a file, here or on the workers of a cluster."""
    if not lazily:
        return as_source(data, jobs, chunk_rows=chunk_rows)
    return as_source(dask_array(data, chunk_rows)).named(as_table(data).feature_names)
