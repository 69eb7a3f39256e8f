"""What every inner solver takes and gives back."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vrmf.terms.base import Array


@dataclass(frozen=True, eq=False)
class Atoms:
    """A dictionary with what inner solvers derive from it, computed once for all rows."""

    D: Array

    @functools.cached_property
    def gram(self) -> Array:
        """D Dᵀ, shape (k, k)."""
        return self.D @ self.D.T

    @functools.cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues (ascending) and eigenvectors of the Gram matrix."""
        values, vectors = scipy.linalg.eigh(self.gram)
        return values, vectors

    @property
    def squared_norm(self) -> float:
        """‖D‖₂², the Lipschitz constant of the code problem's gradient; 1 for a zero dictionary."""
        largest = float(self.spectrum[0][-1])
        return largest if largest > 0 else 1.0

    @property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of the Gram matrix."""
        return max(float(self.spectrum[0][0]), 0.0)


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes of some rows, with what is known of their quality.

    ``error`` is a bound on the distance of 0 to the subdifferential of the code problem at each
    code, divided by ‖x − prox(x)‖·‖D‖₂, the scale of its gradient at zero: 0 is exact.
    """

    H: Array
    error: Array
    iterations: Array
    finished: Array  #: whether the error is below the tolerance, or as small as rounding allows

    @classmethod
    def given(cls, H: Array) -> Codes:
        """Return codes that are known already, and cost nothing."""
        n = len(H)
        return cls(H, np.zeros(n), np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool))


def error_scale(atoms: Atoms, envelope: Array) -> Array:
    """Return the unit in which the error of each row's code is told, never 0."""
    squares = np.einsum("ij,ij->i", envelope, envelope, dtype=np.float64)
    scale = np.sqrt(squares) * atoms.squared_norm**0.5
    return np.where(scale > 0, scale, 1)
