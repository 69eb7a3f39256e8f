"""Curves: how f, ‖Γ‖² and whatever else is asked for fall along a run, measured off the clock.

>>> import numpy as np
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.solvers import SMM
>>> from vrmf.sources import as_source
>>> X = np.random.default_rng(0).standard_normal((60, 5))
>>> problem = Problem(dictionary_learning(alpha=0.1), as_source(X))
>>> found = curve(SMM(batch_size=6), problem, np.eye(5)[:2], at=[0, 1, 2])
>>> found["passes"], bool(found["f"][-1] < found["f"][0])
([0.0, 1.0, 2.0], True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import AbstractSolver
from vrmf.sources import as_source
from vrmf.sources.companions import Companion
from vrmf.sources.selection import Rows
from vrmf.stats import Stats

#: How exactly codes are computed where a dictionary is judged: f is then right to the square of it.
EXACT = Coder(tol=1e-6)

#: What else is told of a dictionary on the way, by name.
Observers = Mapping[str, Callable[[Array], float]]


@dataclass(frozen=True, eq=False)
class WarmProblem(Problem):
    """A problem whose full passes start from the codes of the pass before: for work off the clock."""

    last: list[Companion] = field(default_factory=list)  #: the codes of the last full pass, if any

    @classmethod
    def like(cls, problem: Problem) -> WarmProblem:
        """Return the same problem with a memory of its own."""
        return cls(problem.formulation, problem.source)

    def stats(
        self,
        D: Array,
        coder: Coder,
        rows: Rows = None,
        *,
        known: Companion | None = None,
        store: Companion | None = None,
    ) -> Stats:
        if rows is not None or known is not None or store is not None:
            return super().stats(D, coder, rows, known=known, store=store)
        codes = Companion("codes", "last", np.empty((self.n_samples, len(D)), dtype=D.dtype))
        stats = super().stats(D, coder, known=self.last[0] if self.last else None, store=codes)
        self.last[:] = [codes]
        return stats

    def exact(self, D: Array) -> Measurement:
        """Return what exact codes of all rows tell of a dictionary."""
        return self.measure(self.stats(D, EXACT), D)


class Snapshot(NamedTuple):
    """A dictionary on the way, and what it cost."""

    passes: float
    seconds: float
    D: Array
    best: Measurement | None = None  #: what a fit reports if that is lower


def watched(
    run: Iterator[Iterate], passes: float = math.inf, seconds: float = math.inf
) -> Iterator[Iterate]:
    """Yield the iterates of a run up to the end of its budget, or to its divergence.

    The run can be taken up again later with a larger budget.
    """
    try:
        for current in run:
            if not np.all(np.abs(current.D) < 1e12):
                return
            yield current
            if current.passes >= passes or current.seconds >= seconds:
                return
    except (ValueError, np.linalg.LinAlgError):  # sums that are not finite have no eigenvalues
        return


def snapshots(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    *,
    at: Sequence[float],
    seconds: float = math.inf,
    seed: int = 0,
) -> list[Snapshot]:
    """Return the first dictionaries at or beyond each of the rising numbers of passes, and the last."""

    best: Measurement | None = None

    def taken_at(it: Iterate) -> Snapshot:
        return Snapshot(it.passes, it.seconds, it.D, best)

    run = iterate(solver, problem, D, seed)
    taken: list[Snapshot] = []
    current, due = None, 0
    for current in watched(run, at[-1] * (1 - 1e-9), seconds):
        measured = current.state.measured if solver.reports_best else None
        if measured is not None and (best is None or measured.objective <= best.objective):
            best = measured
        if due < len(at) and current.passes >= at[due] * (1 - 1e-9):
            taken.append(taken_at(current))
            while due < len(at) and current.passes >= at[due] * (1 - 1e-9):
                due += 1
    if current is not None and (not taken or current.passes > taken[-1].passes):
        taken.append(taken_at(current))
    return taken


def curve(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    *,
    at: Sequence[float],
    seconds: float = math.inf,
    seed: int = 0,
    observers: Observers | None = None,
    judge: Coder = EXACT,
) -> dict[str, list[float]]:
    """Return columns passes, seconds, f, stationarity and those of the observers along a run.

    The run ends at the last of the passes ``at``, after so many seconds, or when it diverges; its
    clock stands still while a dictionary is judged, by exact codes of all rows that ``judge`` finds.
    """
    taken = snapshots(solver, problem, D, at=at, seconds=seconds, seed=seed)
    return measured_at(taken, problem, observers or {}, judge)


def measured_at(
    taken: Sequence[Snapshot], problem: Problem, observers: Observers, judge: Coder = EXACT
) -> dict[str, list[float]]:
    """Return the columns of a curve for given dictionaries."""
    warm, columns = WarmProblem.like(problem), _columns(observers)
    for snapshot in taken:
        D, measured = snapshot.D, warm.measure(warm.stats(snapshot.D, judge), snapshot.D)
        if snapshot.best is not None and snapshot.best.objective < measured.objective:
            D = snapshot.best.D
            measured = warm.measure(warm.stats(D, judge), D)
        columns["passes"].append(snapshot.passes)
        columns["seconds"].append(snapshot.seconds)
        columns["f"].append(measured.objective)
        columns["stationarity"].append(measured.stationarity)
        for name, observer in observers.items():
            columns[name].append(observer(D))
    return columns


def warm_up(solver: AbstractSolver, problem: Problem, D: Array, rows: int = 300) -> None:
    """Run a solver for a moment on a few rows, so that whatever is compiled is compiled."""
    first = problem.source.rows(np.arange(min(rows, problem.n_samples)))
    few = Problem(problem.formulation, as_source(first))
    for _ in watched(iterate(solver, few, D, 0), 2.5, 1.0):
        pass


def _columns(observers: Observers) -> dict[str, Any]:
    return {name: [] for name in ("passes", "seconds", "f", "stationarity", *observers)}
