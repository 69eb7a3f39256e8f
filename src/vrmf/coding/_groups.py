"""Compiled: splitting and optimality for groups of entries.

Group g owns the copies ``ends[g]:ends[g + 1]``, of the entries ``members``, and has the penalty
weights[g] · ‖z_g‖.
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled, kernel_part

#: Bound on the rounds over overlapping groups in search of their best subgradients.
MOST_ROUNDS = 500

#: Rounds end when one leaves more than this share of the error.
PROGRESS = 0.999

#: The groups, one after another: their entries, where each ends, and their weights.
Groups = tuple[Array, Array, Array]


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
    old_share = 1 - relax
    gap, moved, size, dual = zero, zero, zero, zero
    for row in range(len(H)):
        h, z, u, q = H[row], Z[row], U[row], Q[row]
        for j in range(H.shape[1]):
            q[j] = C[row, j]
        for g in range(len(weights)):
            square = zero
            for copy in range(ends[g], ends[g + 1]):
                u[copy] += relax * h[members[copy]] + old_share * z[copy]
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


@compiled
def overlap_conditions(
    P: Array, force: Array, members: Array, ends: Array, weights: Array, error: Array
) -> None:
    """Write a bound on the distance of 0 to the subdifferential of each row, for groups that overlap."""
    k = P.shape[1]
    h, left, u = np.empty(k), np.empty(k), np.empty(len(members))
    groups = (members, ends, weights)
    for row in range(len(P)):
        for j in range(k):
            h[j], left[j] = P[row, j], force[row, j]
        u[:] = 0
        error[row] = take_subgradients(h, left, groups, u)


@kernel_part
def take_subgradients(h: Array, left: Array, groups: Groups, u: Array) -> float:
    """Take subgradients of the groups off the force ``left``, so that little is left; return its norm.

    A group that is not zero has the one subgradient w_g · h_g/‖h_g‖. The others take turns: each adds what
    is left to its u_g, and shortens it to w_g. This never adds to the norm of what is left.
    """
    members, ends, weights = groups
    zero = np.empty(len(weights), np.bool_)
    vanishing = 0
    for group in range(len(weights)):
        length = length_of(h, groups, group)
        zero[group] = length == 0
        vanishing += zero[group]
        for i in range(ends[group], ends[group + 1]):
            if length > 0:
                u[i] = weights[group] * (h[members[i]] / length)
            left[members[i]] -= u[i]
    norm = np.inf
    for _ in range(MOST_ROUNDS):
        for group in range(len(weights)):
            if not zero[group]:
                continue
            square = 0.0
            for i in range(ends[group], ends[group + 1]):
                square += (u[i] + left[members[i]]) ** 2
            length = np.sqrt(square)
            shorten = weights[group] / length if length > weights[group] else 1.0
            for i in range(ends[group], ends[group + 1]):
                total = u[i] + left[members[i]]
                u[i] = shorten * total
                left[members[i]] = total - u[i]
        before, norm = norm, np.sqrt(np.dot(left, left))
        if vanishing < 2 or not norm < PROGRESS * before:
            break
    return norm


@kernel_part
def length_of(h: Array, groups: Groups, group: int) -> float:
    """Return ‖h_g‖."""
    members, ends, _ = groups
    square = 0.0
    for i in range(ends[group], ends[group + 1]):
        square += h[members[i]] ** 2
    return np.sqrt(square)
