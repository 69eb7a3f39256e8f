"""How a fit runs: from its start, or from where its checkpoint left it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.estimators.outcome import Certifier, Report
from vrmf.estimators.progress import progress
from vrmf.estimators.reporting import recorder
from vrmf.persistence.atomic import check_place, remove_leftovers
from vrmf.persistence.checkpoint import Checkpoint, Saved
from vrmf.persistence.declared import types_in
from vrmf.persistence.fingerprint import data_fingerprint, described
from vrmf.problem import Problem
from vrmf.running.clock import Clock, watched_by
from vrmf.running.history import History, Iterate
from vrmf.running.loop import Interrupted, Outcome, Watch, follow
from vrmf.running.rules import MaxEpochs, Reason, Rule, Settling, Stationary
from vrmf.running.stage import Stage
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource

if TYPE_CHECKING:
    from vrmf.estimators.base import AbstractFactorizer

#: Where the codes of the dictionary that is reported are kept; others are numbered by their step.
LAST_CODES = -1

#: Parameters that do not change the iterates, so that a fit may go on with others.
FREE = (
    "n_jobs",
    "verbose",
    "max_iter",
    "max_time",
    "tol",
    "checkpoint",
    "checkpoint_every",
    "solver__cache_folder",
)


class InterruptedFit(KeyboardInterrupt):
    """An interrupt from the keyboard, with what the fit has found so far."""

    def __init__(self, outcome: Outcome, report: Report) -> None:
        super().__init__()
        self.found = (outcome, report)


class Judge:
    """Gives the rules by which a fit ends, and reports the dictionary that it ends with.

    Parameters
    ----------
    tol : float
    max_iter : int
    clock : Clock or None
    keep_codes : bool
        Whether there is room for the codes of the last dictionary that was judged.
    measures : bool
        Whether dictionaries are measured along the way, by the solver or for the record.
    """

    certifier: Certifier  #: of the present stage

    def __init__(
        self,
        tol: float,
        max_iter: int,
        clock: Clock | None,
        keep_codes: bool = False,
        measures: bool = True,
    ) -> None:
        self.tol, self.max_iter, self.clock = tol, max_iter, clock
        self.keep_codes, self.measures = keep_codes, measures

    def rules(self, stage: Stage, problem: Problem) -> Sequence[Rule]:
        """Return the rules for a problem, whose dictionaries are judged by passes with exact codes."""
        codes = problem.source.room_for_codes(len(stage.D), LAST_CODES) if self.keep_codes else None
        self.certifier = Certifier(problem, codes, self.clock)
        stationary, budget = Stationary(self.tol, self.certifier), MaxEpochs(self.max_iter)
        if self.measures:
            return [stationary, budget]
        return [Settling(stationary, stage, problem.n_samples), stationary, budget]


def run_fit(
    model: AbstractFactorizer,
    source: AbstractSource,
    solver: AbstractSolver,
    clock: Clock | None,
    keep_codes: bool = False,
    tell: Watch = lambda current, history: None,
) -> tuple[Outcome, Report, Any]:
    """Run a fit until a rule or ``tell`` ends it, and keep its checkpoint if it has one.

    The third result are the codes of the dictionary that is reported, if they are wanted and there was time
    for them. An interrupt from the keyboard is raised as :class:`InterruptedFit`.
    """
    checkpoint = None if model.checkpoint is None else checkpoint_of(model, source, solver)
    saved = None if checkpoint is None else checkpoint.read(solver, source)
    stage = _first_stage(model, source, saved, clock)
    judge = model._judge(clock, keep_codes)
    epoch = None if saved is None else saved.epoch
    name, every = type(model).__name__, int(model.verbose)
    with _keeping(checkpoint, saved) as keep, progress(name, every, epoch) as show:
        try:
            outcome = follow(
                solver,
                Problem(stage.formulation, source),
                stage,
                model._path(source),
                judge.rules,
                record=recorder(source, model.record_every, epoch),
                watch=_all_of(show, model._watch, keep, tell),
                resume=None if saved is None else saved.resume,
                clock=clock,
            )
        except Interrupted as stop:
            report_so_far = judge.certifier.report_as_measured(stop.outcome)
            raise InterruptedFit(stop.outcome, report_so_far) from stop
    found = judge.certifier.report(solver, outcome)
    return outcome, found, None if found.stats is None else judge.certifier.codes


def _first_stage(
    model: AbstractFactorizer, source: AbstractSource, saved: Saved | None, clock: Clock | None
) -> Stage:
    """Return the stage with which a fit begins, or goes on."""
    if saved is None:
        with watched_by(clock):
            return model._start(source)
    # A generator that is shared with other models must be left as an uninterrupted fit leaves it.
    model._seed()
    if clock is not None:
        clock.go_on_from(saved.resume.seconds)
    return saved.stage


def _all_of(*watches: Watch | None) -> Watch:
    """Return one that tells all of them, and wishes what the first of them wishes that has a wish."""

    def watch(current: Iterate, history: History) -> Reason | None:
        wishes = [each(current, history) for each in watches if each is not None]
        return next((wish for wish in wishes if wish is not None), None)

    return watch


def _keeping(checkpoint: Checkpoint | None, saved: Saved | None) -> AbstractContextManager[Watch]:
    if checkpoint is None:
        return nullcontext(lambda current, history: None)
    return checkpoint.saving(saved)


def checkpoint_of(model: AbstractFactorizer, source: AbstractSource, solver: AbstractSolver) -> Checkpoint:
    """Return the checkpoint of a fit, or say at once why no file can be written there."""
    path = Path(model.checkpoint)
    check_place("checkpoint", path)
    remove_leftovers(path)
    params = model.get_params(deep=False)
    fingerprint = {
        "parameters": _parameters(model, solver),
        "data": data_fingerprint(source),
    }
    kinds = types_in([solver, *params.values()])
    return Checkpoint(path, float(model.checkpoint_every), fingerprint, tuple(kinds))


def _parameters(model: AbstractFactorizer, solver: AbstractSolver) -> dict[str, Any]:
    """Return the fingerprints of all parameters on which the iterates depend."""
    params = {name: value for name, value in model.get_params(deep=True).items() if name not in FREE}
    parents = {name.partition("__")[0] for name in params if "__" in name}
    told = {"estimator": described(type(model).__name__, type(model).__name__)}
    for name, value in params.items():
        if name == "solver":
            # By name or by value, it is the same solver.
            told[name] = described(type(solver).__name__, type(solver).__name__)
        elif name == "random_state":
            told[name] = _random_state(value)
        elif name in parents:  # its options follow, each by its own name
            told[name] = described(type(value).__name__, type(value).__name__)
        else:
            told[name] = described(value, name=name)
    warm = model.components_ if model._goes_on else None
    told["the starting dictionary"] = described(warm, None if warm is not None else "not given")
    return told


def _random_state(value: Any) -> dict[str, Any]:
    """Return the fingerprint of a seed, or of the kind of what seeds are drawn from."""
    if isinstance(value, int | np.integer):
        return described(int(value))
    kind = "None" if value is None else f"a {type(value).__name__}"
    return described(kind, kind)
