"""Pictures and tables of Figures 1, 2 and S-1, from stored curves alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Results
from experiments.paper.contest import (
    DEFAULT,
    FINE,
    LITERAL,
    SGD_PAPER,
    SMM_FORGETS,
    SMM_PAPER,
    best_sweep,
)
from experiments.paper.panels import PANELS
from vrmf.arrays import Array

Curve = Mapping[str, Any]

#: Colour and dash of each contestant.
STYLES: dict[str, dict[str, Any]] = {
    LITERAL: {"color": "C3", "marker": "o", "markersize": 3},
    DEFAULT: {"color": "k", "marker": "s", "markersize": 3},
    SMM_PAPER: {"color": "C0", "marker": "^", "markersize": 3},
    SMM_FORGETS: {"color": "C0", "linestyle": "--", "marker": ".", "markersize": 3},
    SGD_PAPER: {"color": "C2", "marker": "v", "markersize": 3},
    "SPAMS": {"color": "C4", "linestyle": ":", "marker": "d", "markersize": 3},
}

#: Shares of the first gap whose passes and seconds are in the table.
LEVELS = (1e-1, 1e-2, 1e-3)


def sweep_of(results: Results, panel: str) -> list[Curve]:
    """Return the curves of Algorithm 1 with each step that is known."""
    keys = [f"{panel}/step {factor:g}" for factor in FINE]
    return [results[key] for key in keys if key in results]


def curves_of(results: Results, panel: str) -> dict[str, Curve]:
    """Return the curves of a panel by contestant, that of Algorithm 1 with its best step."""
    sweep = sweep_of(results, panel)
    found: dict[str, Curve] = {LITERAL: best_sweep(sweep)} if sweep else {}
    for name in (DEFAULT, SMM_PAPER, SMM_FORGETS, SGD_PAPER, "SPAMS"):
        if results.get(f"{panel}/{name}"):
            found[name] = results[f"{panel}/{name}"]
    return found


def lowest(results: Results, panel: str) -> float:
    """Return the best objective known of a panel."""
    ends = [results[key]["f"] for key in (f"{panel}/reference", f"{panel}/best") if key in results]
    curves = [*curves_of(results, panel).values(), *sweep_of(results, panel)]
    return float(min([*ends, *(np.nanmin(column(found, "f")) for found in curves)]))


def column(found: Curve, name: str) -> Array:
    """Return a column of a curve, NaN where nothing is known."""
    return np.array([np.nan if value is None else value for value in found[name]], dtype=float)


def drawn_panels(results: Results) -> list[str]:
    """Return the names of the panels of which anything is known."""
    return [panel.name for panel in PANELS if curves_of(results, panel.name)]


def title_of(curves: Mapping[str, Curve], name: str) -> str:
    """Return the title of a panel, which names the data that were used."""
    return next((str(found["title"]) for found in curves.values() if "title" in found), name)


# ------------------------------------------------------------------ pictures


def draw_figure1(results: Results) -> dict[str, Figure]:
    """Draw the gap to the best value over passes and seconds, the paper's suboptimality, and ‖Γ‖²."""
    names = drawn_panels(results)
    if not names:
        return {}
    return {
        "figure1": _pairs(results, names),
        "figure1-reference": _grid(results, names, "reference"),
        "figure1-stationarity": _grid(results, names, "stationarity"),
    }


