"""A contest of starts: a few steps from each on a sample of the data, and the best goes on.

Which local minimum a start leads to cannot be told from the start, but a few steps tell much of it.

>>> from vrmf.formulations import dictionary_learning
>>> X = np.repeat(np.eye(3), 4, axis=0)
>>> best = best_start(dictionary_learning(alpha=0.1), X, [X[[0, 1, 2]], X[[0, 4, 8]]])
>>> int(np.linalg.matrix_rank(best))
3
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.running.clock import OutOfTime
from vrmf.surrogate import minimise_surrogate

#: How many starts compete, the steps that all of them take, and those of the better half.
STARTS = 6
FIRST_STEPS = 3
MORE_STEPS = 5

#: The largest cost of a contest, in products of rows, codes and atoms: about a tenth of a second.
MOST_WORK = 1.5e8

#: Rows for each atom that a contest needs, where there are so many.
ROWS_PER_ATOM = 10

#: Codes are loose and the work on them is bounded: only the order of contestants matters.
CODER = Coder(tol=1e-3, max_iter=100)

#: Sweeps over the atoms in each step.
SWEEPS = 3


@dataclass(frozen=True, eq=False)
class Contestant:
    """A dictionary, the codes of the sample when it was made, and its objective on the sample."""

    D: Array
    H: Array | None = None
    objective: float = math.inf

    def after(self, formulation: Formulation, X: Array, steps: int) -> Contestant:
        """Alternate between codes and the dictionary that minimises the surrogate for them."""
        D, H = self.D, self.H
        for _ in range(steps):
            atoms = Atoms(D)
            codes = formulation.encode(X, atoms, CODER, H)
            stats, H = formulation.stats(X, atoms, codes), codes.H
            A, B = stats.gram / stats.count, stats.cross(D) / stats.count
            D = minimise_surrogate(formulation.dictionary, A, B, D, SWEEPS)
        atoms = Atoms(D)
        codes = formulation.encode(X, atoms, CODER, H)
        objective = float(np.mean(formulation.losses(X, D, codes.H))) + formulation.dictionary.value(D)
        return Contestant(D, codes.H, objective if math.isfinite(objective) else math.inf)


def rows_for_contest(n_rows: int, n_components: int, n_features: int) -> int:
    """Return on how many of some rows starts may compete, or 0 if a contest would tell nothing.

    The products of rows, codes and atoms in all steps are bounded by MOST_WORK. Rows that are few for
    the atoms, below ROWS_PER_ATOM for each, tell nothing, unless they are all that there are.
    """
    steps = STARTS * FIRST_STEPS + -(-STARTS // 2) * MORE_STEPS
    affordable = int(MOST_WORK // (steps * n_components * (n_components + n_features)))
    rows = min(n_rows, affordable)
    enough = rows > n_components and rows >= min(n_rows, ROWS_PER_ATOM * n_components)
    return rows if enough else 0


def has_dear_codes(formulation: Formulation) -> bool:
    """Whether codes cost far more than products of rows and atoms: those of groups that overlap."""
    known = formulation.code.canonical
    return known is not None and known.groups is not None and not known.groups.disjoint


def best_start(formulation: Formulation, X: Array, starts: Sequence[Array]) -> Array:
    """Return the dictionary to which the best of some starts leads on the rows of a sample."""
    field = _after_steps(map(Contestant, starts), formulation, X, FIRST_STEPS)
    field = sorted(field, key=_objective)[: -(-len(field) // 2)]
    field = _after_steps(field, formulation, X, MORE_STEPS)
    return min(field, key=_objective).D


def _after_steps(
    field: Iterable[Contestant], formulation: Formulation, X: Array, steps: int
) -> list[Contestant]:
    """Return the contestants after some steps; when time is over, those that had it, and one at least."""
    done: list[Contestant] = []
    for contestant in field:
        try:
            done.append(contestant.after(formulation, X, steps))
        except OutOfTime:
            return done or [contestant]
    return done


def _objective(contestant: Contestant) -> float:
    return contestant.objective
