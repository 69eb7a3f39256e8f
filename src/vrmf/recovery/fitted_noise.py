"""The noise that a fit leaves, and the weight of outliers that suits it."""

from __future__ import annotations

import math

import numpy as np

from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.problem import Problem
from vrmf.recovery.noise import low_rank_noise, noise_level, telling
from vrmf.sources import AbstractSource

#: The smallest weights, as a share of those of clean entries, by precision: there is only rounding below.
ROUNDING = {"float64": 1e-5, "float32": 1e-3}

#: How exact codes are where the rank and the noise are looked at.
LOOK = Coder(tol=1e-5)

#: Rows and features from which the noise is estimated.
NOISE_BLOCK = 512

#: The same for each atom, if that is more.
NOISE_BLOCK_PER_ATOM = 4


def weight_of_noise(noise: float, n: float, d: int) -> float:
    """Return outlier_alpha for which alpha is the norm of a matrix of noise, σ(√n + √d)."""
    return noise * (math.sqrt(n) + math.sqrt(d)) / math.sqrt(max(n, d))


def least_noise(source: AbstractSource, rounding: float, quantum: float) -> float:
    """Return the level of noise below which there is only rounding, of the data or of numbers."""
    unit = weight_of_noise(1.0, source.n_samples, source.n_features)
    return max(rounding / unit, quantum / math.sqrt(12))


def noise_of_fit(problem: Problem, D: Array, least: float) -> float:
    """Return the standard deviation of the noise, at least as given, from residuals of a sample of rows.

    Codes of k atoms take k of the d degrees of freedom of a row.
    """
    X, H, atoms = _fitted_sample(problem, D)
    k, d = D.shape
    return max(noise_level((X - H @ atoms)[telling(X)]) * (d / (d - k) if k < d else 1.0) ** 0.5, least)


def noise_of_low_rank_fit(problem: Problem, D: Array, least: float, enough: float = 0.0) -> float:
    """Return the same for a fit of low rank, which is refined on the sample, and need not be good.

    Below ``enough`` the level is only an upper bound.
    """
    return max(low_rank_noise(*_fitted_sample(problem, D), enough), least)


def _fitted_sample(problem: Problem, D: Array) -> tuple[Array, Array, Array]:
    """Return some entries X of the data, and factors whose product fits them, in double precision."""
    source, count = problem.source, max(NOISE_BLOCK, NOISE_BLOCK_PER_ATOM * len(D))
    X = source.rows(source.layout.spread(count))
    atoms = Atoms(D.astype(X.dtype, copy=False))
    H = problem.formulation.encode(X, atoms, LOOK).H.astype(np.float64, copy=False)
    features = np.arange(0, X.shape[1], -(-X.shape[1] // count))
    return X[:, features].astype(np.float64), H, atoms.D[:, features].astype(np.float64)
