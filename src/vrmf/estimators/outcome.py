"""When a fit ends, and what it reports: the dictionary, measured with exact codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.running.clock import Clock, OutOfTime
from vrmf.running.loop import Outcome
from vrmf.running.rules import MaxEpochs, Rule, Settling, Stationary
from vrmf.running.stage import Stage
from vrmf.solvers import AbstractSolver
from vrmf.solvers.base import rises
from vrmf.sources import single_threaded_blas
from vrmf.sources.companions import Companion
from vrmf.stats import Stats

#: What the last pass may take beyond ``max_time``: a share of it, and some seconds.
LAST_PASS_SHARE = 0.15
LAST_PASS_SECONDS = 0.5

#: The kind of companion that the codes of the dictionary that is reported are.
ANSWER_CODES = "codes of the answer"


@dataclass(frozen=True, eq=False)
class Answer:
    """The dictionary that a fit returns, and its measurements."""

    D: Array
    measured: Measurement | None  #: None if time was over before anything was measured
    stats: Stats | None = None  #: of a pass with exact codes, if there was time for it


class Certifier:
    """Measures dictionaries by passes with exact codes, and remembers the last.

    Parameters
    ----------
    problem : Problem
    codes : Companion or None
        Where the codes of all rows for the last dictionary that was measured are stored.
    clock : Clock or None
        Passes raise when its time is over.
    """

    def __init__(
        self, problem: Problem, codes: Companion | None = None, clock: Clock | None = None
    ) -> None:
        self.problem, self.codes, self.clock = problem, codes, clock
        self._timed = problem if clock is None else problem.until(clock)
        self._last: Answer | None = None

    def __call__(self, D: Array) -> Measurement:
        """Measure the dictionary with exact codes, rotated as it is reported."""
        answer = self._certified(self._rotated(D))
        assert answer.measured is not None
        return answer.measured

    def answer(self, solver: AbstractSolver, outcome: Outcome) -> Answer:
        """Return the stationary dictionary, or the last one; the best one measured if that is worse.

        If time is over before exact codes are known, the best one is reported as it was measured.
        """
        best = outcome.history.best
        if self.clock is not None:
            self.clock.extra = LAST_PASS_SHARE * self.clock.limit + LAST_PASS_SECONDS
        try:
            if outcome.reason.converged:  # it is rotated, as it was certified
                return self._certified(outcome.iterate.D)
            last = self._certified(self._rotated(outcome.iterate.D))
            assert last.measured is not None
            if outcome.iterate.step == outcome.history.step[-1]:
                outcome.history.note(last.measured)
            known = best is not None and solver.reports_best
            if known and best is not None and rises(last.measured.objective, best.objective, last.D.dtype):
                return self._certified(self._rotated(best.D))
            return last
        except OutOfTime:
            return self.answer_as_measured(outcome)

    def answer_as_measured(self, outcome: Outcome) -> Answer:
        """Return the best dictionary as it was measured in passing, or the last one, without a pass."""
        best = outcome.history.best
        return Answer(self._rotated(outcome.iterate.D if best is None else best.D), best)

    def _certified(self, D: Array) -> Answer:
        if self._last is None or self._last.D is not D:
            with single_threaded_blas():
                measured, stats = self._timed.certify_with_sums(D, self.codes)
            self._last = Answer(D, measured, stats)
        return self._last

    def _rotated(self, D: Array) -> Array:
        return oriented(D) if self.problem.formulation.rotates else D


class StoppingRules:
    """Makes the stopping rules of each stage, with a certifier that confirms stationarity.

    Parameters
    ----------
    tol : float
    max_iter : int
    clock : Clock or None
    store_codes : bool
        Whether the codes for the last dictionary that was measured exactly are stored.
    measures : bool
        Whether dictionaries are measured along the way, by the solver or for the record.
    """

    certifier: Certifier  #: of the present stage

    def __init__(
        self,
        tol: float,
        max_iter: int,
        clock: Clock | None,
        store_codes: bool = False,
        measures: bool = True,
    ) -> None:
        self.tol, self.max_iter, self.clock = tol, max_iter, clock
        self.store_codes, self.measures = store_codes, measures

    def rules(self, stage: Stage, problem: Problem) -> Sequence[Rule]:
        """Return the rules for a problem; its certifier becomes :attr:`certifier`."""
        codes = problem.room_for_codes(ANSWER_CODES, stage.seed, len(stage.D)) if self.store_codes else None
        self.certifier = Certifier(problem, codes, self.clock)
        stationary, budget = Stationary(self.tol, self.certifier), MaxEpochs(self.max_iter)
        if self.measures:
            return [stationary, budget]
        return [Settling(stationary, stage, problem.n_samples), stationary, budget]


def oriented(D: Array) -> Array:
    """Return the dictionary rotated to orthogonal atoms of falling length, each with a positive peak.

    >>> oriented(np.array([[0.0, -1.0], [2.0, 0.0]]))
    array([[2., 0.],
           [0., 1.]])
    """
    singular, vectors = np.linalg.svd(D, full_matrices=False)[1:]
    peaks = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=1)[:, None], axis=1)
    rows = (singular[:, None] * vectors) * np.where(peaks < 0, -1, 1)
    # With more atoms than features, the rest of the rotated dictionary is zero.
    return np.concatenate([rows, np.zeros_like(D[len(rows) :])]).astype(D.dtype) + 0
