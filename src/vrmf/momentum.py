"""Nesterov's momentum, as accelerated proximal gradient methods (FISTA) use it [1]_.

References
----------
.. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
   problems", SIAM Journal on Imaging Sciences 2 (2009).
"""

from __future__ import annotations

from typing import TypeVar

from vrmf.arrays import Array

Number = TypeVar("Number", float, Array)


def next_momentum(t: Number) -> tuple[Number, Number]:
    """Return the factor of momentum, (t − 1) / t′, and the next t, t′ = (1 + √(1 + 4t²)) / 2.

    The next step starts at the present point plus the factor times the last move; the first t is 1.

    >>> next_momentum(1.0)
    (0.0, 1.618033988749895)
    """
    following = (1 + (1 + 4 * t * t) ** 0.5) / 2
    return (t - 1) / following, following
