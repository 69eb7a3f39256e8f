"""Compiled: a damped Newton step on the free entries of a code, projected, as far as F falls [1]_.

References
----------
.. [1] D. Bertsekas, "Projected Newton methods for optimization problems with simple constraints", SIAM
   Journal on Control and Optimization 20 (1982).
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.coding._cholesky import solve
from vrmf.coding._measuring import Outliers, Problem, pull_of, slope_of_fit
from vrmf.compiled import kernel_part

#: The least and the largest damping of Newton steps, relative to the squared norms of the atoms.
LEAST_DAMPING, MOST_DAMPING = 1e-14, 1.0

#: An entry has arrived at an end if less than this part of the step is missing.
SNAP = 1e-12

#: Bound on the trial steps of a line search.
MOST_TRIALS = 40

#: Bound on the halvings of a direction that points uphill once it is projected.
MOST_HALVINGS = 30


@kernel_part
def newton_step(
    problem: Problem, h: Array, e: Array, g: Array, damping: float, on_face: bool
) -> tuple[float, float]:
    """Take a Newton step on the free entries; return the next damping, and the part of the step it was.

    Each free entry stays on its side of 0, if there is a kink, and within the bounds. The step is
    projected: an entry that would leave stops at the end. A step *on the face* of the entries that are
    at no end or kink stops where the first of them arrives at one.
    """
    D, squares, ridge, penalty, outliers = problem
    D, penalty, ridge, k = D, penalty, ridge, len(h)
    S, pull, side = np.empty(k, np.int64), np.empty(k), np.empty(k)
    size = free_entries(problem, h, g, on_face, S, pull, side)
    if size == 0:
        return damping, 1.0
    B, scale = hessian(D, squares, S[:size], ridge, outliers, e)
    step, move = np.empty(size), np.empty(size)
    damping = damped_solve(B, pull, scale, step, damping)
    part = room(h, penalty, S[:size], side, step) if on_face else 1.0
    downhill = 0.0
    for _ in range(1 if on_face else MOST_HALVINGS):
        downhill = 0.0
        for a in range(size):
            low, high = ends(penalty, side[a])
            move[a] = min(max(h[S[a]] + part * step[a], low), high) - h[S[a]]
            downhill += move[a] * pull[a]
        if downhill > 0:
            break
        part /= 2
    if not downhill > 0:
        return min(10 * damping, MOST_DAMPING), 1.0 if on_face else 0.0
    w, linear, curved = np.zeros(len(e)), 0.0, 0.0
    for a in range(size):
        atom = D[S[a]]
        for i in range(len(w)):
            w[i] += move[a] * atom[i]
        linear += (ridge * h[S[a]] + penalty[0] * side[a]) * move[a]
        curved += ridge * move[a] * move[a]
    alpha = descent(e, w, downhill, linear, curved, outliers)
    for a in range(size):
        low, high = ends(penalty, side[a])
        at, far = h[S[a]], (1 + SNAP) * part * step[a]
        # Only at the end that the entry moves towards: it may start a rounding error away from the other.
        if alpha == 1 and step[a] < 0 and at + far <= low:
            h[S[a]] = low
        elif alpha == 1 and step[a] > 0 and at + far >= high:
            h[S[a]] = high
        else:
            h[S[a]] = at + alpha * move[a]
    taken = alpha * part
    if taken > 0.75:
        return max(damping / 10, LEAST_DAMPING), taken
    return (damping if on_face or taken > 0.25 else min(4 * damping, MOST_DAMPING)), taken


@kernel_part
def free_entries(
    problem: Problem, h: Array, g: Array, on_face: bool, S: Array, pull: Array, side: Array
) -> int:
    """Write the entries that are not at rest at a kink or an end, what pulls at them, and their sides.

    On the face, those that are at no kink or end at all. The side is that of 0 on which an entry stays, 0
    if there is no kink.
    """
    D, squares, ridge, penalty, _ = problem
    D, ridge = D, ridge
    slope, low, high = penalty
    size = 0
    for j in range(len(h)):
        if not squares[j] + ridge > 0:
            continue
        left = pull_of(h[j], np.dot(g, D[j]) - ridge * h[j], slope, low, high)
        kink = slope > 0 and h[j] == 0
        if (left == 0 or on_face) and (kink or h[j] <= low or h[j] >= high):
            continue
        S[size], pull[size] = j, left
        side[size] = 0.0 if slope == 0 else np.sign(h[j] if h[j] != 0 else left)
        size += 1
    return size


@kernel_part
def ends(penalty: tuple[float, float, float], side: float) -> tuple[float, float]:
    """Return between which ends an entry stays on its side."""
    low = max(penalty[1], 0.0) if side > 0 else penalty[1]
    high = min(penalty[2], 0.0) if side < 0 else penalty[2]
    return low, high


@kernel_part
def damped_solve(B: Array, pull: Array, scale: Array, step: Array, damping: float) -> float:
    """Write the step (B + damping)⁻¹ pull, in units of the entries; return the damping that it took.

    The diagonal of B is at most 1, so that a damping of that size makes it definite; where even more
    does not, numbers are not finite, and the step is 0.
    """
    size = len(B)
    diagonal, failed = np.empty(size), True
    while failed:
        if not damping < 100 * size:
            step[:size] = 0
            return damping
        C = B.copy()
        for a in range(size):
            C[a, a] += damping
            step[a] = pull[a] * scale[a]
        failed = solve(C, step, diagonal, size, 1e-16) >= 0
        if failed:
            damping *= 10
    for a in range(size):
        step[a] *= scale[a]
    return damping


@kernel_part
def room(h: Array, penalty: tuple[float, float, float], S: Array, side: Array, step: Array) -> float:
    """Return the part of the step, at most 1, at which the first entry arrives at an end."""
    part = 1.0
    for a in range(len(S)):
        low, high = ends(penalty, side[a])
        if step[a] > 0:
            part = min(part, (high - h[S[a]]) / step[a])
        elif step[a] < 0:
            part = min(part, (low - h[S[a]]) / step[a])
    return part


@kernel_part
def hessian(
    D: Array, squares: Array, S: Array, ridge: float, outliers: Outliers, e: Array
) -> tuple[Array, Array]:
    """Return the Hessian of the smooth part on the entries S, in units in which atoms have length 1."""
    root, columns, count = np.empty(len(e)), np.empty(len(e), np.int64), 0
    for i in range(len(e)):
        weight = slope_of_fit(e[i], outliers)
        if weight > 0:
            root[count], columns[count] = np.sqrt(weight), i
            count += 1
    M, scale = np.empty((len(S), count)), np.empty(len(S))
    for a in range(len(S)):
        atom = D[S[a]]
        scale[a] = 1 / np.sqrt(squares[S[a]] + ridge)
        for c in range(count):
            M[a, c] = atom[columns[c]] * root[c] * scale[a]
    B = np.dot(M, M.T)
    for a in range(len(S)):
        B[a, a] += ridge * scale[a] * scale[a]
    return B, scale


@kernel_part
def descent(
    e: Array,
    w: Array,
    downhill: float,
    linear: float,
    curved: float,
    outliers: Outliers,
) -> float:
    """Return 0 ≤ α ≤ 1 up to which F falls along a direction, nearly as far as it does.

    The slope at α is −g(e − αw)·w + linear + α · curved, −``downhill`` at 0; it grows with α.
    """
    level, rest, low, high = outliers
    below, above, slope_below, slope_above = 0.0, 1.0, -downhill, 0.0
    for trial in range(MOST_TRIALS):
        a = 1.0
        if trial > 0:
            part = -slope_below / (slope_above - slope_below)
            a = below + (above - below) * (min(max(part, 0.1), 0.9) if trial % 3 else 0.5)
        slope = linear + a * curved
        for i in range(len(e)):
            slope -= best_fit(e[i] - a * w[i], level, rest, low, high) * w[i]
        if slope <= 0:
            below, slope_below = a, slope
            if a == 1 or -slope <= 0.1 * downhill:
                return a
        else:
            above, slope_above = a, slope
    return below
