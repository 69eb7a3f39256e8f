"""Multi-start: a few steps from several starts on a sample of the data; the best is the start of the fit.

The start itself does not show which local minimum it leads to, but a few steps show much of it.

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

#: The number of starts.
STARTS = 6

#: The steps from every start.
FIRST_STEPS = 3

#: The further steps of the better half.
MORE_STEPS = 5

#: The largest cost of all steps, in products of rows, codes and atoms: about a tenth of a second.
MOST_WORK = 1.5e8

#: Rows for each atom that a comparison of starts needs, where there are so many.
ROWS_PER_ATOM = 10

#: Codes are inexact and their cost is bounded: only the order of the candidates matters.
CODER = Coder(tol=1e-3, max_iter=100)

#: Sweeps over the atoms in each step.
SWEEPS = 3


@dataclass(frozen=True, eq=False)
class Candidate:
    """A dictionary, the codes of the sample when it was made, and its objective on the sample."""

    D: Array
    H: Array | None = None
    objective: float = math.inf

    def after(self, formulation: Formulation, X: Array, steps: int) -> Candidate:
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
        return Candidate(D, codes.H, objective if math.isfinite(objective) else math.inf)


def rows_for_multistart(n_rows: int, n_components: int, n_features: int) -> int:
    """Return on how many rows starts are compared, or 0 if a comparison would tell nothing.

    The products of rows, codes and atoms in all steps are bounded by MOST_WORK. Fewer rows than
    ROWS_PER_ATOM for each atom tell nothing, unless they are all rows.
    """
    steps = STARTS * FIRST_STEPS + -(-STARTS // 2) * MORE_STEPS
    affordable = int(MOST_WORK // (steps * n_components * (n_components + n_features)))
    rows = min(n_rows, affordable)
    enough = rows > n_components and rows >= min(n_rows, ROWS_PER_ATOM * n_components)
    return rows if enough else 0


def has_costly_codes(formulation: Formulation) -> bool:
    """Whether codes cost far more than products of rows and atoms, as those of overlapping groups do."""
    known = formulation.code.canonical
    return known is not None and known.groups is not None and not known.groups.disjoint


def best_start(formulation: Formulation, X: Array, starts: Sequence[Array]) -> Array:
    """Return the dictionary to which the best of some starts leads on the rows of a sample."""
    candidates = _after_steps(map(Candidate, starts), formulation, X, FIRST_STEPS)
    better = sorted(candidates, key=_objective)[: -(-len(candidates) // 2)]
    return min(_after_steps(better, formulation, X, MORE_STEPS), key=_objective).D


def _after_steps(
    candidates: Iterable[Candidate], formulation: Formulation, X: Array, steps: int
) -> list[Candidate]:
    """Return the candidates after some steps; if time runs out, those that are done, and at least one."""
    done: list[Candidate] = []
    for candidate in candidates:
        try:
            done.append(candidate.after(formulation, X, steps))
        except OutOfTime:
            return done or [candidate]
    return done


def _objective(candidate: Candidate) -> float:
    return candidate.objective
