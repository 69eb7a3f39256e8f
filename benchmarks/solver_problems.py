"""The twelve problems on which solvers are compared: the paper's eight panels, and P2, P4, P6, P7.

Weights are the paper's, 1/√d, where it gives them. MNIST and Synth have n = 10 000 rows here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from common import Array, cbcl, mnist, synth, yaleb

from vrmf import formulations
from vrmf.formulations import Formulation
from vrmf.problem import Problem, atoms_from_rows
from vrmf.sources import as_source
from vrmf.terms import grid_laplacian

ROWS = 10_000
ATOMS = 49


class Case(NamedTuple):
    """A problem with a start for each seed."""

    problem: Problem
    start: Callable[[int], Array]


def case(model: Formulation, X: Array, atoms: Callable[[Array], Array] | None = None) -> Case:
    """Return the problem of a formulation over rows, started at random rows of the data."""
    shape = atoms or (lambda rows: atoms_from_rows(model, rows))
    return Case(
        Problem(model, as_source(X)), lambda seed: np.ascontiguousarray(shape(_rows(X, ATOMS, seed)))
    )


def _rows(X: Array, count: int, seed: int) -> Array:
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order[np.any(X[order] != 0, axis=1)][:count]]


def _odl(X: Array) -> Case:
    return case(formulations.dictionary_learning(X.shape[1] ** -0.5), X)


def _onmf(X: Array) -> Case:
    return case(formulations.nonnegative(X.shape[1] ** -0.5), X)


def orpca(X: Array, reach: float) -> Case:
    weight = X.shape[1] ** -0.5
    return case(formulations.robust_pca(weight, weight, len(X)), X, lambda rows: _clipped(rows, reach))


def ornmf(X: Array, reach: float) -> Case:
    # The paper leaves M and M' open: codes up to 100, outliers as large as the data.
    model = formulations.robust_nmf(X.shape[1] ** -0.5, 100.0, float(np.max(np.abs(X))))
    return case(model, X, lambda rows: atoms_from_rows(model, _clipped(rows, reach)))


def _clipped(rows: Array, reach: float) -> Array:
    """Return the rows without the outliers that would be the whole of an atom."""
    return np.clip(rows, -reach, reach)


def _groups() -> Case:
    groups = [list(range(i, i + 7)) for i in range(0, ATOMS, 7)]
    X = cbcl()
    model = formulations.group_dictionary_learning(groups, [7**0.5 * X.shape[1] ** -0.5] * 7)
    return case(model, X)


def _smooth() -> Case:
    X = cbcl()
    return case(
        formulations.smooth_dictionary_learning(X.shape[1] ** -0.5, 10.0, grid_laplacian(19, 19)), X
    )


def _max_norm() -> Case:
    X = yaleb()
    weight = X.shape[1] ** -0.5
    model = formulations.max_norm_decomposition(0.01 * len(X) / weight, weight, len(X))
    return case(model, X, lambda rows: rows * 2)


def _low_rank() -> Case:
    X = synth(ROWS, size=10.0)[0]
    weight = X.shape[1] ** -0.5
    penalty = formulations.basis_penalty(_clipped(_rows(X, 200, 99), 5.0), 100.0, len(X))
    model = formulations.low_rank_representation(weight, weight, penalty)
    return case(model, X, lambda rows: _clipped(rows, 5.0))


CASES: dict[str, Callable[[], Case]] = {
    "ODL CBCL": lambda: _odl(cbcl()),
    "ODL MNIST": lambda: _odl(mnist(ROWS)),
    "ONMF CBCL": lambda: _onmf(cbcl()),
    "ONMF MNIST": lambda: _onmf(mnist(ROWS)),
    "ORPCA Synth": lambda: orpca(synth(ROWS)[0], 5.0),
    "ORPCA Yale B": lambda: orpca(yaleb(), 1.0),
    "ORNMF Synth": lambda: ornmf(synth(ROWS)[0], 5.0),
    "ORNMF Yale B": lambda: ornmf(yaleb(), 1.0),
    "P2 CBCL": _groups,
    "P4 CBCL": _smooth,
    "P6 Yale B": _max_norm,
    "P7 Synth": _low_rank,
}

__all__ = ["ATOMS", "CASES", "Case", "case"]
