"""Code terms in the form in which splitting uses them: compiled where their canonical form is known.

>>> from vrmf.terms import L1, NonNegative, Ridge
>>> form_of(L1(0.5) + NonNegative() + Ridge(0.1))
EntrywiseForm(ridge=0.1, slope=0.5, low=0.0, high=inf)
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._conditions import conditions
from vrmf.coding._groups import group_conditions, group_step, merge_copies, overlap_conditions
from vrmf.coding._pivoting import pivot
from vrmf.coding._splitting import entrywise_step, entrywise_steps
from vrmf.coding.system import System
from vrmf.lazily import computed_once
from vrmf.running.clock import check_time
from vrmf.terms.base import AbstractRowTerm, AbstractTerm
from vrmf.terms.traits import Canonical, GroupPenalty

Sums = tuple[float, float, float, float]

#: Over-relaxation of splitting, the customary value.
RELAX = 1.6

#: Rounds of pivoting after which a row goes back to splitting.
MAX_ROUNDS = 8

#: Pivoting begins with at most so many more free entries than the rank of A: some may depend on others.
SPARE_ENTRIES = 16

#: Rows that pivoting gets at a time.
ROWS_AT_A_TIME = 256


@dataclass(frozen=True)
class AbstractForm(ABC):
    """A code term, whose ridge is moved to the quadratic part of the problem.

    Splitting works on copies of the entries of a code: one of each, unless groups overlap.
    """

    ridge: float

    @abstractmethod
    def feasible(self, H: Array) -> Array:
        """Return the nearest codes in the set of the term, as a new array."""

    @abstractmethod
    def split_step(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, rho: float, relax: float
    ) -> Sums:
        """Take the second half of a step of splitting, in place.

        With v = relax · h + (1 − relax) · z + u: z becomes prox(v), u becomes v − z, and
        q = c + ρ(z − u), summed over copies. Returns the sums of (h − z)², (z − its old value)²,
        z² and u².
        """

    def split_steps(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, inverse: Array, rho: float, steps: int
    ) -> Sums:
        """Take whole steps of splitting, in place; return the sums of the last."""
        sums: Sums = (0.0, 0.0, 0.0, 0.0)
        for _ in range(steps):
            np.matmul(Q, inverse, out=H)
            sums = self.split_step(H, Z, U, C, Q, rho, RELAX)
        return sums

    @abstractmethod
    def conditions(self, P: Array, force: Array, system: System) -> tuple[Array, Array]:
        """Return how far each code is from optimal, and what is left of the force on its free entries.

        ``force`` is c − pA. A form without a formula moves ``P`` to where it has a bound.
        """

    def newton(
        self, P: Array, force: Array, residual: Array, system: System, allowed: Array, max_iter: int
    ) -> Array:
        """Move codes to their optimum where that succeeds; return the rounds, negative where it failed."""
        return np.zeros(len(P), dtype=np.int64)

    def counts(self, k: int) -> Array:
        """Return the number of copies of each entry."""
        return np.ones(k)

    def spread(self, force: Array) -> Array:
        """Return the force on each copy, as a new array."""
        return force.copy()

    def merge(self, Z: Array) -> Array:
        """Return codes from their copies."""
        return Z


@dataclass(frozen=True)
class EntrywiseForm(AbstractForm):
    """φ(h) = Σⱼ slope·|hⱼ| + (ridge/2) hⱼ² with low ≤ hⱼ ≤ high."""

    slope: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def feasible(self, H: Array) -> Array:
        return np.clip(H, H.dtype.type(self.low), H.dtype.type(self.high))

    def split_step(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, rho: float, relax: float
    ) -> Sums:
        number = H.dtype.type
        sums: Sums = entrywise_step(H, Z, U, C, Q, number(rho), number(relax), *self.numbers(H))
        return sums

    def split_steps(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, inverse: Array, rho: float, steps: int
    ) -> Sums:
        number = H.dtype.type
        sums: Sums = entrywise_steps(
            H, Z, U, C, Q, inverse, number(rho), number(RELAX), *self.numbers(H), steps
        )
        return sums

    def conditions(self, P: Array, force: Array, system: System) -> tuple[Array, Array]:
        residual, error = np.empty_like(P), np.empty(len(P), dtype=P.dtype)
        conditions(P, force, *self.numbers(P), residual, error)
        return error, residual

    def newton(
        self, P: Array, force: Array, residual: Array, system: System, allowed: Array, max_iter: int
    ) -> Array:
        rounds = np.empty(len(P), dtype=np.int64)
        # The inverse is of use to rows with more free entries than pinned ones.
        by_inverse = system.inverse is not None and 2 * np.count_nonzero(residual) > residual.size
        inverse = system.inverse if by_inverse else system.A
        full_step = residual @ inverse if by_inverse else residual
        # Entries stay pinned against a force this small: together they make a tenth of the allowed error.
        slack = (0.1 / math.sqrt(P.shape[1]) * allowed).astype(P.dtype)
        tiny = P.dtype.type(system.tiny)
        # More free entries than the rank of A are a sign of an active set that is far from right.
        most_free, most_rounds = system.rank + SPARE_ENTRIES, min(MAX_ROUNDS, max_iter)
        for i in range(0, len(P), ROWS_AT_A_TIME):
            check_time()
            some = slice(i, i + ROWS_AT_A_TIME)
            pivot(
                *(P[some], force[some], residual[some], full_step[some], (system.A, inverse, by_inverse)),
                *(self.numbers(P), slack[some], tiny, most_free, most_rounds, rounds[some]),
            )
        return rounds

    def numbers(self, like: Array) -> tuple[float, float, float]:
        """Return slope, low and high in the precision of the array."""
        number, most = like.dtype.type, float(np.finfo(like.dtype).max)
        return number(min(self.slope, most)), number(self.low), number(self.high)


@dataclass(frozen=True)
class GroupForm(AbstractForm):
    """φ(h) = Σ_g weight_g · ‖h_g‖₂ + (ridge/2)‖h‖²; an entry has a copy in each of its groups."""

    term: GroupPenalty

    def feasible(self, H: Array) -> Array:
        return H.copy()

    def split_step(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, rho: float, relax: float
    ) -> Sums:
        number = H.dtype.type
        sums: Sums = group_step(H, Z, U, C, Q, number(rho), number(relax), *self._groups(H))
        return sums

    def conditions(self, P: Array, force: Array, system: System) -> tuple[Array, Array]:
        error = np.empty(len(P), dtype=P.dtype)
        kernel = group_conditions if self.term.disjoint else overlap_conditions
        kernel(P, force, *self._groups(P), error)
        return error, force

    def counts(self, k: int) -> Array:
        return np.bincount(self.layout[0], minlength=k)

    def spread(self, force: Array) -> Array:
        shares = force / self.counts(force.shape[1]).astype(force.dtype)
        return np.ascontiguousarray(shares[:, self.layout[0]])

    def merge(self, Z: Array) -> Array:
        members, ends = self.layout
        H = np.empty((len(Z), self.term.width), Z.dtype)
        merge_copies(Z, members, ends, self.counts(self.term.width).astype(Z.dtype), H)
        return H

    @computed_once
    def layout(self) -> tuple[Array, Array]:
        """The entries of all groups, one group after another, and where each group ends."""
        members = np.array([entry for group in self.term.groups for entry in group])
        return members, np.cumsum([0, *map(len, self.term.groups)])

    def _groups(self, like: Array) -> tuple[Array, Array, Array]:
        return *self.layout, np.array(self.term.weights, dtype=like.dtype)


@dataclass(frozen=True)
class AnyForm(AbstractForm):
    """Any term with a prox."""

    term: AbstractRowTerm

    def feasible(self, H: Array) -> Array:
        return self.term.prox(H, 1e-14)

    def split_step(
        self, H: Array, Z: Array, U: Array, C: Array, Q: Array, rho: float, relax: float
    ) -> Sums:
        number = H.dtype.type
        V = number(relax) * H + number(1 - relax) * Z + U
        P = self.term.prox(V, 1 / rho)
        gap, moved = _square(H - P), _square(P - Z)
        Z[:] = P
        np.subtract(V, P, out=U)
        np.add(C, number(rho) * (P - U), out=Q)
        return gap, moved, _square(P), _square(U)

    def conditions(self, P: Array, force: Array, system: System) -> tuple[Array, Array]:
        return _proximal_conditions(self.term, P, force, system)


def _proximal_conditions(
    term: AbstractRowTerm, P: Array, force: Array, system: System
) -> tuple[Array, Array]:
    """Take a proximal gradient step: at p = prox(y + force/L), 2L‖y − p‖ bounds the distance."""
    L, Y = system.bound, P.copy()
    P[:] = term.prox(Y + force / P.dtype.type(L), 1 / L)
    Y -= P
    return 2 * L * np.sqrt(row_squares(Y)), force


Result = TypeVar("Result")


def once_per_term(function: Callable[..., Result]) -> Callable[..., Result]:
    """Cache what a function of terms returns, since it is called for each block of rows."""
    remembered = functools.lru_cache(maxsize=64)(function)

    @functools.wraps(function)
    def asked(*terms: AbstractTerm) -> Result:
        try:
            return remembered(*terms)
        except TypeError:  # a term of the user that cannot be hashed
            return function(*terms)

    return asked


@once_per_term
def form_of(term: AbstractRowTerm) -> AbstractForm:
    """Return the form of a code term, with compiled kernels if its canonical form allows for them."""
    known = term.canonical
    if known is not None and known.is_entrywise:
        return entrywise_form(known)
    if known is not None and known.groups is not None and replace(known, groups=None).is_only_ridge:
        return GroupForm(known.ridge, known.groups)
    return AnyForm(0.0, term)


def entrywise_form(known: Canonical) -> EntrywiseForm:
    """Return the form of what acts on entries."""
    return EntrywiseForm(known.ridge, known.slope, known.low, known.high)


def _square(Z: Array) -> float:
    return float(np.einsum("ij,ij->", Z, Z))
