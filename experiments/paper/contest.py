"""The contestants of Figure 1, and the search for their constants, as in the paper.

- *Algorithm 1* is the paper's method as printed: b = 0.2 n^⅔, m = 0.5 n^⅓, ten epochs, codes on
  the schedule of Theorem 2 with τ = 10⁻³, and the constant step that ends lowest.
- *SMM* and *SGD* have the same batches; SGD the β and β′ that end lowest.
- *SMM, ρ = 5* reduces the weight of old mini-batches, as is usual for SMM.
- *VR* is this library's default.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.paper.panels import Case
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.comparing.measuring import (
    JUDGING_CODER,
    Observers,
    Snapshot,
    WarmProblem,
    Yardstick,
    curve,
    measured_at,
    within_budget,
)
from vrmf.problem import Problem
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import SGD, SMM, VR, AbstractSolver, Algorithm1, Batch
from vrmf.solvers.base import paper_batch_size
from vrmf.sources import as_source

LITERAL, SMM_PAPER, SMM_FORGETS, SGD_PAPER, DEFAULT = "Algorithm 1", "SMM", "SMM, ρ = 5", "SGD", "VR"

#: The paper's S and τ, and the epochs after which a dictionary is judged.
EPOCHS, TAU = 10, 1e-3
JUDGED = (0, 1, 2, 3, 4, 6, 8, 10)

#: Steps of Algorithm 1 that are tried on a few rows, in units of 1/λ_max(A) at the start, and those
#: that are then tried on all rows, in units of the best of them.
COARSE = tuple(4.0**power for power in range(-3, 6))
FINE, QUICK_FINE = (1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0), (1 / 2, 1.0, 2.0)
COARSE_ROWS, QUICK_COARSE_ROWS, COARSE_EPOCHS = 600, 80, 4

#: First steps of SGD that are tried, in the same unit, and β′ in units of n.
FIRST_STEPS, OFFSETS = (1 / 4, 1.0, 4.0), (1.0, 10.0)

#: Passes after which all but the best two constants of SGD are dropped.
TRIAL_PASSES = 1.0

#: Iterations of the paper's coder for one row, at most.
BSUM_ITERATIONS = 300

#: Rows that SPAMS sees at most in one run: it takes seconds for ten thousand.
SPAMS_ROWS = 150_000

#: Rows on which the constants of SGD are ranked.
RANKING_ROWS = 2500


def literal(step_size: float | str, method: str = "auto") -> Algorithm1:
    """Return the paper's Algorithm 1 with a step, and with a method for the codes."""
    return Algorithm1(step_size=step_size, tau=TAU, coder=coder_by(method, tol=1e-7))


def coder_by(method: str, tol: float) -> Coder:
    """Return the coder of a method; the paper's is slow with many outliers, and so is bounded."""
    return Coder(tol, max_iter=BSUM_ITERATIONS if method == "bsum" else 10_000, method=method)


def literal_epochs(n_samples: int, epochs: int = EPOCHS) -> list[float]:
    """Return the passes after each epoch of Algorithm 1, from 0 on."""
    b, m = Algorithm1().epoch_shape(n_samples)
    return [epoch * (1 + 2 * b * m / n_samples) for epoch in range(epochs + 1)]


def grid(n_samples: int) -> list[float]:
    """Return the passes at which the others are judged, up to the end of Algorithm 1."""
    end = literal_epochs(n_samples)[-1]
    return [*(p for p in (0, 0.25, 0.5, 1, 2, 3, 4, 6, 9) if p < end), end]


def unit_step(problem: Problem, D: Array) -> float:
    """Return 1/λ_max(A) at a dictionary, on at most 2 500 rows."""
    return 1 / problem.stats(D, JUDGING_CODER, ranking_rows(problem)).largest_curvature


def ranking_rows(problem: Problem) -> Array:
    """Return the numbers of at most 2 500 rows, evenly spread."""
    return np.arange(0, problem.n_samples, math.ceil(problem.n_samples / RANKING_ROWS))


def searched_step(case: Case, D: Array, rows: int = COARSE_ROWS) -> dict[str, Any]:
    """Return the step of Algorithm 1 that ends lowest after a few epochs over a few rows."""
    few = np.arange(0, case.n_samples, math.ceil(case.n_samples / rows))
    problem = Problem(case.problem.formulation, as_source(case.X[few]))
    unit, passes = unit_step(problem, D), literal_epochs(len(few), COARSE_EPOCHS)[-1]
    scores = [
        objective_after(problem, iterate(literal(factor * unit), problem, D, 0), 0.999 * passes)
        for factor in COARSE
    ]
    best = COARSE[int(np.argmin(scores))]
    return {
        "eta": best * unit,
        "factor": best,
        "unit": unit,
        "tried": dict(zip(COARSE, scores, strict=True)),
    }


def swept(
    case: Case,
    D: Array,
    eta: float,
    observers: Observers | None = None,
    method: str = "auto",
    judge: Coder = JUDGING_CODER,
) -> dict[str, Any]:
    """Return the curve of Algorithm 1 with the step η, and with a method for codes."""
    at = [passes for epoch, passes in enumerate(literal_epochs(case.n_samples)) if epoch in JUDGED]
    return {"eta": eta} | curve(
        literal(eta, method), case.problem, D, at=at, observers=observers, judge=judge
    )


