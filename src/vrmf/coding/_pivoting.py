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

from vrmf.compiled import compiled
from vrmf.terms.base import Array


@compiled
def conditions(
    H: Array, force: Array, slope: float, low: float, high: float, residual: Array, error: Array
) -> None:
    """Write the residual of the free entries of each row, and how far the row is from optimal.

    ``force`` is c − hA, what pulls at each entry: at an optimum it lies between the slopes of the
    penalty on both sides of the entry. The residual of a pinned entry is 0.
    """
    zero = slope * 0
    for row in range(len(H)):
        square = 0.0  # in double precision: squares of large entries overflow in single
        for j in range(H.shape[1]):
            h, w = H[row, j], force[row, j]
            right = slope if h >= zero else -slope
            left = slope if h > zero else -slope
            over, under = max(w - right, zero), max(left - w, zero)
            miss = (zero if h >= high else over) + (zero if h <= low else under)
            square += np.float64(miss) * miss
            pinned = (h <= low) | (h >= high) | (left < right)
            residual[row, j] = zero if pinned else w - right
        error[row] = np.sqrt(square)


@compiled
def pivot(
    H: Array,
    force: Array,
    residual: Array,
    full_step: Array,
    A: Array,
    inverse: Array,
    by_inverse: bool,
    slope: float,
    low: float,
    high: float,
    slack: Array,
    tiny: float,
    most_free: int,
    max_rounds: int,
    rounds: Array,
) -> None:
    """Move the rows of ``H`` to their optimum; ``rounds`` says how many it took, negative if it failed.

    With F the pinned and S the free entries, the step δ solves A[S, S] δ[S] = residual[S] with δ[F]
    given. If more entries are free than pinned, and ``inverse`` = A⁻¹ is known, the system of the
    pinned ones is the smaller: δ = u − A⁻¹[:, F] μ, where u = ``full_step`` = residual · A⁻¹ and
    A⁻¹[F, F] μ = u[F] − δ[F]; the force on F becomes force[F] + μ. Rows with more than ``most_free`` free
    entries fail at once.
    """
    n, k = H.shape
    zero = slope * 0
    B = np.empty((k, k), A.dtype)
    b, diagonal = np.empty(k, A.dtype), np.empty(k, A.dtype)
    place, move, new = np.empty(k, A.dtype), np.empty(k, A.dtype), np.empty(k, A.dtype)
    u, r = np.empty(k, A.dtype), np.empty(k, A.dtype)
    least, most = np.empty(k, A.dtype), np.empty(k, A.dtype)
    pinned = np.empty(k, np.bool_)
    F, S = np.empty(k + 1, np.int64), np.empty(k + 1, np.int64)
    for row in range(n):
        h, w = H[row], force[row]
        rounds[row] = -max_rounds
        for j in range(k):
            pinned[j] = pin(h[j], slope, low, high, slack[row], least, most, j)
            if not pinned[j]:
                free(h[j], h[j] > zero, slope, low, high, least, most, j)
            place[j] = h[j]
            move[j] = zero
            r[j] = residual[row, j]
            u[j] = full_step[row, j]
        attempt = 1
        while attempt <= max_rounds:
            n_pinned, n_free = 0, 0
            for j in range(k):
                F[n_pinned] = j
                S[n_free] = j
                n_pinned += pinned[j]
                n_free += not pinned[j]
            if by_inverse and n_pinned <= n_free:
                for a in range(n_pinned):
                    line = inverse[F[a]]
                    for c in range(a, n_pinned):
                        B[a, c] = line[F[c]]
                    b[a] = u[F[a]] - move[F[a]]
                if solve(B, b, diagonal, n_pinned, tiny) >= 0:
                    break
                for j in range(k):
                    new[j] = u[j]
                for a in range(n_pinned):
                    line, x = inverse[F[a]], b[a]
                    for j in range(k):
                        new[j] -= x * line[j]
                for j in range(k):
                    new[j] += h[j]
                for a in range(n_pinned):
                    new[F[a]] = w[F[a]] + b[a]
            elif n_free > most_free:
                break
            else:
                for a in range(n_free):
                    line = A[S[a]]
                    for c in range(a, n_free):
                        B[a, c] = line[S[c]]
                    b[a] = r[S[a]]
                for j in range(k):
                    new[j] = w[j]
                for a in range(n_pinned):
                    x = move[F[a]]
                    if x != zero:
                        line = A[F[a]]
                        for j in range(k):
                            new[j] -= x * line[j]
                        for c in range(n_free):
                            b[c] -= x * line[S[c]]
                first = solve(B, b, diagonal, n_free, tiny)
                if first >= 0:
                    # Entries that others can replace stay where they are, and the round begins again.
                    dependent(A, S[:n_free], B, diagonal, tiny)
                    diagonal[first] = zero  # for sure, however sums were rounded
                    stuck = False
                    for a in range(n_free):
                        if diagonal[a] > zero:
                            continue
                        j = S[a]
                        stuck |= not least[j] <= h[j] <= most[j]
                        pinned[j] = True
                        place[j] = h[j]
                        if by_inverse:
                            line = inverse[j]
                            for c in range(k):
                                u[c] -= r[j] * line[c]
                        at = w[j] - r[j]
                        least[j], most[j] = at - 5 * slack[row], at + 5 * slack[row]
                        r[j] = zero
                    if stuck:
                        break
                    continue
                for a in range(n_free):
                    line, x = A[S[a]], b[a]
                    for j in range(k):
                        new[j] -= x * line[j]
                for a in range(n_free):
                    new[S[a]] = h[S[a]] + b[a]
            wrong = 0
            for j in range(k):
                wrong += (new[j] < least[j]) | (new[j] > most[j])
            if wrong == 0:
                for j in range(k):
                    h[j] = place[j] if pinned[j] else new[j]
                rounds[row] = attempt
                break
            for j in range(k):
                if least[j] <= new[j] <= most[j]:
                    continue
                change = -r[j]
                if pinned[j]:
                    at, upwards = place[j], new[j] > most[j]
                    free(at, upwards, slope, low, high, least, most, j)
                    pinned[j] = False
                    change = w[j] - (slope if (at > zero) or (upwards and at == zero) else -slope)
                    r[j] = change
                    move[j] = zero
                else:
                    at = least[j] if new[j] < least[j] else most[j]
                    pin(at, slope, low, high, slack[row], least, most, j)
                    pinned[j] = True
                    place[j] = at
                    move[j] = at - h[j]
                    r[j] = zero
                if by_inverse and change != zero:
                    line = inverse[j]
                    for c in range(k):
                        u[c] += change * line[c]
            attempt += 1


