"""Compiled: the largest eigenvalue of a Gram matrix, from below."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled

#: Steps of the power method.
STEPS = 16


@compiled
def leading_value(gram: Array) -> float:
    """Return ‖gram · v‖ for a unit v near the leading eigenvector: never above the largest eigenvalue.

    The power method begins at the longest row, and in units of the longest atom's square, so that
    nothing overflows.
    """
    k = len(gram)
    unit = 0.0
    for j in range(k):
        unit = max(unit, np.float64(gram[j, j]))
    if unit == 0:
        return unit
    longest, most = 0, 0.0
    for i in range(k):
        square = 0.0
        for j in range(k):
            square += (gram[i, j] / unit) ** 2
        if square > most:
            longest, most = i, square
    v, new = np.empty(k), np.empty(k)
    for j in range(k):
        v[j] = gram[longest, j] / unit
    for _ in range(STEPS):
        square = 0.0
        for j in range(k):
            square += v[j] * v[j]
        size = np.sqrt(square)
        for i in range(k):
            total = 0.0
            for j in range(k):
                total += gram[i, j] * v[j]
            new[i] = total / size / unit
        v, new = new, v
    square = 0.0
    for j in range(k):
        square += v[j] * v[j]
    return np.sqrt(square) * unit
