"""Compiled: small positive definite systems, by Cholesky factors that can be updated."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import kernel_part


@kernel_part
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


@kernel_part
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


@kernel_part
def solve_lower(L: Array, y: Array, size: int) -> None:
    """Replace y by L⁻¹ y."""
    for i in range(size):
        total = y[i]
        for p in range(i):
            total -= L[i, p] * y[p]
        y[i] = total * L[i, i]


@kernel_part
def solve_upper(L: Array, y: Array, x: Array, size: int) -> None:
    """Write x = L⁻ᵀ y."""
    for i in range(size):
        x[i] = y[i]
    for i in range(size - 1, -1, -1):
        entry = x[i] * L[i, i]
        x[i] = entry
        for p in range(i):
            x[p] -= entry * L[i, p]


@kernel_part
def delete_row(L: Array, y: Array, deleted: int, size: int) -> None:
    """Delete a row of L; rotations of columns make it triangular again, and apply to y as well.

    The rotation of columns c and c + 1 is stored in L[c, c + 1] and L[c, c + 2], above the diagonal.
    """
    last = y[deleted]
    for i in range(deleted, size - 1):
        for p in range(deleted):
            L[i, p] = L[i + 1, p]
        carry = L[i + 1, deleted]
        for p in range(deleted, i):
            cosine, sine, right = L[p, p + 1], L[p, p + 2], L[i + 1, p + 1]
            L[i, p] = cosine * carry + sine * right
            carry = cosine * right - sine * carry
        diagonal = 1 / L[i + 1, i + 1]
        length = np.sqrt(carry * carry + diagonal * diagonal)
        cosine, sine = carry / length, diagonal / length
        L[i, i] = 1 / length
        L[i, i + 1], L[i, i + 2] = cosine, sine
        right = y[i + 1]
        y[i] = cosine * last + sine * right
        last = cosine * right - sine * last
