"""Codes that the fast methods leave open: checked, and finished one row at a time in double precision.

The fast methods measure errors in ways that are cheap: through the Gram matrix, in the eigenbasis of DDᵀ,
or from residuals that they update. Each is off by roundings of ‖D‖₂²·‖h‖, which is more than the tolerance
where atoms of very different lengths meet, or where a start is far off. Codes for which that may be so are
measured again, from the definition; those that fail, and those that are unfinished, are moved by a method
that converges for every dictionary (:mod:`vrmf.coding._newton`, :mod:`vrmf.coding._group_newton`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._group_newton import measure_rows_of_groups, newton_rows_of_groups
from vrmf.coding._group_steps import GroupProblem
from vrmf.coding._groups import Groups
from vrmf.coding._measuring import Problem, count_doubtful, measure_rows
from vrmf.coding._newton import newton_rows
from vrmf.coding.base import AbstractMethod, Atoms, Codes, Task
from vrmf.coding.forms import EntrywiseForm, GroupForm, entrywise_form, form_of, once_per_term
from vrmf.lazily import computed_once
from vrmf.running.clock import check_time
from vrmf.terms.base import AbstractRowTerm
from vrmf.terms.sets import Absent

#: The error of x − hD in units of the rounding error of x, or of the products of entries and atoms.
ROUNDINGS = 8.0

#: Products of entries and atoms are needlessly large if they exceed the row by more than this factor.
MODEST = 32.0

#: Codes of a fast method may have an error up to this one if it may be due to rounding. Beyond it any code
#: would be accepted, as where entries are 10⁵ times the threshold of outliers in single precision.
MOST_EXCUSED = 0.1

#: Entries of codes that kernels get at a time; a fit checks its time limit in between.
ENTRIES_AT_A_TIME = 1024

Numbers = tuple[float, float, float, float]


@dataclass(frozen=True)
class AbstractNewtonCoder(ABC):
    """A method of last resort for codes of some type; outliers are absent or act on entries."""

    outliers: Numbers  #: the numbers of ``best_fit``

    @abstractmethod
    def measure(self, x: Array, atoms: Atoms, H: Array, proof: Array | None) -> tuple[Array, Array]:
        """Return the absolute errors of codes, and the sizes of the numbers that are rounded in their rows.

        Codes are in the precision of the user, rows in double precision. ``proof`` is what ``move``
        returned, if these codes come from there.
        """

    @abstractmethod
    def move(
        self, x: Array, atoms: Atoms, H: Array, like: np.dtype[Any], allowed: Array, budget: int
    ) -> tuple[Array, Array | None]:
        """Move codes to their optimum in place; return the steps of each, and subgradients that prove it.

        All is in double precision; the ends of intervals are as they are in the precision ``like``.
        """

    def feasible(self, H: Array) -> Array:
        """Return codes from which steps can begin, as a new array."""
        return H.copy()

    def finish(self, codes: Codes, X: Array, atoms: Atoms, tol: float, max_iter: int) -> None:
        """Measure doubtful codes again, and move those that are not good enough, in place."""
        assert codes.scale is not None
        doubtful, rounding = np.empty(len(X), bool), _eps(X) * atoms.norm**2
        if not count_doubtful(codes.H, codes.error, codes.finished, codes.scale, tol, rounding, doubtful):
            return
        rows = np.flatnonzero(doubtful)
        x = _double(X[rows])
        size = self.check(codes, rows, x, atoms, tol)
        left = ~codes.finished[rows]
        rows, x, size = rows[left], x[left], size[left]
        budget = max_iter - int(np.max(codes.iterations[rows], initial=0))
        if not len(rows) or budget <= 0:
            return
        before, H = _products(codes.H[rows], atoms), _double(codes.H[rows])
        # No step starts from a code whose rounding error is too large, and needlessly so.
        close = ROUNDINGS * _eps(X) * atoms.norm * before <= tol * codes.scale[rows] / 2
        H[~(close | (before <= MODEST * size))] = 0
        rows_at_a_time = max(1, ENTRIES_AT_A_TIME // H.shape[1])
        for i in range(0, len(rows), rows_at_a_time):
            check_time()
            some = slice(i, i + rows_at_a_time)
            self._settle(codes, rows[some], x[some], H[some], atoms, tol, budget)

    def _settle(
        self, codes: Codes, rows: Array, x: Array, H: Array, atoms: Atoms, tol: float, budget: int
    ) -> None:
        """Move some codes from ``H`` to their optimum, and write their errors and iterations."""
        assert codes.scale is not None
        steps, proof = self.move(x, atoms, H, codes.H.dtype, tol * codes.scale[rows], budget)
        codes.H[rows] = H
        codes.iterations[rows] += steps
        error, size = self.measure(x, atoms, codes.H[rows], proof)
        _judge(codes, rows, error, atoms.norm * np.maximum(size, _products(codes.H[rows], atoms)), tol)

    def check(self, codes: Codes, rows: Array, x: Array, atoms: Atoms, tol: float) -> Array:
        """Write the errors of some codes, from the definition, and which are finished; return row sizes."""
        error, size = self.measure(x, atoms, codes.H[rows], None)
        modest = np.minimum(_products(codes.H[rows], atoms), MODEST * size)
        _judge(codes, rows, error, atoms.norm * modest, tol, MOST_EXCUSED)
        return size


@dataclass(frozen=True)
class EntrywiseNewtonCoder(AbstractNewtonCoder):
    """φ is slope·|h| + (ridge/2)h², low ≤ h ≤ high, for each entry, in the unit ball or not."""

    code: EntrywiseForm
    in_ball: bool

    def feasible(self, H: Array) -> Array:
        return self.code.feasible(H)

    def measure(self, x: Array, atoms: Atoms, H: Array, proof: Array | None) -> tuple[Array, Array]:
        error, size = np.empty(len(x)), np.empty(len(x))
        sphere = 1 - 4 * _eps(H) if self.in_ball else math.inf
        measure_rows(x, _double(H), self._problem(atoms, H.dtype), sphere, error, size)
        return error, size

    def move(
        self, x: Array, atoms: Atoms, H: Array, like: np.dtype[Any], allowed: Array, budget: int
    ) -> tuple[Array, Array | None]:
        problem, steps = self._problem(atoms, like), np.empty(len(x), np.int64)
        roundings = ROUNDINGS * _eps(H) * atoms.norm
        newton_rows(x, H, problem, self.in_ball, allowed, roundings, budget, steps)
        return steps, None

    def _problem(self, atoms: Atoms, dtype: np.dtype[Any]) -> Problem:
        """Return what kernels take, the ends of codes as they are in the given precision."""
        D = _double_atoms(atoms)
        ends = float(dtype.type(self.code.low)), float(dtype.type(self.code.high))
        return (D, row_squares(D), self.code.ridge, (self.code.slope, *ends), self.outliers)


@dataclass(frozen=True)
class GroupNewtonCoder(AbstractNewtonCoder):
    """φ is Σ_g w_g·‖h_g‖ + (ridge/2)‖h‖²; groups may overlap."""

    code: GroupForm

    @property
    def overlapping(self) -> bool:
        """Whether some groups overlap."""
        return not self.code.term.disjoint

    def measure(self, x: Array, atoms: Atoms, H: Array, proof: Array | None) -> tuple[Array, Array]:
        problem, error, size = self._problem(atoms), np.empty(len(x)), np.empty(len(x))
        U = np.zeros((len(x), len(self._groups[0]))) if proof is None else proof
        measure_rows_of_groups(x, _double(H), U, problem, error, size)
        return error, size

    def move(
        self, x: Array, atoms: Atoms, H: Array, like: np.dtype[Any], allowed: Array, budget: int
    ) -> tuple[Array, Array | None]:
        problem, steps = self._problem(atoms), np.empty(len(x), np.int64)
        U = np.zeros((len(x), len(self._groups[0])))
        newton_rows_of_groups(x, H, U, problem, allowed, ROUNDINGS * _eps(H) * atoms.norm, budget, steps)
        return steps, U

    def _problem(self, atoms: Atoms) -> GroupProblem:
        D = _double_atoms(atoms)
        return (D, row_squares(D), self.code.ridge, self._groups, self.outliers)

    @computed_once
    def _groups(self) -> Groups:
        return (*self.code.layout, np.array(self.code.term.weights, np.float64))


class LastResort(AbstractMethod):
    """Codes from which the last resort starts at once, where no fast method applies."""

    def applies_to(self, task: Task) -> bool:
        newton = newton_coder(task.code, task.outliers)
        # In the unit ball it needs a start that is nearly right.
        return newton is not None and not (isinstance(newton, EntrywiseNewtonCoder) and newton.in_ball)

    def encode(self, task: Task) -> Codes:
        n, newton = len(task.X), newton_coder(task.code, task.outliers)
        assert newton is not None
        H, none = newton.feasible(task.first_codes()), np.zeros(n, np.int64)
        return Codes(H, np.full(n, np.inf), none, np.zeros(n, bool), task.scale)


@once_per_term
def newton_coder(code: AbstractRowTerm, outliers: AbstractRowTerm) -> AbstractNewtonCoder | None:
    """Return the method of last resort for these terms, or None if there is none."""
    known, numbers = code.canonical, outlier_numbers(outliers)
    if known is None or numbers is None:
        return None
    if known.groups is None:
        return EntrywiseNewtonCoder(numbers, entrywise_form(known), known.in_ball)
    form = form_of(code)
    return GroupNewtonCoder(numbers, form) if isinstance(form, GroupForm) else None


def outlier_numbers(outliers: AbstractRowTerm) -> Numbers | None:
    """Return the numbers of ``best_fit``, or None if the term does not act on entries."""
    if isinstance(outliers, Absent):
        return math.inf, 0.0, -math.inf, math.inf
    known = outliers.canonical
    if known is None or not known.is_entrywise:
        return None
    return known.slope, known.ridge / (1 + known.ridge), known.low, known.high


def _judge(
    codes: Codes, rows: Array, error: Array, size: Array, tol: float, excused: float = math.inf
) -> None:
    """Write the errors of codes, and which are finished: to the tolerance, or to roundings of the size.

    Roundings excuse relative errors up to ``excused``.
    """
    assert codes.scale is not None
    rounding = ROUNDINGS * _eps(codes.H) * size / codes.scale[rows]
    codes.error[rows] = error / codes.scale[rows]
    codes.finished[rows] = codes.error[rows] <= np.maximum(tol, np.minimum(rounding, excused))


def _products(H: Array, atoms: Atoms) -> Array:
    """Return Σⱼ |hⱼ|·‖dⱼ‖, the size of what is added up in hD."""
    return np.abs(_double(H)) @ np.sqrt(row_squares(_double_atoms(atoms)))


def _double_atoms(atoms: Atoms) -> Array:
    return atoms.once("double", lambda: _double(atoms.D))


def _double(Z: Array) -> Array:
    return np.ascontiguousarray(Z, np.float64)


def _eps(Z: Array) -> float:
    return float(np.finfo(Z.dtype).eps)
