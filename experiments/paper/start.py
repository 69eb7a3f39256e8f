"""The paper's start, all ones: what each method computes from there.

Equal atoms get equal codes if codes are unique, or if the coder treats atoms alike, as the paper's coder
(BSUM, from zero) does. Then all their gradients are equal, and the dictionary keeps rank one. So the
paper's methods, with its codes, solve a problem of one atom. Where codes are not unique, another coder may
give equal atoms different codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.paper import contest
from experiments.paper.contest import DEFAULT, LITERAL, SGD_PAPER, SMM_PAPER
from experiments.paper.drawing import STYLES, column
from experiments.paper.panels import ATOMS, PANELS, Case, Panel, Size
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.comparing.measuring import JUDGING_CODER, Observers, curve
from vrmf.solvers import SMM, VR, AbstractSolver
from vrmf.solvers.base import paper_batch_size

#: Beside the paper's methods with its codes: Algorithm 1 with the codes of this library, and the same
#: started at rows of the data.
OURS, FROM_DATA = "Algorithm 1, our codes", "Algorithm 1 from data rows"

#: The rank does not depend on the number of rows; codes of equal atoms are slow for ORNMF.
ROWS, ORNMF_ROWS, QUICK_ROWS = 400, 120, 60

#: Steps of Algorithm 1 that are tried, in units of 1/λ_max(A) at all ones.
FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)

#: A singular value counts if it is above this part of the largest.
RANK_TOLERANCE = 1e-6

_STYLES: dict[str, dict[str, Any]] = {
    LITERAL: STYLES[LITERAL],
    SMM_PAPER: STYLES[SMM_PAPER],
    SGD_PAPER: STYLES[SGD_PAPER],
    OURS: {"color": "C1", "linestyle": "--", "marker": "x", "markersize": 4},
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

#: The coders that judge dictionaries of equal atoms: the paper's, or ours where there are outliers. Ours is
#: less exact, since the error of f is the square of that of codes.
BSUM, ROBUST = Coder(tol=1e-6, method="bsum"), Coder(tol=1e-4, max_iter=300)


@lru_cache(maxsize=1)
def _loaded(panel: Panel, size: Size) -> Case:
    return panel.load(size)


def _swept(case: Case, D: Array, method: str) -> dict[str, Any]:
    """Return the curve of Algorithm 1 with the best of some steps."""
    unit = contest.unit_step(case.problem, D)
    return contest.best_sweep(
        [
            contest.swept(case, D, factor * unit, OBSERVERS, method, judge_of(case, method))
            for factor in FACTORS
        ]
    )


def judge_of(case: Case, method: str) -> Coder:
    """Return the coder that judges dictionaries: the paper's is best where atoms are equal."""
    if case.problem.formulation.has_outliers:
        return ROBUST
    return BSUM if method == "bsum" else JUDGING_CODER


def _with(case: Case, solver: AbstractSolver, method: str = "auto") -> dict[str, Any]:
    judge = judge_of(case, method)
    at = contest.grid(case.n_samples)
    return curve(solver, case.problem, case.ones(), at=at, observers=OBSERVERS, judge=judge)


def _smm(case: Case) -> dict[str, Any]:
    coder = contest.coder_by("bsum", tol=1e-5)
    return _with(case, SMM(paper_batch_size(case.n_samples), reseed=False, coder=coder), "bsum")


def _sgd(case: Case) -> dict[str, Any]:
    found = contest.searched_sgd(case, case.ones(), "bsum")
    solver = contest.sgd(case.n_samples, found["first step"], found["offset"], "bsum")
    return {"constants": found} | _with(case, solver, "bsum")


