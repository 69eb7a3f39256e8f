"""How a fit runs: from its start, or from where its checkpoint left it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.atomic import check_place, remove_leftovers
from vrmf.checkpoint import Checkpoint, Saved, Start
from vrmf.clock import Clock, watched_by
from vrmf.declared import types_in
from vrmf.estimators.outcome import Certifier, Report
from vrmf.estimators.reporting import recorder, watcher
from vrmf.fingerprint import data_fingerprint, described
from vrmf.loop import History, Interrupted, Iterate, Outcome, Watch, run
from vrmf.problem import Problem
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource

if TYPE_CHECKING:
    from vrmf.estimators.base import AbstractFactorizer

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

    def __init__(self, start: Start, outcome: Outcome, report: Report) -> None:
        super().__init__()
        self.found = (start, outcome, report)


def run_fit(
    model: AbstractFactorizer,
    source: AbstractSource,
    solver: AbstractSolver,
    clock: Clock | None,
    codes: Any = None,
) -> tuple[Start, Outcome, Report]:
    """Run a fit until a rule ends it, and keep its checkpoint if it has one.

    The codes of the dictionary that is reported are written into ``codes``, if there was time for them. An
    interrupt from the keyboard is raised as :class:`InterruptedFit`.
    """
    checkpoint = None if model.checkpoint is None else checkpoint_of(model, source, solver)
    saved = None if checkpoint is None else checkpoint.read(solver, source)
    if saved is None:
        with watched_by(clock):
            problem, D, seed, weights = model._start(source)
        start = Start(problem.formulation, D, seed, weights)
    else:
        # A generator that is shared with other models must be left as an uninterrupted fit leaves it.
        model._seed()
        start = saved.start
        problem = Problem(start.formulation, source)
    if saved is not None and clock is not None:
        clock.go_on_from(saved.moment.seconds)
    certifier = Certifier(problem, codes, clock)
    epoch = None if saved is None else saved.epoch
    report = watcher(type(model).__name__, int(model.verbose), epoch)
    with _keeping(checkpoint, start, saved) as keep:

        def watch(current: Iterate, history: History) -> None:
            report(current, history)
            keep(current, history)

        try:
            outcome = run(
                solver,
                problem,
                start.D,
                start.seed,
                rules=model._rules(certifier),
                record=recorder(problem, model.record_every, epoch),
                watch=watch,
                resume=None if saved is None else saved.moment,
                clock=clock,
            )
        except Interrupted as stop:
            report_so_far = certifier.report_as_measured(stop.outcome)
            raise InterruptedFit(start, stop.outcome, report_so_far) from stop
    return start, outcome, certifier.report(solver, outcome)


def _keeping(
    checkpoint: Checkpoint | None, start: Start, saved: Saved | None
) -> AbstractContextManager[Watch]:
    if checkpoint is None:
        return nullcontext(lambda current, history: None)
    return checkpoint.keeping(start, saved)


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
