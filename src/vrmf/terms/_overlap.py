"""The prox of overlapping groups: accelerated projected gradient steps in the dual, compiled."""

from __future__ import annotations

import numpy as np

from vrmf._momentum import next_momentum
from vrmf.arrays import Array
from vrmf.compiled import compiled_in_order


@compiled_in_order
def overlapping_prox(
    Z: Array, members: Array, ends: Array, radii: Array, max_iter: int
) -> tuple[Array, int]:
    """Return the prox of each row z of ``Z``, and how many rows stopped short.

    Group g owns a dual vector u_g in the ball of radius ``radii[g]``, and p = z − Σ_g u_g. The dual
    objective ½‖p‖² has the Lipschitz constant of the largest number of groups that share a column.
    Momentum is restarted when it points uphill. (Cyclic projections need ten times as many steps on
    rows where a group is about to vanish.)
    """
    P = Z.copy()
    unfinished = 0
    shared = float(np.max(np.bincount(members)))
    u, y, new = np.empty(len(members)), np.empty(len(members)), np.empty(len(members))
    for row in range(len(Z)):
        z, p = Z[row], P[row]
        size = np.max(np.abs(z))
        u[:] = 0.0
        y[:] = 0.0
        t, moved, iteration = 1.0, size, 0
        while moved > 1e-15 * size and iteration < max_iter:
            p[:] = z
            for i in range(len(members)):
                p[members[i]] -= y[i]
            for g in range(len(radii)):
                norm = 0.0
                for i in range(ends[g], ends[g + 1]):
                    new[i] = y[i] + p[members[i]] / shared
                    norm += new[i] ** 2
                norm = np.sqrt(norm)
                if norm > radii[g]:
                    for i in range(ends[g], ends[g + 1]):
                        new[i] *= radii[g] / norm
            moved, uphill = 0.0, 0.0
            for i in range(len(members)):
                moved = max(moved, abs(new[i] - y[i]))
                uphill += (y[i] - new[i]) * (new[i] - u[i])
            momentum, t = next_momentum(t, uphill > 0)
            for i in range(len(members)):
                y[i] = new[i] + momentum * (new[i] - u[i])
                u[i] = new[i]
            iteration += 1
        if moved > 1e-12 * size:
            unfinished += 1
        p[:] = z
        for i in range(len(members)):
            p[members[i]] -= u[i]
        # A group whose dual vector lies inside its ball vanishes: exactly, not to rounding.
        for g in range(len(radii)):
            norm = 0.0
            for i in range(ends[g], ends[g + 1]):
                norm += u[i] ** 2
            if np.sqrt(norm) < (1 - 1e-9) * radii[g]:
                for i in range(ends[g], ends[g + 1]):
                    p[members[i]] = 0.0
    return P, unfinished
