"""Compiled: one step of splitting for many rows, all that is not a matrix product."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.compiled import compiled, kernel_part


@kernel_part
def entrywise_step(
    H: Array,
    Z: Array,
    U: Array,
    C: Array,
    Q: Array,
    rho: float,
    relax: float,
    slope: float,
    low: float,
    high: float,
) -> tuple[float, float, float, float]:
    """Update z, u and the next right-hand side; return sums of squares for the choice of ρ.

    With v = relax · h + (1 − relax) · z + u: z becomes prox(v), u becomes v − z, q = c + ρ(z − u).
    """
    threshold = slope / rho
    old_share = 1 - relax
    zero = slope * 0
    gap, moved, size, dual = zero, zero, zero, zero
    for row in range(len(H)):
        for j in range(H.shape[1]):
            h, old = H[row, j], Z[row, j]
            v = relax * h + old_share * old + U[row, j]
            z = v - min(max(v, -threshold), threshold)
            z = min(max(z, low), high)
            u = v - z
            Z[row, j] = z
            U[row, j] = u
            Q[row, j] = C[row, j] + rho * (z - u)
            gap += (h - z) * (h - z)
            moved += (z - old) * (z - old)
            size += z * z
            dual += u * u
    return gap, moved, size, dual


@compiled
def entrywise_steps(
    H: Array,
    Z: Array,
    U: Array,
    C: Array,
    Q: Array,
    inverse: Array,
    rho: float,
    relax: float,
    slope: float,
    low: float,
    high: float,
    steps: int,
) -> tuple[float, float, float, float]:
    """Take whole steps of splitting; see :func:`entrywise_step`.

    One call for many steps: threads that ask for the interpreter's lock at every step wait for it.
    """
    zero = slope * 0
    sums = (zero, zero, zero, zero)
    for _ in range(steps):
        np.dot(Q, inverse, H)
        sums = entrywise_step(H, Z, U, C, Q, rho, relax, slope, low, high)
    return sums
