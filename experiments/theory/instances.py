"""Small problems on which the theory is checked: the eight formulations over digits, without a download.

>>> sorted(MAKERS) == [f"P{number}" for number in range(1, 9)]
True
>>> problem = small_problem("P5", n_samples=50)
>>> problem.n_samples, start(problem, n_atoms=4).shape
(50, (4, 64))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits

from vrmf import formulations
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import as_source
from vrmf.terms import grid_laplacian

#: What the formulations are called, with the paper's numbers.
NAMES = {
    "P1": "P1 dictionary learning",
    "P2": "P2 group dictionary learning",
    "P3": "P3 NMF",
    "P4": "P4 smooth dictionary learning",
    "P5": "P5 robust PCA",
    "P6": "P6 max-norm decomposition",
    "P7": "P7 low-rank representation",
    "P8": "P8 robust NMF",
}

#: Formulations whose loss need not be strongly convex in (h, r) together: assumption (A4) fails.
NOT_STRONGLY_CONVEX = ("P1", "P2", "P6", "P8")

#: Codes as exact as double precision allows, since small differences are measured.
FINEST_CODER = Coder(tol=1e-10)

N_ATOMS = 8
GROUPS = [[2 * pair, 2 * pair + 1] for pair in range(N_ATOMS // 2)]
GROUP_WEIGHTS = [0.2] * len(GROUPS)


def _low_rank(X: Array) -> Formulation:
    penalty = formulations.basis_penalty(X[:: max(1, len(X) // 20)], 1.0, len(X))
    return formulations.low_rank_representation(0.3, 0.1, penalty)


#: Each formulation with weights for rows of digits, with N_ATOMS atoms where it has groups.
MAKERS: dict[str, Callable[[Array], Formulation]] = {
    "P1": lambda X: formulations.dictionary_learning(0.1),
    "P2": lambda X: formulations.group_dictionary_learning(GROUPS, GROUP_WEIGHTS),
    "P3": lambda X: formulations.nonnegative(0.01),
    "P4": lambda X: formulations.smooth_dictionary_learning(0.05, 0.1, grid_laplacian(8, 8)),
    "P5": lambda X: formulations.robust_pca(0.1, 0.1, len(X)),
    "P6": lambda X: formulations.max_norm_decomposition(0.1, 0.1, len(X)),
    "P7": _low_rank,
    "P8": lambda X: formulations.robust_nmf(0.1, max_code=10.0, max_outlier=1.0),
}


def digits(n_samples: int, corrupted: bool = False) -> Array:
    """Return rows of 8×8 digits in [0, 1], if ``corrupted`` with one pixel in ten moved by up to 1."""
    rng = np.random.default_rng(0)
    X = load_digits().data[:n_samples] / 16.0
    if not corrupted:
        return X
    return X + np.where(rng.random(X.shape) < 0.1, rng.uniform(-1, 1, size=X.shape), 0)


def small_problem(name: str, n_samples: int) -> Problem:
    """Return a formulation over digits, corrupted if it has outliers."""
    X = digits(n_samples, corrupted=name in ("P5", "P6", "P7", "P8"))
    # On so few rows a second thread would cost more time than it saves.
    return Problem(MAKERS[name](X), as_source(X, n_jobs=1))


def rows_of(problem: Problem) -> Array:
    """Return all rows of a small problem."""
    return problem.source.rows(np.arange(problem.n_samples))


def start(problem: Problem, n_atoms: int = N_ATOMS, seed: int = 0) -> Array:
    """Return atoms along random rows, a little perturbed so that they are in general position."""
    rng, X = np.random.default_rng(seed), rows_of(problem)
    chosen = X[rng.choice(len(X), n_atoms, replace=False)]
    return atoms_from_rows(problem.formulation, chosen + 0.05 * rng.random(chosen.shape))
