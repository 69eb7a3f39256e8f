"""Snapshots of runs, exact measurements off the clock, and refined minima."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.common import Array
from vrmf.coding import Coder
from vrmf.comparing.measuring import Snapshot, WarmProblem, Yardstick, kept, snapshots_of, within_budget
from vrmf.dictionaries import feasible
from vrmf.measurement import Measurement
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import Batch

#: How exactly codes are computed where the curvature gives step sizes, and where candidates are ranked.
RANKING_CODER = Coder(tol=1e-8)

# ------------------------------------------------------------------ on the clock


@dataclass
class Grid:
    """Tells which of rising numbers are the first beyond the next point of a geometric grid."""

    first: float
    ratio: float
    reached: int = 0  #: how many points were passed

    def passed(self, value: float) -> bool:
        """Return whether the value is the first at or beyond a point."""
        if value < self.first * self.ratio**self.reached:
            return False
        # A value at a point must pass it in spite of rounding.
        self.reached = math.floor(math.log(value / self.first) / math.log(self.ratio) + 1e-9) + 1
        return True


def snapshots(run: Iterator[Iterate], passes: float, seconds: float, ratio: float) -> list[Snapshot]:
    """Return the dictionaries at a geometric grid of passes from 0.1 on, the start and the end."""
    grid = Grid(0.1, ratio)
    return kept(
        snapshots_of(within_budget(run, passes, seconds)),
        lambda snapshot: snapshot.passes == 0 or grid.passed(snapshot.passes),
    )


# ------------------------------------------------------------------ off the clock


def measurements(
    run: Iterable[Iterate],
    yardstick: Yardstick,
    due: Callable[[Iterate], bool],
) -> Iterator[tuple[Iterate, Measurement]]:
    """Yield the iterates of a run that the solver measures, or that are due and measured here.

    A full pass of a solver measures the iterate before it, so each iterate waits for the next one.
    """
    previous, wanted = None, False
    for current in run:
        if previous is not None:
            if current.state.measured is not None:
                yield previous, current.state.measured
            elif wanted:
                yield previous, yardstick.measured(previous.D)
        previous, wanted = current, due(current)


def objective_by(yardstick: Yardstick) -> Callable[[Array], float]:
    """Return a function that measures f at the nearest feasible dictionary."""

    def objective(D: Array) -> float:
        nearest = feasible(yardstick.problem.formulation, np.ascontiguousarray(D))
        return float(yardstick.measured(nearest).objective)

    return objective


@dataclass
class Trace:
    """The snapshots of a run, which are measured on demand and at most once."""

    snapshots: list[Snapshot]
    measure: Callable[[Array], float]
    known: dict[int, float] = field(default_factory=dict)

    def value(self, i: int) -> float:
        """Return the value of a snapshot."""
        if i not in self.known:
            self.known[i] = self.measure(self.snapshots[i].D)
        return self.known[i]

    def points(self, chosen: Iterable[int]) -> list[tuple[float, float, float]]:
        """Return passes, seconds and the value of some snapshots."""
        return [(self.snapshots[i].passes, self.snapshots[i].seconds, self.value(i)) for i in chosen]


def polished(
    problem: WarmProblem, D: Array, enough: float, steps: int = 300, seconds: float = 3.0
) -> float:
    """Return the lowest objective that batch steps from D find until ‖Γ‖² is ``enough``."""
    lowest = math.inf
    for current in within_budget(iterate(Batch(), problem, D, 0), steps, seconds):
        measured = current.state.measured
        if measured is not None:
            lowest = min(lowest, measured.objective)
            if measured.stationarity <= enough:
                break
    return lowest


# ------------------------------------------------------------------ on file


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Return a number with some significant digits, None for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def packed(values: Iterable[float], digits: int = 5) -> str:
    """Return numbers as one string, so that they take one line of the file."""
    return " ".join(f"{value:.{digits}g}" for value in values)


def unpacked(text: str) -> Array:
    """Return the numbers of a packed string."""
    return np.array([float(word) for word in text.split()])
