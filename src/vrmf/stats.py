"""Sums over rows: everything that a solver learns from data.

>>> import numpy as np
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.coding import Atoms, Coder
>>> P1, X, D = dictionary_learning(alpha=0.1), np.ones((4, 3)), np.eye(3)[:2]
>>> part = lambda rows: P1.stats(rows, Atoms(D), P1.encode(rows, Atoms(D), Coder()))
>>> (part(X[:1]) + part(X[1:])).count
4
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.lazily import computed_once


@dataclass(frozen=True, eq=False)
class Stats:
    """Sums over rows, for one dictionary D; they add up over chunks, threads and machines.

    Division by the count happens in the properties and nowhere else.
    """

    gram: Array  #: Σ hᵀh, shape (k, k)
    slope: Array  #: Σ hᵀ(hD + r − x), shape (k, d): the gradient, by Danskin's theorem
    loss: float  #: Σ ℓ(x, D)
    outlier_loss: float  #: Σ ϕ(r), the part of the loss that grows with the size of outliers
    residual: float  #: Σ ‖x − hD − r‖²
    energy: float  #: Σ ‖x‖²
    count: int  #: number of rows
    used: Array  #: in how many codes each atom takes part, shape (k,)
    noise: float  #: Σ ‖gradient of one row‖²
    sensitivity: float  #: Σ of how strongly the slope reacts to the relative error of a code
    code_error: float  #: the largest relative error of a code
    unfinished: int  #: number of codes that stopped short
    iterations: int  #: iterations spent on the codes
    worst: WorstRows  #: the rows that are explained worst

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            gram=self.gram + other.gram,
            slope=self.slope + other.slope,
            loss=self.loss + other.loss,
            outlier_loss=self.outlier_loss + other.outlier_loss,
            residual=self.residual + other.residual,
            energy=self.energy + other.energy,
            count=self.count + other.count,
            used=self.used + other.used,
            noise=self.noise + other.noise,
            sensitivity=self.sensitivity + other.sensitivity,
            code_error=max(self.code_error, other.code_error),
            unfinished=self.unfinished + other.unfinished,
            iterations=self.iterations + other.iterations,
            worst=self.worst + other.worst,
        )

    @property
    def mean_loss(self) -> float:
        """The mean of ℓ(x, D)."""
        return self.loss / self.count

    @property
    def reconstruction_error(self) -> float:
        """‖X − HD − R‖ / ‖X‖ in the Frobenius norm; 0 where nothing is left of X, be it zero or not."""
        if self.residual == 0:
            return 0.0
        return math.sqrt(self.residual / self.energy) if self.energy > 0 else math.inf

    @property
    def gradient(self) -> Array:
        """The gradient of the mean loss."""
        return self.slope / self.count

    def cross(self, D: Array) -> Array:
        """Return Σ hᵀ(x − r) for the dictionary of these sums: gram · D − slope, by its definition."""
        return self.gram @ D - self.slope

    @property
    def curvature(self) -> Array:
        """A = mean of hᵀh: g(D′) ≤ g(D) + ⟨∇g, D′ − D⟩ + ½ tr((D′ − D)ᵀ A (D′ − D))."""
        return self.gram / self.count

    @computed_once
    def largest_curvature(self) -> float:
        """λ_max(A): its inverse is a step of certain descent. 1 if all codes are zero."""
        largest = float(scipy.linalg.eigvalsh(self.curvature)[-1])
        return largest if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class WorstRows:
    """The few rows with the largest residuals, worst first, freed of their outliers."""

    scores: Array  #: ‖x − r − hD‖², shape (few,)
    rows: Array  #: x − r, shape (few, d)

    #: How many rows are kept.
    LIMIT = 8

    @classmethod
    def among(cls, scores: Array, rows: Block, outliers: Array | None = None) -> WorstRows:
        """Pick the worst of the rows that have a score, the first ones, and free them of their outliers."""
        order = np.argsort(-scores, kind="stable")[: cls.LIMIT]
        worst = rows.take(order).dense
        return cls(scores[order], worst if outliers is None else worst - outliers[order])

    def __add__(self, other: WorstRows) -> WorstRows:
        scores = np.concatenate([self.scores, other.scores])
        return WorstRows.among(scores, Block(np.concatenate([self.rows, other.rows])))
