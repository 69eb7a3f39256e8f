"""Compiled descent by atoms: one after another, each to its minimum in a set of rows."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled, kernel_part

#: The sets that the kernel knows.
FREE, BALL, NONNEGATIVE, NONNEGATIVE_BALL, SIMPLEX = range(5)


#: Atoms that move before the gradients of all later ones follow, by one product of matrices.
BLOCK = 16


@compiled
def sweep_atoms(A: Array, G: Array, D: Array, kind: int, used: Array) -> None:
    """Move each used atom of D, in place, to the minimum of ½ tr(Dᵀ A D) + linear in its set.

    G is the gradient of the smooth part at the D that comes in. An atom needs its gradient after the
    moves of the atoms before it, so only the gradients of later atoms follow; G is overwritten.
    """
    k, d = D.shape
    moves, weights = np.empty((BLOCK, d), D.dtype), np.empty((k, BLOCK), D.dtype)
    for start in range(0, k, BLOCK):
        end = min(start + BLOCK, k)
        for j in range(start, end):
            move = moves[j - start]
            _move_atom(A, G, D, kind, used[j], j, move)
            for other in range(j + 1, end):
                weight, slope = A[other, j], G[other]
                for i in range(d):
                    slope[i] += weight * move[i]
        if end < k:
            for other in range(end, k):
                for j in range(start, end):
                    weights[other, j - start] = A[other, j]
            product = np.dot(weights[end:], moves)
            for other in range(end, k):
                for i in range(d):
                    G[other, i] += product[other - end, i]


@kernel_part
def _move_atom(A: Array, G: Array, D: Array, kind: int, used: bool, j: int, move: Array) -> None:
    """Move atom j to its minimum, and write by how much it moved."""
    if not used:
        move[:] = 0
        return
    inverse, atom, slope = 1 / A[j, j], D[j], G[j]
    for i in range(len(move)):
        move[i] = atom[i] - slope[i] * inverse
    if kind != FREE:
        _project(move, kind)
    for i in range(len(move)):
        old = atom[i]
        atom[i] = move[i]
        move[i] -= old


@kernel_part
def _project(z: Array, kind: int) -> None:
    """Replace z by the nearest point of the set."""
    if kind == SIMPLEX:
        _project_on_simplex(z)
        return
    if kind != BALL:
        for i in range(len(z)):
            z[i] = max(z[i], 0)
    if kind != NONNEGATIVE:
        total = 0.0
        for i in range(len(z)):
            total += np.float64(z[i]) * np.float64(z[i])
        if total > 1:
            scale = z.dtype.type(1 / np.sqrt(total))
            for i in range(len(z)):
                z[i] *= scale


@kernel_part
def _project_on_simplex(z: Array) -> None:
    """Subtract the threshold at which the positive part sums to 1, found from below, and clip.

    The threshold over some entries is at most the true one, so entries below it may be dropped [1]_.

    References
    ----------
    .. [1] C. Michelot, "A finite algorithm for finding the projection of a point onto the canonical
       simplex of Rⁿ", Journal of Optimization Theory and Applications 50 (1986).
    """
    largest = np.float64(z[0])
    for i in range(1, len(z)):
        largest = max(largest, np.float64(z[i]))
    # No entry more than 1 below the largest is positive in the projection.
    threshold, count = largest - 1, len(z) + 1
    while True:
        total, support = 0.0, 0
        for i in range(len(z)):
            if z[i] > threshold:
                total += np.float64(z[i]) - largest
                support += 1
        threshold = largest + (total - 1) / support
        # The support shrinks in each round, but for rounding: entries at the threshold may come and go.
        if support >= count:
            break
        count = support
    for i in range(len(z)):
        z[i] = max(np.float64(z[i]) - threshold, 0.0)
