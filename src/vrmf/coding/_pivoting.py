"""Compiled: Newton steps on the active set, for penalties slope·|h| + δ[low, high] of each entry.

An entry of a code is *pinned* where its penalty has a kink or an end, and *free* elsewhere. For a
given set of free entries the code solves a linear system; entries that break their condition change
sides, all at once, and the system is solved again [1]_.

References
----------
.. [1] J. Júdice, F. Pires, "A block principal pivoting algorithm for large-scale strictly monotone
   linear complementarity problems", Computers & Operations Research 21 (1994).
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._cholesky import dependent, solve
from vrmf.compiled import compiled, inlined, kernel_part

#: slope, low and high of the penalty.
Penalty = tuple[float, float, float]

#: The system: A, A⁻¹ (or A again), and whether A⁻¹ is known.
Matrices = tuple[Array, Array, bool]

#: Of each entry: whether it is pinned; where, or where it was; how far it moves to be there; what is left
#: of the force on it, if it is free; all of that times A⁻¹; the least and the most that may become of its
#: value, if it is free, or of the force on it, if it is pinned.
Sides = tuple[Array, Array, Array, Array, Array, Array, Array]

#: Room for the matrix, the right-hand side and the diagonal of a system, for pinned and for free entries.
Room = tuple[Array, Array, Array, Array, Array]


@compiled
def pivot(
    H: Array,
    force: Array,
    residual: Array,
    full_step: Array,
    matrices: Matrices,
    penalty: Penalty,
    slack: Array,
    tiny: float,
    most_free: int,
    max_rounds: int,
    rounds: Array,
) -> None:
    """Move the rows of ``H`` to their optimum; ``rounds`` says how many it took, negative if it failed.

    ``full_step`` is residual · A⁻¹, if that is known. Rows with more than ``most_free`` free entries fail
    at once.
    """
    k, dtype = H.shape[1], matrices[0].dtype
    numbers = np.empty((6, k), dtype)
    pinned, new = np.empty(k, np.bool_), np.empty(k, dtype)
    sides = (pinned, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])
    lists = np.empty((2, k + 1), np.int64)
    room = (np.empty((k, k), dtype), np.empty(k, dtype), np.empty(k, dtype), lists[0], lists[1])
    for row in range(len(H)):
        h, w = H[row], force[row]
        rounds[row] = -max_rounds
        begin(h, residual[row], full_step[row], penalty, slack[row], sides)
        attempt = 1
        while attempt <= max_rounds:
            n_pinned, n_free = list_sides(pinned, room)
            if matrices[2] and n_pinned <= n_free:
                if not step_by_pinned(h, w, matrices[1], sides, room, n_pinned, tiny, new):
                    break
            elif n_free > most_free:
                break
            else:
                dependent_entry = step_by_free(h, w, matrices[0], sides, room, n_pinned, n_free, tiny, new)
                if dependent_entry >= 0:
                    # Entries that others can replace stay where they are, and the round begins again.
                    if not set_aside(
                        h, w, matrices, sides, room, n_free, dependent_entry, slack[row], tiny
                    ):
                        break
                    continue
            if change_sides(h, w, matrices, penalty, slack[row], sides, new) == 0:
                for j in range(k):
                    h[j] = sides[1][j] if pinned[j] else new[j]
                rounds[row] = attempt
                break
            attempt += 1


@inlined
def begin(
    h: Array, residual: Array, full_step: Array, penalty: Penalty, slack: float, sides: Sides
) -> None:
    """Pin the entries that are at a kink or an end, and free the others."""
    slope, low, high = penalty
    pinned, place, move, r, u, least, most = sides
    for j in range(len(h)):
        pinned[j] = pin(h[j], slope, low, high, slack, least, most, j)
        if not pinned[j]:
            free(h[j], h[j] > 0, slope, low, high, least, most, j)
        place[j], move[j] = h[j], 0
        r[j], u[j] = residual[j], full_step[j]


@kernel_part
def list_sides(pinned: Array, room: Room) -> tuple[int, int]:
    """List the pinned and the free entries; return their numbers."""
    pins, frees = room[3], room[4]
    n_pinned, n_free = 0, 0
    for j in range(len(pinned)):
        pins[n_pinned] = j
        frees[n_free] = j
        n_pinned += pinned[j]
        n_free += not pinned[j]
    return n_pinned, n_free


@inlined
def step_by_pinned(
    h: Array, w: Array, inverse: Array, sides: Sides, room: Room, count: int, tiny: float, new: Array
) -> bool:
    """Write the values of free entries and the forces on pinned ones; return whether the system was solved.

    With F the pinned entries, the step is δ = u − A⁻¹[:, F] μ, where A⁻¹[F, F] μ = u[F] − δ[F]; the force
    on F becomes force[F] + μ.
    """
    _, _, move, _, u, _, _ = sides
    B, b, diagonal, F, _ = room
    for a in range(count):
        line = inverse[F[a]]
        for c in range(a, count):
            B[a, c] = line[F[c]]
        b[a] = u[F[a]] - move[F[a]]
    if solve(B, b, diagonal, count, tiny) >= 0:
        return False
    for j in range(len(new)):
        new[j] = u[j]
    subtract_rows(new, b, inverse, F, count)
    for j in range(len(new)):
        new[j] += h[j]
    for a in range(count):
        new[F[a]] = w[F[a]] + b[a]
    return True


@inlined
def step_by_free(
    h: Array,
    w: Array,
    A: Array,
    sides: Sides,
    room: Room,
    n_pinned: int,
    n_free: int,
    tiny: float,
    new: Array,
) -> int:
    """Write the same; return −1, or the place of a free entry that depends on those before it.

    With S the free and F the pinned entries, A[S, S] δ[S] = residual[S] − A[S, F] δ[F].
    """
    _, _, move, r, _, _, _ = sides
    B, b, diagonal, F, S = room
    for a in range(n_free):
        line = A[S[a]]
        for c in range(a, n_free):
            B[a, c] = line[S[c]]
        b[a] = r[S[a]]
    for j in range(len(new)):
        new[j] = w[j]
    for a in range(n_pinned):
        x = move[F[a]]
        if x != 0:
            line = A[F[a]]
            for j in range(len(new)):
                new[j] -= x * line[j]
            for c in range(n_free):
                b[c] -= x * line[S[c]]
    first = solve(B, b, diagonal, n_free, tiny)
    if first >= 0:
        return first
    subtract_rows(new, b, A, S, n_free)
    for a in range(n_free):
        new[S[a]] = h[S[a]] + b[a]
    return -1


@kernel_part
def set_aside(
    h: Array,
    w: Array,
    matrices: Matrices,
    sides: Sides,
    room: Room,
    n_free: int,
    first: int,
    slack: float,
    tiny: float,
) -> bool:
    """Pin all free entries that depend on others where they are; return whether they may be there."""
    A, inverse, by_inverse = matrices
    pinned, place, _, r, u, least, most = sides
    B, _, diagonal, _, S = room
    dependent(A, S[:n_free], B, diagonal, tiny)
    diagonal[first] = 0  # for sure, however sums were rounded
    feasible = True
    for a in range(n_free):
        if diagonal[a] > 0:
            continue
        j = S[a]
        feasible &= least[j] <= h[j] <= most[j]
        pinned[j] = True
        place[j] = h[j]
        if by_inverse:
            add_row(u, -r[j], inverse[j])
        at = w[j] - r[j]
        least[j], most[j] = at - 5 * slack, at + 5 * slack
        r[j] = 0
    return feasible


@inlined
def change_sides(
    h: Array, w: Array, matrices: Matrices, penalty: Penalty, slack: float, sides: Sides, new: Array
) -> int:
    """Let the entries that break their condition change sides, all at once; return their number."""
    slope, low, high = penalty
    pinned, place, move, r, u, least, most = sides
    wrong = 0
    for j in range(len(new)):
        wrong += (new[j] < least[j]) | (new[j] > most[j])
    if wrong == 0:
        return 0
    for j in range(len(new)):
        if least[j] <= new[j] <= most[j]:
            continue
        change = -r[j]
        if pinned[j]:
            at, upwards = place[j], new[j] > most[j]
            free(at, upwards, slope, low, high, least, most, j)
            pinned[j] = False
            change = w[j] - (slope if (at > 0) or (upwards and at == 0) else -slope)
            r[j], move[j] = change, 0
        else:
            at = least[j] if new[j] < least[j] else most[j]
            pin(at, slope, low, high, slack, least, most, j)
            pinned[j] = True
            place[j], move[j], r[j] = at, at - h[j], 0
        if matrices[2] and change != 0:
            add_row(u, change, matrices[1][j])
    return wrong


@inlined
def subtract_rows(new: Array, weights: Array, matrix: Array, chosen: Array, count: int) -> None:
    """Subtract Σₐ weightsₐ · matrix[chosenₐ] over the first ``count``, four rows at a time."""
    whole = count - count % 4
    for a in range(0, whole, 4):
        m0, m1 = matrix[chosen[a]], matrix[chosen[a + 1]]
        m2, m3 = matrix[chosen[a + 2]], matrix[chosen[a + 3]]
        w0, w1, w2, w3 = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        for j in range(len(new)):
            new[j] -= w0 * m0[j] + w1 * m1[j] + w2 * m2[j] + w3 * m3[j]
    for a in range(whole, count):
        add_row(new, -weights[a], matrix[chosen[a]])


@inlined
def add_row(u: Array, factor: float, line: Array) -> None:
    """Add factor · line to u."""
    for c in range(len(u)):
        u[c] += factor * line[c]


@inlined
def pin(
    at: float, slope: float, low: float, high: float, slack: float, least: Array, most: Array, j: int
) -> bool:
    """Write the bounds of the force on an entry pinned at ``at``; return whether it can be pinned there."""
    zero = slope * 0
    right = slope if at >= zero else -slope
    left = slope if at > zero else -slope
    least[j] = -np.inf if at <= low else left - slack
    most[j] = np.inf if at >= high else right + slack
    return (at <= low) | (at >= high) | (left < right)


@inlined
def free(
    at: float, upwards: bool, slope: float, low: float, high: float, least: Array, most: Array, j: int
) -> None:
    """Write the bounds of the value of an entry that moves from ``at`` in the given direction."""
    zero = slope * 0
    positive = (at > zero) | ((at == zero) & upwards)
    least[j] = max(low, zero) if (slope > zero) & positive else low
    most[j] = min(high, zero) if (slope > zero) & (not positive) else high
