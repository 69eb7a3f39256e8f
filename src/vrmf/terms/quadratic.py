"""Quadratic penalties (weight / 2) · tr(Z Q Zᵀ) with a positive semidefinite matrix Q.

>>> import numpy as np
>>> from vrmf.terms import Quadratic, chain_laplacian
>>> smooth = Quadratic(chain_laplacian(3), weight=1.0)
>>> smooth.value(np.array([[1.0, 1.0, 1.0]])), smooth.value(np.array([[0.0, 1.0, 0.0]]))
(0.0, 1.0)
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from vrmf.arrays import Array, within
from vrmf.checks import real_number, whole_number
from vrmf.lazily import computed_once
from vrmf.terms.base import AbstractRowTerm
from vrmf.terms.traits import Trait

#: A sparse I + factor · Q with a larger condition than this is not factorised, since its digits are lost.
MOST_CONDITION = 1e8

#: Columns of a sparse matrix that may be diagonalised.
MOST_DIAGONALISED = 4096


class ArrayFields:
    """Equality and hash by content, for frozen dataclasses that hold arrays."""

    @computed_once
    def _key(self) -> tuple[Any, ...]:
        return (type(self).__name__, *(_frozen(getattr(self, f.name)) for f in fields(self)))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayFields) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _frozen(value: Any) -> Any:
    if scipy.sparse.issparse(value):
        csr = value.tocsr()
        return csr.shape, csr.data.tobytes(), csr.indices.tobytes(), csr.indptr.tobytes()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return value


@dataclass(frozen=True, eq=False)
class Quadratic(ArrayFields, AbstractRowTerm):
    """The penalty f(z) = (weight / 2) · z Q zᵀ for each row z.

    A dense Q is diagonalised once; for a sparse one (a graph's Laplacian), each new step of the
    prox factorises I + step · weight · Q once, and the last few factors are cached. Where step · weight · Q
    is so large that the identity is lost beside it, a sparse Q of up to 4096 columns is diagonalised as
    well: directions in which Q vanishes then stay as they are. With more columns the step is bounded.

    Parameters
    ----------
    matrix : array or scipy.sparse matrix of shape (d, d)
        Q, symmetric and positive semidefinite.
    weight : float
        At least 0.

    Examples
    --------
    >>> Quadratic(np.diag([0.0, 1.0]), 3.0).prox(np.array([[1.0, 4.0]]), step=1.0)
    array([[1., 1.]])
    """

    matrix: Any
    weight: float = 1.0

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.QUADRATIC, Trait.ROTATABLE})

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", real_number("weight", self.weight, low=0))
        object.__setattr__(self, "matrix", _symmetric(self.matrix))
        if not self._is_positive_semidefinite():
            raise ValueError(
                "The matrix of a quadratic penalty (a `laplacian`) has a negative eigenvalue. "
                "Use a positive semidefinite one."
            )

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.matrix.shape[0])

    @computed_once
    def smoothness(self) -> float:
        return self.weight * self._size

    @computed_once
    def _size(self) -> float:
        """A bound on the largest eigenvalue of Q: the largest sum of a row of |Q|."""
        return float(np.max(abs(self.matrix).sum(axis=1), initial=0.0))

    @computed_once
    def _spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of Q, exactly 0 where they are nothing but rounding, and eigenvectors."""
        sparse = scipy.sparse.issparse(self.matrix)
        values, vectors = scipy.linalg.eigh(self.matrix.toarray() if sparse else self.matrix)
        noise = 4 * self.width * float(np.finfo(np.float64).eps) * self._size
        return np.where(np.abs(values) <= noise, 0.0, values), vectors

    def _is_positive_semidefinite(self) -> bool:
        size = self._size
        if size == 0:
            return True
        if not scipy.sparse.issparse(self.matrix):
            return bool(self._spectrum[0][0] >= -1e-9 * size)
        # Without pivoting, the signs of U's diagonal are those of the eigenvalues (Sylvester).
        lifted = self.matrix + 1e-9 * size * scipy.sparse.identity(self.width)
        try:
            return bool(np.all(_factorise(lifted).U.diagonal() > 0))
        except (
            RuntimeError
        ):  # a pivot is exactly zero, so an eigenvalue is negative by as much as we lifted
            return False

    def row_values(self, Z: Array) -> Array:
        return 0.5 * self.weight * np.einsum("ij,ij->i", Z @ self.matrix, Z, dtype=np.float64)

    def prox(self, Z: Array, step: float) -> Array:
        factor, size = within(float(step) * self.weight, np.float64), self._size
        if scipy.sparse.issparse(self.matrix) and (
            factor * size <= MOST_CONDITION or self.width > MOST_DIAGONALISED
        ):
            factor = min(factor, MOST_CONDITION / size) if size else 0.0
            solved = _resolvent(self, factor).solve(np.asarray(Z.T, dtype=np.float64, order="F"))
            return np.ascontiguousarray(solved.T.astype(Z.dtype, copy=False))
        values, vectors = self._spectrum
        with np.errstate(over="ignore"):
            shrunk = (Z @ vectors) / (1 + factor * np.maximum(values, 0))
        return (shrunk @ vectors.T).astype(Z.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class LowRankQuadratic(ArrayFields, AbstractRowTerm):
    """The penalty f(z) = (weight / 2) · z Q zᵀ with Q = V diag(values) Vᵀ + rest · (I − V Vᵀ).

    The columns of V are orthonormal, so the prox costs two products with V and Q is never formed.

    Parameters
    ----------
    vectors : array of shape (d, p)
        V.
    values : array of shape (p,)
        Eigenvalues that belong to V, at least 0.
    rest : float
        The eigenvalue on the orthogonal complement, at least 0.
    weight : float
        At least 0.

    Examples
    --------
    >>> term = LowRankQuadratic(np.array([[1.0], [0.0]]), np.array([3.0]), rest=1.0)
    >>> term.prox(np.array([[4.0, 4.0]]), step=1.0)
    array([[1., 2.]])
    """

    vectors: Array
    values: Array
    rest: float
    weight: float = 1.0

    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.QUADRATIC, Trait.ROTATABLE})

    def __post_init__(self) -> None:
        vectors, values = np.array(self.vectors), np.array(self.values)
        if vectors.ndim != 2 or values.shape != vectors.shape[1:]:
            raise ValueError(
                f"`vectors` has shape {vectors.shape} and `values` {values.shape}. "
                "Use shapes (d, p) and (p,)."
            )
        if not np.allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-8):
            raise ValueError("The columns of `vectors` are not orthonormal. Orthonormalise them.")
        if not np.all(values >= 0):
            raise ValueError(f"`values` has the entry {np.min(values)!r}. Use entries of at least 0.")
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "rest", real_number("rest", self.rest, low=0))
        object.__setattr__(self, "weight", real_number("weight", self.weight, low=0))

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.vectors.shape[0])

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return self.weight * float(np.max(self.values, initial=self.rest))

    def row_values(self, Z: Array) -> Array:
        inside = Z @ self.vectors
        outside = Z - inside @ self.vectors.T
        squares = np.einsum("ij,ij->i", outside, outside, dtype=np.float64)
        return 0.5 * self.weight * (np.square(inside) @ self.values + self.rest * squares)

    def prox(self, Z: Array, step: float) -> Array:
        factor = within(float(step) * self.weight, np.float64)
        outside = 1 / (1 + factor * self.rest)
        with np.errstate(over="ignore"):
            inside = 1 / (1 + factor * self.values)
        correction = ((Z @ self.vectors) * (inside - outside)) @ self.vectors.T
        return (Z * outside + correction).astype(Z.dtype, copy=False)


