"""Compiled: splitting and optimality for groups of entries.

Group g owns the copies ``ends[g]:ends[g + 1]``, of the entries ``members``, and has the penalty
weights[g] · ‖z_g‖.
"""

from __future__ import annotations

import numpy as np

from vrmf.compiled import compiled
from vrmf.terms.base import Array


@compiled
def group_step(
    H: Array,
    Z: Array,
    U: Array,
    C: Array,
    Q: Array,
    rho: float,
    relax: float,
    members: Array,
    ends: Array,
    weights: Array,
) -> tuple[float, float, float, float]:
    """Take the second half of a step of splitting; see ``AbstractForm.split_step``."""
    zero = rho * 0
    keep = 1 - relax
    gap, moved, size, dual = zero, zero, zero, zero
    for row in range(len(H)):
        h, z, u, q = H[row], Z[row], U[row], Q[row]
        for j in range(H.shape[1]):
            q[j] = C[row, j]
        for g in range(len(weights)):
            square = zero
            for copy in range(ends[g], ends[g + 1]):
                u[copy] += relax * h[members[copy]] + keep * z[copy]
                square += u[copy] * u[copy]
            length = np.sqrt(square)
            radius = weights[g] / rho
            shrink = 1 - radius / length if length > radius else zero
            for copy in range(ends[g], ends[g + 1]):
                j = members[copy]
                new = shrink * u[copy]
                left = u[copy] - new
                gap += (h[j] - new) * (h[j] - new)
                moved += (new - z[copy]) * (new - z[copy])
                size += new * new
                dual += left * left
                z[copy] = new
                u[copy] = left
                q[j] += rho * (new - left)
    return gap, moved, size, dual


@compiled
def merge_copies(Z: Array, members: Array, ends: Array, counts: Array, H: Array) -> None:
    """Write the mean of the copies of each entry, or 0 if a group that it is in vanishes."""
    for row in range(len(Z)):
        H[row] = 0
        for copy in range(len(members)):
            H[row, members[copy]] += Z[row, copy] / counts[members[copy]]
        for g in range(len(ends) - 1):
            empty = True
            for copy in range(ends[g], ends[g + 1]):
                empty &= Z[row, copy] == 0
            if empty:
                for copy in range(ends[g], ends[g + 1]):
                    H[row, members[copy]] = 0


@compiled
def group_conditions(
    P: Array, force: Array, members: Array, ends: Array, weights: Array, error: Array
) -> None:
    """Write the distance of 0 to the subdifferential of each row, for groups that do not overlap.

    The subgradient of a group is weight · p_g/‖p_g‖, or where the group vanishes, any vector of length
    at most the weight.
    """
    for row in range(len(P)):
        total = 0.0
        for g in range(len(weights)):
            square, pull = 0.0, 0.0
            for copy in range(ends[g], ends[g + 1]):
                p, w = P[row, members[copy]], force[row, members[copy]]
                square += np.float64(p) * p
                pull += np.float64(w) * w
            if square > 0:
                scale = weights[g] / np.sqrt(square)
                for copy in range(ends[g], ends[g + 1]):
                    miss = force[row, members[copy]] - scale * P[row, members[copy]]
                    total += miss * miss
            else:
                miss = max(np.sqrt(pull) - weights[g], 0.0)
                total += miss * miss
        error[row] = np.sqrt(total)
