"""What the comparisons of VR with SPAMS, scikit-learn and hyperspy share.

All get the same rows and threads, and the same start where a peer takes one. Runs only store their
dictionaries, which are measured afterwards by exact codes, off the clock. Our times are those of steps.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.common import THREADS, Array
from benchmarks.solver_runs import Trace, objective_by
from vrmf.coding import Coder
from vrmf.comparing import contestants
from vrmf.comparing.measuring import Snapshot, Yardstick
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import VR
from vrmf.sources import as_source

SEEDS = (0, 1, 2)

#: How exactly codes are computed where dictionaries are compared.
RACE_CODER = Coder(tol=1e-9)

#: The weight of the penalty on codes, the paper's for MNIST.
MNIST_WEIGHT = 1 / 28

Result = dict[str, Any]


def fair_objective(problem: Problem, coder: Coder = RACE_CODER) -> Callable[[Array], float]:
    """Return a function that measures f of dictionaries, ours or a peer's."""
    return objective_by(Yardstick.of(problem, coder))


class Run:
    """Our run: a trace of dictionaries, 5 ms apart at first and 2 % later, measured on demand.

    It continues as long as a target needs, up to the limit of seconds.
    """

    def __init__(
        self, problem: Problem, start: Array, seed: int, limit: float, measure: Callable[[Array], float]
    ) -> None:
        self.limit, self.iterates = limit, iterate(VR(), problem, start, seed)
        self.trace = Trace([Snapshot(0.0, start, 0.0)], measure)

    def extend(self, seconds: float) -> None:
        """Continue up to a time in seconds."""
        taken = self.trace.snapshots
        for it in self.iterates:
            if it.seconds >= min(1.02 * taken[-1].seconds + 0.005, seconds):
                taken.append(Snapshot(it.seconds, it.D, it.passes))
            if it.seconds >= seconds:
                return

    def at(self, seconds: float) -> float:
        """Return the value of the last snapshot up to a time in seconds."""
        taken = self.trace.snapshots
        return self.trace.value(max(i for i, s in enumerate(taken) if s.seconds <= seconds))

    def reach(self, target: float) -> float | None:
        """Return the seconds to the target by bisection, since values fall; None if it is not reached."""
        taken, value = self.trace.snapshots, self.trace.value
        while self.at(math.inf) > target:
            now = taken[-1].seconds
            if now >= self.limit:
                return None
            self.extend(min(max(2 * now, 0.5), self.limit))
        low, high = 0, len(taken) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if value(middle) <= target else (middle, high)
        return taken[high].seconds

    def curve(self) -> list[list[float]]:
        """Return (seconds, passes, value) of the snapshots that were measured."""
        points = self.trace.points(sorted(self.trace.known))
        return [[seconds, passes, value] for passes, seconds, value in points]


def problem_of(model: Formulation, X: Array, start: Array) -> Problem:
    """Return the problem on two threads, after a short run on few rows that compiles."""
    few = Problem(model, as_source(X[:500], n_jobs=THREADS))
    next(it for it in iterate(VR(), few, start, 0) if it.passes > 3)
    return Problem(model, as_source(X, n_jobs=THREADS))


def timed(work: Callable[[], Any], blas: int = THREADS) -> tuple[float, Any]:
    """Return the seconds that a peer takes, and what it returns; its messages are dropped."""
    return contestants.timed(work, {"blas": blas, "openmp": THREADS})


def quickest(work: Callable[[int], Any], jobs: Sequence[int] = (1,)) -> tuple[int, int]:
    """Return the number of jobs and of threads of BLAS with which a second run is the quickest.

    On small products two threads may be many times slower than one. This is not the fault of a peer.
    """
    seconds = {}
    for choice in itertools.product(jobs, (1, THREADS)):
        seconds[choice] = [timed(lambda: work(choice[0]), choice[1])[0] for _ in range(2)][1]
    return min(seconds, key=lambda choice: seconds[choice])


def median(values: Iterable[float | None]) -> float | None:
    """Return the median, where None stands for infinity."""
    middle = statistics.median(math.inf if value is None else value for value in values)
    return float(middle) if math.isfinite(middle) else None


def compare(name: str, peer: str, wanted: float, runs: list[Result], note: str = "") -> Result:
    """Return how many times sooner we reach the objective at which a peer ends, by medians over seeds."""
    ours, theirs = median(run["reached"] for run in runs), median(run["seconds"] for run in runs)
    ratio = None if ours is None or theirs is None else theirs / ours
    met = ratio is not None and ratio >= wanted
    told = "never" if ratio is None else f"{ratio:.1f}× sooner, {ours:.3f} s"
    print(f"{name:28s} {told} (wanted {wanted:g}×), {peer} {theirs:.3f} s", flush=True)
    seconds = {"vrmf": ours, peer: theirs}
    return {
        "name": name, "peer": peer, "wanted": wanted, "ratio": ratio, "met": met, "seconds": seconds,
        "value": median(run["value"] for run in runs), "runs": runs, "note": note,
    }  # fmt: skip