def best_sweep(curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the curve of a sweep that ends lowest, of those that went furthest."""
    furthest = max(found["passes"][-1] for found in curves)
    sound = [found for found in curves if found["f"][-1] is not None]
    return dict(min(sound, key=lambda found: (found["passes"][-1] < 0.999 * furthest, found["f"][-1])))


# ------------------------------------------------------------------ SGD's constants


def sgd(n_samples: int, first: float, offset: float, method: str = "auto") -> SGD:
    """Return the paper's SGD whose first step is ``first``, with β′ = offset · n."""
    b, beta, coder = paper_batch_size(n_samples), offset * n_samples, coder_by(method, tol=1e-5)
    return SGD(batch_size=b, scale=first * beta, offset=beta, reseed=False, coder=coder)


def searched_sgd(case: Case, D: Array, method: str = "auto") -> dict[str, Any]:
    """Return the constants of SGD that end lowest: of all after one pass, then of two to the end."""
    problem, n, unit = case.problem, case.n_samples, unit_step(case.problem, D)
    choices = [(first * unit, offset) for first in FIRST_STEPS for offset in OFFSETS]
    running = [(choice, iterate(sgd(n, *choice, method), problem, D, 0)) for choice in choices]
    tried: list[dict[str, float]] = []
    for passes, kept in ((TRIAL_PASSES, 2), (literal_epochs(n)[-1], 1)):
        scores = [objective_after(problem, run, passes) for _, run in running]
        tried += [
            {"first step": choice[0], "offset": choice[1], "passes": passes, "f": score}
            for (choice, _), score in zip(running, scores, strict=True)
        ]
        running = [running[i] for i in np.argsort(scores, kind="stable")[:kept]]
    first, offset = running[0][0]
    return {"first step": first, "offset": offset, "unit": unit, "tried": tried}


def objective_after(problem: Problem, run: Iterator[Iterate], passes: float) -> float:
    """Take a run to a number of passes and return its objective on some rows, inf if it diverges."""
    ends = deque(within_budget(run, passes), maxlen=1)
    if not ends or ends[0].passes < passes:
        return math.inf
    D = ends[0].D
    objective = problem.measure(problem.stats(D, JUDGING_CODER, ranking_rows(problem)), D).objective
    return objective if math.isfinite(objective) else math.inf


def others(n_samples: int, constants: dict[str, Any]) -> dict[str, Callable[[], AbstractSolver]]:
    """Return the contestants beside Algorithm 1, SGD with the constants found."""
    b = paper_batch_size(n_samples)
    return {
        SMM_PAPER: lambda: SMM(batch_size=b, reseed=False),
        SMM_FORGETS: lambda: SMM(batch_size=b, forgetting=5.0, reseed=False),
        SGD_PAPER: lambda: sgd(n_samples, constants["first step"], constants["offset"]),
        DEFAULT: lambda: VR(),
    }


# ------------------------------------------------------------------ references


def reference(
    problem: Problem, D: Array, passes: float, seconds: float, method: str = "auto"
) -> dict[str, float]:
    """Return the stationary point that batch steps from D find: f, ‖Γ‖² and its part of the first."""
    batch = Batch(reseed=False, coder=coder_by(method, tol=1e-9))
    first, best, current = math.nan, (math.inf, math.nan), None
    began = time.perf_counter()
    for current in within_budget(iterate(batch, WarmProblem.like(problem), D, 0), passes, seconds):
        measured = current.state.measured
        if measured is None:
            continue
        first = measured.stationarity if math.isnan(first) else first
        best = min(best, (measured.objective, measured.stationarity))
        if measured.stationarity <= max(1e-12 * first, 64 * measured.rounding):
            break
    assert current is not None
    return {
        "f": best[0],
        "stationarity": best[1],
        "part of first": best[1] / first if first else 0.0,
        "passes": current.passes,
        "seconds": time.perf_counter() - began,
    }


def best_known(problem: Problem, D: Array, passes: float, seconds: float) -> dict[str, float]:
    """Return the lowest objective of a long run of the default VR."""
    ends = deque(within_budget(iterate(VR(), problem, D, 0), passes, seconds), maxlen=1)
    measured = Yardstick.of(problem).measured(ends[0].D)
    return {
        "f": measured.objective,
        "stationarity": measured.stationarity,
        "passes": ends[0].passes,
        "seconds": ends[0].seconds,
    }


def spams_curve(case: Case, D: Array, threads: int = 2) -> dict[str, Any] | None:
    """Return the curve of SPAMS' online dictionary learning, or None where it is not installed.

    It gives no intermediate dictionaries, so each point is a run of its own from the same start.
    """
    try:
        import spams
    except ImportError:
        return None
    rows, start = np.asfortranarray(case.X.T), np.asfortranarray(D.T)
    weight, batch = float(case.X.shape[1] ** -0.5), 256
    taken = [Snapshot(0.0, D, 0.0)]
    for passes in (0.25, 0.5, 1, 2, 4, 8, 12):
        if passes * case.n_samples > SPAMS_ROWS:
            break
        steps = max(1, round(passes * case.n_samples / batch))
        began = time.perf_counter()
        learned = spams.trainDL(
            rows, D=start, lambda1=weight, mode=2, iter=steps, numThreads=threads, batchsize=batch,
            verbose=False,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        taken.append(Snapshot(seconds, np.ascontiguousarray(learned.T), steps * batch / case.n_samples))
    return measured_at(taken, case.problem, {})
