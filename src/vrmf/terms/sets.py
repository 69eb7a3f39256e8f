"""Convex sets of rows; the prox of each is the Euclidean projection, whatever the step."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.terms.base import AbstractSet
from vrmf.terms.traits import Canonical, Trait


@dataclass(frozen=True)
class NonNegative(AbstractSet):
    """Rows without negative entries.

    >>> NonNegative().prox(np.array([[-1.0, 2.0]]), 1.0)
    array([[0., 2.]])
    """

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ENTRYWISE, Trait.INTERVAL, Trait.HOMOGENEOUS})
    canonical = Canonical(low=0.0)

    def violation(self, Z: Array) -> Array:
        return np.max(-Z, axis=1, initial=0.0)

    def prox(self, Z: Array, step: float) -> Array:
        return np.maximum(Z, 0)


@dataclass(frozen=True)
class Box(AbstractSet):
    """Rows whose entries lie in the interval [low, high].

    Parameters
    ----------
    low, high : float
        The ends; either may be infinite.

    Examples
    --------
    >>> Box(0.0, 1.0).prox(np.array([[-1.0, 0.5, 3.0]]), 1.0)
    array([[0. , 0.5, 1. ]])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = getattr(self, name)
            if not isinstance(end, Real) or isinstance(end, bool):
                raise ValueError(f"`{name}` is {end!r}. Use a number.")
        low, high = float(self.low), float(self.high)
        if not low <= high or low == np.inf or high == -np.inf:
            raise ValueError(
                f"`low` is {self.low!r} and `high` is {self.high!r}. Use low ≤ high with a number between."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def traits(self) -> frozenset[Trait]:  # type: ignore[override]
        cone = {self.low, self.high} <= {-np.inf, 0.0, np.inf}
        both = {Trait.ENTRYWISE, Trait.INTERVAL}
        return frozenset(both | {Trait.HOMOGENEOUS}) if cone else frozenset(both)

    @property
    def canonical(self) -> Canonical:  # type: ignore[override]
        return Canonical(low=self.low, high=self.high)

    def violation(self, Z: Array) -> Array:
        below = np.max(self.low - Z, axis=1, initial=0.0)
        above = np.max(Z - self.high, axis=1, initial=0.0)
        return np.maximum(below, above)

    def prox(self, Z: Array, step: float) -> Array:
        return np.clip(Z, self.low, self.high)


@dataclass(frozen=True)
class UnitBall(AbstractSet):
    """Rows of Euclidean norm at most 1.

    >>> UnitBall().prox(np.array([[3.0, 4.0]]), 1.0)
    array([[0.6, 0.8]])
    """

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.RADIAL})
    canonical = Canonical(in_ball=True)

    def violation(self, Z: Array) -> Array:
        return np.maximum(row_norms(Z) - 1, 0)

    def prox(self, Z: Array, step: float) -> Array:
        return Z / np.maximum(row_norms(Z), 1)[:, None]


@dataclass(frozen=True)
class Simplex(AbstractSet):
    """Rows without negative entries that sum to 1.

    The projection subtracts one threshold from all entries and clips at 0; the threshold is found
    by sorting [1]_.

    References
    ----------
    .. [1] M. Held, P. Wolfe, H. Crowder, "Validation of subgradient optimization", Mathematical
       Programming 6 (1974).

    Examples
    --------
    >>> Simplex().prox(np.array([[1.0, 0.5, -1.0]]), 1.0)
    array([[0.75, 0.25, 0.  ]])
    """

    def violation(self, Z: Array) -> Array:
        excess = np.abs(np.sum(Z, axis=1, dtype=np.float64) - 1)
        return np.maximum(np.max(-Z, axis=1, initial=0.0), excess)

    def prox(self, Z: Array, step: float) -> Array:
        # Shifting a row does not change its projection, and then huge entries do not hide the 1.
        shifted = Z - np.max(Z, axis=1, keepdims=True)
        descending = -np.sort(-shifted, axis=1)
        excess = np.cumsum(descending, axis=1, dtype=np.float64) - 1
        counts = np.arange(1, Z.shape[1] + 1)
        support = np.sum(descending * counts > excess, axis=1)
        threshold = np.take_along_axis(excess, support[:, None] - 1, axis=1) / support[:, None]
        return np.maximum(shifted - threshold, 0).astype(Z.dtype, copy=False)


@dataclass(frozen=True)
class Absent(AbstractSet):
    """Only the zero row: a formulation without outliers has this as its outlier term.

    >>> Absent().prox(np.ones((1, 2)), 1.0)
    array([[0., 0.]])
    """

    traits: ClassVar[frozenset[Trait]] = frozenset(
        {Trait.ENTRYWISE, Trait.INTERVAL, Trait.HOMOGENEOUS, Trait.RADIAL}
    )

    def violation(self, Z: Array) -> Array:
        return np.max(np.abs(Z), axis=1, initial=0.0)

    def prox(self, Z: Array, step: float) -> Array:
        return np.zeros_like(Z)
