"""The tables and the figures of solvers.py, from its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from benchmarks.reporting import INK, OURS, plain, save
from benchmarks.solver_runs import unpacked
from benchmarks.solver_tables import markdown

COLORS = {
    "VR": OURS,
    "SMM": "#e07b21",
    "SGD": "#3a923a",
    "paper's VR": "#8f5fb5",
    "plain batch": INK,
    "batch": "#b0413e",
    "SPAMS": "#e07b21",
}

#: Gaps below this share of the first are drawn at it.
SMALLEST_GAP = 1e-6


def draw(results: dict[str, Any], folder: Path) -> None:
    """Write the tables and every figure that has results into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "solvers.md").write_text(markdown(results))
    if results.get("panels"):
        for unit in ("passes", "seconds"):
            contests(results["panels"], unit, folder / f"solver_panels_{unit}.svg")
    for part, figure in FIGURES.items():
        if results.get(part):
            figure(results[part], folder / f"solver_{part}.svg")


def contests(panels: dict[str, Any], unit: str, path: Path) -> None:
    """Draw the gap to the best known objective against passes or seconds, each seed a line."""
    figure, places = _grid(len(panels))
    for axes, (name, panel) in zip(places, panels.items(), strict=False):
        for run in panel["seeds"]:
            for solver, contestant in run["contestants"].items():
                curve = {key: unpacked(text) for key, text in contestant["curve"].items()}
                gap = (curve["f"] - run["best"]) / (run["f0"] - run["best"])
                style = ":" if solver.endswith("early") else "-"
                color = COLORS[solver.split()[0]]
                # Not the start, since the axis is logarithmic.
                axes.plot(curve[unit][1:], np.clip(gap[1:], SMALLEST_GAP, None), style, color=color, lw=0.8)
        _logarithmic(axes, name)
    handles = [Line2D([], [], color=COLORS[name], label=name) for name in ("VR", "SMM", "SGD")]
    handles.append(Line2D([], [], color=INK, ls=":", label="best constants for 3 passes"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    figure.supxlabel(unit, fontsize=9)
    figure.supylabel("(f − best known) / (first f − best known)", fontsize=9)
    save(figure, path)


def certificates(cases: dict[str, Any], path: Path) -> None:
    """Draw how ‖Γ‖² falls with the passes."""
    figure, places = _grid(len(cases))
    for axes, (name, solvers) in zip(places, cases.items(), strict=False):
        for solver, result in solvers.items():
            passes, part = (unpacked(text) for text in result["curve"].values())
            axes.plot(passes[1:], part[1:], color=COLORS[solver], lw=0.9)
        _logarithmic(axes, name)
    handles = [Line2D([], [], color=COLORS[name], label=name) for name in ("VR", "plain batch", "batch")]
    handles[-1].set_label("batch with momentum")
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.supxlabel("passes", fontsize=9)
    figure.supylabel("‖Γ‖² over its first value", fontsize=9)
    save(figure, path)


def growths(growth: dict[str, Any], path: Path) -> None:
    """Draw the code problems that are solved until ‖Γ‖² ≤ ε against the number of rows."""
    figure, axes = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
    for name, slope in growth["slopes"].items():
        known = [(p["n"], p[name]["samples"]) for p in growth["points"] if p[name]["samples"]]
        if known:
            text = name if slope is None else f"{name}, slope {slope:.2f}"
            axes.loglog(*zip(*known, strict=True), "o-", ms=3, lw=1, color=COLORS[name], label=text)
    axes.set(xlabel="rows n", ylabel=f"code problems until ‖Γ‖² ≤ {growth['epsilon']:g}")
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    save(figure, path)


def against_spams(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw objectives against seconds with a line for each seed, of SPAMS at the times of its runs."""
    figure, places = _grid(len(cases), columns=len(cases))
    for axes, case in zip(places, cases, strict=False):
        for run in case["runs"]:
            seconds, _, values = np.array(run["curve"][1:]).T
            axes.plot(seconds, values, color=COLORS["VR"], lw=0.9)
            axes.plot(run["their_seconds"], run["theirs"], "o-", ms=2.5, lw=0.9, color=COLORS["SPAMS"])
        axes.set(xscale="log", title=case["name"])
        axes.title.set_fontsize(8)
        # The objectives before the first of SPAMS are too large for the axis.
        highest = max(value for run in case["runs"] for value in run["theirs"])
        lowest = min(min(*run["theirs"], run["curve"][-1][2]) for run in case["runs"])
        axes.set_ylim(lowest - 0.05 * (highest - lowest), highest + 0.5 * (highest - lowest))
        plain(axes)
    handles = [Line2D([], [], color=COLORS[key], label=key) for key in ("VR", "SPAMS")]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    figure.supxlabel("seconds, two threads", fontsize=9)
    figure.supylabel("objective", fontsize=9)
    save(figure, path)


FIGURES: dict[str, Callable[[Any, Path], None]] = {
    "stationarity": certificates,
    "growth": growths,
    "spams": against_spams,
}


def _grid(count: int, columns: int = 4) -> tuple[Any, list[Any]]:
    """Return a figure with some small panels."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure, places = plt.subplots(
        rows, columns, figsize=(2.5 * columns, 1.9 * rows + 0.6), layout="constrained", squeeze=False
    )
    for axes in places.flat[count:]:
        axes.set_visible(False)
    return figure, list(places.flat)


def _logarithmic(axes: Any, title: str) -> None:
    axes.set(xscale="log", yscale="log")
    axes.set_title(title, fontsize=8)
    axes.minorticks_off()  # which would be most of the file
    plain(axes)
