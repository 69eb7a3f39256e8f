"""Figures 1, 2 and S-1 of the paper: the eight panels, started at rows of the data.

All three are drawn from one file of results: the sweep over steps of Figure S-1 is how the step of
Figure 1 is chosen, and Figure 2 looks at the same runs of ORPCA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from experiments.base import Experiment, Results, Scale, Step
from experiments.paper import contest
from experiments.paper.contest import (
    DEFAULT,
    FINE,
    LITERAL,
    QUICK_FINE,
    SGD_PAPER,
    SMM_FORGETS,
    SMM_PAPER,
)
from experiments.paper.drawing import (
    draw_figure1,
    draw_figure2,
    draw_figure3,
    table_figure1,
    table_figure2,
    table_figure3,
)
from experiments.paper.panels import PANELS, Case, Panel, Size
from vrmf.arrays import Array
from vrmf.comparing.measuring import Observers, curve, warm_up

#: ORPCA on data with more outliers, for Figure 2 alone.
MORE_OUTLIERS = Panel("ORPCA", "Synth 0.3")

#: How long the references run: passes, and seconds in a full and in a quick run.
REFERENCE_PASSES, REFERENCE_SECONDS, QUICK_SECONDS = 1000.0, 45.0, 1.5

#: About how many seconds a curve takes at full scale, for 10 000 rows of Synth, to tell the time left.
SECONDS = {
    "ODL CBCL": 3,
    "ODL MNIST": 20,
    "ONMF CBCL": 3,
    "ONMF MNIST": 20,
    "ORPCA Synth": 60,
    "ORPCA Synth 0.3": 40,
    "ORPCA Yale B": 15,
    "ORNMF Synth": 120,
    "ORNMF Yale B": 40,
}


@lru_cache(maxsize=1)
def loaded_case(panel: Panel, size: Size) -> Case:
    """Return a panel's problem; the last one is kept."""
    return panel.load(size)


def _curve(panel: Panel, size: Size, name: str, results: Results) -> dict[str, Any]:
    """Return the curve of a contestant beside Algorithm 1."""
    case = loaded_case(panel, size)
    D = case.start()
    solver = contest.others(case.n_samples, results[f"{panel.name}/search SGD"])[name]()
    warm_up(solver, case.problem, D)
    found = curve(
        solver, case.problem, D, at=contest.grid(case.n_samples), observers=subspace_observers(case)
    )
    return {"title": case.title} | found


def _sweep(panel: Panel, size: Size, factor: float, results: Results) -> dict[str, Any]:
    case = loaded_case(panel, size)
    D, eta = case.start(), factor * results[f"{panel.name}/search step"]["eta"]
    warm_up(contest.literal(eta), case.problem, D)
    return {"title": case.title} | contest.swept(case, D, eta, subspace_observers(case))


def _of_case(
    compute: Callable[..., Any], panel: Panel, size: Size, *arguments: Any
) -> Callable[[Results], Any]:
    """Return a step that needs the problem and its start alone."""

    def step(results: Results) -> Any:
        case = loaded_case(panel, size)
        return compute(case, case.start(), *arguments)

    return step


def _searches(panel: Panel, size: Size) -> list[Step]:
    cost, rows = _cost(panel, size), contest.QUICK_COARSE_ROWS if size.quick else contest.COARSE_ROWS
    return [
        Step(f"{panel.name}/search step", _of_case(contest.searched_step, panel, size, rows), cost),
        Step(f"{panel.name}/search SGD", _of_case(contest.searched_sgd, panel, size), 2 * cost),
    ]


def _sweeps(panel: Panel, size: Size, factors: Sequence[float] = ()) -> list[Step]:
    return [
        Step(
            f"{panel.name}/step {factor:g}",
            lambda results, factor=factor: _sweep(panel, size, factor, results),  # type: ignore[misc]
            _cost(panel, size),
        )
        for factor in factors or (QUICK_FINE if size.quick else FINE)
    ]


def constants_steps(panel: Panel, size: Size) -> list[Step]:
    """Return the steps that find the constants of Algorithm 1 and SGD."""
    return [*_searches(panel, size), *_sweeps(panel, size)]


def _others(panel: Panel, size: Size) -> list[Step]:
    return [
        Step(
            f"{panel.name}/{name}",
            lambda results, name=name: _curve(panel, size, name, results),  # type: ignore[misc]
            _cost(panel, size),
        )
        for name in (SMM_PAPER, SMM_FORGETS, SGD_PAPER, DEFAULT)
    ]


