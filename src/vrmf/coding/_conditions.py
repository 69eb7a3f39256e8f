"""Compiled: how far codes are from optimal, for penalties slope·|h| + δ[low, high] of each entry."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled


@compiled
def conditions(
    H: Array, force: Array, slope: float, low: float, high: float, residual: Array, error: Array
) -> None:
    """Write the residual of the free entries of each row, and how far the row is from optimal.

    ``force`` is c − hA, what pulls at each entry: at an optimum it lies between the slopes of the
    penalty on both sides of the entry. The residual of a pinned entry is 0.
    """
    zero = slope * 0
    for row in range(len(H)):
        square = 0.0  # in double precision: squares of large entries overflow in single
        for j in range(H.shape[1]):
            h, w = H[row, j], force[row, j]
            right = slope if h >= zero else -slope
            left = slope if h > zero else -slope
            over, under = max(w - right, zero), max(left - w, zero)
            miss = (zero if h >= high else over) + (zero if h <= low else under)
            square += np.float64(miss) * miss
            pinned = (h <= low) | (h >= high) | (left < right)
            residual[row, j] = zero if pinned else w - right
        error[row] = np.sqrt(square)
