"""Runs of solvers seen from outside: snapshots, exact measurements off the clock, and polished ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from common import Array

from vrmf.coding import Coder
from vrmf.loop import Iterate, iterate
from vrmf.problem import Measurement, Problem
from vrmf.solvers import AbstractSolver, Batch
from vrmf.sources import ArraySource, as_source
from vrmf.stats import Stats

#: How exactly codes are computed where a dictionary is judged.
EXACT = Coder(tol=1e-8)


@dataclass(frozen=True, eq=False)
class WarmProblem(Problem):
    """A problem whose full passes start from the codes of the pass before: for work off the clock."""

    last: list[Array] = field(default_factory=list)  #: the codes of the last full pass, if there was one

    @classmethod
    def like(cls, problem: Problem) -> WarmProblem:
        """Return the same problem with a memory of its own."""
        return cls(problem.formulation, problem.source)

    def stats(
        self,
        D: Array,
        coder: Coder,
        rows: Array | None = None,
        *,
        start: Array | None = None,
        keep: Array | None = None,
    ) -> Stats:
        if rows is not None or start is not None or keep is not None:
            return super().stats(D, coder, rows, start=start, keep=keep)
        codes = np.empty((self.n_samples, len(D)), dtype=D.dtype)
        known = self.last[0] if self.last else None
        stats = super().stats(D, coder, start=known, keep=codes)
        self.last[:] = [codes]
        return stats

    def exact(self, D: Array) -> Measurement:
        """Return what exact codes of all rows tell of a dictionary."""
        return self.measure(self.stats(D, EXACT), D)


# ------------------------------------------------------------------ on the clock


class Snapshot(NamedTuple):
    """A dictionary on the way, and what it cost."""

    passes: float
    seconds: float
    D: Array


@dataclass
class Grid:
    """Says which of rising numbers are the first beyond the next point of a geometric grid."""

    first: float
    ratio: float
    reached: int = 0  #: points that lie behind

    def passed(self, value: float) -> bool:
        """Return whether the value is the first at or beyond a point, which then lies behind."""
        if value < self.first * self.ratio**self.reached:
            return False
        # A shade more than the quotient, lest a value on the point be taken twice.
        self.reached = math.floor(math.log(value / self.first) / math.log(self.ratio) + 1e-9) + 1
        return True


def watched(run: Iterator[Iterate], passes: float, seconds: float) -> Iterator[Iterate]:
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


def snapshots(run: Iterator[Iterate], passes: float, seconds: float, ratio: float) -> list[Snapshot]:
    """Return the dictionaries at a geometric grid of passes from 0.1 on, the start and the end."""
    grid, taken, current = Grid(0.1, ratio), [], None
    for current in watched(run, passes, seconds):
        if current.step == 0 or grid.passed(current.passes):
            taken.append(Snapshot(current.passes, current.seconds, current.D))
    if current is not None and current.passes > taken[-1].passes:
        taken.append(Snapshot(current.passes, current.seconds, current.D))
    return taken


def warm_up(solver: AbstractSolver, problem: Problem, D: Array, rows: int = 1500) -> None:
    """Run a solver for a moment on a few rows, so that whatever is compiled is compiled."""
    source = problem.source
    assert isinstance(source, ArraySource)
    few = Problem(problem.formulation, as_source(source.X[:rows]))
    for _ in watched(iterate(solver, few, D, 0), 2.5, 3.0):
        pass


# ------------------------------------------------------------------ off the clock


def measurements(
    run: Iterable[Iterate],
    problem: WarmProblem,
    due: Callable[[Iterate], bool],
) -> Iterator[tuple[Iterate, Measurement]]:
    """Yield the iterates of a run that are measured: by the solver itself, or here where it is due.

    A full pass of a solver measures the iterate before it, so that one waits for its successor.
    """
    previous, wanted = None, False
    for current in run:
        if previous is not None:
            if current.state.measured is not None:
                yield previous, current.state.measured
            elif wanted:
                yield previous, problem.exact(previous.D)
        previous, wanted = current, due(current)


def polished(
    problem: WarmProblem, D: Array, enough: float, steps: int = 300, seconds: float = 3.0
) -> float:
    """Return the lowest objective that batch steps from D find until ‖Γ‖² is ``enough``."""
    lowest = math.inf
    for current in watched(iterate(Batch(), problem, D, 0), steps, seconds):
        measured = current.state.measured
        if measured is not None:
            lowest = min(lowest, measured.objective)
            if measured.stationarity <= enough:
                break
    return lowest


# ------------------------------------------------------------------ on file


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Return a number with so many significant digits; None where there is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def packed(values: Iterable[float], digits: int = 5) -> str:
    """Return numbers as one string: a list would take a line of the file for each."""
    return " ".join(f"{value:.{digits}g}" for value in values)


def unpacked(text: str) -> Array:
    """Return the numbers of a packed string."""
    return np.array([float(word) for word in text.split()])
