"""Compiled: sparse codes by descent from face to face, one row at a time.

For one row minimise F(h) = ½ hAhᵀ − c·h + Σⱼ slope·|hⱼ| with low ≤ hⱼ ≤ high. The *free* entries S of a
code move, each on its side of 0 and between the bounds; the others are *pinned* at 0 or at a bound. A round

1. moves the free entries to the minimum of F over their face: the step x solves A[S, S] x = residual, and
   entries that would leave the face stop at its end, where they are pinned;
2. computes the force w = c − hA on all entries, and frees pinned ones that it pulls away, those with the
   largest pull together.

Each step lowers F. Freed entries may block each other at first; those that the step would move to the wrong
side are pinned again, and one that moves to the right side is always among them, since the step points
downhill. So no face is visited twice, but for rounding, and rounds are bounded for that.

With the Cholesky factor L of A[S, S] and y = L⁻¹ residual, F is ½‖y‖² above its minimum over the face
without ends. Factor and y are updated as entries come and go, which costs |S|² operations; the force
costs |S|·k.
"""

from __future__ import annotations

import numpy as np

from vrmf.coding._cholesky import delete_row, solve_lower, solve_upper
from vrmf.compiled import compiled
from vrmf.terms.base import Array

#: Most steps of coordinate descent with which cold codes begin. It finds the strongest entries fast, and is
#: slow from there on.
GREEDY_STEPS = 8

#: Coordinate descent ends when the square of a step is at most this share of the first one's.
GREEDY_END = 0.01

#: Pinned entries with more than this share of the largest pull are freed together.
FREED_TOGETHER = 0.6

#: Rounds after which a row is left to other methods.
MOST_ROUNDS = 60

#: Rounds that free no entry, and only fight rounding, after which a row is left to other methods.
MOST_IDLE_ROUNDS = 3

#: An entry that is this part of its way short of an end has arrived.
ARRIVED = 1e-13


#: slope, low and high of the penalty.
Penalty = tuple[float, float, float]

#: The free entries; the place of each entry of a code among them, or PINNED, or BLOCKED; the side of 0 on
#: which each free entry stays (0 if there is no kink); its value.
Face = tuple[Array, Array, Array, Array]

#: The Cholesky factor L of A[S, S], with the inverses of its diagonal; y = L⁻¹ residual; the step; what of
#: y is left if the step is cut off at the ends.
System = tuple[Array, Array, Array, Array]

#: Not free; not free, and dependent on those that are.
PINNED, BLOCKED = -1, -2


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
    most_free: int,
    rounds: Array,
    error: Array,
) -> None:
    """Move each row of ``H`` to the minimum of F for the row of ``C``; from zero, unless ``warm``.

    The interval must contain 0. ``rounds`` says how many it took, negative if the error is above
    ``allowed`` and above ``rounding`` · ‖h‖, or if more than ``most_free`` entries would be free.
    """
    k, most = len(A), min(most_free, len(A))
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
            w[:] = c
            greedy_steps(h, w, A, scale, penalty, miss)
        size = free_nonzeros(h, penalty, face)
        kept, spent, idle, stale = 0, 0, 0, warm
        while True:
            spent += 1
            wanted, size = size, extend(A, h, penalty, face, L, kept, size, tiny)
            if stale or size < wanted:
                compute_force(c, A, h, penalty, face, size, system[2], w)
            idle += size == kept
            kept, stale = descend(w, h, penalty, face, system, size), False
            unblock = kept < size
            compute_force(c, A, h, penalty, face, kept, system[2], w)
            error[row], norm = violations(h, w, penalty, miss)
            if error[row] <= max(allowed[row], rounding * norm):
                break
            size = free_violators(h, w, penalty, miss, face, kept, unblock)
            if spent == MOST_ROUNDS or idle > MOST_IDLE_ROUNDS or size > most:
                spent = -spent
                break
        rounds[row] = spent


@compiled
def greedy_steps(h: Array, w: Array, A: Array, scale: Array, penalty: Penalty, gain: Array) -> None:
    """Take steps of coordinate descent from 0, each on the entry that moves furthest, in place."""
    slope, low, high = penalty
    first = gain[0] * 0
    for step in range(GREEDY_STEPS):
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


@compiled
def best_value(h: float, w: float, scale: float, slope: float, low: float, high: float) -> float:
    """Return the best value of an entry, all others as they are; ``scale`` is 1/A[j, j]."""
    z, threshold = h + w * scale, slope * scale
    z -= min(max(z, -threshold), threshold)
    return min(max(z, low), high)


@compiled
def free_nonzeros(h: Array, penalty: Penalty, face: Face) -> int:
    """Free the entries at no kink or end, and return their number; where room ends, they become 0."""
    slope, low, high = penalty
    S, place, side, _ = face
    size = 0
    for j in range(len(h)):
        place[j] = PINNED
        if h[j] != 0 and low < h[j] < high:
            if size == len(S):
                h[j] = min(max(0, low), high)
                continue
            S[size], place[j] = j, size
            side[size] = 0 if slope == 0 else (1 if h[j] > 0 else -1)
            size += 1
    return size


