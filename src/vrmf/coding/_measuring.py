"""Compiled: the error of a code, from its definition, for terms that act on entries and the unit ball.

For one row F(h) = Σᵢ env(xᵢ − (hD)ᵢ) + (ridge/2)‖h‖² + Σⱼ slope·|hⱼ| with low ≤ hⱼ ≤ high, where env is the
Moreau envelope of the outlier penalty of one entry (½e² without outliers).
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.compiled import compiled, kernel_part

#: (level, rest, low, high) of outliers, as in ``best_fit``.
Outliers = tuple[float, float, float, float]

#: What all rows have in common, in double precision: D, ‖dⱼ‖², ridge, (slope, low, high), outliers. A plain
#: tuple, since compiled kernels on disk would remember the class of a named one, and where it was.
Problem = tuple[Array, Array, float, tuple[float, float, float], Outliers]


@compiled
def count_doubtful(
    H: Array, error: Array, finished: Array, scale: Array, tol: float, rounding: float, doubtful: Array
) -> int:
    """Mark the codes whose error a fast method may have measured wrongly, and return their number.

    A code is sure if it is finished, its error is at most ``tol``, and that error is not off by much: by
    ``rounding`` · ‖h‖, at most twice what is allowed.
    """
    count = 0
    for row in range(len(H)):
        square = 0.0
        for j in range(H.shape[1]):
            square += np.float64(H[row, j]) * np.float64(H[row, j])
        is_exact = rounding * np.sqrt(square) <= 2 * tol * scale[row]
        doubtful[row] = not (finished[row] and error[row] <= tol and is_exact)
        count += doubtful[row]
    return count


@compiled
def measure_rows(X: Array, H: Array, problem: Problem, sphere: float, error: Array, size: Array) -> None:
    """Write the error of each row of ``H``; codes longer than ``sphere`` are at the end of the ball.

    ``sphere`` is infinite without a ball. ``size`` becomes the norm of those entries of the row whose
    rounding matters: no outliers.
    """
    _, _, _, _, outliers = problem
    e, g, force = np.empty(X.shape[1]), np.empty(X.shape[1]), np.empty(H.shape[1])
    for row in range(len(X)):
        error[row] = measure(X[row], problem, H[row], sphere, e, g, force)
        square = 0.0
        for i in range(len(e)):
            square += slope_of_fit(e[i], outliers) * X[row, i] ** 2
        size[row] = np.sqrt(square)


@kernel_part
def measure(x: Array, problem: Problem, h: Array, sphere: float, e: Array, g: Array, force: Array) -> float:
    """Return the distance of 0 to the subdifferential at h, or a bound; write e, g and the force on h.

    On the sphere the subdifferential has any multiple μh, μ ≥ 0, in it: the best for the free entries
    is taken.
    """
    D, _, ridge, penalty, outliers = problem
    slope, low, high = penalty
    fit(x, D, h, outliers, e, g)
    for j in range(len(h)):
        force[j] = np.dot(g, D[j]) - ridge * h[j]
    square = np.dot(h, h)
    if np.sqrt(square) < sphere * (1 - 4e-16):
        return distance(h, force, slope, low, high)
    mu = 0.0
    for j in range(len(h)):
        mu += pull_of(h[j], force[j], slope, low, high) * h[j] / square
    pressed = force - max(mu, 0.0) * h
    return distance(h, pressed, slope, low, high)


@kernel_part
def fit(x: Array, D: Array, h: Array, outliers: Outliers, e: Array, g: Array) -> None:
    """Write e = x − hD, and g = e − r for the best outliers r."""
    copy(e, x)
    for j in range(len(h)):
        if h[j] != 0:
            atom, c = D[j], h[j]
            for i in range(len(e)):
                e[i] -= c * atom[i]
    level, rest, low, high = outliers
    for i in range(len(e)):
        g[i] = best_fit(e[i], level, rest, low, high)


@kernel_part
def slope_of_fit(e: float, outliers: Outliers) -> float:
    """Return the derivative of ``best_fit`` at e: 1 where the outlier stands still."""
    level, rest, low, high = outliers
    r = (1 - rest) * (e - min(max(e, -level), level))
    return rest if abs(e) > level and low < r < high else 1.0


@kernel_part
def distance(h: Array, force: Array, slope: float, low: float, high: float) -> float:
    """Return the distance of ``force`` to the subdifferential of slope·|h| + δ[low, high] at h."""
    square = 0.0
    for j in range(len(h)):
        miss = pull_of(h[j], force[j], slope, low, high)
        square += miss * miss
    return np.sqrt(square)


@kernel_part
def pull_of(h: float, force: float, slope: float, low: float, high: float) -> float:
    """Return what is left of the force on an entry when its penalty has pulled against it; 0 at rest."""
    right = slope if h >= 0 else -slope
    left = slope if h > 0 else -slope
    if force > right:
        return force - right if h < high else 0.0
    if force < left:
        return force - left if h > low else 0.0
    return 0.0
