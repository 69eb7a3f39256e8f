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
(:class:`AbstractTerm`), as the max-norm does. Row terms add up to a :class:`Sum`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vrmf.arrays import Array, within
from vrmf.checks import check_flags
from vrmf.lazily import computed_once
from vrmf.terms.composition import common_traits, order_of_proxes
from vrmf.terms.douglas_rachford import split_prox
from vrmf.terms.traits import Canonical, Trait

#: Bound on the parts of a sum, since all orders of them are tried.
MOST_PARTS = 6


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


@dataclass(frozen=True)
class Sum(AbstractRowTerm):
    """The sum of row terms, f = Σᵢ termsᵢ.

    Parameters
    ----------
    terms : sequence of AbstractRowTerm
        The parts; sums among them are taken apart.
    iterative : bool
        Whether to compute the prox by Douglas–Rachford splitting, to rounding level, where no
        closed form is known. The result lies exactly in the sets of the second half of the split.

    Examples
    --------
    >>> from vrmf.terms import L1, NonNegative, Ridge, Simplex, UnitBall
    >>> both = Sum((NonNegative(), UnitBall()))
    >>> both.prox(np.array([[3.0, 4.0, -12.0]]), step=1.0)
    array([[0.6, 0.8, 0. ]])
    >>> (L1(1.0) + NonNegative() + Ridge(1.0)).prox(np.array([[5.0, -2.0]]), step=1.0)
    array([[2., 0.]])
    >>> L1(1.0) + Simplex()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: No closed-form prox is known for L1(weight=1.0) + Simplex(). Use `Sum(terms, ...
    """

    terms: tuple[AbstractTerm, ...]
    iterative: bool = False

    def __post_init__(self) -> None:
        check_flags(self)
        if not isinstance(self.terms, Iterable):
            raise ValueError(f"`terms` is {self.terms!r}. Use a sequence of terms.")
        parts: list[AbstractTerm] = []
        for term in self.terms:
            parts.extend(term.terms if isinstance(term, Sum) else [term])
        if len(parts) > MOST_PARTS:
            raise ValueError(f"`terms` has {len(parts)} parts. Use at most {MOST_PARTS}.")
        iterative = self.iterative or any(isinstance(t, Sum) and t.iterative for t in self.terms)
        _check_parts(parts)
        object.__setattr__(self, "terms", tuple(parts))
        object.__setattr__(self, "iterative", iterative)
        if self._order is None and not (iterative and self._two_parts):
            names = " + ".join(map(repr, parts))
            remedy = (
                "It does not split into two halves with known proxes either."
                if iterative
                else "Use `Sum(terms, iterative=True)` to compute it by Douglas–Rachford splitting."
            )
            raise ValueError(f"No closed-form prox is known for {names}. {remedy}")

    @property
    def traits(self) -> frozenset[Trait]:  # type: ignore[override]
        return common_traits(term.traits for term in self.terms)

    @property
    def width(self) -> int | None:  # type: ignore[override]
        return next((term.width for term in self.terms if term.width is not None), None)

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return sum(term.smoothness for term in self.terms)

    @computed_once
    def ridge(self) -> float:
        """The weight of all ridges among the parts."""
        forms = [term.canonical for term in self.terms if Trait.RIDGE in term.traits]
        return float(sum(form.ridge for form in forms if form is not None))

    @computed_once
    def canonical(self) -> Canonical | None:
        total: Canonical | None = Canonical()
        for term in self.terms:
            total = None if total is None or term.canonical is None else total + term.canonical
        return total

    def row_values(self, Z: Array) -> Array:
        return np.sum([term.row_values(Z) for term in self._rows], axis=0)

    def prox(self, Z: Array, step: float) -> Array:
        if self._order is None:
            assert self._two_parts is not None
            return split_prox(*self._two_parts, Z, step, self)
        ridge, step = self.ridge, float(step)
        P = Z / within(1 + step * ridge, Z.dtype)
        step = step / (1 + step * ridge) if step < 1 else 1 / (1 / step + ridge)
        for term in self._order:
            P = term.prox(P, step)
        return P

    def envelope_gradient(self, Z: Array) -> Array:
        form = self.canonical
        if form is None or not form.is_entrywise:
            return super().envelope_gradient(Z)
        weight = within(form.slope, Z.dtype)
        G = np.minimum(np.maximum(Z, -weight), weight)
        G += form.ridge / (1 + form.ridge) * (Z - G)
        return np.minimum(np.maximum(G, Z - form.high), Z - form.low)

    @property
    def _rows(self) -> tuple[AbstractRowTerm, ...]:
        return tuple(term for term in self.terms if isinstance(term, AbstractRowTerm))

    @computed_once
    def _order(self) -> tuple[AbstractTerm, ...] | None:
        """The order in which proxes compose to that of the sum, ridges aside, or None."""
        order = order_of_proxes([term.traits for term in self.terms])
        return None if order is None else tuple(self.terms[number] for number in order)

    @computed_once
    def _two_parts(self) -> tuple[AbstractTerm, AbstractTerm] | None:
        """A split into two parts whose proxes are known, the smoother first, or None."""
        indices = range(len(self.terms))
        for size in range(len(self.terms) // 2, 0, -1):
            for chosen in itertools.combinations(indices, size):
                both = [
                    tuple(self.terms[i] for i in indices if (i in chosen) == inside)
                    for inside in (True, False)
                ]
                if all(order_of_proxes([term.traits for term in part]) is not None for part in both):
                    first, second = (Sum(part) for part in both)
                    return (second, first) if second.smoothness < first.smoothness else (first, second)
        return None


def feasibility_tolerance(dtype: Any) -> float:
    """Return the violation that rounding may cause: 1e-10, or 1e-5 in single precision.

    >>> feasibility_tolerance(np.float64)
    1e-10
    """
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-10


def _check_parts(parts: list[AbstractTerm]) -> None:
    """Raise if the parts are none, couple rows, differ in width, or are intervals that do not meet."""
    if not parts:
        raise ValueError("`terms` is empty. Use at least one term, such as Free().")
    for term in parts:
        if not isinstance(term, AbstractRowTerm):
            raise TypeError(f"{term!r} does not act on each row alone. Only row terms can be summed.")
    widths = {term.width for term in parts} - {None}
    if len(widths) > 1:
        raise ValueError(
            f"The terms of a sum have {sorted(map(str, widths))} columns. Use the same number."
        )
    intervals = [term for term in parts if Trait.INTERVAL in term.traits]
    entry = np.zeros((1, 1))
    for term in intervals:
        entry = term.prox(entry, 1.0)
    if not all(np.isfinite(term.value(entry)) for term in intervals):
        raise ValueError(f"No number lies in all of the intervals {intervals}. Use intervals that meet.")