def _references(panel: Panel, size: Size) -> list[Step]:
    seconds = QUICK_SECONDS if size.quick else REFERENCE_SECONDS
    budget = (REFERENCE_PASSES, seconds)

    def on_problem(compute: Callable[..., Any]) -> Callable[[Results], Any]:
        return _of_case(lambda case, D: compute(case.problem, D, *budget), panel, size)

    steps = [
        Step(f"{panel.name}/reference", on_problem(contest.reference), seconds),
        Step(f"{panel.name}/best", on_problem(contest.best_known), seconds),
    ]
    if panel.model == "ODL":
        spams = _of_case(contest.spams_curve, panel, size)
        steps.append(Step(f"{panel.name}/SPAMS", spams, _cost(panel, size)))
    return steps


def _cost(panel: Panel, size: Size) -> float:
    seconds = SECONDS[panel.name]
    if size.quick:
        return 0.05 * seconds
    return seconds * (size.synth_rows / 10_000 if "Synth" in panel.data else 1)


# ------------------------------------------------------------------ the subspace


def subspace_observers(case: Case) -> Observers:
    """Return what Figure 2 shows of a dictionary, where the true one is known.

    The expressed variance (EV) of an estimated subspace U′ is tr(P_U P_U′)/k′, the mean squared
    cosine of its principal angles with the true subspace U of dimension k′: 1 if U′ contains U.
    With k > k′ atoms the *whole* span of D may contain U beside other directions; the *leading* EV
    takes the k′ leading right singular vectors of D alone. ``angle`` is the largest principal angle
    between U and the whole span, in degrees.
    """
    if case.truth is None:
        return {}
    true = scipy.linalg.orth(case.truth.T)
    return {
        "EV": lambda D: expressed_variance(scipy.linalg.orth(D.T), true),
        "leading EV": lambda D: expressed_variance(_leading(D, true.shape[1]), true),
        "angle": lambda D: float(np.degrees(np.max(scipy.linalg.subspace_angles(true, _basis(D))))),
    }


def expressed_variance(basis: Array, true: Array) -> float:
    """Return tr(P_U P_U′)/k′ for orthonormal bases (columns) of both subspaces.

    >>> expressed_variance(np.eye(4)[:, :3], np.eye(4)[:, 2:])
    0.5
    """
    return float(np.linalg.norm(true.T @ basis) ** 2 / true.shape[1])


def _basis(D: Array) -> Array:
    return scipy.linalg.orth(D.T)


def _leading(D: Array, rank: int) -> Array:
    return np.linalg.svd(D, full_matrices=False)[2][:rank].T


# ------------------------------------------------------------------ the experiments


def size_of(scale: Scale) -> Size:
    """Return how large the data are at a scale."""
    return Size(scale.quick, scale.synth_rows)


def _figure1_steps(scale: Scale) -> list[Step]:
    size = size_of(scale)
    return [
        step
        for panel in PANELS
        for part in (constants_steps, _others, _references)
        for step in part(panel, size)
    ]


def _figure2_steps(scale: Scale) -> list[Step]:
    size, few = size_of(scale), Panel("ORPCA", "Synth")
    steps = [*constants_steps(few, size), *_others(few, size)]
    more = [*_searches(MORE_OUTLIERS, size), *_sweeps(MORE_OUTLIERS, size, (1.0,))]
    return [*steps, *more, *_others(MORE_OUTLIERS, size)]


def _figure3_steps(scale: Scale) -> list[Step]:
    size = size_of(scale)
    return [step for panel in PANELS for step in (_searches(panel, size)[0], *_sweeps(panel, size))]


FIGURES: tuple[Experiment, ...] = (
    Experiment(
        "figure1",
        "For all formulations and data sets VR converges faster than SMM and SGD, in passes and in "
        "seconds, and comes nearer to the stationary point.",
        _figure1_steps,
        draw_figure1,
        table_figure1,
        shared="panels",
    ),
    Experiment(
        "figure2",
        "VR recovers the subspace of Synth faster and more closely than SMM and SGD, at 10 % and at "
        "30 % of outliers.",
        _figure2_steps,
        draw_figure2,
        table_figure2,
        shared="panels",
    ),
    Experiment(
        "figure3",
        "The step size of VR was chosen as the one of several that converges best (Figure S-1).",
        _figure3_steps,
        draw_figure3,
        table_figure3,
        shared="panels",
    ),
)

__all__ = ["FIGURES", "LITERAL"]
