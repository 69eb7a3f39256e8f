"""The prox of overlapping groups: cyclic projections in the dual, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from vrmf.terms.base import Array


@njit(cache=True, nogil=True)
def sweep_groups(
    P: Array, members: Array, ends: Array, radii: Array, max_sweeps: int
) -> int:  # pragma: no cover - compiled
    """Turn each row z of ``P`` into its prox, in place; return how many rows stopped short.

    Group g owns a dual vector u_g in the ball of radius ``radii[g]``. With p = z − Σ_g u_g kept up
    to date, its best value is the projection of u_g + p_g onto the ball, and p takes up the rest.
    """
    unfinished = 0
    u = np.empty(len(members))
    for row in range(len(P)):
        p = P[row]
        u[:] = 0.0
        size = 0.0
        for j in range(len(p)):
            size = max(size, abs(p[j]))
        moved = size
        sweeps = 0
        while moved > 1e-15 * size and sweeps < max_sweeps:
            moved = 0.0
            for g in range(len(radii)):
                norm = 0.0
                for i in range(ends[g], ends[g + 1]):
                    norm += (u[i] + p[members[i]]) ** 2
                norm = np.sqrt(norm)
                shrink = 1.0 if norm <= radii[g] else radii[g] / norm
                for i in range(ends[g], ends[g + 1]):
                    total = u[i] + p[members[i]]
                    kept = shrink * total
                    moved = max(moved, abs(kept - u[i]))
                    u[i] = kept
                    # A group inside its ball absorbs its entries whole: exact zeros.
                    p[members[i]] = total - kept
            sweeps += 1
        if moved > 1e-12 * size:
            unfinished += 1
    return unfinished
