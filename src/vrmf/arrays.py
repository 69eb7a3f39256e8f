"""What an array is, and what is computed of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrmf.compiled import compiled

Array = NDArray[Any]


def row_norms(Z: Array) -> Array:
    """Return the Euclidean norm of each row, without overflow for large entries."""
    largest = np.max(np.abs(Z), axis=1, initial=0.0)
    scale = np.where(largest > 0, largest, 1)
    scaled = Z / scale[:, None]
    return scale * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))


def row_squares(Z: Array) -> Array:
    """Return ‖z‖² of each row z, summed in double precision and without a temporary array.

    >>> row_squares(np.array([[3.0, 4.0], [0.0, 1.0]], dtype=np.float32))
    array([25.,  1.])
    """
    squares = np.empty(len(Z))
    add_row_squares(Z, squares)
    return squares


@compiled
def add_row_squares(Z: Array, squares: Array) -> None:
    """Write ‖z‖² of each row z."""
    for row in range(len(Z)):
        total = 0.0
        for j in range(Z.shape[1]):
            total += np.float64(Z[row, j]) * np.float64(Z[row, j])
        squares[row] = total


def within(number: float, dtype: Any) -> float:
    """Return the number, or the largest that the precision holds.

    >>> within(1e300, np.float32)
    3.4028234663852886e+38
    """
    return min(float(number), float(np.finfo(dtype).max))
