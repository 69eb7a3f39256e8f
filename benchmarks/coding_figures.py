"""The table and the figures of coding.py, from its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from benchmarks.coding_growth import slope
from benchmarks.reporting import INK, OURS, machine_line, plain, save

COMPARED = (
    "lasso",
    "overcomplete",
    "overcomplete_others",
    "sparse_encode",
    "nonnegative",
    "huber",
    "group",
    "precision",
)


def draw(results: dict[str, Any], folder: Path) -> None:
    """Write the table and every figure that has results into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if rows := compared(results):
        (folder / "coding.md").write_text(markdown(results), encoding="utf-8")
        drawn = [row for row in rows if row["peer"] != "float64" and " nonzeros" not in row["name"]]
        ratios(drawn, folder / "coding_ratios.svg")
    for part, figure in FIGURES.items():
        if part in results:
            figure(results[part], folder / f"coding_{NAMES.get(part, part)}.svg")


def compared(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the comparisons of all parts."""
    return [row for part in COMPARED for row in results.get(part, [])]


def markdown(results: dict[str, Any]) -> str:
    """Return the comparisons as a Markdown table."""
    lines = [
        "| work | against | times faster | wanted | ours, s | theirs, s |",
        "|---|---|---|---|---|---|",
    ]
    for row in compared(results):
        ours, theirs = row["seconds"].values()
        numbers = f"{row['ratio']:.1f} | {row['wanted']:g} | {ours:.4f} | {theirs:.3f}"
        lines.append(f"| {row['name']} | {row['peer']} | {numbers} |")
    for row in results.get("anchor_pass", []):
        ours, theirs = row["seconds"].values()
        numbers = f"{1 / row['ratio']:.2f} | {1 / row['wanted']:g} | {ours:.3f} | {theirs:.3f}"
        lines.append(f"| warm pass, P1, MNIST 60 000, {row['dtype']} | its bare products | {numbers} |")
    lines += ["", machine_line(results), ""]
    return "\n".join(lines)


def ratios(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw how many times faster than each peer we are, with the ratio that was wanted."""
    figure, axes = plt.subplots(figsize=(7.5, 0.24 * len(rows) + 0.9), layout="constrained")
    places = np.arange(len(rows))[::-1]
    axes.barh(places, [row["ratio"] for row in rows], color=OURS, height=0.7)
    axes.scatter(
        [row["wanted"] for row in rows], places, marker="|", s=90, color="black", zorder=3, label="wanted"
    )
    axes.set_yticks(places, [f"{row['name']}  ({row['peer']})" for row in rows], fontsize=7)
    axes.set(xscale="log", xlabel="times faster than the peer")
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.legend(title="mark", fontsize=7, title_fontsize=7, loc="upper right")
    plain(axes)
    save(figure, path)


def overcomplete(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw how many times faster than SPAMS over nonzeros, with a line for each dictionary."""
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 3.2), sharey=True, layout="constrained")
    names = list(dict.fromkeys(row["name"].rsplit(",", 2)[0] for row in rows))
    for axes, kind in zip(panels, ("cold", "warm"), strict=True):
        for number, name in enumerate(names):
            chosen = [r for r in rows if r["name"].startswith(name + ",") and r["name"].endswith(kind)]
            style = "o-" if name.startswith("faces") else "s--"
            axes.loglog(
                [r["nonzeros"] for r in chosen],
                [r["ratio"] for r in chosen],
                style,
                ms=3,
                color=plt.get_cmap("viridis")(number % 5 / 5),
                label=name,
            )
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set(title=kind, xlabel="nonzeros of a code")
        axes.set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        axes.minorticks_off()
        plain(axes)
    panels[0].set_ylabel("times faster than SPAMS")
    panels[1].legend(fontsize=6, ncols=2, title="patches of d pixels, k atoms", title_fontsize=6)
    save(figure, path)


def growth(curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw seconds against n, d, k and the density, with slopes."""
    names = {"n": "rows n", "d": "features d", "k": "atoms k", "density": "density of codes"}
    figure, panels = plt.subplots(1, 4, figsize=(10, 2.7), layout="constrained")
    for axes, (name, label) in zip(panels, names.items(), strict=True):
        points = curves[name]
        for kind, color in (("cold", INK), ("warm", OURS)):
            text = kind if name == "density" else f"{kind}, slope {slope(points, kind):.2f}"
            axes.loglog(
                [p["at"] for p in points], [p[kind] for p in points], "o-", ms=3, color=color, label=text
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(label)
        axes.legend(frameon=False, fontsize=7)
        plain(axes)
    panels[0].set_ylabel("seconds, two threads")
    save(figure, path)


def shares(passes: list[dict[str, Any]], path: Path) -> None:
    """Draw the share of each part of a warm pass."""
    figure, axes = plt.subplots(figsize=(7.5, 1.9), layout="constrained")
    parts = list(passes[0]["shares"])
    colors = plt.get_cmap("tab20")(np.linspace(0, 1, len(parts)))
    left = np.zeros(len(passes))
    for part, color in zip(parts, colors, strict=True):
        widths = np.array([run["shares"][part] for run in passes])
        axes.barh([run["dtype"] for run in passes], widths, left=left, color=color, label=part)
        left += widths
    axes.set(xlim=(0, 1), xlabel="share of the time of a warm pass, MNIST 60 000, k = 49, one thread")
    axes.legend(frameon=False, fontsize=7, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    plain(axes)
    save(figure, path)


#: The figures of parts, and their names where these differ.
FIGURES: dict[str, Callable[[Any, Path], None]] = {
    "overcomplete": overcomplete,
    "growth": growth,
    "anchor_pass": shares,
}
NAMES = {"anchor_pass": "shares"}
