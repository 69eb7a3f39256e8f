"""The loop: it steps a solver, measures time, records iterates, and stops by rules.

>>> import numpy as np
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.problem import Problem
>>> from vrmf.running.rules import MaxEpochs, Stationary
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

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import working_seconds
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.running.clock import Clock, OutOfTime
from vrmf.running.history import History, Iterate
from vrmf.running.path import AbstractPath, SingleStage
from vrmf.running.rules import Diverged, Reason, Rule, time_is_over
from vrmf.running.stage import Stage
from vrmf.solvers.base import AbstractSolver, State
from vrmf.sources import single_threaded_blas


@dataclass(frozen=True, eq=False)
class ResumePoint:
    """What a run needs to go on as if it had never been interrupted."""

    state: Callable[[], State]  #: makes it, so that nothing else holds it in memory
    seconds: float  #: time spent inside steps
    history: History  #: whose newest row is of this state


def iterate(
    solver: AbstractSolver,
    problem: Problem,
    D: Array,
    seed: int,
    resume: ResumePoint | None = None,
    clock: Clock | None = None,
    stage: Stage | None = None,
) -> Iterator[Iterate]:
    """Yield the start, or the iterate to go on from, and then the iterate after each step.

    It ends when the clock's time is over; a step that is under way then is dropped. Counts go on from
    those of the stage, if one is given.
    """
    stage = Stage(problem.formulation, D, seed) if stage is None else stage
    state, seconds = (
        (solver.init(problem, D, seed), stage.seconds)
        if resume is None
        else (resume.state(), resume.seconds)
    )
    timed = problem if clock is None else problem.until(clock)
    while True:
        yield Iterate(
            D=solver.answer(state),
            step=stage.steps + state.step,
            epoch=stage.epochs + state.epoch,
            passes=stage.passes + state.solved / problem.n_samples,
            seconds=seconds,
            state=state,
            stage=stage,
        )
        began = working_seconds()
        # A rule reports iterates that diverge; warnings of NumPy would add nothing.
        with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
            try:
                if clock is not None:
                    clock.check()
                state = solver.step(timed, state)
            except OutOfTime:
                return
        seconds += working_seconds() - began


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run ended."""

    iterate: Iterate
    history: History
    reason: Reason


class Interrupted(KeyboardInterrupt):
    """An interrupt from the keyboard, with the outcome of the run so far."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


Rules = Callable[[Stage, Problem], Sequence[Rule]]
Record = Callable[[Iterate], Measurement | None]
Watch = Callable[[Iterate, History], Reason | None]


def until_stopped(
    solver: AbstractSolver,
    problem: Problem,
    stage: Stage,
    path: AbstractPath,
    rules: Rules,
    record: Record = lambda iterate: None,
    resume: ResumePoint | None = None,
    clock: Clock | None = None,
) -> Iterator[tuple[Iterate, History, Reason | None]]:
    """Yield iterates with the history so far, up to the first for which there is a reason to stop.

    A stage that ends by itself is followed by the next of the path; ``rules`` makes those of the last one.
    The dictionary of the last iterate is the one that was found stationary, if that is the reason. If time
    is over, the last one comes a second time, with that reason. ``record`` may measure an iterate for the
    history, off the clock. A run that resumes yields the iterate of its resume point first. It does not
    record that again, and goes on with its history and its time.
    """
    history = History() if resume is None else resume.history
    following: Stage | None = stage
    while following is not None:
        stage = following
        problem = Problem(stage.formulation, problem.source)
        final = rules(stage, problem)
        ending: list[Rule] = [Diverged(float(np.max(np.abs(stage.D)))), *path.rules(stage, problem, final)]
        iterates = _one_stage(solver, problem, stage, ending, history, record, resume, clock)
        for current, reason in iterates:
            if reason is None:
                yield current, history, None
        assert reason is not None
        try:
            following = _next_stage(path, stage, problem, current, clock) if reason.converged else None
        except OutOfTime:
            assert clock is not None
            reason, following = time_is_over(clock), None
        resume = None
    yield current, history, reason


def _one_stage(
    solver: AbstractSolver,
    problem: Problem,
    stage: Stage,
    rules: Sequence[Rule],
    history: History,
    record: Record,
    resume: ResumePoint | None,
    clock: Clock | None,
) -> Iterator[tuple[Iterate, Reason | None]]:
    """Yield the iterates of a stage, the last with the reason for which it ended."""
    solver, is_known = solver.going_on() if stage.index else solver, resume is not None
    for current in iterate(solver, problem, stage.D, stage.seed, resume, clock, stage):
        if not is_known:
            with nullcontext() if clock is None else clock.stopped():
                history.add(current, record(current))
        is_known = False
        reason = _first_reason(rules, current, history)
        if reason is not None and reason.answer is not None:
            current = replace(current, D=reason.answer)
        yield current, reason
        if reason is not None:
            return
    assert clock is not None, "only a clock ends a run without a reason"
    yield current, time_is_over(clock)


def _next_stage(
    path: AbstractPath, stage: Stage, problem: Problem, last: Iterate, clock: Clock | None
) -> Stage | None:
    """Return the stage that follows, with all that was done before it, or None."""
    done, began = stage.after(last.step, last.epoch, last.passes, last.seconds), working_seconds()
    timed = problem if clock is None else problem.until(clock)
    with single_threaded_blas():
        following = path.after(done, timed, last.D)
    if following is None:
        return None
    return replace(following, seconds=following.seconds + working_seconds() - began)


def _first_reason(rules: Sequence[Rule], current: Iterate, history: History) -> Reason | None:
    """Return the first reason to stop, or None; None if time runs out, which the loop then reports."""
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
    clock: Clock | None = None,
) -> Outcome:
    """Step the solver on one problem until a rule gives a reason to stop."""
    stage = Stage(problem.formulation, D, seed)
    return follow(solver, problem, stage, SingleStage(), lambda *_: rules, clock=clock)


def follow(
    solver: AbstractSolver,
    problem: Problem,
    stage: Stage,
    path: AbstractPath,
    rules: Rules,
    *,
    record: Record = lambda iterate: None,
    watch: Watch = lambda iterate, history: None,
    resume: ResumePoint | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Follow a path until it ends or there is a reason to stop.

    ``watch`` is called with each valid iterate, and may return a reason to stop. An interrupt from the
    keyboard is raised as :class:`Interrupted` once there is a valid iterate.
    """
    sound, history = None, History()
    try:
        iterates = until_stopped(solver, problem, stage, path, rules, record, resume, clock)
        for current, history, reason in iterates:
            if current is not sound and (sound is None or reason is None or not reason.failed):
                sound = current
                wanted = watch(current, history)
                reason = wanted if reason is None else reason
            if reason is not None:
                assert sound is not None
                return Outcome(sound, history, reason)
    except KeyboardInterrupt as interrupt:
        if sound is None:
            raise
        reason = Reason("interrupted from the keyboard", False, is_budget=True)
        raise Interrupted(Outcome(sound, history, reason)) from interrupt
    raise AssertionError("a run ends only by a reason")