@compiled
def extend(
    A: Array, h: Array, penalty: Penalty, face: Face, L: Array, kept: int, size: int, tiny: float
) -> int:
    """Factorise the rows of free entries from ``kept`` on; return how many are free then.

    Entries that depend on those before are blocked, at 0 or at the end next to it.
    """
    S, place, side, _ = face
    i = kept
    while i < size:
        line = A[S[i]]
        square = line[S[i]]
        for j in range(i):
            entry = line[S[j]]
            for p in range(j):
                entry -= L[i, p] * L[j, p]
            entry *= L[j, j]
            L[i, j] = entry
            square -= entry * entry
        if square > tiny * line[S[i]]:
            L[i, i] = 1 / np.sqrt(square)
            i += 1
            continue
        blocked, size = S[i], size - 1
        place[blocked] = BLOCKED
        if penalty[1] < h[blocked] < penalty[2]:
            h[blocked] = min(max(0, penalty[1]), penalty[2])
        if i < size:
            S[i], side[i] = S[size], side[size]
            place[S[i]] = i
    return size


@compiled
def descend(w: Array, h: Array, penalty: Penalty, face: Face, system: System, size: int) -> int:
    """Move the free entries to the minimum of F over their face; return how many are still free.

    A step leads to the minimum regardless of ends. If it crosses some, there are two ways: to the first of
    them, which leaves (1 − t) y, or, each entry for itself, as far as its end, which leaves v = Lᵀe where e
    is what is cut off. The shorter of both is better, since F is ½‖y‖² above its minimum.
    """
    slope = penalty[0]
    S, _, side, value = face
    L, y, x, v = system
    for a in range(size):
        value[a] = h[S[a]]
        y[a] = w[S[a]] - slope * side[a]
    solve_lower(L, y, size)
    while size > 0:
        solve_upper(L, y, x, size)
        part, crossed = first_end(penalty, side, value, x, size)
        if not crossed:
            for a in range(size):
                value[a] += x[a]
            break
        cut_off(penalty, side, value, x, L, v, size)
        square, shorter = y[0] * 0, y[0] * 0
        for a in range(size):
            square += y[a] * y[a]
            shorter += v[a] * v[a]
        together = shorter < (1 - part) * (1 - part) * square
        for a in range(size):
            y[a] = v[a] if together else (1 - part) * y[a]
        size = move(penalty, face, x, L, y, h, 1.0 if together else part, together, size)
    for a in range(size):
        h[S[a]] = value[a]
    return size


@compiled
def end_of(penalty: Penalty, side: float, upwards: bool) -> float:
    """Return the end of the face for a free entry, in the given direction."""
    _, low, high = penalty
    if upwards:
        return min(high, 0) if side < 0 else high
    return max(low, 0) if side > 0 else low


@compiled
def first_end(penalty: Penalty, side: Array, value: Array, x: Array, size: int) -> tuple[float, bool]:
    """Return the part of the step x at which the first entry arrives at an end, and whether one does."""
    part, crossed = x[0] * 0 + 1, False
    for a in range(size):
        end = end_of(penalty, side[a], x[a] > 0)
        if abs(x[a]) > abs(end - value[a]):
            part = min(part, (end - value[a]) / x[a])
            crossed = True
    return part, crossed


@compiled
def cut_off(penalty: Penalty, side: Array, value: Array, x: Array, L: Array, v: Array, size: int) -> None:
    """Write v = Lᵀe, where e is what of the step x lies beyond the ends."""
    v[:size] = 0
    for a in range(size):
        end = end_of(penalty, side[a], x[a] > 0)
        if abs(x[a]) > abs(end - value[a]):
            beyond = value[a] + x[a] - end
            for p in range(a):
                v[p] += beyond * L[a, p]
            v[a] += beyond / L[a, a]


@compiled
def move(
    penalty: Penalty,
    face: Face,
    x: Array,
    L: Array,
    y: Array,
    h: Array,
    part: float,
    together: bool,
    size: int,
) -> int:
    """Take a part of the step x, and pin the entries that arrive at an end; return how many are free.

    ``together`` takes each entry as far as its end, and pins all that would cross it.
    """
    S, place, side, value = face
    for a in range(size - 1, -1, -1):
        end = end_of(penalty, side[a], x[a] > 0)
        room = abs(end - value[a])
        if abs(x[a]) <= room or (not together and part * abs(x[a]) < room * (1 - ARRIVED)):
            value[a] += part * x[a]
            continue
        h[S[a]], place[S[a]] = end, PINNED
        delete_row(L, y, a, size)
        size -= 1
        for b in range(a, size):
            S[b], side[b], value[b] = S[b + 1], side[b + 1], value[b + 1]
            place[S[b]] = b
    return size


@compiled
def compute_force(
    c: Array, A: Array, h: Array, penalty: Penalty, face: Face, size: int, x: Array, w: Array
) -> None:
    """Write w = c − hA, of the nonzero entries only, four at a time."""
    S, place = face[0], face[1]
    w[:] = c
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


@compiled
def subtract(w: Array, factor: float, line: Array) -> None:
    """Subtract factor · line from w."""
    for j in range(len(w)):
        w[j] -= factor * line[j]


@compiled
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


@compiled
def free_violators(
    h: Array, w: Array, penalty: Penalty, miss: Array, face: Face, size: int, unblock: bool
) -> int:
    """Free the pinned entries with the largest pulls; return how many are free, or one more than fit."""
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
        if place[j] == PINNED and miss[j] > bar:
            if size == len(S):
                return size + 1
            S[size], place[j] = j, size
            positive = h[j] > 0 or (h[j] == 0 and w[j] > 0)
            side[size] = 0 if slope == 0 else (1 if positive else -1)
            size += 1
    return size
