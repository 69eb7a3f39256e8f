"""The output of commands: words, coloured on a terminal, or JSON for scripts."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

#: Letters of the longest label, and a space.
LABEL_WIDTH = 16

#: Control characters, line separators, and characters that change the direction of writing.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(eq=False)
class Screen:
    """Prints the results of a command.

    With ``as_json`` nothing is printed until :meth:`finish`, which prints all of it as one object.
    """

    as_json: bool = False
    quiet: bool = False
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A console uses the standard output of the moment when it is made, which tests replace.
        self.console = Console(highlight=False, soft_wrap=True)

    def title(self, text: str) -> None:
        """Print a line above a group of facts."""
        if self._is_printed:
            text = printable(text)
            self.console.print(f"[bold]{escape(text)}[/bold]" if self.console.is_terminal else escape(text))

    def fact(self, name: str, value: Any, words: str | None = None, *, label: str | None = None) -> None:
        """Print one fact: a value for scripts, and words for people; without words for scripts only."""
        self.found[name] = json_value(value)
        if words is not None and self._is_printed:
            label = name.replace("_", " ") if label is None else label
            words = wrapped(printable(words), self._width, LABEL_WIDTH).lstrip(" ")
            self.console.print(f"[cyan]{escape(f'{label:<{LABEL_WIDTH}}')}[/cyan]{escape(words)}")

    def note(self, *lines: str) -> None:
        """Print a sentence, or some lines, that are for people only."""
        if self._is_printed:
            self.console.print("\n".join(escape(printable(line)) for line in lines))

    def doing(self, text: str) -> None:
        """Print on standard error what is being done, as it may take long."""
        if self._is_printed:
            click.echo(printable(text), err=True)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table; for scripts a list of objects."""
        rows = [list(row) for row in rows]
        self.found[name] = [dict(zip(columns, map(json_value, row), strict=True)) for row in rows]
        if not self._is_printed:
            return
        cells = [
            [printable(each) if isinstance(each, str) else short(each) for each in row] for row in rows
        ]
        if not self.console.is_terminal:
            for line in [list(columns), *cells]:
                print("\t".join(line))
            return
        shown = Table(box=None, header_style="bold", pad_edge=False)
        for i, column in enumerate(columns):
            is_number = all(not isinstance(row[i], str) for row in rows)
            shown.add_column(escape(column), justify="right" if is_number else "left", overflow="fold")
        for line in cells:
            shown.add_row(*map(escape, line))
        self.console.print(shown)

    def finish(self) -> None:
        """Print all facts as one JSON object, if that is wanted."""
        if self.as_json:
            print(_encodable(json.dumps(self.found, ensure_ascii=False, indent=1), sys.stdout.encoding))

    @property
    def _width(self) -> int | None:
        """The letters of a line, on a terminal."""
        return self.console.width if self.console.is_terminal else None

    @property
    def _is_printed(self) -> bool:
        return not (self.as_json or self.quiet)


def printable(text: str) -> str:
    """Return a text in one line, with escapes in place of control characters.

    >>> print(printable("red\\x1b[31m gene\\n"))
    red\\x1b[31m gene\\n
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def wrapped(text: str, width: int | None, indent: int = 0) -> str:
    """Return a text in lines of a width, without breaking words, such as paths; None is any width.

    >>> wrapped("a table of cells", 10, indent=2)
    '  a table\\n  of cells'
    """
    if width is None or len(text) + indent <= width:
        return " " * indent + text
    space = " " * indent
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=space,
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def _encodable(text: str, encoding: str | None) -> str:
    """Return a text of JSON, with escapes where an encoding does not have its letters.

    >>> _encodable('{"name": "Größe"}', "ascii")
    '{"name": "Gr\\\\u00f6\\\\u00dfe"}'
    """
    try:
        text.encode(encoding or "utf-8")
        return text
    except UnicodeEncodeError:
        return "".join(sign if sign.isascii() else json.dumps(sign)[1:-1] for sign in text)


def json_value(value: Any) -> Any:
    """Return a value that JSON can hold; a number that is not finite becomes None."""
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return value if isinstance(value, bool | int | str | type(None)) else str(value)


def short(value: Any) -> str:
    """Return a number in a few digits.

    >>> short(1234567), short(0.00012345), short(2.0), short(None)
    ('1\xa0234\xa0567', '0.0001234', '2', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\N{NO-BREAK SPACE}") if abs(value) >= 10_000 else str(value)
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a command prints its results."""
    for option in (
        click.option("--debug", is_flag=True, help="Show where in the program an error came from."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts."),
        click.option("--quiet", is_flag=True, help="Print nothing but warnings and errors."),
    ):
        command = option(command)
    return command
