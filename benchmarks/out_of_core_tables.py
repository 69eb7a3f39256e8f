"""The tables of out_of_core.py, from its results."""

from __future__ import annotations

from typing import Any


def markdown(results: dict[str, Any]) -> str:
    """Return all tables whose results are there, as one page."""
    parts = [_memory, _passes, _formats, _peers]
    pages = [part(results[part.__name__[1:]]) for part in parts if part.__name__[1:] in results]
    about = results.get("machine", {})
    where = f"{about.get('processor')}, {about.get('cores')} cores, two threads"
    return (
        "# Data larger than memory\n\n"
        + f"{where}. Made by `benchmarks/out_of_core.py`.\n\n"
        + "\n".join(pages)
    )


def _table(title: str, head: str, rows: list[str], about: str = "") -> str:
    """Return a section with one table; rows and head are cells between bars."""
    rule = "|".join("---" for _ in head.split("|"))
    lines = [f"## {title}", "", *([about, ""] if about else []), f"| {head} |", f"|{rule}|"]
    return "\n".join([*lines, *(f"| {row} |" for row in rows)]) + "\n"


def _memory(found: dict[str, Any]) -> str:
    rows = []
    for n, run in found["fits"].items():
        each = run["seconds"] / run["passes"] / int(n) * 1e6
        rows.append(
            f"{int(n):,} | {int(n) * 800 / 1e6:,.0f} MB | {run['seconds']:.1f} | {run['passes']:.1f} "
            f"| {each:.2f} | {run['peak bytes'] / 1e6:.0f} MB"
        )
    return _table(
        "A fit: one epoch of VR without a cache of codes",
        "rows | size of the file | seconds | passes | seconds a pass, per 10⁶ rows | peak memory",
        rows,
        "Private memory above the interpreter's own; the bound of three chunks and 20 · k · d numbers is "
        f"{found['bound'] / 1e6:.0f} MB.",
    )


def _passes(found: dict[str, Any]) -> str:
    rows = []
    for n, runs in found.items():
        seconds = {where: run["seconds"] for where, run in runs.items()}
        slower = max(seconds["memory"], seconds["reading"])
        times = [f"{seconds[where]:.2f} s" for where in ("memory", "warm", "cold", "reading")]
        rows.append(" | ".join([f"{int(n):,}", *times, f"{seconds['cold'] / slower:.2f}"]))
    return _table(
        "A pass: from the file against an array in memory (medians of three)",
        "rows | in memory | file, warm cache | file, cold cache | reading alone, cold | cold over the "
        "slower of memory and reading",
        rows,
    )


def _formats(found: dict[str, Any]) -> str:
    rows = []
    for name, run in found.items():
        size, peak = (run[key] / 1e6 for key in ("bytes", "peak bytes"))
        rows.append(f"{name} | {size:.0f} MB | {run['seconds']:.2f} | {peak:.0f} MB")
    return _table(
        "A pass over 10⁶ rows from other files, cold cache", "file | size | seconds | peak memory", rows
    )


def _peers(found: dict[str, Any]) -> str:
    rows = []
    for name, runs in found.items():
        for n, run in runs.items():
            seconds = f"{run['seconds']:.0f}" if run["finished"] else f"not done after {run['seconds']:.0f}"
            rows.append(f"`{name}` | {int(n):,} | {seconds} | {run['peak bytes'] / 1e6:,.0f} MB")
    return _table(
        "scikit-learn on the same mapped files, one pass", " | rows | seconds | peak memory", rows
    )
