"""The loop: it steps a solver, keeps the clock and the record, and decides when to stop.

>>> import numpy as np
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.problem import Problem
>>> from vrmf.solvers import Batch
>>> from vrmf.sources import as_source
>>> X = np.random.default_rng(0).standard_normal((40, 5))
>>> problem = Problem(dictionary_learning(alpha=0.1), as_source(X))
>>> outcome = run(Batch(), problem, np.eye(5)[:2], seed=0, rules=[Stationary(1e-2), MaxEpochs(50)])
>>> outcome.reason.converged
True
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vrmf.problem import Measurement, Problem
from vrmf.solvers.base import AbstractSolver, State
from vrmf.sources import single_threaded_blas
from vrmf.terms.base import Array


@dataclass(frozen=True, eq=False)
class Iterate:
    """One moment of a run."""

    D: Array  #: the dictionary to report if the run ended now
    step: int  #: steps done
    epoch: int  #: epochs done
    passes: float  #: code problems solved, over the number of rows
    seconds: float  #: time spent inside steps
    state: State  #: from which the run can go on


def iterate(
    solver: AbstractSolver, problem: Problem, D: Array, seed: int, resume: Moment | None = None
) -> Iterator[Iterate]:
    """Yield the start, or the moment to go on from, and then the iterate after each step, for ever."""
    state, seconds = (
        (solver.init(problem, D, seed), 0.0) if resume is None else (resume.state(), resume.seconds)
    )
    while True:
        passes = state.solved / problem.n_samples
        yield Iterate(solver.answer(state), state.step, state.epoch, passes, seconds, state)
        began = time.perf_counter()
        # Numbers that run away are an outcome, which a rule tells; they need no further warnings.
        with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
            state = solver.step(problem, state)
        seconds += time.perf_counter() - began


#: The columns of a history.
COLUMNS = ("step", "passes", "seconds", "objective", "stationarity", "own_stationarity")


@dataclass
class History:
    """What was measured, when: one row for each iterate, NaN where nothing is known of it."""

    step: list[int] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    stationarity: list[float] = field(default_factory=list)
    own_stationarity: list[float] = field(default_factory=list)  #: at a literal solver's own step
    last: Measurement | None = None  #: the newest measurement

    def add(self, iterate: Iterate, own: Measurement | None = None) -> None:
        """Add an iterate, and what its step learned of the one before; ``own`` is of its own.

        A step may measure with loose codes, so it does not overwrite what is recorded already.
        """
        if iterate.state.measured is not None and self.step and math.isnan(self.objective[-1]):
            self.note(iterate.state.measured)
        self.step.append(iterate.step)
        self.passes.append(iterate.passes)
        self.seconds.append(iterate.seconds)
        for column in (self.objective, self.stationarity, self.own_stationarity):
            column.append(math.nan)
        if own is not None:
            self.note(own)

    def note(self, measured: Measurement) -> None:
        """Write down what is known of the newest iterate."""
        self.objective[-1], self.stationarity[-1] = measured.objective, measured.stationarity
        self.own_stationarity[-1] = measured.own_stationarity
        self.last = measured

    def mark(self) -> Mark:
        """Return by what :meth:`upto` finds the record as it is now, however it grows."""
        newest = (self.objective[-1], self.stationarity[-1], self.own_stationarity[-1])
        return Mark(len(self.own_stationarity), newest, self.last)

    def upto(self, mark: Mark) -> History:
        """Return the record as it was at the mark: the next step may have measured its newest row."""
        columns = {name: getattr(self, name)[: mark.rows] for name in COLUMNS}
        past = History(**columns, last=mark.last)
        past.objective[-1], past.stationarity[-1], past.own_stationarity[-1] = mark.newest
        return past

    @property
    def first_stationarity(self) -> float:
        """The first ‖Γ‖² that was measured, or NaN."""
        return next((value for value in self.stationarity if not math.isnan(value)), math.nan)

    def as_columns(self) -> dict[str, list[float]]:
        """Return the record by column name, ready for a data frame; the last one is of literal runs."""
        names = ["step", "passes", "seconds", "objective", "stationarity"]
        if not all(map(math.isnan, self.own_stationarity)):
            names.append("own_stationarity")
        return {name: list(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Mark:
    """A place in a history."""

    rows: int  #: how many there were
    newest: tuple[float, float, float]  #: objective, stationarity and own stationarity of the last
    last: Measurement | None  #: the newest measurement


@dataclass(frozen=True, eq=False)
class Moment:
    """From what a run can go on as if it had never been interrupted."""

    state: Callable[[], State]  #: makes it; it may be large, so that nobody else should hold it
    seconds: float  #: time spent inside steps
    history: History  #: whose newest row is of this state


@dataclass(frozen=True)
class Reason:
    """Why a run ended, in words, and whether that means that it arrived."""

    text: str
    converged: bool
    is_budget: bool = False

    @property
    def failed(self) -> bool:
        """Whether the last iterate is of no use."""
        return not self.converged and not self.is_budget


Rule = Callable[[Iterate, History], Reason | None]


@dataclass(frozen=True)
class Stationary:
    """Stop when ‖Γ‖² is at most ``tol`` times its first value, or at the level of rounding."""

    tol: float

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        measured, first = history.last, history.first_stationarity
        if measured is None or self.tol <= 0:
            return None
        if measured.stationarity <= 64 * measured.rounding:
            return Reason("stationary to rounding: ‖Γ‖² cannot fall further", True)
        if measured.stationarity <= self.tol * first:
            ratio = measured.stationarity / first
            return Reason(
                f"stationary: ‖Γ‖² fell to {ratio:.1e} of its first value (tol={self.tol:g})", True
            )
        return None


@dataclass(frozen=True)
class MaxEpochs:
    """Stop after so many epochs."""

    limit: int

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        if iterate.epoch < self.limit:
            return None
        return Reason(f"budget: max_iter={self.limit} epochs are done", False, is_budget=True)


@dataclass(frozen=True)
class MaxTime:
    """Stop after so many seconds inside steps."""

    limit: float

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        if iterate.seconds < self.limit:
            return None
        return Reason(f"budget: max_time={self.limit:g} seconds are over", False, is_budget=True)


@dataclass(frozen=True)
class Diverged:
    """Stop when numbers are no longer finite, or the dictionary is a billion times its first size."""

    start: float  #: largest entry of the first dictionary

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        size = float(np.max(np.abs(iterate.D)))
        objective = 0.0 if history.last is None else history.last.objective
        if size <= 1e9 * (self.start or math.inf) and math.isfinite(objective):
            return None
        return Reason(
            "diverged: the dictionary grew without bound and the last sound one is kept; "
            'use a smaller step_size (SGD: scale), or "auto"',
            False,
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run ended."""

    iterate: Iterate
    history: History
    reason: Reason


