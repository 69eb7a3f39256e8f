"""How a fit runs: from its start, or from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from vrmf.estimators.outcome import Answer, StoppingRules
from vrmf.estimators.progress import progress
from vrmf.estimators.recording import recorder
from vrmf.persistence.checkpoint import Checkpoint, Saved
from vrmf.problem import Problem
from vrmf.running.clock import Clock, watched_by
from vrmf.running.history import History, Iterate
from vrmf.running.loop import Interrupted, Outcome, Watch, follow
from vrmf.running.path import AbstractPath
from vrmf.running.rules import Reason
from vrmf.running.stage import Stage
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource


class InterruptedFit(KeyboardInterrupt):
    """An interrupt from the keyboard, with what the fit has found so far."""

    def __init__(self, outcome: Outcome, answer: Answer) -> None:
        super().__init__()
        self.found = (outcome, answer)


@dataclass(frozen=True, eq=False)
class FitPlan:
    """What an estimator decides before a fit runs."""

    name: str  #: of the estimator
    start: Callable[[], Stage]  #: returns the first stage
    draw_seed: Callable[[], int]  #: draws the seed that the start would have drawn
    stopping: StoppingRules
    path: AbstractPath
    checkpoint: Checkpoint | None
    verbose: int  #: epochs between two lines of progress, 0 for none
    record_every: int | None  #: epochs between two measurements for the history, None for none
    watcher: Watch | None  #: is called with each iterate before it is saved
    callbacks: Watch  #: is called afterwards


def run_fit(
    plan: FitPlan, source: AbstractSource, solver: AbstractSolver, clock: Clock | None
) -> tuple[Outcome, Answer, Any]:
    """Run a fit until a rule or a callback ends it, and save its checkpoint if it has one.

    The third result are the codes for the dictionary that is reported; None if they are not stored, or if
    there was no time for them. An interrupt from the keyboard is raised as :class:`InterruptedFit`.
    """
    saved = None if plan.checkpoint is None else plan.checkpoint.read(solver, source)
    stage, stopping = _first_stage(plan, saved, clock), plan.stopping
    epoch = None if saved is None else saved.epoch
    with _saving(plan.checkpoint, saved) as save, progress(plan.name, plan.verbose, epoch) as show:
        try:
            outcome = follow(
                solver,
                Problem(stage.formulation, source),
                stage,
                plan.path,
                stopping.rules,
                record=recorder(source, plan.record_every, epoch),
                watch=_all_of(show, plan.watcher, save, plan.callbacks),
                resume=None if saved is None else saved.resume,
                clock=clock,
            )
        except Interrupted as stop:
            report_so_far = stopping.certifier.answer_as_measured(stop.outcome)
            raise InterruptedFit(stop.outcome, report_so_far) from stop
    found = stopping.certifier.answer(solver, outcome)
    codes = stopping.certifier.codes
    return outcome, found, None if found.stats is None or codes is None else codes.values


def _first_stage(plan: FitPlan, saved: Saved | None, clock: Clock | None) -> Stage:
    """Return the stage with which a fit begins, or goes on."""
    if saved is None:
        with watched_by(clock):
            return plan.start()
    # A generator that is shared with other models must be left as an uninterrupted fit leaves it.
    plan.draw_seed()
    if clock is not None:
        clock.go_on_from(saved.resume.seconds)
    return saved.stage


def _all_of(*watches: Watch | None) -> Watch:
    """Return a watch that calls all of them, and returns the first of their reasons to stop."""

    def watch(current: Iterate, history: History) -> Reason | None:
        reasons = [each(current, history) for each in watches if each is not None]
        return next((reason for reason in reasons if reason is not None), None)

    return watch


def _saving(checkpoint: Checkpoint | None, saved: Saved | None) -> AbstractContextManager[Watch]:
    if checkpoint is None:
        return nullcontext(lambda current, history: None)
    return checkpoint.saving(saved)