def chain_laplacian(n_features: int) -> Any:
    """Return the Laplacian of a path: features are neighbours in a row, as in a spectrum.

    >>> chain_laplacian(3).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    n = whole_number("n_features", n_features, low=1)
    degree = np.full(n, 2.0)
    degree[0] -= 1
    degree[-1] -= 1
    side = -np.ones(n - 1)
    return scipy.sparse.diags_array([side, degree, side], offsets=[-1, 0, 1]).tocsr()


def grid_laplacian(height: int, width: int) -> Any:
    """Return the Laplacian of an image grid, pixels in C order, each joined to its four neighbours.

    >>> grid_laplacian(2, 2).toarray()[0]
    array([ 2., -1., -1.,  0.])
    """
    rows, columns = chain_laplacian(height), chain_laplacian(width)
    return scipy.sparse.kronsum(columns, rows, format="csr")


def _symmetric(matrix: Any) -> Any:
    """Return the matrix as a float64 array or CSR, symmetric to the last bit, or say what is wrong."""
    if scipy.sparse.issparse(matrix):
        matrix = scipy.sparse.csr_array(matrix, dtype=np.float64)
    else:
        try:
            matrix = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`matrix` is {matrix!r}. Use a square matrix of real numbers.") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"The matrix of a quadratic penalty has shape {matrix.shape}. Use a square one.")
    if not np.all(np.isfinite(matrix.data if scipy.sparse.issparse(matrix) else matrix)):
        raise ValueError("The matrix of a quadratic penalty (a `laplacian`) has NaN or infinite entries.")
    if abs(matrix - matrix.T).max() > 1e-8 * abs(matrix).max():
        raise ValueError(
            "The matrix of a quadratic penalty (a `laplacian`) is not symmetric. "
            "Use a symmetric one, such as (L + L.T) / 2."
        )
    return (matrix + matrix.T) / 2


def _factorise(matrix: Any) -> Any:
    return scipy.sparse.linalg.splu(
        matrix.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


@functools.lru_cache(maxsize=8)
def _resolvent(term: Quadratic, factor: float) -> Any:
    identity = scipy.sparse.identity(term.width, format="csc")
    return _factorise(identity + factor * term.matrix)
