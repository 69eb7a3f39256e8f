"""Compiled: Nesterov's momentum, for kernels; see :func:`vrmf.momentum.next_momentum`."""

from __future__ import annotations

import numpy as np

from vrmf.compiled import kernel_part


@kernel_part
def next_momentum(t: float, restart: bool) -> tuple[float, float]:
    """Return the factor of momentum and the next t, from 1 again after a restart."""
    one = t / t
    t = one if restart else t
    faster = (one + np.sqrt(one + 4 * t * t)) / 2
    return (t - one) / faster, faster
