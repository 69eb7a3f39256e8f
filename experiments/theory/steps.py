"""Whether the assumptions of the theorems hold in practice: steps as in Theorem 1, and bounded D."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.tables import markdown
from experiments.theory.fits import fitted_slope
from experiments.theory.instances import (
    GROUP_WEIGHTS,
    GROUPS,
    NAMES,
    small_problem,
    start,
)
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.comparing.measuring import JUDGING_CODER, Yardstick, snapshots
from vrmf.formulations import group_dictionary_learning
from vrmf.problem import Problem
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import VR, AbstractSolver, Algorithm1
from vrmf.theory import check_conditions, estimate_lipschitz

# The step of Theorem 1 ---------------------------------------------------------------------------

TUNED = ("P1", "P3", "P5", "P8")

#: The paper's number of epochs, S.
EPOCHS = 10

#: Steps that are tried, in units of 1/λ_max(A) at the start: half decades.
MULTIPLES = [10 ** (power / 2) for power in range(-4, 4)]

#: Codes of the runs that are compared. The runs differ by far more than the errors of codes.
CODER = Coder(tol=1e-5)


def after_epochs(problem: Problem, D: Array, step_size: float) -> Iterate | None:
    """Return the end of a run of Algorithm 1, or None if it diverged."""
    for current in iterate(Algorithm1(step_size=step_size, coder=CODER), problem, D, seed=0):
        if not np.all(np.abs(current.D) < 1e12):
            return None
        if current.epoch == EPOCHS:
            return current
    raise AssertionError("a run ends only by its epochs")


def tune(name: str, quick: bool, results: Results) -> dict[str, Any]:
    """Return f after the paper's number of epochs for each step, and the step that Theorem 1 allows.

    L is estimated at the start and at the best end. Both estimates are from below, so the larger is taken.
    """
    problem = small_problem(name, 100 if quick else 500)
    D, judge = start(problem), Yardstick.of(problem)
    unit = 1 / problem.stats(D, JUDGING_CODER).largest_curvature
    steps = [unit * multiple for multiple in MULTIPLES]
    ends = [after_epochs(problem, D, step) for step in steps]
    f = [math.inf if end is None else judge.measured(end.D).objective for end in ends]
    best = int(np.argmin(f))
    end = ends[best]
    assert end is not None
    n_pairs = 5 if quick else 20
    L = max(estimate_lipschitz(problem, E, n_pairs=n_pairs, random_state=0).worst for E in (D, end.D))
    b, m = Algorithm1().epoch_shape(problem.n_samples)
    conditions = check_conditions(problem.n_samples, b, m, steps[best], L)
    return {
        "shape": [problem.n_samples, b, m],
        "steps": steps,
        "f": f,
        "f_start": judge.measured(D).objective,
        "unit": unit,
        "tuned": steps[best],
        "estimate": L,
        "theta": conditions.theta,
        "allowed": conditions.largest_step,
    }


def tuning_steps(scale: Scale) -> list[Step]:
    """One step for each problem."""
    quick = scale.quick
    seconds = {"P8": 4.0 if quick else 25.0}
    usual = 0.5 if quick else 2.0
    return [Step(name, partial(tune, name, quick), seconds.get(name, usual)) for name in TUNED]


def draw_tuning(results: Results) -> dict[str, Figure]:
    """Draw f after ten epochs against the step, with the tuned and the allowed one."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    for name, axes in zip(TUNED, figure.subplots(2, 2).flat, strict=True):
        found = results[name]
        f = np.array([math.nan if value is None else value for value in found["f"]])
        axes.semilogx(found["steps"], f, "o-", ms=4, label=f"f after {EPOCHS} epochs")
        axes.plot(found["tuned"], np.nanmin(f), "*", color="C3", ms=13, label="tuned η")
        axes.axvline(found["unit"], color="C2", ls=":", label="1/λ_max(A) at the start")
        axes.axvline(found["allowed"], color="k", ls="--", label="allowed by Theorem 1")
        axes.axhline(found["f_start"], color="0.6", lw=1, label="f at the start")
        low, high = float(np.nanmin(f)), found["f_start"]
        # A step that is too long ends far above the start, so its point is left out of the axis.
        axes.set_ylim(low - 0.05 * (high - low), high + 0.15 * (high - low))
        axes.set(xlabel="step size η", ylabel="f", title=NAMES[name])
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    return {"steps": figure}


