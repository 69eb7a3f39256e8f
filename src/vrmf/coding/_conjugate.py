"""Compiled: the parts of conjugate gradient steps that are not matrix products."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.compiled import kernel_part

#: Trial steps of a line search.
MOST_TRIALS = 8


@kernel_part
def line_search(
    E: Array,
    W: Array,
    H: Array,
    P: Array,
    G: Array,
    alpha: Array,
    ridge: float,
    level: float,
    rest: float,
    low: float,
    high: float,
) -> None:
    """Move each row to where the objective along ``P`` has lost nine tenths of its slope, or near it.

    ``E`` = x − hD and ``W`` = pD. The slope at α is −(e − r)·w + ridge · (h + αp)·p with the best
    outliers r for e = x − (h + αp)D; it grows with α, so its root is bracketed. ``alpha`` holds the
    steps, the last ones at first. E and H are moved, and W becomes e − r at the end.
    """
    n, k = H.shape
    zero = ridge * 0
    for row in range(n):
        e, w = E[row], W[row]
        first, linear, square = zero, zero, zero
        for j in range(k):
            first += G[row, j] * P[row, j]
            linear += H[row, j] * P[row, j]
            square += P[row, j] * P[row, j]
        a, below, above = max(alpha[row], zero + 1), zero, zero
        slope_below, slope_above = first, zero
        bracketed = False
        for _ in range(MOST_TRIALS if first < zero else 0):
            slope = ridge * (linear + a * square)
            for j in range(len(e)):
                slope -= best_fit(e[j] - a * w[j], level, rest, low, high) * w[j]
            if abs(slope) <= -first / 10:
                break
            if slope < zero:
                below, slope_below = a, slope
            else:
                above, slope_above, bracketed = a, slope, True
            if bracketed:
                part = -slope_below / (slope_above - slope_below)
                a = below + (above - below) * min(max(part, (zero + 1) / 10), (zero + 9) / 10)
            else:
                a = 3 * a
        if first >= zero:
            a = zero
        alpha[row] = a
        for j in range(k):
            H[row, j] += a * P[row, j]
        for j in range(len(e)):
            moved = e[j] - a * w[j]
            e[j] = moved
            w[j] = best_fit(moved, level, rest, low, high)


@kernel_part
def next_direction(
    H: Array, P: Array, G: Array, old: Array, pull: Array, metric: Array, ridge: float, error: Array
) -> None:
    """Turn ``P`` into the next direction, conjugate to the last (Polak and Ribière), or steepest.

    ``pull`` = (e − r) Dᵀ, so the gradient is ridge · h − pull; it is preconditioned by the diagonal
    metric + ridge. ``old`` holds gradient · preconditioned gradient, infinite before the first step.
    ``G``, ``old`` and the norm of the gradient, ``error``, are overwritten.
    """
    n, k = H.shape
    zero = ridge * 0
    for row in range(n):
        size, change, square = zero, zero, zero
        for j in range(k):
            g = ridge * H[row, j] - pull[row, j]
            a = metric[j] + ridge
            z = g / a if a > zero else zero
            size += g * z
            change += (g - G[row, j]) * z
            square += g * g
            G[row, j] = g
        beta = max(change / old[row], zero) if old[row] > zero else zero
        uphill = zero
        for j in range(k):
            a = metric[j] + ridge
            z = G[row, j] / a if a > zero else zero
            P[row, j] = beta * P[row, j] - z
            uphill += P[row, j] * G[row, j]
        if uphill >= zero:
            for j in range(k):
                a = metric[j] + ridge
                P[row, j] = -G[row, j] / a if a > zero else zero
        old[row] = size
        error[row] = np.sqrt(square)
