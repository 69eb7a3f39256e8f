"""Tables of experiments in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table, with three digits of floats.

    >>> print(markdown(["share", "error"], [[0.1, 2.0]]))
    | share | error |
    |---|---|
    | 0.1 | 2 |
    """
    lines = ["| " + " | ".join(map(_cell, line)) + " |" for line in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
