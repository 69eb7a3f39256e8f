"""What a fit records while it runs, and the warnings at its end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf.callers import level_of_caller
from vrmf.coding import EXACT
from vrmf.estimators.outcome import Answer
from vrmf.estimators.quality import CodeQuality
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.running.history import Iterate
from vrmf.running.loop import Watch
from vrmf.running.rules import Reason
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource

#: Atoms for each feature beyond which a user is warned.
MOST_ATOMS = 10


class Watched:
    """An estimator whose fits may be watched, as by a progress bar; see :func:`watching`."""

    _watcher: Watch | None = None  #: is called with each iterate


@contextmanager
def watching(model: Watched, watch: Watch) -> Iterator[None]:
    """Call a function with each iterate of the fits inside of the context."""
    model._watcher = watch
    try:
        yield
    finally:
        del model._watcher


def recorder(
    source: AbstractSource, every: int | None, epoch: int | None = None
) -> Callable[[Iterate], Measurement | None]:
    """Return a function that measures an iterate after every so many epochs, None for never.

    A run that goes on has seen ``epoch`` already.
    """
    seen = -1 if epoch is None else epoch

    def record(current: Iterate) -> Measurement | None:
        nonlocal seen
        if every is None or current.epoch == seen:
            return None
        seen = current.epoch
        if seen % every:
            return None
        return Problem(current.stage.formulation, source).certify(current.D)

    return record


def warn_of_size(n_components: int | None, n_samples: int, n_features: int) -> None:
    """Warn of more atoms than the data determine, or than codes can be found for in good time."""
    if n_components is None:
        return
    if n_components > n_samples:
        warnings.warn(
            f"n_components={n_components} for {n_samples} rows: copies of the rows fit them, so that atoms "
            f"need not mean anything, and time is spent on all of them. Use at most {n_samples}.",
            UserWarning,
            stacklevel=level_of_caller(),
        )
    elif n_components > MOST_ATOMS * n_features:
        warnings.warn(
            f"n_components={n_components} for {n_features} features: many codes fit a row equally well, "
            "and the time of a code grows with the square of n_components. Use fewer than "
            f"{MOST_ATOMS * n_features} unless you know why.",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def warn_of_outcome(
    name: str, solver: AbstractSolver, reason: Reason, answer: Answer, tol: float, why_nothing: str
) -> None:
    """Warn of a model that explains nothing, of codes that stopped short, and of a spent budget."""
    stats = answer.stats
    if stats is not None and not np.any(stats.used):
        warnings.warn(
            f"All codes of {name} are zero: the model explains nothing. {why_nothing}",
            UserWarning,
            stacklevel=level_of_caller(),
        )
    if stats is not None:
        CodeQuality.of_stats(stats).warn(EXACT, stats.slope.dtype)
    if not reason.converged and not reason.is_wanted and (tol > 0 or not reason.is_budget):
        advice = ""
        if reason.is_budget and answer.measured is not None:
            reached = answer.measured.relative_stationarity
            if reached > tol:
                advice = f" Its relative stationarity is {reached:.1e}, tol={tol:g}. "
                advice += "Increase the budget or `tol`"
            else:
                advice = (
                    " It is stationary for its present weights, but these had not come down to the noise"
                )
                advice += " yet. Increase the budget"
            advice += "; if features differ much in scale, scale them first, which makes a fit faster."
            if answer.D.dtype == np.float32:
                advice += " Data in double precision may come nearer."
            if not solver.measures:
                advice += ' Steps of SMM and SGD shrink: solver="vr" comes nearer.'
        if answer.measured is None:
            advice = " There was no time to measure the dictionary, so its figures are NaN. Increase it."
        warnings.warn(
            f"{name} stopped before it was stationary ({reason.text}).{advice}",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )
