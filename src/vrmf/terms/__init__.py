"""Convex terms: the sets and regularisers from which formulations are composed.

A term knows its value and its proximal operator. Terms add up where a theorem allows it:

>>> from vrmf.terms import Box, L1, NonNegative, UnitBall
>>> L1(0.1) + Box(-5.0, 5.0)
Sum(terms=(L1(weight=0.1), Box(low=-5.0, high=5.0)), iterative=False)

To write your own, subclass :class:`AbstractRowTerm` with a frozen dataclass and give it
``row_values`` and ``prox``; nothing else is needed.
"""

from vrmf.terms.base import AbstractRowTerm, AbstractSet, AbstractTerm, Sum
from vrmf.terms.groups import GroupL2
from vrmf.terms.penalties import L1, Free, MaxColumnNorm, Ridge
from vrmf.terms.quadratic import LowRankQuadratic, Quadratic, chain_laplacian, grid_laplacian
from vrmf.terms.sets import Absent, Box, NonNegative, Simplex, UnitBall
from vrmf.terms.traits import Canonical, Trait

__all__ = [
    "L1",
    "Absent",
    "AbstractRowTerm",
    "AbstractSet",
    "AbstractTerm",
    "Box",
    "Canonical",
    "Free",
    "GroupL2",
    "LowRankQuadratic",
    "MaxColumnNorm",
    "NonNegative",
    "Quadratic",
    "Ridge",
    "Simplex",
    "Sum",
    "Trait",
    "UnitBall",
    "chain_laplacian",
    "grid_laplacian",
]
