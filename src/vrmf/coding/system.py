"""The quadratic part of a code problem: its matrix, and inverses of it."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from vrmf.arrays import Array
from vrmf.coding.base import Atoms
from vrmf.compiled import compiled


class System:
    """A = D Dᵀ + ridge · I, the Hessian of ½‖x − hD‖² + (ridge/2)‖h‖², and what derives from it."""

    def __init__(self, atoms: Atoms, ridge: float) -> None:
        self.A: Array = shifted(atoms.gram, ridge) if ridge else atoms.gram
        self.bound = float(_largest_row(self.A)) or 1.0  #: on the largest eigenvalue of A, never 0
        self.rank = len(self.A) if ridge else min(atoms.D.shape)  #: a bound on the rank of A
        self._once, self._ridge = atoms.once, ridge

    @classmethod
    def of(cls, atoms: Atoms, ridge: float) -> System:
        """Return the system of the dictionary, computed once."""
        return atoms.once(("system", ridge), lambda: cls(atoms, ridge))

    @property
    def tiny(self) -> float:
        """The share of its diagonal below which a pivot of A is nothing but rounding."""
        return 64 * len(self.A) * self._eps

    @property
    def inverse(self) -> Array | None:
        """A⁻¹, or None where A is too ill-conditioned for it to be of use."""
        return self._factorised[0]

    @property
    def curvature(self) -> float:
        """A typical eigenvalue of A, at which splitting is fastest on the average."""
        return self._factorised[1]

    @property
    def first_inverse(self) -> Array:
        """(A + curvature · I)⁻¹, with which the splitting of every block of rows begins."""
        shift = np.full(len(self.A), self.curvature)
        return self._once(("first inverse", self._ridge), lambda: self.shifted_inverse(shift))

    def shifted_inverse(self, shift: Array) -> Array:
        """Return (A + diag(shift))⁻¹."""
        matrix = shifted(self.A, shift)
        inverse = _inverse(matrix)[0]
        return np.linalg.pinv(matrix) if inverse is None else inverse

    @property
    def _eps(self) -> float:
        return float(np.finfo(self.A.dtype).eps)

    @property
    def _factorised(self) -> tuple[Array | None, float]:
        return self._once(("inverse", self._ridge), self._factorise)

    def _factorise(self) -> tuple[Array | None, float]:
        mean = float(np.mean(np.diagonal(self.A), dtype=np.float64)) or 1.0
        inverse, factor = _inverse(self.A)
        # Newton steps correct errors of the last ones, so an inverse with a digit or two is good enough.
        if inverse is not None and self.bound * _largest_row(inverse) > 0.05 / self._eps:
            inverse = None
        if factor is None:  # singular: the null space gets a thousandth of the curvature
            factor = _inverse(shifted(self.A, 1e-3 * mean))[1]
        pivots = np.diagonal(factor) if factor is not None else np.full(len(self.A), mean**0.5)
        geometric = float(np.exp(2 * np.mean(np.log(pivots, dtype=np.float64))))
        curvature = mean**0.5 * max(geometric, 1e-4 * mean) ** 0.5
        return inverse, max(curvature, 1e3 * self._eps * self.bound)


def shifted(A: Array, shift: float | Array) -> Array:
    """Return A with ``shift`` added to its diagonal."""
    B = A.copy()
    B[np.diag_indices(len(B))] += np.asarray(shift, A.dtype)
    return B


def _inverse(A: Array) -> tuple[Array | None, Array | None]:
    """Return the inverse of a positive definite matrix and its lower Cholesky factor, or None twice."""
    potrf, potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), (A,))
    factor, failed = potrf(A, lower=True, clean=True)
    if failed:
        return None, None
    half = potri(factor, lower=True)[0]
    return _mirrored(half), factor


@compiled
def _largest_row(A: Array) -> float:
    """Return the largest sum of absolute values in a row, a bound on the eigenvalues of symmetric A."""
    largest = 0.0
    for i in range(len(A)):
        total = 0.0
        for j in range(A.shape[1]):
            total += abs(A[i, j])
        largest = max(largest, total)
    return largest


@compiled
def _mirrored(half: Array) -> Array:
    """Return the symmetric matrix of which the lower triangle is given."""
    k = len(half)
    whole = np.empty((k, k), half.dtype)
    for i in range(k):
        for j in range(i + 1):
            whole[i, j] = whole[j, i] = half[i, j]
    return whole
