"""What a term is: a convex function with a value and a proximal operator.

Every regulariser and every set of a formulation is one term, a small frozen value:

>>> from vrmf.terms import L1, NonNegative, UnitBall
>>> import numpy as np
>>> L1(2.0).value(np.array([[1.0, -3.0]]))
8.0
>>> NonNegative().prox(np.array([[1.0, -3.0]]), 1.0)
array([[1., 0.]])
>>> (NonNegative() + UnitBall()).prox(np.array([[3.0, -4.0]]), 1.0)
array([[1., 0.]])

A term acts on a matrix. Most act on each of its rows alone (:class:`AbstractRowTerm`), and only
those can describe codes and outliers, where a row is a sample; the others couple the rows
(:class:`AbstractTerm`), as the max-norm does.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vrmf.arrays import Array

if TYPE_CHECKING:
    from vrmf.terms.groups import GroupL2
    from vrmf.terms.sums import Sum


class Trait(enum.Enum):
    """A property of a term that decides how it may be combined with others."""

    ENTRYWISE = "a sum over entries of one function of one variable"
    INTERVAL = "the indicator of an interval for each entry"
    HOMOGENEOUS = "f(c z) = c f(z) for every c > 0"
    RADIAL = "an increasing function of the norm of the row"
    GROUP_RADIAL = "a sum of increasing functions of the norms of disjoint parts of the row"
    QUADRATIC = "½ tr(Z Q Zᵀ): the prox is linear and commutes with rotations of the rows"
    ROTATABLE = "unchanged when an orthogonal matrix mixes the rows"


@dataclass(frozen=True)
class Canonical:
    """A row term in numbers, as compiled kernels take it.

    f(z) = slope·‖z‖₁ + (ridge/2)‖z‖² + groups(z) for low ≤ zⱼ ≤ high, and ‖z‖ ≤ 1 if ``in_ball``.

    >>> Canonical(slope=0.5) + Canonical(low=0.0) + Canonical(ridge=0.1)
    Canonical(slope=0.5, ridge=0.1, low=0.0, high=inf, in_ball=False, groups=None)
    """

    slope: float = 0.0
    ridge: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    in_ball: bool = False
    groups: GroupL2 | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.slope < math.inf and 0 <= self.ridge < math.inf and self.low <= self.high):
            raise ValueError(f"{self!r} is no convex term. Use slope ≥ 0, ridge ≥ 0 and low ≤ high.")

    def __add__(self, other: Canonical) -> Canonical | None:
        """Return the form of the sum, or None if both have groups."""
        if self.groups is not None and other.groups is not None:
            return None
        return Canonical(
            self.slope + other.slope,
            self.ridge + other.ridge,
            max(self.low, other.low),
            min(self.high, other.high),
            self.in_ball or other.in_ball,
            self.groups or other.groups,
        )

    @property
    def is_entrywise(self) -> bool:
        """Whether the term acts on each entry alone."""
        return not self.in_ball and self.groups is None

    @property
    def is_radial(self) -> bool:
        """Whether the term depends on the norm of the row alone."""
        return self.slope == 0 and self.groups is None and self.low == -math.inf and self.high == math.inf

    @property
    def is_plain(self) -> bool:
        """Whether the term is a ridge, or nothing."""
        return self.is_radial and not self.in_ball


class AbstractTerm(ABC):
    """A convex function of a matrix.

    Parameters of a term are fields of a frozen dataclass, so that terms print, compare, pickle
    and can be stored in a file.
    """

    #: What is known of this term; ``Sum`` and the dictionary updates of SMM read it.
    traits: ClassVar[frozenset[Trait]] = frozenset()
    #: Number of columns that the term needs, or None if any will do.
    width: int | None = None
    #: Lipschitz constant of the gradient, infinite where there is none.
    smoothness: float = math.inf
    #: The term in the numbers that compiled kernels take, or None if it has no such form. A term of your
    #: own that declares it gets the fast methods for codes.
    canonical: Canonical | None = None

    @abstractmethod
    def value(self, Z: Array) -> float:
        """Return f(Z), infinite outside of the set that the term describes."""

    @abstractmethod
    def prox(self, Z: Array, step: float) -> Array:
        """Return argmin over P of ½‖P − Z‖² + step · f(P), as a new array."""

    def envelope_gradient(self, Z: Array) -> Array:
        """Return Z − prox(Z, 1), the gradient of the Moreau envelope min over P of ½‖P − Z‖² + f(P).

        Terms whose prox is near Z where Z is large compute it without the difference, which loses all
        digits there.

        >>> from vrmf.terms import L1
        >>> L1(0.1).envelope_gradient(np.array([[1e20, 0.0]]))
        array([[0.1, 0. ]])
        """
        return Z - self.prox(Z, 1.0)

    def __add__(self, other: AbstractTerm) -> Sum:
        from vrmf.terms.sums import Sum

        return Sum((self, other))


class AbstractRowTerm(AbstractTerm):
    """A convex function that is a sum over rows, each row by itself."""

    @abstractmethod
    def row_values(self, Z: Array) -> Array:
        """Return the value of each row, shape (rows,)."""

    def value(self, Z: Array) -> float:
        return float(np.sum(self.row_values(Z), dtype=np.float64))


class AbstractSet(AbstractRowTerm):
    """The indicator of a convex set of rows: 0 inside, infinite outside; its prox is the projection."""

    @abstractmethod
    def violation(self, Z: Array) -> Array:
        """Return how far each row breaks the constraint, 0 inside the set, shape (rows,)."""

    def row_values(self, Z: Array) -> Array:
        return np.where(self.violation(Z) <= feasibility_tolerance(Z.dtype), 0.0, np.inf)


def feasibility_tolerance(dtype: Any) -> float:
    """Return the violation that rounding may cause: 1e-10, or 1e-5 in single precision.

    >>> feasibility_tolerance(np.float64)
    1e-10
    """
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-10