@compiled
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


@compiled
def free(
    at: float, upwards: bool, slope: float, low: float, high: float, least: Array, most: Array, j: int
) -> None:
    """Write the bounds of the value of an entry that moves from ``at`` in the given direction."""
    zero = slope * 0
    positive = (at > zero) | ((at == zero) & upwards)
    least[j] = max(low, zero) if (slope > zero) & positive else low
    most[j] = min(high, zero) if (slope > zero) & (not positive) else high


@compiled
def solve(B: Array, b: Array, diagonal: Array, size: int, tiny: float) -> int:
    """Solve B x = b in place for the leading ``size`` rows of a positive definite B.

    Only the upper triangle is read, and overwritten by the Cholesky factor. Rows are eliminated four
    at a time, and slices begin at the diagonal, so that the inner loops run on vector units. Returns
    −1, or the index of a row that depends on those before it.
    """
    for i in range(size):
        diagonal[i] = B[i, i]
    start = 0
    while start < size:
        end = min(start + 4, size)
        for i in range(start, end):
            row = B[i, i:size]
            for p in range(start, i):
                above = B[p, i:size]
                f = above[0]
                for j in range(len(row)):
                    row[j] -= f * above[j]
                b[i] -= f * b[p]
            if not row[0] > tiny * diagonal[i]:
                return i
            shrink = 1 / np.sqrt(row[0])
            for j in range(len(row)):
                row[j] *= shrink
            b[i] *= shrink
        if end == start + 4:
            for i in range(end, size):
                row, p0, p1 = B[i, i:size], B[start, i:size], B[start + 1, i:size]
                p2, p3 = B[start + 2, i:size], B[start + 3, i:size]
                f0, f1, f2, f3 = p0[0], p1[0], p2[0], p3[0]
                for j in range(len(row)):
                    row[j] -= f0 * p0[j] + f1 * p1[j] + f2 * p2[j] + f3 * p3[j]
                b[i] -= f0 * b[start] + f1 * b[start + 1] + f2 * b[start + 2] + f3 * b[start + 3]
        start = end
    for i in range(size - 1, -1, -1):
        row, known = B[i, i:size], b[i:size]
        s = known[0]
        for j in range(1, len(row)):
            s -= row[j] * known[j]
        b[i] = s / row[0]
    return -1


@compiled
def dependent(A: Array, S: Array, B: Array, diagonal: Array, tiny: float) -> None:
    """Write 0 into ``diagonal`` for each entry of S that depends on those before it, else its pivot.

    ``B`` is overwritten by the Cholesky factor of A[S, S] without those entries.
    """
    size = len(S)
    for i in range(size):
        row = B[i, i:size]
        for j in range(len(row)):
            row[j] = A[S[i], S[i + j]]
        least = tiny * row[0]
        for p in range(i):
            above = B[p, i:size]
            f = above[0]
            if f != 0:
                for j in range(len(row)):
                    row[j] -= f * above[j]
        if row[0] > least:
            shrink = 1 / np.sqrt(row[0])
            diagonal[i] = row[0]
            for j in range(len(row)):
                row[j] *= shrink
        else:
            diagonal[i] = 0
            row[:] = 0
