"""The paper's start, all ones: what each method really computes from there.

Equal atoms get equal codes wherever codes are unique or the coder treats atoms alike, so all their
gradients are equal and the dictionary keeps rank one. Where codes are not unique the coder decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vrmf.experiments.base import Experiment, Results, Scale, Step
from vrmf.experiments.curves import Observers, curve
from vrmf.experiments.paper import contest
from vrmf.experiments.paper.contest import DEFAULT, SGD_PAPER, SMM_PAPER
from vrmf.experiments.paper.drawing import STYLES, column
from vrmf.experiments.paper.panels import ATOMS, PANELS, Case, Panel, Size
from vrmf.solvers import SGD, SMM, VR, AbstractSolver
from vrmf.solvers.base import paper_batch_size
from vrmf.terms.base import Array

#: Algorithm 1 with the codes of this library, with the paper's, and started at rows of the data.
OURS, BSUM, FROM_DATA = "Algorithm 1", "Algorithm 1, BSUM codes", "Algorithm 1 from data rows"

#: The rank does not depend on the number of rows.
ROWS, QUICK_ROWS = 1000, 150

#: Steps of Algorithm 1 that are tried, in units of 1/λ_max(A) at all ones.
FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)

#: A singular value counts if it is above this part of the largest.
RANK_TOLERANCE = 1e-6

_STYLES: dict[str, dict[str, Any]] = {
    OURS: STYLES[contest.LITERAL],
    BSUM: {"color": "C1", "linestyle": "--", "marker": "x", "markersize": 4},
    SMM_PAPER: STYLES[SMM_PAPER],
    SGD_PAPER: STYLES[SGD_PAPER],
    DEFAULT: STYLES[DEFAULT],
}


def rank(D: Array) -> float:
    """Return the number of singular values above 10⁻⁶ of the largest.

    >>> rank(np.ones((3, 4)))
    1.0
    """
    values = np.linalg.svd(D, compute_uv=False)
    return float(np.count_nonzero(values > RANK_TOLERANCE * values[0]))


OBSERVERS: Observers = {"rank": rank}


@lru_cache(maxsize=1)
def _loaded(panel: Panel, size: Size) -> Case:
    return panel.load(size)


def _literal(case: Case) -> dict[str, Any]:
    """Return the curve of Algorithm 1 from all ones, with the best of some steps."""
    D, unit = case.ones(), contest.unit_step(case.problem, case.ones())
    return contest.best_sweep([contest.swept(case, D, factor * unit, OBSERVERS) for factor in FACTORS])


def _from_data(case: Case) -> dict[str, Any]:
    D, unit = case.start(), contest.unit_step(case.problem, case.start())
    return contest.best_sweep([contest.swept(case, D, factor * unit, OBSERVERS) for factor in FACTORS])


def _with(case: Case, solver: AbstractSolver) -> dict[str, Any]:
    return curve(solver, case.problem, case.ones(), at=contest.grid(case.n_samples), observers=OBSERVERS)


def _panel_steps(panel: Panel, size: Size) -> list[Step]:
    name, cost = panel.name, 0.3 if size.quick else 10.0

    def on_case(compute: Any) -> Any:
        return lambda results: {"title": _loaded(panel, size).title} | compute(_loaded(panel, size))

    def bsum(results: Results) -> dict[str, Any]:
        case, eta = _loaded(panel, size), results[f"{name}/{OURS}"]["eta"]
        at = contest.literal_epochs(case.n_samples)
        solver = contest.literal(eta, method="bsum")
        return curve(solver, case.problem, case.ones(), at=at, observers=OBSERVERS)

    def batch(case: Case) -> int:
        return paper_batch_size(case.n_samples)

    return [
        Step(f"{name}/{OURS}", on_case(_literal), 4 * cost),
        Step(f"{name}/{BSUM}", bsum, cost),
        Step(f"{name}/{FROM_DATA}", on_case(_from_data), 4 * cost),
        Step(f"{name}/{SMM_PAPER}", on_case(lambda c: _with(c, SMM(batch(c), reseed=False))), cost),
        Step(f"{name}/{SGD_PAPER}", on_case(lambda c: _with(c, SGD(batch(c), reseed=False))), cost),
        Step(f"{name}/{DEFAULT}", on_case(lambda c: _with(c, VR())), cost),
    ]


def _steps(scale: Scale) -> list[Step]:
    size = Size(scale.quick, scale.synth_rows, QUICK_ROWS if scale.quick else ROWS)
    return [step for panel in PANELS for step in _panel_steps(panel, size)]


# ------------------------------------------------------------------ what a reader sees


def _curves(results: Results, panel: str) -> dict[str, Mapping[str, Any]]:
    return {name: results[f"{panel}/{name}"] for name in _STYLES if f"{panel}/{name}" in results}


def draw(results: Results) -> dict[str, Figure]:
    """Draw the rank of D and the objective along the runs from all ones."""
    names = [panel.name for panel in PANELS if _curves(results, panel.name)]
    if not names:
        return {}
    return {"start": _grid(results, names, "rank"), "start-objective": _grid(results, names, "f")}


def _grid(results: Results, names: list[str], what: str) -> Figure:
    lines = -(-len(names) // 4)
    figure = Figure(figsize=(12, 2.6 * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, 4, squeeze=False)
    for spot, name in zip(axes.flat, names, strict=False):
        curves = _curves(results, name)
        for contestant, found in curves.items():
            spot.plot(column(found, "passes"), column(found, what), label=contestant, **_STYLES[contestant])
        beside = results.get(f"{name}/{FROM_DATA}")
        if what == "f" and beside is not None:
            spot.axhline(column(beside, "f")[-1], color="grey", linestyle=":", label=FROM_DATA)
        if what == "rank":
            spot.set_yscale("log")
            spot.set_yticks([1, 2, 5, 10, 20, ATOMS], [1, 2, 5, 10, 20, ATOMS])
            spot.set_ylim(0.9, 60)
        else:
            _fit_to(spot, [column(found, "f") for found in curves.values()])
        title = next((str(found["title"]) for found in curves.values() if "title" in found), name)
        spot.set(xlabel="passes", title=title)
        spot.grid(alpha=0.3)
    for spot in list(axes.flat)[len(names) :]:
        spot.set_axis_off()
    for line in axes:
        line[0].set_ylabel("rank of D" if what == "rank" else "f")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _fit_to(spot: Any, values: list[Array]) -> None:
    """Show what lies between the lowest value and the start, though a run may leap above it."""
    start, low = values[0][0], min(float(np.nanmin(found)) for found in values)
    spot.set_ylim(low - 0.05 * (start - low), start + 0.15 * (start - low))


def table(results: Results) -> str:
    """Tell rank and objective at the end of each run."""
    lines = [
        "| problem | " + " | ".join(f"{name}: rank, f" for name in _STYLES) + " | from data rows: f |",
        "|---|" + "---|" * (len(_STYLES) + 1),
    ]
    for panel in PANELS:
        curves, beside = _curves(results, panel.name), results.get(f"{panel.name}/{FROM_DATA}")
        ends = [
            f"{column(curves[name], 'rank')[-1]:.0f}, {column(curves[name], 'f')[-1]:.6g}"
            if name in curves
            else "–"
            for name in _STYLES
        ]
        from_data = f"{column(beside, 'f')[-1]:.6g}" if beside else "–"
        lines.append(f"| {panel.name} | {' | '.join(ends)} | {from_data} |")
    return "\n".join(lines)


START = Experiment(
    "start",
    "The paper starts with all entries of the dictionary equal to one.",
    _steps,
    draw,
    table,
)
