"""Runs of solvers seen from outside: snapshots, exact measurements off the clock, and polished ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.common import Array
from vrmf.coding import Coder
from vrmf.curves import Snapshot, WarmProblem, warm_up, watched
from vrmf.problem import Measurement
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import Batch

#: How exactly codes are computed where a dictionary is judged.
EXACT = Coder(tol=1e-8)

# ------------------------------------------------------------------ on the clock


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


def snapshots(run: Iterator[Iterate], passes: float, seconds: float, ratio: float) -> list[Snapshot]:
    """Return the dictionaries at a geometric grid of passes from 0.1 on, the start and the end."""
    grid, taken, current = Grid(0.1, ratio), [], None
    for current in watched(run, passes, seconds):
        if current.step == 0 or grid.passed(current.passes):
            taken.append(Snapshot(current.passes, current.seconds, current.D))
    if current is not None and current.passes > taken[-1].passes:
        taken.append(Snapshot(current.passes, current.seconds, current.D))
    return taken


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


__all__ = [
    "EXACT",
    "Grid",
    "Snapshot",
    "WarmProblem",
    "measurements",
    "packed",
    "polished",
    "rounded",
    "snapshots",
    "unpacked",
    "warm_up",
    "watched",
]
