"""What the reports of several benchmarks share: tables in Markdown, and the style of figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: The colour of lines that are not data.
INK = "#404040"

#: The colour of this library in figures.
OURS = "#1f6fb4"


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def machine_line(results: dict[str, Any]) -> str:
    """Return a line on the machine and the versions that made some results."""
    where = results.get("machine", {})
    versions = ", ".join(f"{name} {number}" for name, number in where.get("versions", {}).items() if number)
    return f"Machine: {where.get('processor')}, {where.get('threads')} threads; {versions}."


def plain(axes: Any) -> None:
    """Draw axes without a frame, with small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)


def save(figure: Any, path: Path) -> None:
    """Write a figure and close it; the same results give the same file."""
    import matplotlib.pyplot as plt

    # Without the date, and with the name of the benchmark as the salt of identifiers.
    with plt.rc_context({"svg.hashsalt": path.stem.partition("_")[0]}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
