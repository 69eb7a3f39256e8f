"""How much of the variance of some rows a model explains: sums that add up over blocks and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.estimators.quality import CodeQuality


@dataclass(frozen=True, eq=False)
class Moments:
    """The mean of some rows and their squared distances from it, which merge without cancellation.

    >>> X = 1e8 + np.arange(10.0)[:, None]
    >>> (Moments.of(X[:3]) + Moments.of(X[3:])).squares
    82.5
    """

    count: int
    mean: Array
    squares: float  #: Σ ‖x − mean‖²

    @classmethod
    def of(cls, X: Array) -> Moments:
        """Return the moments of a block of rows."""
        mean = np.asarray(np.mean(X, axis=0, dtype=np.float64))
        return cls(len(X), mean, float(np.sum(np.square(X - mean))))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        shift = other.mean - self.mean
        apart = self.count * other.count / count * float(np.sum(np.square(shift)))
        mean = self.mean + shift * (other.count / count)
        return Moments(count, mean, self.squares + other.squares + apart)


@dataclass(frozen=True, eq=False)
class Explained:
    """The residual of some rows, their moments, and the quality of their codes."""

    residual: float  #: Σ ‖x − hD − r‖²
    moments: Moments
    quality: CodeQuality

    def __add__(self, other: Explained) -> Explained:
        return Explained(
            self.residual + other.residual,
            self.moments + other.moments,
            self.quality + other.quality,
        )

    def ratio(self, dtype: np.dtype[Any]) -> float:
        """Return 1 − residual / variance; for rows that are all equal, 1 if nothing is left, else 0."""
        variance = self.moments.squares
        size = self.moments.count * float(np.sum(np.square(self.moments.mean)))
        if variance > (8 * np.finfo(np.float64).eps) ** 2 * size:
            return 1 - self.residual / variance
        return 1.0 if self.residual <= (64 * float(np.finfo(dtype).eps)) ** 2 * size else 0.0
