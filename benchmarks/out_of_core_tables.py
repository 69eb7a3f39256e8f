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


def _memory(found: dict[str, Any]) -> str:
    lines = [
        "## A fit: one epoch of VR without a cache of codes",
        "",
        "Private memory above the interpreter's own; the bound of three chunks and 20 · k · d numbers is "
        f"{found['bound'] / 1e6:.0f} MB.",
        "",
        "| rows | size of the file | seconds | passes | seconds a pass, per 10⁶ rows | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for n, run in found["fits"].items():
        each = run["seconds"] / run["passes"] / int(n) * 1e6
        lines.append(
            f"| {int(n):,} | {int(n) * 800 / 1e6:,.0f} MB | {run['seconds']:.1f} | {run['passes']:.1f} "
            f"| {each:.2f} | {run['peak bytes'] / 1e6:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def _passes(found: dict[str, Any]) -> str:
    lines = [
        "## A pass: from the file against an array in memory (medians of three)",
        "",
        "| rows | in memory | file, warm cache | file, cold cache | reading alone, cold | cold over the "
        "slower of memory and reading |",
        "|---|---|---|---|---|---|",
    ]
    for n, runs in found.items():
        seconds = {where: run["seconds"] for where, run in runs.items()}
        slower = max(seconds["memory"], seconds["reading"])
        lines.append(
            f"| {int(n):,} | {seconds['memory']:.2f} s | {seconds['warm']:.2f} s | {seconds['cold']:.2f} s "
            f"| {seconds['reading']:.2f} s | {seconds['cold'] / slower:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _formats(found: dict[str, Any]) -> str:
    lines = [
        "## A pass over 10⁶ rows from other files, cold cache",
        "",
        "| file | size | seconds | peak memory |",
        "|---|---|---|---|",
    ]
    for name, run in found.items():
        size, peak = (run[key] / 1e6 for key in ("bytes", "peak bytes"))
        lines.append(f"| {name} | {size:.0f} MB | {run['seconds']:.2f} | {peak:.0f} MB |")
    return "\n".join(lines) + "\n"


def _peers(found: dict[str, Any]) -> str:
    lines = [
        "## scikit-learn on the same mapped files, one pass",
        "",
        "| | rows | seconds | peak memory |",
        "|---|---|---|---|",
    ]
    for name, runs in found.items():
        for n, run in runs.items():
            seconds = f"{run['seconds']:.0f}" if run["finished"] else f"not done after {run['seconds']:.0f}"
            lines.append(f"| `{name}` | {int(n):,} | {seconds} | {run['peak bytes'] / 1e6:,.0f} MB |")
    return "\n".join(lines) + "\n"