def tuning_table(results: Results) -> str:
    """Return tuned and allowed steps."""
    lines = []
    for name in TUNED:
        found = results[name]
        n, b, m = found["shape"]
        lines.append(
            [
                NAMES[name],
                f"{n}, {b}, {m}",
                found["estimate"],
                found["tuned"],
                found["theta"],
                found["allowed"],
                found["tuned"] / found["allowed"],
                found["tuned"] / found["unit"],
            ]
        )
    header = [
        "",
        "n, b, m",
        "estimate of L",
        "tuned η",
        "θ = 1/(ηL), must exceed 2",
        "η allowed",
        "tuned / allowed",
        "tuned · λ_max(A)",
    ]
    return (
        f"{markdown(header, lines)}\n\nTuned: the lowest f after {EPOCHS} epochs among {len(MULTIPLES)} "
        "steps, half a decade apart. L is estimated from below, so the allowed steps are at most these."
    )


STEPS = Experiment(
    "steps",
    "Theorem 1 asks for θ = 1/(ηL) > 2 and θ(θ − 1) ≥ 2m(m + 1)α(n, b); the paper tunes η by trial.",
    tuning_steps,
    draw_tuning,
    tuning_table,
)

# Boundedness -------------------------------------------------------------------------------------

#: Problems with a free dictionary, and over how many passes they are followed.
FREE = {"P2": 600, "P5": 600, "P6": 300, "P7": 2500}
SOLVERS = ("literal", "default")

#: Rows of these problems: few, since ψ of P7 falls as 1/n², and ‖D‖ would converge later.
FREE_ROWS = 50

#: The step of Algorithm 1 in units of 1/λ_max(A) at the start: what tuning finds for P5.
FREE_MULTIPLE = 10


def free_problem(name: str) -> Problem:
    """Return a problem whose dictionary is in no bounded set: P2 is taken as it is printed."""
    problem = small_problem(name, FREE_ROWS)
    if name != "P2":
        return problem
    literal = group_dictionary_learning(GROUPS, GROUP_WEIGHTS, bounded=False)
    return replace(problem, formulation=literal)


def growth(name: str, solver: str, quick: bool, results: Results) -> dict[str, list[float]]:
    """Return ‖D‖ along a long run."""
    problem = free_problem(name)
    D = start(problem)
    chosen: AbstractSolver[Any] = VR()
    if solver == "literal":
        step_size = FREE_MULTIPLE / problem.stats(D, JUDGING_CODER).largest_curvature
        chosen = Algorithm1(step_size=step_size)
    at = [0.0, *np.geomspace(1, FREE[name] / 10 if quick else FREE[name], 8 if quick else 14)]
    taken = snapshots(chosen, problem, D, at=at)
    return {
        "passes": [snapshot.passes for snapshot in taken],
        "norm": [float(np.linalg.norm(snapshot.D)) for snapshot in taken],
    }


def bounded_steps(scale: Scale) -> list[Step]:
    """One step for each problem and solver."""
    quick = scale.quick
    return [
        Step(
            f"{name} {solver}", partial(growth, name, solver, quick), FREE[name] / (1000 if quick else 100)
        )
        for name in FREE
        for solver in SOLVERS
    ]


def draw_bounded(results: Results) -> dict[str, Figure]:
    """Draw ‖D‖ against passes."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for solver, axes in zip(SOLVERS, figure.subplots(1, 2, sharey=True), strict=True):
        for name in FREE:
            found = results[f"{name} {solver}"]
            label = f"{NAMES[name]}, as printed" if name == "P2" else NAMES[name]
            axes.loglog(found["passes"][1:], found["norm"][1:], "o-", ms=3, label=label)
        axes.set(xlabel="passes over the data", title=f"VR, {solver}")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("‖D‖")
    figure.axes[0].legend(fontsize=8)
    return {"bounded": figure}


def bounded_table(results: Results) -> str:
    """Return the first, the last and the largest ‖D‖, and how fast it grows at the end."""
    lines = []
    for name in FREE:
        for solver in SOLVERS:
            found = results[f"{name} {solver}"]
            norm, last = found["norm"], slice(-4, None)
            lines.append(
                [
                    NAMES[name],
                    solver,
                    round(found["passes"][-1]),
                    norm[0],
                    max(norm),
                    norm[-1],
                    fitted_slope(found["passes"][last], norm[last]),
                ]
            )
    header = ["", "VR", "passes", "first ‖D‖", "largest", "last", "exponent of growth at the end"]
    return (
        f"{markdown(header, lines)}\n\nThe exponent p is that of ‖D‖ ∝ passes^p over the last four points: "
        f"0 where ‖D‖ has levelled off. There are {FREE_ROWS} rows, and the literal step is "
        f"{FREE_MULTIPLE}/λ_max(A) of the start."
    )


BOUNDED = Experiment(
    "bounded",
    "Assumption (A5) asks for a bounded set of dictionaries, which P2, P5, P6 and P7 lack.",
    bounded_steps,
    draw_bounded,
    bounded_table,
)
