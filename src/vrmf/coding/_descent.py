"""Compiled: descent to the minimum of F over a face, for :mod:`vrmf.coding._active_set`."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._cholesky import delete_row, solve_lower, solve_upper
from vrmf.compiled import kernel_part

#: slope, low and high of the penalty.
Penalty = tuple[float, float, float]

#: The free entries; the place of each entry of a code among them, or PINNED, or BLOCKED; the side of 0 on
#: which each free entry stays (0 if there is no kink); its value.
Face = tuple[Array, Array, Array, Array]

#: The Cholesky factor L of A[S, S], with the inverses of its diagonal; y = L⁻¹ residual; the step; what of
#: y is left if the step is cut off at the ends.
System = tuple[Array, Array, Array, Array]

#: The place of an entry that is not free.
PINNED = -1

#: The place of an entry that is not free since it depends on free ones.
BLOCKED = -2


@kernel_part
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
            side[size] = side_of(h[j], h[j], slope)
            size += 1
    return size


@kernel_part
def side_of(h: float, pull: float, slope: float) -> float:
    """Return the side of 0 on which an entry stays that moves where it is pulled, 0 without a kink."""
    one = slope * 0 + 1
    if slope == 0:
        return slope
    return one if h > 0 or (h == 0 and pull > 0) else -one


@kernel_part
def extend(
    A: Array, h: Array, penalty: Penalty, face: Face, L: Array, factorised: int, size: int, tiny: float
) -> int:
    """Factorise the rows of free entries from ``factorised`` on; return how many are free then.

    Entries that depend on those before are blocked, at 0 or at the end next to it.
    """
    S, place, side, _ = face
    i = factorised
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


@kernel_part
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
        part, first = first_end(penalty, side, value, x, size)
        if first < 0:
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
        size = move(penalty, face, x, L, y, h, part, -1 if together else first, size)
    for a in range(size):
        h[S[a]] = value[a]
    return size


@kernel_part
def exchange(
    A: Array, h: Array, w: Array, penalty: Penalty, miss: Array, face: Face, system: System, size: int
) -> tuple[int, int]:
    """Let the blocked entry with the largest pull move, and free entries with it so that hD stays as it is.

    With A[S, S] z = A[S, j], the step eⱼ − z has no curvature; F falls along it up to the first end. The
    entry that arrives there is pinned, and entry j is free in its place. Returns how many free entries have
    a row of the factor, and how many there are: the same number if nothing was exchanged.
    """
    S, place, side, _ = face
    L, y, x, v = system
    j = -1
    for i in range(len(h)):
        if place[i] == BLOCKED and miss[i] > 0 and (j < 0 or miss[i] > miss[j]):
            j = i
    if j < 0:
        return size, size
    for a in range(size):
        v[a] = A[j, S[a]]
    solve_lower(L, v, size)
    solve_upper(L, v, x, size)
    own = side_of(h[j], w[j], penalty[0])
    direction = 1 if w[j] > own * penalty[0] else -1
    part, first = abs(end_of(penalty, own, direction > 0) - h[j]), -1
    for a in range(size):
        x[a] *= -direction
        if x[a] != 0:
            reached = (end_of(penalty, side[a], x[a] > 0) - h[S[a]]) / x[a]
            if reached < part:
                part, first = reached, a
    if not part < np.inf:
        return size, size
    for a in range(size):
        h[S[a]] += part * x[a]
    h[j] += direction * part
    place[j] = PINNED
    if first < 0:
        h[j] = end_of(penalty, own, direction > 0)
        return size, size
    h[S[first]] = end_of(penalty, side[first], x[first] > 0)
    size = remove(face, L, y, first, size)
    S[size], side[size], place[j] = j, own, size
    return size, size + 1


@kernel_part
def remove(face: Face, L: Array, y: Array, removed: int, size: int) -> int:
    """Take an entry out of the free ones; return how many are left."""
    S, place, side, value = face
    place[S[removed]] = PINNED
    delete_row(L, y, removed, size)
    for a in range(removed, size - 1):
        S[a], side[a], value[a] = S[a + 1], side[a + 1], value[a + 1]
        place[S[a]] = a
    return size - 1


@kernel_part
def end_of(penalty: Penalty, side: float, upwards: bool) -> float:
    """Return the end of the face for a free entry, in the given direction."""
    _, low, high = penalty
    if upwards:
        return min(high, 0) if side < 0 else high
    return max(low, 0) if side > 0 else low


@kernel_part
def first_end(penalty: Penalty, side: Array, value: Array, x: Array, size: int) -> tuple[float, int]:
    """Return the part of the step x at which the first entry arrives at an end, and which, −1 if none."""
    part, first = x[0] * 0 + 1, -1
    for a in range(size):
        end = end_of(penalty, side[a], x[a] > 0)
        if abs(x[a]) > abs(end - value[a]):
            reached = (end - value[a]) / x[a]
            if first < 0 or reached < part:
                part, first = reached, a
    return part, first


@kernel_part
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


@kernel_part
def move(
    penalty: Penalty,
    face: Face,
    x: Array,
    L: Array,
    y: Array,
    h: Array,
    part: float,
    first: int,
    size: int,
) -> int:
    """Take a part of the step x, up to the end of the entry ``first``; return how many are free after it.

    If ``first`` is −1, take all of it, each entry as far as its end. Entries at their end are pinned.
    """
    S, _, side, value = face
    for a in range(size - 1, -1, -1):
        end = end_of(penalty, side[a], x[a] > 0)
        room = abs(end - value[a])
        if abs(x[a]) <= room or (first >= 0 and a != first and part * abs(x[a]) < room):
            value[a] += x[a] if first < 0 else part * x[a]
            continue
        h[S[a]] = end
        size = remove(face, L, y, a, size)
    return size
