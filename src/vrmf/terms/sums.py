"""Sums of terms, where a theorem gives the prox of the sum.

The prox of a sum is in general not a composition of proxes. It is in three cases, which cover all
eight formulations but one:

1. *Ridge*: the prox of step · (f + (μ/2)‖·‖²) at z is that of step/(1 + step μ) · f at z/(1 + step μ).
2. *Interval last*: for a sum over entries of functions of one variable, plus an interval for each
   entry, clip after the prox.
3. *Radial last*: for a positively homogeneous f plus an increasing function of the norm, apply the
   prox of f, then that of the radial part [1]_; the same holds group by group if f acts on entries.

>>> import numpy as np
>>> from vrmf.terms import L1, NonNegative, Ridge, Simplex, Sum, UnitBall
>>> (L1(1.0) + NonNegative() + Ridge(1.0)).prox(np.array([[5.0, -2.0]]), step=1.0)
array([[2., 0.]])
>>> L1(1.0) + Simplex()
Traceback (most recent call last):
    ...
ValueError: No closed-form prox is known for L1(weight=1.0) + Simplex(). Use \
`Sum(terms, iterative=True)` to compute it by Douglas–Rachford splitting.

References
----------
.. [1] Y. Yu, "On decomposing the proximal map", NIPS 2013.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf.arrays import Array, within
from vrmf.checks import check_flags
from vrmf.lazily import computed_once
from vrmf.terms.base import AbstractRowTerm, AbstractTerm, Canonical, Trait
from vrmf.terms.penalties import Free, Ridge

#: Bound on the iterations of Douglas–Rachford splitting.
MAX_ITERATIONS = 20_000

#: Bound on the parts of a sum, since all orders of them are tried.
MOST_PARTS = 6

#: What a sum has if all of its parts have it.
_INHERITED = frozenset({Trait.ENTRYWISE, Trait.HOMOGENEOUS, Trait.RADIAL, Trait.QUADRATIC, Trait.ROTATABLE})


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
    >>> from vrmf.terms import NonNegative, UnitBall
    >>> both = Sum((NonNegative(), UnitBall()))
    >>> both.prox(np.array([[3.0, 4.0, -12.0]]), step=1.0)
    array([[0.6, 0.8, 0. ]])
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
        if self._order is None and not (iterative and self._halves):
            names = " + ".join(map(repr, parts))
            remedy = (
                "It does not split into two halves with known proxes either."
                if iterative
                else "Use `Sum(terms, iterative=True)` to compute it by Douglas–Rachford splitting."
            )
            raise ValueError(f"No closed-form prox is known for {names}. {remedy}")

    @property
    def traits(self) -> frozenset[Trait]:  # type: ignore[override]
        return _common_traits(self.terms)

    @property
    def width(self) -> int | None:  # type: ignore[override]
        return next((term.width for term in self.terms if term.width is not None), None)

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return sum(term.smoothness for term in self.terms)

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
            return self._split_prox(Z, step)
        ridge, step = ridge_of(self), float(step)
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
        orders = itertools.permutations(_beside_ridges(self.terms))
        return next((order for order in orders if _composes(order)), None)

    @computed_once
    def _halves(self) -> tuple[AbstractTerm, AbstractTerm] | None:
        """A split into two parts whose proxes are known, the smoother first, or None."""
        indices = range(len(self.terms))
        for size in range(len(self.terms) // 2, 0, -1):
            for chosen in itertools.combinations(indices, size):
                halves = [
                    tuple(self.terms[i] for i in indices if (i in chosen) == inside)
                    for inside in (True, False)
                ]
                if all(_has_prox(half) for half in halves):
                    first, second = (Sum(half) for half in halves)
                    return (second, first) if second.smoothness < first.smoothness else (first, second)
        return None

    def _split_prox(self, Z: Array, step: float) -> Array:
        """Douglas–Rachford splitting of step · first + ½‖· − Z‖² against step · second."""
        assert self._halves is not None
        first, second = self._halves
        W = Z
        if math.isfinite(first.smoothness):
            # The first function is 1-strongly convex; γ = 1/√κ gives the rate (√κ − 1)/(√κ + 1).
            gamma = 1 / math.sqrt(1 + step * first.smoothness)
        elif len(Z) != 1:
            return np.array([self._split_prox(row[None], step)[0] for row in Z]).reshape(Z.shape)
        else:
            # From P, W travels about γ‖Z‖ in steps of the size of P, which may be far smaller than Z.
            W = second.prox(first.prox(Z, step), step)
            gamma = min(1.0, float(_row_sizes(W)[0] / (_row_sizes(Z)[0] or 1.0))) or 1.0
        rounding = 8 * np.finfo(Z.dtype).eps
        for _ in range(MAX_ITERATIONS):
            Y = first.prox((W + gamma * Z) / (1 + gamma), gamma * step / (1 + gamma))
            P = second.prox(2 * Y - W, gamma * step)
            gap = _row_sizes(P - Y)
            W = W + P - Y
            if np.all(gap <= rounding * np.maximum(_row_sizes(W), _row_sizes(P))):
                return P
        warnings.warn(
            f"The prox of {self!r} stopped short at a gap of {np.max(gap):.1e} after {MAX_ITERATIONS} "
            "iterations of Douglas–Rachford splitting.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return P


def parts_of(term: AbstractTerm) -> tuple[AbstractTerm, ...]:
    """Return the parts of a sum, or the term itself."""
    return term.terms if isinstance(term, Sum) else (term,)


def ridge_of(term: AbstractTerm) -> float:
    """Return the weight of all ridges in a term.

    >>> from vrmf.terms import L1
    >>> ridge_of(L1(1.0) + Ridge(0.5) + Ridge(0.25))
    0.75
    """
    return float(sum(part.weight for part in parts_of(term) if isinstance(part, Ridge)))


def _row_sizes(Z: Array) -> Array:
    return np.max(np.abs(Z), axis=1, initial=0.0)


def _common_traits(terms: tuple[AbstractTerm, ...]) -> frozenset[Trait]:
    return functools.reduce(frozenset.intersection, (term.traits for term in terms), _INHERITED)


def _has_prox(terms: tuple[AbstractTerm, ...]) -> bool:
    return any(_composes(order) for order in itertools.permutations(_beside_ridges(terms)))


def _beside_ridges(terms: tuple[AbstractTerm, ...]) -> list[AbstractTerm]:
    """Return the terms whose proxes must be composed: no ridges, and none that is free."""
    return [term for term in terms if not isinstance(term, Ridge | Free)]


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


def _composes(order: tuple[AbstractTerm, ...]) -> bool:
    """Whether applying the proxes in this order, the first first, gives the prox of the sum."""
    for position in range(1, len(order)):
        before, last = _common_traits(order[:position]), order[position].traits
        interval_last = Trait.ENTRYWISE in before and Trait.INTERVAL in last
        radial_last = Trait.HOMOGENEOUS in before and Trait.RADIAL in last
        groups_last = {Trait.HOMOGENEOUS, Trait.ENTRYWISE} <= before and Trait.GROUP_RADIAL in last
        if not (interval_last or radial_last or groups_last):
            return False
    return True
