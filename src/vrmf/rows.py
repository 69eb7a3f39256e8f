"""Sums over the rows of a matrix, in double precision and without a temporary."""

from __future__ import annotations

import numpy as np

from vrmf.compiled import compiled
from vrmf.terms.base import Array


def row_squares(Z: Array) -> Array:
    """Return ‖z‖² of each row z, in double precision.

    >>> row_squares(np.array([[3.0, 4.0], [0.0, 1.0]], dtype=np.float32))
    array([25.,  1.])
    """
    squares = np.empty(len(Z))
    _row_squares(Z, squares)
    return squares


@compiled
def _row_squares(Z: Array, squares: Array) -> None:
    for row in range(len(Z)):
        total = 0.0
        for j in range(Z.shape[1]):
            total += np.float64(Z[row, j]) * np.float64(Z[row, j])
        squares[row] = total
