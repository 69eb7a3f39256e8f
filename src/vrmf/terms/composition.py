"""When the proxes of the parts of a sum compose to the prox of the sum.

In general they do not. They do in three cases, which cover all eight formulations but one:

1. *Ridge*: the prox of step · (f + (μ/2)‖·‖²) at z is that of step/(1 + step μ) · f at z/(1 + step μ).
2. *Interval last*: for a sum over entries of functions of one variable, plus an interval for each
   entry, clip after the prox.
3. *Radial last*: for a positively homogeneous f plus an increasing function of the norm, apply the
   prox of f, then that of the radial part [1]_; the same holds group by group if f acts on entries.

Ridges may come at any place, so only the order of the other parts is to be found:

>>> from vrmf.terms import L1, NonNegative, Ridge, Simplex
>>> order_of_proxes([NonNegative().traits, Ridge(1.0).traits, L1(1.0).traits])
(2, 0)
>>> order_of_proxes([L1(1.0).traits, Simplex().traits]) is None
True

References
----------
.. [1] Y. Yu, "On decomposing the proximal map", NIPS 2013.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

from vrmf.terms.traits import Trait

Traits = frozenset[Trait]

#: What a sum has if all of its parts have it.
_INHERITED = frozenset({Trait.ENTRYWISE, Trait.HOMOGENEOUS, Trait.RADIAL, Trait.QUADRATIC, Trait.ROTATABLE})


def common_traits(parts: Iterable[Traits]) -> Traits:
    """Return the traits of a sum whose parts have the given ones."""
    return functools.reduce(frozenset.intersection, parts, _INHERITED)


def order_of_proxes(parts: Sequence[Traits]) -> tuple[int, ...] | None:
    """Return the order in which proxes compose to that of the sum, ridges left out, or None."""
    others = [number for number, traits in enumerate(parts) if Trait.RIDGE not in traits]
    orders = itertools.permutations(others)
    return next((order for order in orders if _composes([parts[number] for number in order])), None)


def _composes(order: Sequence[Traits]) -> bool:
    """Whether applying the proxes in this order, the first first, gives the prox of the sum."""
    for position in range(1, len(order)):
        before, last = common_traits(order[:position]), order[position]
        interval_last = Trait.ENTRYWISE in before and Trait.INTERVAL in last
        radial_last = Trait.HOMOGENEOUS in before and Trait.RADIAL in last
        groups_last = {Trait.HOMOGENEOUS, Trait.ENTRYWISE} <= before and Trait.GROUP_RADIAL in last
        if not (interval_last or radial_last or groups_last):
            return False
    return True
