"""The twelve problems on which solvers are compared: the paper's eight panels, and P2, P4, P6, P7.

Weights are the paper's, 1/√d, where it gives them. MNIST and Synth have n = 10 000 rows here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.common import Array, cbcl, synth, yaleb
from experiments.paper.panels import ATOMS, MODELS, PANELS, Case, Size
from vrmf import formulations
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import as_source
from vrmf.terms import grid_laplacian

ROWS = 10_000


def case(model: Formulation, X: Array, reach: float = np.inf) -> Case:
    """Return the problem of a formulation over rows, started at random rows clipped to ±reach."""
    return Case("", Problem(model, as_source(X)), X, reach)


def orpca(X: Array, reach: float) -> Case:
    """Return the paper's ORPCA of given rows."""
    return case(MODELS["ORPCA"](X), X, reach)


def ornmf(X: Array, reach: float) -> Case:
    """Return the paper's ORNMF of given rows."""
    return case(MODELS["ORNMF"](X), X, reach)


@dataclass(frozen=True, eq=False)
class Doubled(Case):
    """A case that starts at twice the rows, since codes are at most of norm 1."""

    def start(self, seed: int = 0, n_components: int = ATOMS) -> Array:
        return 2 * super().start(seed, n_components)


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
    return Doubled("", Problem(model, as_source(X)), X, np.inf)


def _low_rank() -> Case:
    X = synth(ROWS, size=10.0)[0]
    weight, order = X.shape[1] ** -0.5, np.random.default_rng(99).permutation(len(X))
    penalty = formulations.basis_penalty(np.clip(X[order[:200]], -5.0, 5.0), 100.0, len(X))
    return case(formulations.low_rank_representation(weight, weight, penalty), X, 5.0)


CASES: dict[str, Callable[[], Case]] = {
    panel.name: partial(panel.load, Size(synth_rows=ROWS, most_rows=ROWS)) for panel in PANELS
} | {
    "P2 CBCL": _groups,
    "P4 CBCL": _smooth,
    "P6 Yale B": _max_norm,
    "P7 Synth": _low_rank,
}

__all__ = ["ATOMS", "CASES", "Case", "case", "ornmf", "orpca"]