def _pairs(results: Results, names: list[str]) -> Figure:
    """Draw two axes for each panel, passes and seconds, two panels a line as the paper does."""
    lines = -(-len(names) // 2)
    figure = Figure(figsize=(12, 2.6 * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, 4, squeeze=False)
    for place, name in enumerate(names):
        curves, best = curves_of(results, name), lowest(results, name)
        over_passes, over_seconds = axes[place // 2][2 * (place % 2) : 2 * (place % 2) + 2]
        for contestant, found in curves.items():
            gap = part_of_gap(found, best)
            if contestant != "SPAMS":  # its samples are drawn otherwise; the clock is the same
                over_passes.semilogy(column(found, "passes"), gap, label=contestant, **STYLES[contestant])
            over_seconds.loglog(column(found, "seconds"), gap, label=contestant, **STYLES[contestant])
        over_passes.set(xlabel="passes", title=title_of(curves, name))
        over_seconds.set(xlabel="seconds", title=title_of(curves, name))
        over_passes.set_ylabel("part of the first gap")
    for place in range(2 * len(names), axes.size):
        axes.flat[place].set_axis_off()
    _with_legend(figure, axes)
    return figure


def part_of_gap(found: Curve, best: float) -> Array:
    """Return the gap to the best value over the first gap, NaN where there is none."""
    gap = column(found, "f") - best
    with np.errstate(invalid="ignore", divide="ignore"):
        part = gap / gap[0]
    return np.where(part > 0, part, np.nan)


def _grid(results: Results, names: list[str], what: str) -> Figure:
    """Draw f − f(Ŵ), Ŵ from batch steps, or ‖Γ‖² over passes, four panels a line."""
    lines = -(-len(names) // 4)
    figure = Figure(figsize=(12, 2.6 * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, 4, squeeze=False)
    for place, name in enumerate(names):
        spot, curves = axes.flat[place], curves_of(results, name)
        for contestant, found in curves.items():
            if contestant == "SPAMS":
                continue
            values = column(found, "stationarity" if what == "stationarity" else "f")
            if what == "reference" and f"{name}/reference" in results:
                values = values - results[f"{name}/reference"]["f"]
            shown = np.where(values > 0, values, np.nan)
            passes = column(found, "passes")
            spot.semilogy(passes, shown, label=contestant, **STYLES[contestant])
            if what == "reference" and np.any(values <= 0):
                spot.axvline(passes[np.argmax(values <= 0)], color=STYLES[contestant]["color"], alpha=0.3)
        spot.set(xlabel="passes", title=title_of(curves, name))
    for line in axes:
        line[0].set_ylabel("‖Γ‖²" if what == "stationarity" else "f − f(Ŵ)")
    for place in range(len(names), axes.size):
        axes.flat[place].set_axis_off()
    _with_legend(figure, axes)
    return figure


def _with_legend(figure: Figure, axes: Array) -> None:
    found = {label: line for spot in axes.flat for line, label in zip(*_handles(spot), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=len(found))
    for spot in axes.flat:
        spot.grid(alpha=0.3)


def _handles(spot: Any) -> tuple[list[Any], list[str]]:
    handles, labels = spot.get_legend_handles_labels()
    return handles, labels


def draw_figure2(results: Results) -> dict[str, Figure]:
    """Draw the measures of the subspace along each run, for both shares of outliers."""
    names = [name for name in ("ORPCA Synth", "ORPCA Synth 0.3") if curves_of(results, name)]
    if not names:
        return {}
    figure = Figure(figsize=(12, 2.8 * len(names) + 0.6), layout="constrained")
    axes = figure.subplots(len(names), 4, squeeze=False)
    wanted = (("EV", "passes"), ("EV", "seconds"), ("leading EV", "passes"), ("angle", "passes"))
    for line, name in zip(axes, names, strict=True):
        curves = curves_of(results, name)
        for spot, (measure, against) in zip(line, wanted, strict=True):
            for contestant, found in curves.items():
                spot.plot(
                    column(found, against),
                    column(found, measure),
                    label=contestant,
                    **STYLES[contestant],
                )
            if against == "seconds":
                spot.set_xscale("symlog", linthresh=0.1)
            label = {"EV": "EV of the whole span", "leading EV": "EV of 10 leading directions"}
            spot.set(xlabel=against, ylabel=label.get(measure, "largest angle to U (degrees)"))
            spot.set_title(title_of(curves, name), fontsize=9)
    _with_legend(figure, axes)
    return {"figure2": figure}


def draw_figure3(results: Results) -> dict[str, Figure]:
    """Draw the gap of Algorithm 1 to the best value over passes, a line for each step."""
    names = [panel.name for panel in PANELS if sweep_of(results, panel.name)]
    if not names:
        return {}
    lines = -(-len(names) // 4)
    figure = Figure(figsize=(12, 2.8 * lines), layout="constrained")
    axes = figure.subplots(lines, 4, squeeze=False)
    for place, name in enumerate(names):
        spot, best, sweep = axes.flat[place], lowest(results, name), sweep_of(results, name)
        for shade, found in zip(np.linspace(0.15, 0.9, len(sweep)), sweep, strict=True):
            gap = part_of_gap(found, best)
            colour = (shade, 0.2, 1 - shade)
            spot.semilogy(
                column(found, "passes"), gap, color=colour, marker=".", label=f"η = {found['eta']:.2g}"
            )
        spot.set(xlabel="passes", title=title_of({"": sweep[0]}, name))
        spot.grid(alpha=0.3)
        spot.legend(fontsize=6, framealpha=0.4)
    for line in axes:
        line[0].set_ylabel("part of the first gap")
    return {"figure3": figure}


# ------------------------------------------------------------------ tables


def table_figure1(results: Results) -> str:
    """Return when each contestant reached each share of the first gap, and where it ended."""
    lines = [
        "| panel | contestant | passes to 10 %, 1 %, 0.1 % of the first gap | seconds | gap left | ‖Γ‖² |",
        "|---|---|---|---|---|---|",
    ]
    for name in drawn_panels(results):
        best, curves = lowest(results, name), curves_of(results, name)
        for contestant, found in curves.items():
            part = part_of_gap(found, best)
            part = np.where(np.isnan(part) & np.isfinite(column(found, "f")), 0.0, part)
            times = [_reached(found, part, unit) for unit in ("passes", "seconds")]
            lines.append(
                f"| {title_of(curves, name)} | {contestant} | {times[0]} | {times[1]} "
                f"| {part[-1]:.2g} | {column(found, 'stationarity')[-1]:.2g} |"
            )
    return "\n".join([*lines, "", _constants(results)])


def _reached(found: Curve, part: Array, unit: str) -> str:
    """Return the first point of a curve that is at or below each level."""
    times = []
    for level in LEVELS:
        below = np.flatnonzero(part <= level)
        times.append(f"{column(found, unit)[below[0]]:.2g}" if len(below) else "–")
    return ", ".join(times)


def _constants(results: Results) -> str:
    """Return the constants that the searches found, and the quality of the references."""
    lines = [
        "| panel | η | SGD: first step, β′/n | Ŵ: ‖Γ‖² over the first | passes |",
        "|---|---|---|---|---|",
    ]
    for name in drawn_panels(results):
        sgd, end = results.get(f"{name}/search SGD"), results.get(f"{name}/reference")
        found = f"{sgd['first step']:.2g}, {sgd['offset']:g}" if sgd else "–"
        quality = f"{end['part of first']:.1g} | {end['passes']:.0f}" if end else "– | –"
        eta = curves_of(results, name)[LITERAL]["eta"] if sweep_of(results, name) else float("nan")
        lines.append(f"| {name} | {eta:.2g} | {found} | {quality} |")
    return "\n".join(lines)


def table_figure2(results: Results) -> str:
    """Return the measures of the subspace at the end of each run."""
    lines = [
        "| data | contestant | EV, whole span | EV, 10 leading | largest angle |",
        "|---|---|---|---|---|",
    ]
    for name in ("ORPCA Synth", "ORPCA Synth 0.3"):
        curves = curves_of(results, name)
        for contestant, found in curves.items():
            whole, leading, angle = (column(found, what)[-1] for what in ("EV", "leading EV", "angle"))
            title = title_of(curves, name)
            lines.append(f"| {title} | {contestant} | {whole:.6f} | {leading:.4f} | {angle:.3g}° |")
    return "\n".join(lines)


def table_figure3(results: Results) -> str:
    """Return where Algorithm 1 ends with each step."""
    heads = " | ".join(f"{factor:g} η" for factor in FINE)
    lines = [f"| panel | η of the search | {heads} |", "|---|---|" + "---|" * len(FINE)]
    for name in (panel.name for panel in PANELS if sweep_of(results, panel.name)):
        ends = " | ".join(_left_by(results, name, factor) for factor in FINE)
        lines.append(f"| {name} | {results[f'{name}/search step']['eta']:.3g} | {ends} |")
    return "\n".join([*lines, "", "Each entry is the part of the first gap that is left after ten epochs."])


def _left_by(results: Results, name: str, factor: float) -> str:
    found = results.get(f"{name}/step {factor:g}")
    if found is None or found["f"][-1] is None:
        return "–"
    return f"{part_of_gap(found, lowest(results, name))[-1]:.3g}"
