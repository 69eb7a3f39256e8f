"""What the tests of estimators share: their table, small data and small settings.

A new estimator joins every law by its line in ``vrmf.estimators.ESTIMATORS``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from vrmf.arrays import Array
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.solvers import SOLVERS

NAMES = tuple(ESTIMATORS)
EIGHT = tuple(name for name in NAMES if name != "matrix-factorization")  #: those of the paper
WITH_OUTLIERS = ("robust-pca", "max-norm-decomposition", "low-rank-representation", "robust-nmf")
ROTATING = ("robust-pca", "max-norm-decomposition", "low-rank-representation")
CENTERING = tuple(name for name in NAMES if not ESTIMATORS[name]._nonnegative)
WITH_ALPHA = tuple(name for name in NAMES if hasattr(ESTIMATORS[name], "alpha"))

#: Weights for :func:`rows`, of models whose automatic ones follow the noise.
GIVEN: dict[str, dict[str, Any]] = {
    "robust-pca": {"alpha": 0.7, "outlier_alpha": 0.3},
    "max-norm-decomposition": {"alpha": 0.6, "outlier_alpha": 0.3},
    "low-rank-representation": {"alpha": 1700.0, "outlier_alpha": 0.3},
    "robust-nmf": {"outlier_alpha": 0.3},
}

every_estimator = pytest.mark.parametrize("name", NAMES)
every_solver = pytest.mark.parametrize("solver", tuple(SOLVERS))

#: With dependent atoms and outliers a code may miss the tolerance, which is a warning.
codes_may_stop_short = pytest.mark.filterwarnings(
    "ignore:.*codes stopped:sklearn.exceptions.ConvergenceWarning"
)


def make(name: str, **options: Any) -> AbstractFactorizer:
    """Return an estimator with small settings, which run the whole budget without a warning.

    It starts from random rows: the default would leave two epochs on a few rows little to do. Models with
    outliers have weights that are given, so that their fit is one problem; laws of paths are in
    test_recovery.py.
    """
    small: dict[str, Any] = GIVEN.get(name, {}) | {
        "n_components": 3,
        "max_iter": 2,
        "tol": 0,
        "random_state": 0,
        "n_jobs": 1,
        "init": "data",
    }
    return ESTIMATORS[name](**(small | options))


def automatic(name: str, **options: Any) -> AbstractFactorizer:
    """Return the same with automatic weights, which follow the data."""
    return make(name, **({weight: "auto" for weight in GIVEN.get(name, {})} | options))


@functools.cache
def fitted(name: str, solver: str = "vr", max_iter: int = 2) -> AbstractFactorizer:
    """Return the small model of :func:`rows` with outliers, which is shared: tests must not change it."""
    return make(name, solver=solver, max_iter=max_iter).fit(corrupted(rows()))


def rows(n: int = 24, d: int = 6, rank: int = 3, seed: int = 0) -> Array:
    """Return nonnegative rows near a subspace, which suit every estimator."""
    rng = np.random.default_rng([seed, n, d, rank])
    return rng.gamma(1.0, size=(n, rank)) @ rng.random((rank, d)) + 0.05 * rng.random((n, d))


def corrupted(X: Array, share: float = 0.1, size: float = 5.0, seed: int = 1) -> Array:
    """Return the rows with a share of their entries far off, upwards."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < share, X + size, X)


def first_dictionary(model: AbstractFactorizer, X: Any) -> Array:
    """Return the dictionary with which a fit begins."""
    return next(iter(model.iterate(X))).D


def cosines(A: Array, B: Array) -> Array:
    """Return the cosine of the angle between each row of A and each row of B."""
    return (A @ B.T) / np.linalg.norm(A, axis=1)[:, None] / np.linalg.norm(B, axis=1)


def stream_of(model: AbstractFactorizer) -> Any:
    """Return what a stream has learned so far, from which the next batch goes on."""
    assert model.stream_ is not None
    return model.stream_
