"""Measuring dictionaries off the clock: how f, ‖Γ‖² and other quantities fall along a run.

While a run is on the clock, snapshots of its dictionaries are kept. When it is over, a yardstick measures
them by exact codes. All comparisons, benchmarks and experiments measure by it.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

#: How exactly codes are computed where a dictionary is measured: the error of f is the square of it.
JUDGING_CODER = Coder(tol=1e-6)

#: Further quantities of a dictionary, by name.
Observers = Mapping[str, Callable[[Array], float]]


@dataclass(frozen=True, eq=False)
class WarmProblem(Problem):
    """A problem whose full passes start from the codes of the last one, for work off the clock."""

    last: list[Companion] = field(default_factory=list)  #: the codes of the last full pass, if any

    @classmethod
    def like(cls, problem: Problem) -> WarmProblem:
        """Return the same problem with its own store of codes."""
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


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Measures dictionaries by exact codes of all rows, each pass from the codes of the one before."""

    problem: WarmProblem
    coder: Coder = JUDGING_CODER

    @classmethod
    def of(cls, problem: Problem, coder: Coder = JUDGING_CODER) -> Yardstick:
        """Return a yardstick for a problem, with its own store of codes."""
        return cls(WarmProblem.like(problem), coder)

    def stats(self, D: Array) -> Stats:
        """Return the sums over all rows at a dictionary."""
        return self.problem.stats(D, self.coder)

    def measured(self, D: Array) -> Measurement:
        """Return f, ‖Γ‖² and the other measurements of a dictionary."""
        return self.problem.measure(self.stats(D), D)

    @property
    def codes(self) -> Array:
        """The codes of all rows for the dictionary that was measured last."""
        codes = self.problem.last[0].values
        assert codes is not None
        return codes


class Snapshot(NamedTuple):
    """A dictionary during a run, and its cost so far."""

    seconds: float
    D: Array
    passes: float = math.nan  #: unknown of other libraries
    best: Measurement | None = None  #: what a fit reports if that is lower


def within_budget(
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


def snapshots_of(run: Iterable[Iterate], reports_best: bool = False) -> Iterator[Snapshot]:
    """Yield a snapshot of each iterate, with the best measurement so far of solvers that report it."""
    best: Measurement | None = None
    for current in run:
        measured = current.state.measured if reports_best else None
        if measured is not None and (best is None or measured.objective <= best.objective):
            best = measured
        yield Snapshot(current.seconds, current.D, current.passes, best)


def kept(run: Iterable[Snapshot], due: Callable[[Snapshot], bool]) -> list[Snapshot]:
    """Return the snapshots of a run that are due, and the last one."""
    taken: list[Snapshot] = []
    last = None
    for last in run:
        if due(last):
            taken.append(last)
    if last is None or (taken and (last is taken[-1] or last.passes <= taken[-1].passes)):
        return taken
    return [*taken, last]


@dataclass
class Thresholds:
    """Rising thresholds, and how many of them were passed."""

    at: Sequence[float]
    n_passed: int = 0  #: how many were passed

    def passed(self, value: float) -> bool:
        """Return whether a further threshold is reached, and count those that are."""
        before = self.n_passed
        while self.n_passed < len(self.at) and value >= self.at[self.n_passed] * (1 - 1e-9):
            self.n_passed += 1
        return self.n_passed > before


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
    run = within_budget(iterate(solver, problem, D, seed), at[-1] * (1 - 1e-9), seconds)
    thresholds = Thresholds(at)
    return kept(snapshots_of(run, solver.reports_best), lambda snapshot: thresholds.passed(snapshot.passes))


def curve(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    *,
    at: Sequence[float],
    seconds: float = math.inf,
    seed: int = 0,
    observers: Observers | None = None,
    judge: Coder = JUDGING_CODER,
) -> dict[str, list[float]]:
    """Return columns passes, seconds, f, stationarity and those of the observers along a run.

    The run ends at the last of the passes ``at``, after so many seconds, or when it diverges; its
    clock stands still while a dictionary is measured, by exact codes of all rows that ``judge`` finds.
    """
    taken = snapshots(solver, problem, D, at=at, seconds=seconds, seed=seed)
    return measured_at(taken, problem, observers or {}, judge)


def measured_at(
    taken: Sequence[Snapshot], problem: Problem, observers: Observers, judge: Coder = JUDGING_CODER
) -> dict[str, list[float]]:
    """Return the columns of a curve for given dictionaries."""
    yardstick, columns = Yardstick.of(problem, judge), _columns(observers)
    for snapshot in taken:
        D, measured = snapshot.D, yardstick.measured(snapshot.D)
        if snapshot.best is not None and snapshot.best.objective < measured.objective:
            D = snapshot.best.D
            measured = yardstick.measured(D)
        columns["passes"].append(snapshot.passes)
        columns["seconds"].append(snapshot.seconds)
        columns["f"].append(measured.objective)
        columns["stationarity"].append(measured.stationarity)
        for name, observer in observers.items():
            columns[name].append(observer(D))
    return columns


def warm_up(solver: AbstractSolver, problem: Problem, D: Array, rows: int = 300) -> None:
    """Run a solver for a moment on a few rows, so that its kernels are compiled."""
    first = problem.source.rows(np.arange(min(rows, problem.n_samples)))
    few = Problem(problem.formulation, as_source(first))
    for _ in within_budget(iterate(solver, few, D, 0), 2.5, 1.0):
        pass


def _columns(observers: Observers) -> dict[str, Any]:
    return {name: [] for name in ("passes", "seconds", "f", "stationarity", *observers)}
