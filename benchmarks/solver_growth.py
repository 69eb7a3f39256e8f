"""How many code problems are solved until ‖Γ‖² is small, as the number of rows grows.

Rows come from one distribution, smaller data being the first rows of larger ones. The weights are the same
for all n. So the objectives for different n differ only by sampling, and the same ε is used for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import Array
from benchmarks.solver_runs import RANKING_CODER, measurements, rounded
from vrmf import formulations
from vrmf.comparing.measuring import WarmProblem, Yardstick, within_budget
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import VR, AbstractSolver, Algorithm1, Batch
from vrmf.sources import as_source

#: The ‖Γ‖² to reach. The number of epochs falls about as n^−⅓: from 14 at 3·10⁴ rows to an expected 4 or 5
#: at 10⁶, with five full passes including the one that measures the end.
EPSILON = 3e-9

EXPONENTS = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0)
FEATURES, RANK, ATOMS = 40, 5, 10

#: Steps of the paper's Algorithm 1 that are tried, in units of 1/λ_max(A) at the start. The likely best one
#: comes first, since the others stop when they need more samples. A larger ε is used here to save time.
LITERAL_STEPS = (1.0, 2.0, 0.5)
TUNING_ROWS = 10_000
TUNING_EASE = 100

#: The most passes and seconds of a run. A solver that exceeds them is not run for larger n.
PASSES = 3000
SECONDS = {"VR": 120.0, "paper's VR": 40.0, "plain batch": 40.0}


@dataclass
class Epochs:
    """The number of epochs so far."""

    count: int = 0

    def is_new(self, current: Iterate) -> bool:
        """Return whether the iterate is the first of a new epoch."""
        is_new, self.count = current.epoch > self.count, current.epoch
        return is_new


def growth(
    exponents: Iterable[float] = EXPONENTS,
    epsilon: float = EPSILON,
    seconds: dict[str, float] = SECONDS,
) -> dict[str, Any]:
    """Return the code problems that VR, the paper's VR and plain batch steps solve, for each n."""
    sizes = [round(10**exponent) for exponent in exponents]
    X = synthetic_rows(max(*sizes, TUNING_ROWS))
    D = np.clip(X[:ATOMS], -5.0, 5.0)
    step = literal_step(X[:TUNING_ROWS], D, TUNING_EASE * epsilon, seconds["paper's VR"])
    contestants: dict[str, AbstractSolver] = {
        "VR": VR(),
        "paper's VR": Algorithm1(step_size=step),
        "plain batch": Batch(momentum=False),
    }
    points: list[dict[str, Any]] = []
    for n in sizes:
        point: dict[str, Any] = {"n": n}
        for name, solver in contestants.items():
            if all(earlier[name]["samples"] for earlier in points):
                point[name] = descent(solver, problem_of(X[:n]), D, epsilon, seconds[name])
            else:
                point[name] = {"samples": None}
        points.append(point)
        print(point, flush=True)
    return {
        "epsilon": epsilon,
        "step of the paper's VR": rounded(step),
        "points": points,
        "slopes": {name: slope(points, name) for name in contestants},
    }


def synthetic_rows(n: int, seed: int = 0) -> Array:
    """Return rows of low rank with a tenth of their entries corrupted."""
    dictionary, codes, places, sizes = np.random.default_rng(seed).spawn(4)
    W = dictionary.normal(0.5, 10**-0.25, (RANK, FEATURES))
    X = codes.normal(0.5, 10**-0.25, (n, RANK)) @ W
    corrupted = places.random((n, FEATURES)) < 0.1
    X += np.where(corrupted, sizes.uniform(-10, 10, (n, FEATURES)), 0)
    return X


def problem_of(X: Array) -> WarmProblem:
    """Return robust PCA of some rows, with weights that do not depend on their number.

    Full passes start from known codes. This saves time, and the numbers of samples stay the same.
    """
    model = formulations.robust_pca(alpha=0.2, outlier_alpha=0.2, n_samples=1000)
    return WarmProblem(model, as_source(X))


def literal_step(X: Array, D: Array, epsilon: float, seconds: float) -> float:
    """Return the step with which the paper's algorithm reaches ε with the fewest samples."""
    curvature = problem_of(X).stats(D, RANKING_CODER).largest_curvature
    best, fewest = 1 / curvature, PASSES * len(X)
    for part in LITERAL_STEPS:
        solver = Algorithm1(step_size=part / curvature)
        samples = descent(solver, problem_of(X), D, epsilon, seconds, fewest)["samples"]
        print(f"paper's VR, step {part:g}/λ: {samples} samples", flush=True)
        if samples is not None and samples < fewest:
            best, fewest = part / curvature, samples
    return best


def descent(
    solver: AbstractSolver,
    problem: WarmProblem,
    D: Array,
    epsilon: float,
    seconds: float,
    most: float = math.inf,
) -> dict[str, Any]:
    """Run until ‖Γ‖² ≤ ε or the budget ends; the samples are None if it does."""
    full, lowest, epochs, samples = 0, math.inf, 0, None
    passes = min(PASSES, most / problem.n_samples)
    run = within_budget(iterate(solver, problem, D, 0), passes, seconds)
    for current, measured in measurements(run, Yardstick(problem), Epochs().is_new):
        full, lowest, epochs = full + 1, min(lowest, measured.stationarity), current.epoch
        if measured.stationarity <= epsilon:
            samples = current.state.solved
            break
    return {"samples": samples, "full passes": full, "epochs": epochs, "lowest": rounded(lowest, 4)}


def slope(points: list[dict[str, Any]], name: str) -> float | None:
    """Return the slope of log samples against log n, over the sizes at which ε was reached."""
    known = [(point["n"], point[name]["samples"]) for point in points if point[name]["samples"]]
    if len(known) < 2:
        return None
    n, samples = np.log(np.array(known, dtype=float)).T
    return rounded(float(np.polyfit(n, samples, 1)[0]), 3)
