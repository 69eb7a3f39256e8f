"""The loop: it steps a solver, keeps the clock and the record, and decides when to stop.

>>> import numpy as np
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.problem import Problem
>>> from vrmf.solvers import Batch
>>> from vrmf.sources import as_source
>>> X = np.random.default_rng(0).standard_normal((40, 5))
>>> problem = Problem(dictionary_learning(alpha=0.1), as_source(X))
>>> rules = [Stationary(1e-4, problem.certify), MaxEpochs(50)]
>>> outcome = run(Batch(), problem, np.eye(5)[:2], seed=0, rules=rules)
>>> outcome.reason.converged
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from vrmf.clock import Clock, OutOfTime
from vrmf.compiled import working_seconds
from vrmf.problem import Measurement, Problem
from vrmf.solvers.base import AbstractSolver, State, rises
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
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    seed: int,
    resume: Moment | None = None,
    clock: Clock | None = None,
) -> Iterator[Iterate]:
    """Yield the start, or the moment to go on from, and then the iterate after each step.

    It ends when the clock's time is over; a step that is under way then is dropped.
    """
    state, seconds = (
        (solver.init(problem, D, seed), 0.0) if resume is None else (resume.state(), resume.seconds)
    )
    timed = problem if clock is None else problem.until(clock)
    while True:
        passes = state.solved / problem.n_samples
        yield Iterate(solver.answer(state), state.step, state.epoch, passes, seconds, state)
        began = working_seconds()
        # Numbers that run away are an outcome, which a rule tells; they need no further warnings.
        with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
            try:
                if clock is not None:
                    clock.check()
                state = solver.step(timed, state)
            except OutOfTime:
                return
        seconds += working_seconds() - began


#: The columns of a history.
COLUMNS = (
    "step",
    "passes",
    "seconds",
    "objective",
    "stationarity",
    "relative_stationarity",
    "own_stationarity",
)

#: Those of them that a measurement fills.
MEASURED = COLUMNS[3:]


@dataclass
class History:
    """What was measured, when: one row for each iterate, NaN where nothing is known of it."""

    step: list[int] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    stationarity: list[float] = field(default_factory=list)
    relative_stationarity: list[float] = field(default_factory=list)
    own_stationarity: list[float] = field(default_factory=list)  #: at a literal solver's own step
    last: Measurement | None = None  #: the newest measurement
    best: Measurement | None = None  #: the one with the lowest objective, the newest of equals
    doubt: float = (
        1.0  #: by what factor the relative stationarity was too small where it was confirmed last
    )

    def add(self, iterate: Iterate, own: Measurement | None = None) -> None:
        """Add an iterate, and what its step learned of the one before; ``own`` is of its own.

        A step may measure with loose codes, so it does not overwrite what is recorded already.
        """
        if iterate.state.measured is not None and self.step and math.isnan(self.objective[-1]):
            self.note(iterate.state.measured)
        self.step.append(iterate.step)
        self.passes.append(iterate.passes)
        self.seconds.append(iterate.seconds)
        for name in MEASURED:
            getattr(self, name).append(math.nan)
        if own is not None:
            self.note(own)

    def note(self, measured: Measurement, row: int = -1) -> None:
        """Write down what is known of an iterate, the newest if nothing else is said."""
        for name in MEASURED:
            getattr(self, name)[row] = getattr(measured, name)
        self.last = measured
        if self.best is None or measured.objective <= self.best.objective:
            self.best = measured

    def correct(self, measured: Measurement) -> None:
        """Write down what exact codes tell of the dictionary that was measured last."""
        if self.last is not None and self.last.relative_stationarity > 0:
            self.doubt = max(measured.relative_stationarity / self.last.relative_stationarity, 1.0)
        if self.best is self.last:
            self.best = None
        self.note(measured, -2 if math.isnan(self.objective[-1]) else -1)

    @property
    def recent_gain(self) -> float:
        """The share by which the objective fell over the last pass or more; 0 if nothing older is known."""
        known = (i for i in reversed(range(len(self.step))) if not math.isnan(self.objective[i]))
        newest = next(known, None)
        if newest is None:
            return 0.0
        older = next((i for i in known if self.passes[i] <= self.passes[newest] - 1), newest)
        return (self.objective[older] - self.objective[newest]) / (abs(self.objective[newest]) or 1.0)

    def mark(self) -> Mark:
        """Return by what :meth:`upto` finds the record as it is now, however it grows."""
        newest = tuple(getattr(self, name)[-1] for name in MEASURED)
        return Mark(len(self.step), newest, self.last, self.best, self.doubt)

    def upto(self, mark: Mark) -> History:
        """Return the record as it was at the mark: the next step may have measured its newest row."""
        columns = {name: getattr(self, name)[: mark.rows] for name in COLUMNS}
        past = History(**columns, last=mark.last, best=mark.best, doubt=mark.doubt)
        for name, value in zip(MEASURED, mark.newest, strict=True):
            getattr(past, name)[-1] = value
        return past

    def as_columns(self) -> dict[str, list[float]]:
        """Return the record by column name, ready for a data frame; the last one is of literal runs."""
        is_literal = not all(map(math.isnan, self.own_stationarity))
        return {name: list(getattr(self, name)) for name in (COLUMNS if is_literal else COLUMNS[:-1])}


@dataclass(frozen=True)
class Mark:
    """A place in a history."""

    rows: int  #: how many there were
    newest: tuple[float, ...]  #: what was measured of the last, by column
    last: Measurement | None  #: the newest measurement
    best: Measurement | None  #: the one with the lowest objective
    doubt: float  #: of the relative stationarity


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
    answer: Array | None = None  #: the dictionary that was found stationary

    @property
    def failed(self) -> bool:
        """Whether the last iterate is of no use."""
        return not self.converged and not self.is_budget


Rule = Callable[[Iterate, History], Reason | None]

#: A fit that gains this many times ``tol`` from one pass to the next is not stationary yet.
STILL_GAINING = 10.0


@dataclass(frozen=True)
class Stationary:
    """Stop when the relative stationarity is at most ``tol``, or at the level of rounding.

    A fit that is nearly exact has nothing to gain either. A fit that still gains, more than STILL_GAINING
    times ``tol`` from one pass to the next, goes on: near a saddle point a single step promises little,
    while the objective falls and will fall faster.

    A step measures with codes that are as exact as it needs, so ``certify`` measures once more, with
    exact ones. The dictionary for which it confirms ``tol`` is the answer; else the run goes on.
    """

    tol: float
    certify: Callable[[Array], Measurement]

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        measured, best = history.last, history.best
        if self.tol <= 0 or measured is None or best is None:
            return None
        # What was too small when it was confirmed last will be so again; so passes are not wasted.
        if not measured.satisfies(self.tol if measured.is_exact else self.tol / min(history.doubt, 100.0)):
            return None
        if rises(measured.objective, best.objective, measured.D.dtype):
            return None
        if self._still_gains(measured, history):
            return None
        if not measured.is_exact:
            measured = self.certify(measured.D)
            history.correct(measured)
            if not measured.satisfies(self.tol):
                return None
        promised = measured.relative_stationarity
        text = f"stationary: a full step promises to lower the objective by {promised:.1e} of it"
        if promised > self.tol and measured.is_nearly_exact(self.tol):
            text = "stationary: the fit is nearly exact, there is next to nothing to gain"
        elif promised <= measured.rounding:
            text = "stationary to rounding: the objective cannot fall further"
        return Reason(f"{text} (tol={self.tol:g})", True, answer=measured.D)

    def _still_gains(self, measured: Measurement, history: History) -> bool:
        if measured.relative_stationarity <= measured.rounding or measured.is_nearly_exact(self.tol):
            return False
        return history.recent_gain > STILL_GAINING * self.tol


@dataclass(frozen=True)
class MaxEpochs:
    """Stop after so many epochs."""

    limit: int

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        if iterate.epoch < self.limit:
            return None
        return Reason(f"budget: max_iter={self.limit} epochs are done", False, is_budget=True)


def time_is_over(clock: Clock) -> Reason:
    """Return the reason of a run whose time is over."""
    return Reason(f"budget: max_time={clock.limit:g} seconds are over", False, is_budget=True)


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


class Interrupted(KeyboardInterrupt):
    """An interrupt from the keyboard, with how far the run had come."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


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
    clock: Clock | None = None,
) -> Iterator[tuple[Iterate, History, Reason | None]]:
    """Yield iterates with the history so far, up to the first for which a rule gives a reason to stop.

    The dictionary of the last one is the one that was found stationary, if that is the reason. If
    time is over, the last one comes a second time, with that reason. ``record`` may measure an iterate
    for the history, off the clock. A run that goes on from a moment yields that first, and neither
    records it again nor starts its history and its time anew.
    """
    history = History() if resume is None else resume.history
    rules, is_known = (Diverged(float(np.max(np.abs(D)))), *rules), resume is not None
    for current in iterate(solver, problem, D, seed, resume, clock):
        if not is_known:
            with nullcontext() if clock is None else clock.stopped():
                history.add(current, record(current))
        is_known = False
        reason = _first_reason(rules, current, history)
        if reason is not None and reason.answer is not None:
            current = replace(current, D=reason.answer)
        yield current, history, reason
        if reason is not None:
            return
    assert clock is not None, "only a clock ends a run without a reason"
    yield current, history, time_is_over(clock)


def _first_reason(rules: Sequence[Rule], current: Iterate, history: History) -> Reason | None:
    """Return the first reason to stop, or None; if the time for finding one is over, that comes next."""
    try:
        reasons = (rule(current, history) for rule in rules)
        return next((reason for reason in reasons if reason is not None), None)
    except OutOfTime:
        return None


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
    clock: Clock | None = None,
) -> Outcome:
    """Step the solver until a rule gives a reason to stop; ``watch`` sees each iterate that is sound.

    An interrupt from the keyboard is raised as :class:`Interrupted` once there is a sound iterate.
    """
    sound, history = None, History()
    try:
        for current, history, reason in until_stopped(
            solver, problem, D, seed, rules, record, resume, clock
        ):
            if current is not sound and (sound is None or reason is None or not reason.failed):
                sound = current
                watch(current, history)
            if reason is not None:
                assert sound is not None
                return Outcome(sound, history, reason)
    except KeyboardInterrupt as interrupt:
        if sound is None:
            raise
        reason = Reason("interrupted from the keyboard", False, is_budget=True)
        raise Interrupted(Outcome(sound, history, reason)) from interrupt
    raise AssertionError("a run ends only by a reason")