Record = Callable[[Iterate], Measurement | None]
Watch = Callable[[Iterate, History], None]


def until_stopped(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    seed: int,
    rules: Sequence[Rule],
    record: Record = lambda iterate: None,
    resume: Moment | None = None,
) -> Iterator[tuple[Iterate, History, Reason | None]]:
    """Yield iterates with the history so far, up to the first for which a rule gives a reason to stop.

    ``record`` may measure an iterate for the history, off the clock. A run that goes on from a moment
    yields that first, and neither records it again nor starts its history and its clock anew.
    """
    history = History() if resume is None else resume.history
    rules, is_known = (Diverged(float(np.max(np.abs(D)))), *rules), resume is not None
    for current in iterate(solver, problem, D, seed, resume):
        if not is_known:
            history.add(current, record(current))
        is_known = False
        reasons = (rule(current, history) for rule in rules)
        reason = next((reason for reason in reasons if reason is not None), None)
        yield current, history, reason
        if reason is not None:
            return


def run(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    seed: int,
    *,
    rules: Sequence[Rule],
    record: Record = lambda iterate: None,
    watch: Watch = lambda iterate, history: None,
    resume: Moment | None = None,
) -> Outcome:
    """Step the solver until a rule gives a reason to stop; ``watch`` sees each iterate that is sound."""
    sound = None
    for current, history, reason in until_stopped(solver, problem, D, seed, rules, record, resume):
        if sound is None or reason is None or not reason.failed:
            sound = current
            watch(current, history)
        if reason is not None:
            return Outcome(sound, history, reason)
    raise AssertionError("a run ends only by a reason")
