"""What a fit reports: the dictionary, and what exact codes tell of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrmf.estimators.inference import EXACT
from vrmf.loop import Outcome
from vrmf.problem import Measurement, Problem
from vrmf.solvers import AbstractSolver
from vrmf.solvers.base import rises
from vrmf.sources import single_threaded_blas
from vrmf.stats import Stats
from vrmf.terms.base import Array


def reported(
    problem: Problem, solver: AbstractSolver, outcome: Outcome, codes: Any
) -> tuple[Array, Stats, Measurement]:
    """Return the dictionary to report and what exact codes tell of it; they are written into ``codes``.

    The last full anchor is reported if the last iterate is worse.
    """

    def told(D: Array) -> tuple[Array, Stats, Measurement]:
        D = oriented(D) if problem.formulation.rotates else D
        stats = problem.stats(D, EXACT, keep=codes)
        return D, stats, problem.measure(stats, D)

    with single_threaded_blas():
        last = told(outcome.iterate.D)
        if outcome.iterate.step == outcome.history.step[-1]:
            outcome.history.note(last[2])
        known = solver.fallback(outcome.iterate.state)
        is_worse = known is not None and rises(last[2].objective, known[1], last[0].dtype)
        return told(known[0]) if known is not None and is_worse else last


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
