"""Rules: when a run, or a stage of it, ends, and the reason in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.measurement import Measurement
from vrmf.running.clock import Clock
from vrmf.running.history import History, Iterate
from vrmf.running.stage import Stage
from vrmf.solvers.base import rises


@dataclass(frozen=True)
class Reason:
    """Why a run ended, in words, and whether it converged."""

    text: str
    converged: bool
    is_budget: bool = False
    answer: Array | None = None  #: the dictionary that was found stationary
    is_wanted: bool = False  #: whether the user has asked for it, so that it needs no warning

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
    while the objective still falls, later faster.

    A step measures with codes that are as exact as it needs, so ``certify`` measures once more, with
    exact ones. The dictionary for which it confirms ``tol`` is the answer; else the run goes on.
    """

    tol: float
    certify: Callable[[Array], Measurement]

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        measured, best = history.last, history.best
        if self.tol <= 0 or measured is None or best is None:
            return None
        # The inexact measurement may be too small by the same factor as last time; this saves passes.
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


#: Epochs of a stage after which a solver that does not measure its iterates may have settled.
FIRST_DOUBLING = 8

#: It has settled if the objective falls by less than this share of √tol of the data while epochs double.
SETTLED = 0.25


@dataclass(frozen=True)
class Settling:
    """Measure after 2, 4, 8, … epochs of a stage, and stop when it is stationary or has settled.

    For solvers whose steps shrink and which do not measure their iterates (SMM, SGD). Each doubling of the
    epochs gains nearly as much as the one before, so they hardly ever become stationary to a small ``tol``.
    They have settled when doubling has lowered the objective by at most √tol of it, or SETTLED · √tol of
    the data: of the objective and the mean of ½‖hD‖², which add up to about the mean of ½‖x‖².
    """

    stationary: Stationary
    stage: Stage
    n_samples: int

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        epochs, tol = iterate.state.epoch, self.stationary.tol
        if tol <= 0 or not self._is_due(epochs, history):
            return None
        if math.isnan(history.objective[-1]):
            history.note(self.stationary.certify(iterate.D))
        stationary, last = self.stationary(iterate, history), history.last
        half = self._objective_after(epochs // 2, history)
        if stationary is not None or half is None or last is None or epochs < FIRST_DOUBLING:
            return stationary
        change, f = half - last.objective, abs(last.objective)
        if not 0 <= change <= math.sqrt(tol) * max(f, SETTLED * (f + last.fitted)):
            return None
        share = change / (f or 1.0)
        text = (
            f"settled: epochs {iterate.epoch - epochs // 2} to {iterate.epoch} lowered the objective by "
            f"{share:.1e} of it, little beside the data; a full step promises "
            f"{last.relative_stationarity:.1e} more (tol={tol:g})"
        )
        return Reason(text, True, answer=last.D)

    def _is_due(self, epochs: int, history: History) -> bool:
        """Whether the newest iterate is the first after so many epochs, which are a power of 2."""
        if epochs < 2 or epochs & (epochs - 1):
            return False
        return self._solved(history, -2) < epochs * self.n_samples

    def _objective_after(self, epochs: int, history: History) -> float | None:
        """Return the first objective that is known after so many epochs of this stage."""
        for row, objective in enumerate(history.objective):
            is_here = history.stage[row] == self.stage.index and not math.isnan(objective)
            if is_here and self._solved(history, row) >= epochs * self.n_samples:
                return objective
        return None

    def _solved(self, history: History, row: int) -> int:
        """Return how many code problems the stage had solved at a row of its history."""
        return round((history.passes[row] - self.stage.passes) * self.n_samples)


@dataclass(frozen=True)
class MaxEpochs:
    """Stop after so many epochs."""

    limit: int

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        if iterate.epoch < self.limit:
            return None
        return Reason(f"budget: max_iter={self.limit} epochs are done", False, is_budget=True)


@dataclass(frozen=True)
class StageEpochs:
    """End a stage of a path after so many epochs in all; the next stage goes on from there."""

    limit: int

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        return Reason("the epochs of a stage are done", True) if iterate.epoch >= self.limit else None


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


@dataclass(frozen=True)
class Settled:
    """End a stage of a path by its own test: stages before the last need not be exact."""

    test: Callable[[Measurement], bool]

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        measured = history.last
        if measured is None or not self.test(measured):
            return None
        return Reason("settled: the next stage may begin", True, answer=measured.D)
