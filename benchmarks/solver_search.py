"""The best constants of SMM and SGD for a problem. Their times do not include the search."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import Array
from benchmarks.solver_runs import RANKING_CODER
from vrmf.comparing.measuring import within_budget
from vrmf.problem import Problem
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import SGD, SMM, AbstractSolver

#: Rows on which candidates are ranked, the same for all.
RANKING_ROWS = 2500


@dataclass(frozen=True)
class Stage:
    """A round of the search: how far the candidates run, and how many of them continue."""

    passes: float
    seconds: float
    kept: int


def stages(n_samples: int) -> list[Stage]:
    """Return the rounds: all run 3 passes, the best 4 half of the way, the best 2 to the end.

    Each round also has a limit in seconds.
    """
    end = 20 if n_samples <= 3000 else 10
    return [Stage(3, 1.5, 4), Stage(end / 2, 3.0, 2), Stage(end, 6.0, 1)]


def smm_candidates(n_samples: int) -> list[AbstractSolver]:
    """Return SMM with each choice of constants."""
    sizes = [b for b in (32, 64, 256) if b <= n_samples / 4]
    return [SMM(batch_size=b, forgetting=rho) for b in sizes for rho in (0.0, 5.0, 10.0)]


def sgd_candidates(problem: Problem, D: Array) -> list[AbstractSolver]:
    """Return SGD with each choice of constants; first steps are multiples of 1/λ_max(A) at D."""
    curvature, n = problem.stats(D, RANKING_CODER).largest_curvature, problem.n_samples
    return [
        SGD(batch_size=b, scale=first * offset / curvature, offset=offset)
        for b in (32, 64)
        if b <= n / 4
        for first in (1.0, 2.0, 4.0)
        for offset in (float(n), 10.0 * n)
    ]


def search(
    problem: Problem, D: Array, candidates: list[AbstractSolver], rounds: list[Stage]
) -> dict[str, AbstractSolver]:
    """Return the candidates of lowest objective after the first round ("early") and the last ("late")."""
    rows = np.arange(0, problem.n_samples, math.ceil(problem.n_samples / RANKING_ROWS))
    running = [(solver, iterate(solver, problem, D, 0)) for solver in candidates]
    winners = []
    for stage in rounds:
        scores = [_objective(problem, run, stage, rows) for _, run in running]
        order = np.argsort(scores, kind="stable")
        winners.append(running[order[0]][0])
        running = [running[i] for i in order[: stage.kept]]
    return {"early": winners[0], "late": winners[-1]}


def _objective(problem: Problem, run: Iterator[Iterate], stage: Stage, rows: Array) -> float:
    """Take a run to the end of a stage and return its objective on some rows, inf if it diverges."""
    ends = deque(within_budget(run, stage.passes, stage.seconds), maxlen=1)
    if not ends or not (ends[0].passes >= stage.passes or ends[0].seconds >= stage.seconds):
        return math.inf
    D = ends[0].D
    measured = problem.measure(problem.stats(D, RANKING_CODER, rows), D)
    return measured.objective if math.isfinite(measured.objective) else math.inf


def tuned(problem: Problem, D: Array) -> dict[str, AbstractSolver]:
    """Return SMM with its best constants early and late, or once where these are equal, and SGD's late."""
    rounds, found = stages(problem.n_samples), {}
    families = {"SMM": smm_candidates(problem.n_samples), "SGD": sgd_candidates(problem, D)}
    for name, candidates in families.items():
        winners = search(problem, D, candidates, rounds)
        if winners["early"] == winners["late"] or name == "SGD":
            found[name] = winners["late"]
        else:
            found |= {f"{name} {when}": solver for when, solver in winners.items()}
    return found


def constants(solver: AbstractSolver) -> dict[str, Any]:
    """Return the constants of a solver that the search decides."""
    wanted = ("batch_size", "forgetting", "scale", "offset")
    return {name: value for name, value in vars(solver).items() if name in wanted}
