"""Compiled: sparse codes by descent from face to face, one row at a time.

For one row minimise F(h) = ½ hAhᵀ − c·h + Σⱼ slope·|hⱼ| with low ≤ hⱼ ≤ high. The *free* entries S of a
code move, each on its side of 0 and between the bounds; the others are *pinned* at 0 or at a bound. A round

1. moves the free entries to the minimum of F over their face: the step x solves A[S, S] x = residual, and
   entries that would leave the face stop at its end, where they are pinned;
2. computes the force w = c − hA on all entries, and frees pinned ones that it pulls away, those with the
   largest pull together. An entry that depends on the free ones takes the place of one of them.

Each step lowers F. Freed entries may block each other at first; those that the step would move to the wrong
side are pinned again, and one that moves to the right side is always among them, since the step points
downhill. So no face is visited twice, but for rounding, and rounds are bounded for that.

With the Cholesky factor L of A[S, S] and y = L⁻¹ residual, F is ½‖y‖² above its minimum over the face
without ends. Factor and y are updated as entries come and go, which costs |S|² operations; the force
costs |S|·k.
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._descent import (
    BLOCKED,
    PINNED,
    Face,
    Penalty,
    descend,
    exchange,
    extend,
    free_nonzeros,
    side_of,
)
from vrmf.compiled import compiled, kernel_part

#: Most steps of coordinate descent with which cold codes begin. It finds the strongest entries fast, and is
#: slow from there on.
GREEDY_STEPS = 8

#: Coordinate descent ends when the square of a step is at most this share of the first one's.
GREEDY_END = 0.01

#: Pinned entries with more than this share of the largest pull are freed together.
FREED_TOGETHER = 0.6

#: Rounds that free no entry, and only fight rounding, after which a row is left to other methods.
MOST_IDLE_ROUNDS = 3


@compiled
def active_set_rows(
    C: Array,
    A: Array,
    H: Array,
    warm: bool,
    penalty: Penalty,
    allowed: Array,
    rounding: float,
    tiny: float,
    room: int,
    most_free: int,
    most_rounds: int,
    rounds: Array,
    error: Array,
) -> None:
    """Move each row of ``H`` to the minimum of F for the row of ``C``; from zero, unless ``warm``.

    The interval must contain 0. ``rounds`` says how many it took, negative if that was in vain: the error
    is above ``allowed`` and above ``rounding`` · ‖h‖ after ``most_rounds``, or more than ``most_free``
    entries would be free. ``room`` bounds how many are free at a time.
    """
    k, most = len(A), min(room, len(A))
    w, miss, scale = np.empty(k, A.dtype), np.empty(k, A.dtype), np.empty(k, A.dtype)
    for j in range(k):
        scale[j] = 1 / A[j, j] if A[j, j] > 0 else 0
    face = (
        np.empty(most, np.int64),
        np.empty(k, np.int64),
        np.empty(most, A.dtype),
        np.empty(most, A.dtype),
    )
    # The two columns beyond hold the rotations of an update.
    L = np.empty((most, most + 2), A.dtype)
    system = (L, np.empty(most, A.dtype), np.empty(most, A.dtype), np.empty(most, A.dtype))
    for row in range(len(C)):
        h, c = H[row], C[row]
        if not warm:
            h[:] = 0
            copy(w, c)
            greedy_steps(h, w, A, scale, penalty, min(GREEDY_STEPS, most), miss)
        size = free_nonzeros(h, penalty, face)
        factorised, spent, idle, stale = 0, 0, 0, warm
        while True:
            spent += 1
            wanted, size = size, extend(A, h, penalty, face, L, factorised, size, tiny)
            if stale or size < wanted:
                compute_force(c, A, h, penalty, face, size, w)
            before, size = size, descend(w, h, penalty, face, system, size)
            compute_force(c, A, h, penalty, face, size, w)
            error[row], norm = violations(h, w, penalty, miss)
            if error[row] <= max(allowed[row], rounding * norm):
                break
            unblock = stale or size < before
            factorised, size, stale = size, free_violators(h, w, penalty, miss, face, size, unblock), False
            if size == factorised:
                factorised, size = exchange(A, h, w, penalty, miss, face, system, size)
                stale = True
                idle += factorised == size
            if spent == most_rounds or idle > MOST_IDLE_ROUNDS or size > most_free:
                spent = -spent
                break
        rounds[row] = spent


@kernel_part
def greedy_steps(
    h: Array, w: Array, A: Array, scale: Array, penalty: Penalty, steps: int, gain: Array
) -> None:
    """Take steps of coordinate descent from 0, each on the entry that moves furthest, in place."""
    slope, low, high = penalty
    first = gain[0] * 0
    for step in range(steps):
        for j in range(len(h)):
            move = best_value(h[j], w[j], scale[j], slope, low, high) - h[j]
            gain[j] = move * move
        best = 0
        for j in range(len(h)):
            if gain[j] > gain[best]:
                best = j
        first = gain[best] if step == 0 else first
        if not gain[best] > GREEDY_END * first:
            return
        move = best_value(h[best], w[best], scale[best], slope, low, high) - h[best]
        h[best] += move
        line = A[best]
        for j in range(len(h)):
            w[j] -= move * line[j]


@kernel_part
def best_value(h: float, w: float, scale: float, slope: float, low: float, high: float) -> float:
    """Return the best value of an entry, all others as they are; ``scale`` is 1/A[j, j]."""
    z, threshold = h + w * scale, slope * scale
    z -= min(max(z, -threshold), threshold)
    return min(max(z, low), high)


@kernel_part
def compute_force(c: Array, A: Array, h: Array, penalty: Penalty, face: Face, size: int, w: Array) -> None:
    """Write w = c − hA, of the nonzero entries only, four at a time."""
    S, place = face[0], face[1]
    copy(w, c)
    a = 0
    while a + 4 <= size:
        h0, h1, h2, h3 = h[S[a]], h[S[a + 1]], h[S[a + 2]], h[S[a + 3]]
        A0, A1, A2, A3 = A[S[a]], A[S[a + 1]], A[S[a + 2]], A[S[a + 3]]
        for j in range(len(w)):
            w[j] -= h0 * A0[j] + h1 * A1[j] + h2 * A2[j] + h3 * A3[j]
        a += 4
    while a < size:
        subtract(w, h[S[a]], A[S[a]])
        a += 1
    _, low, high = penalty
    # Without such bounds all pinned entries are 0.
    if (low != 0 and low > -np.inf) or (high != 0 and high < np.inf):
        for j in range(len(h)):
            if place[j] < 0 and h[j] != 0:
                subtract(w, h[j], A[j])


@kernel_part
def subtract(w: Array, factor: float, line: Array) -> None:
    """Subtract factor · line from w."""
    for j in range(len(w)):
        w[j] -= factor * line[j]


@kernel_part
def violations(h: Array, w: Array, penalty: Penalty, miss: Array) -> tuple[float, float]:
    """Write how far each force is from the slopes of its penalty; return the norms of that and of h."""
    slope, low, high = penalty
    zero = slope * 0
    total, square = 0.0, 0.0  # in double precision: squares of large entries overflow in single
    for j in range(len(h)):
        right = slope if h[j] >= 0 else -slope
        left = slope if h[j] > 0 else -slope
        over, under = max(w[j] - right, zero), max(left - w[j], zero)
        m = (zero if h[j] >= high else over) + (zero if h[j] <= low else under)
        miss[j] = m
        total += np.float64(m) * np.float64(m)
        square += np.float64(h[j]) * np.float64(h[j])
    return np.sqrt(total), np.sqrt(square)


@kernel_part
def free_violators(
    h: Array, w: Array, penalty: Penalty, miss: Array, face: Face, size: int, unblock: bool
) -> int:
    """Free the pinned entries with the largest pulls, while there is room; return how many are free."""
    slope = penalty[0]
    S, place, side, _ = face
    worst = slope * 0
    for j in range(len(h)):
        if unblock and place[j] == BLOCKED:
            place[j] = PINNED
        if place[j] == PINNED and miss[j] > worst:
            worst = miss[j]
    if worst == 0:
        return size
    bar = FREED_TOGETHER * worst
    for j in range(len(h)):
        if place[j] == PINNED and miss[j] > bar and size < len(S):
            S[size], place[j] = j, size
            side[size] = side_of(h[j], w[j], slope)
            size += 1
    return size
