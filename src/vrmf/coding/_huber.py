"""Compiled: what Newton's methods for codes with outliers share, for one row.

With the best outliers r for each code, the smooth part of a row's problem is F(h) = Σᵢ env(xᵢ − (hD)ᵢ),
env the Moreau envelope of the outlier penalty of one entry: piecewise quadratic, like Huber's function.
With columns dᵢ of D its Hessian is Σᵢ wᵢ·dᵢdᵢᵀ, wᵢ = 1 where the outlier stands still as e = x − hD
moves, and the share ``rest`` of it elsewhere. From step to step few entries change sides, so the Hessian
is stored and updated.
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.coding._measuring import Outliers
from vrmf.compiled import compiled, kernel_part

#: Trial steps of a line search.
MOST_TRIALS = 40

#: A slope along a direction counts as 0 if it is this small relative to the first one.
FLAT = 1e-2

#: The least decrease of the logarithm of an error that is assumed.
SLOWEST = 1e-3

#: The least and the largest damping of Newton steps, relative to the diagonal of DDᵀ.
LEAST_DAMPING, MOST_DAMPING = 1e-10, 1.0


@kernel_part
def room_for_features(
    k: int, d: int
) -> tuple[tuple[Array, Array, Array, Array, Array], tuple[Array, Array, Array]]:
    """Return room for a row: e, fit, a direction, which outliers stand still and stood; for columns."""
    vectors = (np.empty(d), np.empty(d), np.empty(d), np.empty(d, np.bool_), np.empty(d, np.bool_))
    return vectors, (np.empty(d + 1, np.int64), np.empty(d + 1), np.empty((k + 4) * (d + 8)))


@kernel_part
def combine(weights: Array, D: Array, used: Array, out: Array) -> None:
    """Write Σⱼ weightsⱼ·dⱼ, four atoms at a time; ``used`` is room for those that have a weight."""
    count = 0
    for j in range(len(weights)):
        if weights[j] != 0:
            used[count] = j
            count += 1
    out[:] = 0
    whole = count - count % 4
    for a in range(0, whole, 4):
        j0, j1, j2, j3 = used[a], used[a + 1], used[a + 2], used[a + 3]
        w0, w1, w2, w3 = weights[j0], weights[j1], weights[j2], weights[j3]
        d0, d1, d2, d3 = D[j0], D[j1], D[j2], D[j3]
        for i in range(len(out)):
            out[i] += w0 * d0[i] + w1 * d1[i] + w2 * d2[i] + w3 * d3[i]
    for a in range(whole, count):
        w0, d0 = weights[used[a]], D[used[a]]
        for i in range(len(out)):
            out[i] += w0 * d0[i]


@kernel_part
def correlate(D: Array, fit: Array, out: Array) -> None:
    """Write D·fit, four atoms at a time."""
    k, whole = len(D), len(D) - len(D) % 4
    for j in range(0, whole, 4):
        d0, d1, d2, d3 = D[j], D[j + 1], D[j + 2], D[j + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(len(fit)):
            s0 += d0[i] * fit[i]
            s1 += d1[i] * fit[i]
            s2 += d2[i] * fit[i]
            s3 += d3[i] * fit[i]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
    for j in range(whole, k):
        out[j] = np.dot(D[j], fit)


@kernel_part
def look(e: Array, outliers: Outliers, fit: Array, still: Array) -> int:
    """Write e − r for the best outliers r, and which of them stand still as e moves; return how many do."""
    level, rest, low, high = outliers
    count = 0
    for i in range(len(e)):
        r = (1 - rest) * (e[i] - min(max(e[i], -level), level))
        fit[i] = best_fit(e[i], level, rest, low, high)
        still[i] = (abs(e[i]) <= level) | (r <= low) | (r >= high)
        count += still[i]
    return count


@compiled
def forecast(
    E: Array,
    outliers: Outliers,
    before: Array,
    least: Array,
    miss: Array,
    allowed: Array,
    costs: tuple[float, float, float],
    lost: Array,
) -> None:
    """Mark the rows for which steps of a first-order method will cost more than Newton's method.

    Its error fell from ``before`` to ``least`` in one unit of time, and has to fall from ``miss`` to
    ``allowed``. ``costs`` are those of this time, of the Newton steps, and of a column in the first
    Hessian, of which there are as many as outliers that stand still as e moves, or as do not: the fewer.
    """
    level, rest, low, high = outliers
    for row in range(len(E)):
        if not miss[row] > allowed[row]:
            continue
        count = 0
        for i in range(E.shape[1]):
            r = (1 - rest) * (E[row, i] - min(max(E[row, i], -level), level))
            count += (abs(E[row, i]) <= level) | (r <= low) | (r >= high)
        rate = max(np.log(before[row] / least[row]), SLOWEST)
        remaining = np.log(miss[row] / allowed[row]) / rate
        lost[row] |= remaining * costs[0] > costs[1] + min(count, E.shape[1] - count) * costs[2]


@kernel_part
def update(
    A: Array,
    D: Array,
    gram: Array,
    W: Array,
    outliers: Outliers,
    is_known: bool,
    count: int,
    still: Array,
    before: Array,
    changes: tuple[Array, Array, Array],
) -> None:
    """Make the upper triangle of A the Hessian of F on the atoms W: from that of ``before``, or anew.

    ``count`` entries are ``still``, which becomes ``before``; ``changes`` is room for columns.
    """
    rest = outliers[1]
    columns, weights, room = changes
    number, base = list_changes(still, before, is_known, count, 1 - rest, columns, weights)
    if base != 0:
        start_from(A, gram, W, 1.0 if base > 0 else rest)
    if number > 0:
        add_columns(A, D, W, columns[:number], weights[:number], room)


@kernel_part
def list_changes(
    still: Array, before: Array, is_known: bool, count: int, gain: float, columns: Array, weights: Array
) -> tuple[int, int]:
    """List the columns by which the Hessian changes, with their weights, in the cheapest of three ways.

    Returns how many, and from what they lead to it: 0 from the Hessian of ``before``, 1 from DDᵀ,
    −1 from rest · DDᵀ. ``before`` becomes ``still``, of which ``count`` are true; ``gain`` is 1 − rest.
    """
    changes, d, size = 0, len(still), 0
    for i in range(d):
        changes += still[i] != before[i]
    base = 1 if 2 * count >= d else -1
    if is_known and changes <= min(count, d - count):
        base = 0
    else:
        before[:] = base == 1
    for i in range(d):  # without a branch, which processors would predict wrongly
        columns[size], weights[size] = i, gain if still[i] else -gain
        size += still[i] != before[i]
    copy(before, still)
    return size, base


@kernel_part
def add_columns(A: Array, D: Array, W: Array, columns: Array, weights: Array, room: Array) -> None:
    """Add Σᵢ weightsᵢ·dᵢdᵢᵀ over the listed columns, restricted to the atoms W, to the upper triangle of A.

    In tiles of four by two, so that most of what is loaded is used more than once: A has four rows and
    columns more than atoms, ``room`` is for as many rows of at most eight columns more than features.
    """
    size, count = len(W), len(columns)
    # Rows are stored side by side: at a distance of a power of two they would share lines of the cache.
    packed = room[: (size + 4) * (count + 8)].reshape(size + 4, count + 8)
    for a in range(size):
        source, target = D[W[a]], packed[a]
        for c in range(count):
            target[c] = source[columns[c]]
    for i in range(0, size, 4):
        a0, a1, a2, a3 = packed[i], packed[i + 1], packed[i + 2], packed[i + 3]
        for j in range(i, size, 2):
            b0, b1 = packed[j], packed[j + 1]
            s0, s1, s2, s3, t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for c in range(count):
                u, v = weights[c] * b0[c], weights[c] * b1[c]
                s0 += a0[c] * u
                s1 += a1[c] * u
                s2 += a2[c] * u
                s3 += a3[c] * u
                t0 += a0[c] * v
                t1 += a1[c] * v
                t2 += a2[c] * v
                t3 += a3[c] * v
            A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j] = (
                *(A[i, j] + s0, A[i + 1, j] + s1),
                *(A[i + 2, j] + s2, A[i + 3, j] + s3),
            )
            A[i, j + 1], A[i + 1, j + 1], A[i + 2, j + 1], A[i + 3, j + 1] = (
                *(A[i, j + 1] + t0, A[i + 1, j + 1] + t1),
                *(A[i + 2, j + 1] + t2, A[i + 3, j + 1] + t3),
            )


@kernel_part
def start_from(A: Array, gram: Array, W: Array, share: float) -> None:
    """Write share · DDᵀ, restricted to the atoms W, into the upper triangle of A."""
    for a in range(len(W)):
        line = gram[W[a]]
        for c in range(a, len(W)):
            A[a, c] = share * line[W[c]]


@kernel_part
def line_search(
    e: Array, w: Array, outliers: Outliers, downhill: float, linear: float, curved: float
) -> float:
    """Return 0 < α ≤ 1 up to which the objective falls along a direction: its slope is nearly 0 there.

    With ``w`` = pD the slope at α is −(e − αw − r)·w + linear + α · curved, −``downhill`` at 0. It grows
    with α and is piecewise linear: Newton's method finds its root, bracketed, from α = 1. (Where the slope
    is negative there, going farther than the model says has turned out to cost steps.)
    """
    level, rest, least, largest = outliers
    low, high, a = 0.0, 1.0, 1.0
    for _ in range(MOST_TRIALS):
        slope, bend = linear + a * curved, curved
        for i in range(len(e)):
            v = e[i] - a * w[i]
            r = (1 - rest) * (v - min(max(v, -level), level))
            still = (abs(v) <= level) | (r <= least) | (r >= largest)
            slope -= best_fit(v, level, rest, least, largest) * w[i]
            bend += w[i] * w[i] * (1.0 if still else rest)
        if abs(slope) <= FLAT * downhill or (slope < 0 and a == 1):
            return a
        if slope < 0:
            low = a
        else:
            high = a
        a = a - slope / bend if bend > 0 else low
        if not low < a < high:
            a = (low + high) / 2
    return low


@kernel_part
def next_damping(damping: float, alpha: float) -> float:
    """Return the damping after a step of which the part ``alpha`` was of use."""
    if alpha < 0.3:
        return min(max(8 * damping, 1e-6), MOST_DAMPING)
    if alpha <= 0.7:
        return damping
    return max(damping / (100 if alpha == 1 else 10), LEAST_DAMPING)
