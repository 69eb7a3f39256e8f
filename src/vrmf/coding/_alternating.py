"""Compiled: the parts of alternating steps that are not matrix products."""

from __future__ import annotations

import numpy as np

from vrmf._momentum import next_momentum
from vrmf.arrays import Array
from vrmf.compiled import compiled, kernel_part


@compiled
def subtract_outliers(E: Array, X: Array, level: Array, rest: float, low: float, high: float) -> None:
    """Turn E = hD into e − r in place, with e = x − hD and the best outliers r for it.

    Each row has its own level; see :func:`best_fit`.
    """
    for row in range(len(E)):
        t = level[row]
        for j in range(E.shape[1]):
            E[row, j] = best_fit(X[row, j] - E[row, j], t, rest, low, high)


@compiled
def separate_outliers(
    E: Array, X: Array, R: Array, level: float, rest: float, shrink: float, low: float, high: float
) -> None:
    """Turn E = hD into hD + r − x in place, and write the best outliers r: 0 and bounds are exact.

    ``shrink`` is 1 − rest = 1 / (1 + ridge), which the difference would lose where the ridge is large.
    """
    for row in range(len(E)):
        for j in range(E.shape[1]):
            e = X[row, j] - E[row, j]
            soft = e - min(max(e, -level), level)
            R[row, j] = min(max(shrink * soft, low), high)
            E[row, j] = -best_fit(e, level, rest, low, high)


@kernel_part
def best_fit(e: float, level: float, rest: float, low: float, high: float) -> float:
    """Return e − r for the best outlier r = clip((1 − rest) · soft(e, level), low, high).

    With a ridge on outliers rest = ridge / (1 + ridge), else 0. Of an outlier that is much larger than
    its level, e − r is the level, which a difference of the two would lose.
    """
    clipped = min(max(e, -level), level)
    return min(max(clipped + rest * (e - clipped), e - high), e - low)


@compiled
def radial_step(
    P: Array, Y: Array, pull: Array, metric: Array, ridge: float, in_ball: bool, t: Array, moved: Array
) -> None:
    """Take one accelerated step in the eigenbasis of DDᵀ for φ(h) = (ridge/2)‖h‖², in the unit ball or not.

    From y, the code p minimises ½(h − y)·metric·(h − y) − ``pull``·h + φ(h): p = c / (metric + ridge + μ)
    with c = metric · y + pull, and μ = 0 unless the ball asks for more. ``moved`` becomes the length of
    y − p in the metric; ``P``, ``Y`` and the momentum ``t`` are overwritten. Entries without metric and
    ridge are 0.
    """
    n, k = P.shape
    zero = ridge * 0
    c, p = np.empty(k, P.dtype), np.empty(k, P.dtype)
    for row in range(n):
        square = zero
        for j in range(k):
            c[j] = metric[j] * Y[row, j] + pull[row, j]
            p[j] = c[j] / (metric[j] + ridge) if metric[j] + ridge > zero else zero
        for j in range(k):
            square += p[j] * p[j]
        if in_ball and square > 1:
            into_ball(c, p, metric, ridge)
        square, uphill = zero, zero
        for j in range(k):
            step = (Y[row, j] - p[j]) * metric[j]
            square += step * (Y[row, j] - p[j])
            uphill += step * (p[j] - P[row, j])
        moved[row] = np.sqrt(square)
        momentum, t[row] = next_momentum(t[row], uphill > 0)
        for j in range(k):
            Y[row, j] = p[j] + momentum * (p[j] - P[row, j])
            P[row, j] = p[j]


@compiled
def momentum_step(
    P: Array, Y: Array, new: Array, step: Array, pressed: Array, t: Array, moved: Array
) -> None:
    """Accept the codes ``new``, with ``step`` = y − new and ``pressed`` = step · DDᵀ; see radial_step."""
    for row in range(len(P)):
        square, uphill = t[row] * 0, t[row] * 0
        for j in range(P.shape[1]):
            square += step[row, j] * pressed[row, j]
            uphill += pressed[row, j] * (new[row, j] - P[row, j])
        moved[row] = np.sqrt(max(square, t[row] * 0))
        momentum, t[row] = next_momentum(t[row], uphill > 0)
        for j in range(P.shape[1]):
            Y[row, j] = new[row, j] + momentum * (new[row, j] - P[row, j])
            P[row, j] = new[row, j]


@kernel_part
def into_ball(c: Array, p: Array, metric: Array, ridge: float) -> None:
    """Solve ‖c / (metric + ridge + μ)‖ = 1 for μ > 0 by Newton's method on 1/‖p‖, and write p.

    No loop both writes and sums: the order of such a sum would depend on where the arrays lie in memory.
    """
    k = len(c)
    zero = ridge * 0
    mu, length = zero, zero
    for _ in range(50):
        square = zero
        for j in range(k):
            p[j] = c[j] / (metric[j] + ridge + mu) if c[j] != zero else zero
        for j in range(k):
            square += p[j] * p[j]
        length = np.sqrt(square)
        if length <= 1 + 4 * np.finfo(c.dtype).eps:
            break
        slope = zero
        for j in range(k):
            if p[j] != zero:
                slope += (p[j] / length) * (p[j] / length) / (metric[j] + ridge + mu)
        mu += (length - 1) / slope
    if length > 1:
        for j in range(k):
            p[j] /= length
