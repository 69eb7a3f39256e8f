"""How many components stand out of the noise, by sign flips.

If X is noise whose entries are independent and symmetric, its largest singular value is like that of X with
random signs. So a component is there if the largest singular value of what the components before leave is
above what random signs give. The size of the noise may differ from row to row and from feature to feature.

>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 50)) + rng.standard_normal((200, 50))
>>> Decomposition.of(X).rank(rng)
3

References
----------
Hong, Sheng and Dobriban, *Selecting the number of components in PCA via random signflips* (2020).
Dobriban and Owen, *Deterministic parallel analysis* (2019), for taking out components one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from vrmf.arrays import Array

#: Matrices of random signs for each test.
FLIPS = 6

#: How many standard deviations of the largest singular value of noise a component must stand out.
CERTAIN = 5.0

#: Singular values below this share of the largest one are rounding errors.
ROUNDING = 1e-7

#: Rounds in which rows and columns of counts are scaled.
SCALING_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The singular value decomposition X = U diag(values) V of a block."""

    X: Array
    U: Array
    values: Array
    V: Array
    scale: float = 0.0  #: the norm of the data before a mean was subtracted, which sets rounding errors

    @classmethod
    def of(cls, X: Array) -> Decomposition:
        """Decompose a block of rows."""
        return cls(X, *np.linalg.svd(X, full_matrices=False))

    @classmethod
    def about_mean(cls, X: Array) -> Decomposition:
        """Decompose a block of rows less their mean."""
        centered = X - np.mean(X, axis=0)
        parts = np.linalg.svd(centered, full_matrices=False)
        return cls(centered, *parts, scale=float(np.linalg.norm(X)))

    @cached_property
    def full_rank(self) -> int:
        """The number of singular values that are no rounding errors."""
        return int(np.sum(self.values > ROUNDING * max(self.values[0], self.scale, 1e-300)))

    def residual(self, count: int) -> Array:
        """Return what the first components leave."""
        return np.asarray(self.X - (self.U[:, :count] * self.values[:count]) @ self.V[:count])

    def stands_out(self, count: int, rng: np.random.Generator) -> bool:
        """Whether there is a component after the first ``count``."""
        if count >= self.full_rank:
            return False
        if count >= min(self.X.shape) - 1:  # nothing is left to compare with
            return False
        return bool(self.values[count] > _edge(self.residual(count), count, rng))

    def rank(self, rng: np.random.Generator) -> int:
        """Return how many components stand out: doubling, then bisection."""
        if not self.stands_out(0, rng):
            return 0
        low, high = 0, 1  # `low` has a component after it
        while self.stands_out(high, rng):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.stands_out(middle, rng) else (low, middle)
        return high

    def gap(self, count: int) -> float:
        """Return the ratio of the last singular value of the first ``count`` to the next one."""
        if count == 0 or count >= len(self.values):
            return 1.0
        return float(self.values[count - 1] / max(self.values[count], ROUNDING * self.values[0], 1e-300))

    def count_for(self, share: float) -> int:
        """Return how many components have so much of the sum of squares."""
        squares = np.cumsum(self.values**2)
        return int(np.searchsorted(squares, share * squares[-1])) + 1


def _edge(E: Array, count: int, rng: np.random.Generator) -> float:
    """Return the singular value above which a component of E, the residual of ``count`` others, stands out.

    The residual lacks ``count`` dimensions of the rows and of the columns, and random signs spread it over
    all dimensions again. The ratio of the norms of matrices of noise of
    both sizes corrects for that.
    """
    norms = [_largest_value(E * rng.choice((-1.0, 1.0), E.shape)) for _ in range(FLIPS)]
    spread = max(_relative_spread(*E.shape) * float(np.mean(norms)), float(np.std(norms)))
    n, d = E.shape
    left_n, left_d = n - count, d - count
    correction = (left_n**-0.5 + left_d**-0.5) / (n**-0.5 + d**-0.5)
    return correction * (float(np.mean(norms)) + CERTAIN * spread)


def _relative_spread(n: int, d: int) -> float:
    """Return the standard deviation of the norm of a matrix of noise over its mean, by Tracy and Widom."""
    return float(0.63 * (n**-0.5 + d**-0.5) ** (1 / 3) / (n**0.5 + d**0.5))


def _largest_value(E: Array) -> float:
    """Return the largest singular value."""
    products = E.T @ E if E.shape[0] >= E.shape[1] else E @ E.T
    last = len(products) - 1
    return float(scipy.linalg.eigvalsh(products, subset_by_index=[last, last])[0]) ** 0.5


def rank_of_counts(X: Array) -> int:
    """Return how many components stand out of the noise of counts, whose variance is their mean.

    Rows and columns are scaled so that the variance of the noise, which the counts themselves estimate, has
    the mean 1 in each row and each column. Then the norm of the noise is √n + √d.

    References
    ----------
    Landa, Zhang and Kluger, *Biwhitening reveals the rank of a count matrix* (2022).

    >>> rng = np.random.default_rng(0)
    >>> rates = rng.gamma(1.0, size=(300, 4)) @ rng.gamma(1.0, size=(4, 80))
    >>> rank_of_counts(rng.poisson(rates))
    4
    """
    X = X[np.sum(X, axis=1) > 0][:, np.sum(X, axis=0) > 0].astype(np.float64)
    n, d = X.shape
    if min(n, d) < 2:
        return min(n, d)
    rows, columns = np.ones(n), np.ones(d)
    for _ in range(SCALING_ROUNDS):
        rows = d / (X @ columns)
        columns = n / (rows @ X)
    values = np.linalg.svd(np.sqrt(rows)[:, None] * X * np.sqrt(columns), compute_uv=False)
    return int(np.sum(values > (n**0.5 + d**0.5) * (1 + CERTAIN * _relative_spread(n, d))))