def _panel_steps(panel: Panel, size: Size) -> list[Step]:
    cost, seconds = (0.3, 1.0) if size.quick else (4.0, 10.0)

    def step(name: str, compute: Callable[[Case], dict[str, Any]], cost: float) -> Step:
        def on_case(results: Results) -> dict[str, Any]:
            case = _loaded(panel, size)
            return {"title": case.title} | compute(case)

        return Step(f"{panel.name}/{name}", on_case, cost)

    steps = [
        step(LITERAL, lambda case: _swept(case, case.ones(), "bsum"), 4 * cost),
        step(SMM_PAPER, _smm, cost),
        step(SGD_PAPER, _sgd, 3 * cost),
        step(DEFAULT, lambda case: _with(case, VR()), cost),
        step(FROM_DATA, lambda case: _swept(case, case.start(), "auto"), 4 * cost),
        step(
            "reference",
            lambda case: contest.reference(case.problem, case.ones(), 2000, seconds, "bsum"),
            seconds,
        ),
    ]
    if panel.model != "ORNMF":  # there our codes take thousands of iterations with equal atoms
        steps.append(step(OURS, lambda case: _swept(case, case.ones(), "auto"), 4 * cost))
    return steps


def _steps(scale: Scale) -> list[Step]:
    # A quick run leaves ORNMF out, whose codes of equal atoms take minutes on digits.
    panels = [panel for panel in PANELS if not (scale.quick and panel.model == "ORNMF")]
    return [step for panel in panels for step in _panel_steps(panel, _size(panel, scale))]


def _size(panel: Panel, scale: Scale) -> Size:
    rows = ORNMF_ROWS if panel.model == "ORNMF" else ROWS
    return Size(scale.quick, scale.synth_rows, QUICK_ROWS if scale.quick else rows)


# ------------------------------------------------------------------ what a reader sees


def _curves(results: Results, panel: str) -> dict[str, Mapping[str, Any]]:
    return {name: results[f"{panel}/{name}"] for name in _STYLES if f"{panel}/{name}" in results}


def draw(results: Results) -> dict[str, Figure]:
    """Draw the rank of D along the runs from all ones, and the paper's suboptimality."""
    names = [panel.name for panel in PANELS if _curves(results, panel.name)]
    if not names:
        return {}
    return {"start": _grid(results, names, "rank"), "start-suboptimality": _grid(results, names, "f")}


def _grid(results: Results, names: list[str], what: str) -> Figure:
    lines = -(-len(names) // 4)
    figure = Figure(figsize=(12, 2.6 * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, 4, squeeze=False)
    for spot, name in zip(axes.flat, names, strict=False):
        curves = _curves(results, name)
        for contestant, found in curves.items():
            values = column(found, what)
            if what == "f":
                values = values - results.get(f"{name}/reference", {"f": np.nan})["f"]
                values = np.where(values > 0, values, np.nan)
            spot.plot(column(found, "passes"), values, label=contestant, **_STYLES[contestant])
        title = next(str(found["title"]) for found in curves.values())
        spot.set(xlabel="passes", title=title, yscale="log")
        if what == "rank":
            spot.set_yticks([1, 2, 5, 10, 20, ATOMS], [1, 2, 5, 10, 20, ATOMS])
            spot.set_ylim(0.9, 60)
        spot.grid(alpha=0.3)
    for spot in list(axes.flat)[len(names) :]:
        spot.set_axis_off()
    for line in axes:
        line[0].set_ylabel("rank of D" if what == "rank" else "f − f(Ŵ), Ŵ of rank one")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def table(results: Results) -> str:
    """Return rank and objective at the end of each run, and the objective of the paper's Ŵ."""
    lines = [
        f"| problem | {' | '.join(f'{name}: rank, f' for name in _STYLES)} | Ŵ: f | {FROM_DATA}: f |",
        "|---|" + "---|" * (len(_STYLES) + 2),
    ]
    for panel in PANELS:
        curves, name = _curves(results, panel.name), panel.name
        ends = [
            f"{column(curves[one], 'rank')[-1]:.0f}, {column(curves[one], 'f')[-1]:.7g}"
            if one in curves
            else "–"
            for one in _STYLES
        ]
        end, beside = results.get(f"{name}/reference"), results.get(f"{name}/{FROM_DATA}")
        lowest = f"{end['f']:.7g}" if end else "–"
        from_data = f"{column(beside, 'f')[-1]:.7g}" if beside else "–"
        lines.append(f"| {name} | {' | '.join(ends)} | {lowest} | {from_data} |")
    return "\n".join(lines)


START = Experiment(
    "start",
    "The paper starts with all entries of the dictionary equal to one.",
    _steps,
    draw,
    table,
)
