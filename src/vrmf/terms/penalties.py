"""Regularisers with a closed-form prox that need no data of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vrmf.arrays import Array, row_norms, within
from vrmf.checks import real_number
from vrmf.terms.base import AbstractRowTerm, AbstractTerm
from vrmf.terms.traits import Canonical, Trait


@dataclass(frozen=True)
class Free(AbstractRowTerm):
    """No penalty and no constraint: f = 0.

    >>> Free().value(np.ones((2, 3)))
    0.0
    """

    traits: ClassVar[frozenset[Trait]] = frozenset(
        {
            Trait.ENTRYWISE,
            Trait.INTERVAL,
            Trait.HOMOGENEOUS,
            Trait.RADIAL,
            Trait.RIDGE,
            Trait.QUADRATIC,
            Trait.ROTATABLE,
        }
    )
    smoothness = 0.0
    canonical = Canonical()

    def row_values(self, Z: Array) -> Array:
        return np.zeros(len(Z))

    def prox(self, Z: Array, step: float) -> Array:
        return Z.copy()


@dataclass(frozen=True)
class L1(AbstractRowTerm):
    """The weighted ℓ₁ norm, f(z) = weight · Σⱼ |zⱼ|: sparsity of entries.

    Its prox is the soft threshold, sign(z) · max(|z| − step · weight, 0).

    Parameters
    ----------
    weight : float
        At least 0.

    Examples
    --------
    >>> L1(0.5).prox(np.array([[2.0, -0.25]]), step=2.0)
    array([[1., 0.]])
    """

    weight: float

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ENTRYWISE, Trait.HOMOGENEOUS})

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", real_number("weight", self.weight, low=0))

    @property
    def canonical(self) -> Canonical:  # type: ignore[override]
        return Canonical(slope=self.weight)

    def row_values(self, Z: Array) -> Array:
        return np.asarray(np.sum(np.abs(Z), axis=1, dtype=np.float64) * self.weight)

    def prox(self, Z: Array, step: float) -> Array:
        threshold = within(float(step) * self.weight, Z.dtype)
        # What is clipped away is the entry itself below the threshold, so zeros are exact.
        return Z - np.minimum(np.maximum(Z, -threshold), threshold)

    def envelope_gradient(self, Z: Array) -> Array:
        weight = within(self.weight, Z.dtype)
        return np.minimum(np.maximum(Z, -weight), weight)


@dataclass(frozen=True)
class Ridge(AbstractRowTerm):
    """Half the weighted squared norm, f(z) = (weight / 2) · ‖z‖².

    Its prox is the scaling z / (1 + step · weight).

    Parameters
    ----------
    weight : float
        At least 0.

    Examples
    --------
    >>> Ridge(1.0).prox(np.array([[2.0, -4.0]]), step=1.0)
    array([[ 1., -2.]])
    """

    weight: float

    traits: ClassVar[frozenset[Trait]] = frozenset(
        {Trait.ENTRYWISE, Trait.RADIAL, Trait.RIDGE, Trait.QUADRATIC, Trait.ROTATABLE}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", real_number("weight", self.weight, low=0))

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return self.weight

    @property
    def canonical(self) -> Canonical:  # type: ignore[override]
        return Canonical(ridge=self.weight)

    def row_values(self, Z: Array) -> Array:
        return 0.5 * self.weight * np.einsum("ij,ij->i", Z, Z, dtype=np.float64)

    def prox(self, Z: Array, step: float) -> Array:
        return Z / within(1 + float(step) * self.weight, Z.dtype)

    def envelope_gradient(self, Z: Array) -> Array:
        return Z * (self.weight / (1 + self.weight))


@dataclass(frozen=True)
class MaxColumnNorm(AbstractTerm):
    """Half the weighted square of the largest column norm, f(Z) = (weight / 2) · maxⱼ ‖Z[:, j]‖².

    For a dictionary (k, d) the columns are features, so this is the ‖·‖²_{2,∞} of the max-norm
    decomposition. The prox shortens every column that is longer than q to length q, where q is
    the root of step · weight · q = Σⱼ max(‖Z[:, j]‖ − q, 0), found by sorting the norms.

    Parameters
    ----------
    weight : float
        At least 0.

    Examples
    --------
    >>> MaxColumnNorm(1.0).prox(np.array([[4.0, 1.0]]), step=1.0)
    array([[2., 1.]])
    """

    weight: float

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ROTATABLE})

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", real_number("weight", self.weight, low=0))

    def value(self, Z: Array) -> float:
        squares = np.einsum("ij,ij->j", Z, Z, dtype=np.float64)
        return 0.5 * self.weight * float(np.max(squares, initial=0.0))

    def prox(self, Z: Array, step: float) -> Array:
        norms = row_norms(Z.T)
        descending = np.sort(norms)[::-1]
        # If the m longest columns are shortened, their common length is Σ / (m + step · weight);
        # the right m is the last one whose shortest member is still longer than that.
        counts = np.arange(1, len(norms) + 1, dtype=np.float64)
        lengths = np.cumsum(descending, dtype=np.float64) / (counts + float(step) * self.weight)
        shortened = np.flatnonzero(descending > lengths)
        if len(shortened) == 0:
            return Z.copy()
        length = lengths[shortened[-1]]
        shrink = np.where(norms > length, length / np.where(norms > 0, norms, 1), 1)
        return Z * shrink.astype(Z.dtype)
