"""Products with codes: by BLAS where codes are dense, over their nonzeros where they are sparse.

>>> import numpy as np
>>> H = np.zeros((4, 20))
>>> H[0, 3] = 2.0
>>> codes = code_matrix(H)
>>> type(codes).__name__, float(codes.gram[3, 3])
('SparseCodes', 4.0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled
from vrmf.lazily import computed_once

#: The share of nonzeros up to which products over them are faster than products of whole matrices.
MOST_NONZERO = 0.12


class AbstractCodeMatrix(ABC):
    """Codes H of some rows, shape (n, k), with the products that sums over rows are made of."""

    @property
    @abstractmethod
    def gram(self) -> Array:
        """HᵀH."""

    @property
    @abstractmethod
    def used(self) -> Array:
        """In how many codes each atom takes part, shape (k,)."""

    @abstractmethod
    def times(self, D: Array) -> Array:
        """Return HD."""

    @abstractmethod
    def transposed_times(self, E: Array) -> Array:
        """Return HᵀE."""


class DenseCodes(AbstractCodeMatrix):
    """Codes with many nonzeros."""

    def __init__(self, H: Array) -> None:
        self.H = H

    @property
    def gram(self) -> Array:
        return self.H.T @ self.H

    @property
    def used(self) -> Array:
        return np.count_nonzero(self.H, axis=0)

    def times(self, D: Array) -> Array:
        return self.H @ D

    def transposed_times(self, E: Array) -> Array:
        return self.H.T @ E


class SparseCodes(AbstractCodeMatrix):
    """Codes with few nonzeros: their columns and values, row after row."""

    def __init__(self, H: Array, nonzeros: int) -> None:
        self.shape, self.dtype = H.shape, H.dtype
        self.ends, self.columns = np.empty(len(H) + 1, np.int64), np.empty(nonzeros, np.int64)
        self.values = np.empty(nonzeros, H.dtype)
        pack(H, self.ends, self.columns, self.values)

    @computed_once
    def gram(self) -> Array:
        G = np.zeros((self.shape[1], self.shape[1]), self.dtype)
        add_gram(self.ends, self.columns, self.values, G)
        return G

    @property
    def used(self) -> Array:
        return np.bincount(self.columns, minlength=self.shape[1])

    def times(self, D: Array) -> Array:
        E = np.zeros((self.shape[0], D.shape[1]), np.result_type(self.dtype, D.dtype))
        add_products(self.ends, self.columns, self.values, np.ascontiguousarray(D), E)
        return E

    def transposed_times(self, E: Array) -> Array:
        G = np.zeros((self.shape[1], E.shape[1]), np.result_type(self.dtype, E.dtype))
        add_transposed_products(self.ends, self.columns, self.values, np.ascontiguousarray(E), G)
        return G


def code_matrix(H: Array) -> AbstractCodeMatrix:
    """Return the codes in the form in which products with them are fast."""
    nonzeros = int(np.count_nonzero(H))
    return SparseCodes(H, nonzeros) if nonzeros <= MOST_NONZERO * H.size else DenseCodes(H)


@compiled
def pack(H: Array, ends: Array, columns: Array, values: Array) -> None:
    """Write the columns and values of the nonzeros of each row, and where rows end."""
    at = 0
    ends[0] = 0
    for row in range(len(H)):
        for j in range(H.shape[1]):
            if H[row, j] != 0:
                columns[at], values[at] = j, H[row, j]
                at += 1
        ends[row + 1] = at


@compiled
def add_gram(ends: Array, columns: Array, values: Array, G: Array) -> None:
    """Add HᵀH to G, which is symmetric."""
    for row in range(len(ends) - 1):
        for a in range(ends[row], ends[row + 1]):
            line, value = G[columns[a]], values[a]
            for b in range(a, ends[row + 1]):
                line[columns[b]] += value * values[b]
    for i in range(len(G)):
        for j in range(i):
            G[i, j] = G[j, i]


@compiled
def add_products(ends: Array, columns: Array, values: Array, D: Array, E: Array) -> None:
    """Add HD to E, two atoms at a time."""
    for row in range(len(ends) - 1):
        a, end, e = ends[row], ends[row + 1], E[row]
        while a + 2 <= end:
            v0, v1, d0, d1 = values[a], values[a + 1], D[columns[a]], D[columns[a + 1]]
            for i in range(len(e)):
                e[i] += v0 * d0[i] + v1 * d1[i]
            a += 2
        if a < end:
            v0, d0 = values[a], D[columns[a]]
            for i in range(len(e)):
                e[i] += v0 * d0[i]


@compiled
def add_transposed_products(ends: Array, columns: Array, values: Array, E: Array, G: Array) -> None:
    """Add HᵀE to G."""
    for row in range(len(ends) - 1):
        e = E[row]
        for a in range(ends[row], ends[row + 1]):
            g, v = G[columns[a]], values[a]
            for i in range(len(e)):
                g[i] += v * e[i]
