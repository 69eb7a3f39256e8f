"""How streams are learned: by the solver that was chosen, or by SMM in its place."""

from __future__ import annotations

from typing import Any

from vrmf.arrays import Array
from vrmf.solvers.base import AbstractSolver, AbstractStreamSolver
from vrmf.solvers.smm import SMM, SMMState
from vrmf.stats import Stats

#: The forgetting of the SMM that learns from streams in place of a solver that needs all rows at hand.
FORGETTING = 5.0

#: Rows of a stream that count as an epoch, for each atom.
ROWS_PER_ATOM = 50


def solver_for_streams(solver: AbstractSolver[Any]) -> AbstractStreamSolver[Any]:
    """Return the solver itself, or SMM with forgetting if it needs all rows at hand.

    >>> from vrmf.solvers import SGD, VR
    >>> solver_for_streams(SGD()) == SGD(), solver_for_streams(VR()) == SMM(forgetting=FORGETTING)
    (True, True)
    """
    return solver.for_streams() or SMM(forgetting=FORGETTING)


def epoch_of_stream(n_components: int) -> int:
    """Return the number of rows that count as an epoch of a stream."""
    return ROWS_PER_ATOM * n_components


def state_after_fit(D: Array, stats: Stats | None, seed: int) -> SMMState:
    """Return the state from which a stream goes on after a fit, with the sums over its rows if known.

    A stream of m rows remembers m/(1 + ρ) of them, ρ being FORGETTING. All rows of a fit count, as those of
    a stream so long that it remembers as many.
    """
    if stats is None:
        return SMMState(D=D, seed=seed)
    solved = round((1 + FORGETTING) * stats.count)
    return SMMState(
        D=D,
        seed=seed,
        gram=stats.gram,
        cross=stats.cross(D),
        weight=float(stats.count),
        solved=solved,
        epoch=solved // epoch_of_stream(len(D)),
    )
