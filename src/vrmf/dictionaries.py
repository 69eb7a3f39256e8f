"""Dictionaries that a formulation allows: the nearest one, atoms along rows, new atoms for unused ones."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.formulations import Formulation
from vrmf.stats import WorstRows
from vrmf.terms import Simplex
from vrmf.terms.base import AbstractSet
from vrmf.terms.sums import parts_of


def feasible(formulation: Formulation, D: Array) -> Array:
    """Return D if its value is finite, else the nearest dictionary where it is."""
    if np.isfinite(formulation.dictionary.value(D)):
        return D
    sets = [part for part in parts_of(formulation.dictionary) if isinstance(part, AbstractSet)]
    if len(sets) == 1:
        return sets[0].prox(D, 1.0)
    # As the step goes to 0, the prox of sets plus a finite penalty goes to the projection.
    return formulation.dictionary.prox(D, 1e-14)


def atoms_from_rows(formulation: Formulation, rows: Array, norm: float = 1.0) -> Array:
    """Return feasible atoms that point along rows: of sum 1 in a simplex, else of the given norm."""
    if any(isinstance(part, Simplex) for part in parts_of(formulation.dictionary)):
        size = np.sum(np.maximum(rows, 0), axis=1)
        rows, norm = np.maximum(rows, 0), 1.0
    else:
        size = row_norms(rows)
    return feasible(formulation, rows * (norm / np.where(size > 0, size, 1))[:, None])


def reseed(formulation: Formulation, D: Array, dead: Array, worst: WorstRows) -> Array:
    """Replace dead atoms (a mask) by rows that are explained worst, as far as these go.

    No code uses a dead atom, so no loss can rise by it (a penalty on the dictionary may). New atoms
    are as long as the live ones where the dictionary does not fix their length.
    """
    places = np.flatnonzero(dead)
    if len(places) == 0 or len(worst.rows) == 0 or not formulation.reseeds:
        return D
    # A row may be among the worst twice; equal atoms would stay equal.
    distinct = np.sort(np.unique(worst.rows, axis=0, return_index=True)[1])
    rows = worst.rows[distinct]
    rows = rows[np.any(rows != 0, axis=1)][: len(places)]
    places = places[: len(rows)]
    if len(places) == 0:
        return D
    alive = row_norms(D[~dead])
    norm = float(np.mean(alive)) if np.any(alive > 0) else 1.0
    D = D.copy()
    D[places] = atoms_from_rows(formulation, rows, norm)
    return feasible(formulation, D)
