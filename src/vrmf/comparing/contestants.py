"""The contestants of a comparison: solvers that yield dictionaries while their clock runs."""

from __future__ import annotations

import contextlib
import io
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vrmf.arrays import Array
from vrmf.comparing.measuring import Snapshot, kept, warm_up, within_budget
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import SOLVERS

#: Dictionaries are stored at times that grow by this factor.
RATIO = 2**0.5

#: The first of these times, as a share of the budget.
FIRST = 1 / 64

#: Of our solvers, a run ends before its budget at this relative stationarity: there is nothing to gain.
ENOUGH = 1e-9

#: A run that begins anew with more steps takes so many times as many as the one before, at most.
MOST_GROWTH = 4.0


@dataclass
class _Spaced:
    """Times that grow by the factor RATIO at least."""

    due: float

    def passed(self, seconds: float) -> bool:
        """Return whether the next time is over, and set the one after it if so."""
        if seconds < self.due:
            return False
        self.due = seconds * RATIO
        return True


@dataclass(frozen=True, eq=False)
class Contestant:
    """A solver with its options, on given rows."""

    name: str
    note: str  #: how it was run, for the reader
    run: Callable[[float], Iterator[Snapshot]]  #: for a budget of seconds
    is_ours: bool = False

    def snapshots(self, budget: float) -> list[Snapshot]:
        """Return the first dictionaries at or after times of a geometric grid, and the last one."""
        times = _Spaced(FIRST * budget)
        return kept(self.run(budget), lambda snapshot: times.passed(snapshot.seconds))


def timed(work: Callable[[], Any], threads: int | dict[str, int]) -> tuple[float, Any]:
    """Return the seconds that the work of another library takes, and its value; its output is dropped.

    ``threads`` are those of BLAS and OpenMP, or of each by name.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(threadpool_limits(threads))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        value = work()
        return time.perf_counter() - began, value


def quickest(work: Callable[[], Any], threads: int) -> int:
    """Return the number of threads with which a second run is the quicker: one, or as many as allowed.

    On small products many threads may be slower than one, which is no fault of the library.
    """
    if threads == 1:
        return 1
    seconds = {count: [timed(work, count)[0] for _ in range(2)][1] for count in (1, threads)}
    return min(seconds, key=lambda count: seconds[count])


def our_solver(name: str, problem: Problem, start: Array, seed: int, began: float) -> Contestant:
    """Return one of our solvers; ``began`` are the seconds that its start took."""

    def run(budget: float) -> Iterator[Snapshot]:
        solver = SOLVERS[name]()
        warm_up(solver, problem, start)
        for it in within_budget(iterate(solver, problem, start, seed), seconds=max(budget - began, 0.0)):
            yield Snapshot(began + it.seconds, it.D)
            measured = it.state.measured
            if measured is not None and measured.satisfies(ENOUGH):
                return

    return Contestant(f"vrmf, {name}", "", run, is_ours=True)


def learner_of_batches(
    name: str,
    note: str,
    make: Callable[[], Any],
    learn: Callable[[Any, Any], Any],
    dictionary: Callable[[Any], Array],
    batches: Callable[[], Iterable[Any]],
    threads: int,
) -> Contestant:
    """Return a contestant that learns from batches; ``batches`` yields those of one epoch."""

    def first() -> Any:
        return learn(make(), next(iter(batches())))

    def run(budget: float) -> Iterator[Snapshot]:
        count = quickest(first, threads)
        spent, model = timed(make, count)
        while True:
            for batch in batches():
                spent += timed(partial(learn, model, batch), count)[0]
                D = np.array(dictionary(model), dtype=np.float64)
                if not np.all(np.isfinite(D)):
                    return
                yield Snapshot(spent, D)
                if spent >= budget:
                    return

    return Contestant(name, note, run)


def learner_of_steps(name: str, note: str, fit: Callable[[int], Array], threads: int) -> Contestant:
    """Return a contestant that is fitted anew for each number of steps."""

    def run(budget: float) -> Iterator[Snapshot]:
        count = quickest(lambda: fit(1), threads)
        steps, seconds = 0, 0.0
        while seconds < 0.9 * budget:
            before, steps = steps, _next_steps(steps, seconds, budget)
            if steps == before:
                return
            seconds, D = timed(partial(fit, steps), count)
            if not np.all(np.isfinite(D)):
                return
            yield Snapshot(seconds, np.array(D, dtype=np.float64))

    return Contestant(name, note, run)


def _next_steps(steps: int, seconds: float, budget: float) -> int:
    """Return the number of steps of the next fit, after one of so many steps and seconds."""
    if steps == 0:
        return 1
    return math.floor(min(MOST_GROWTH, budget / max(seconds, 1e-9)) * steps)
