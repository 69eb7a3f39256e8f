"""What every method for codes takes and returns, and the account of which rows are done."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import scipy.linalg

from vrmf.arrays import Array, row_squares, within
from vrmf.block import Block
from vrmf.coding._alternating import separate_outliers, subtract_outliers
from vrmf.coding._power import leading_value
from vrmf.lazily import computed_once
from vrmf.terms.base import AbstractRowTerm
from vrmf.terms.sets import Absent

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Atoms:
    """A dictionary with what inner solvers derive from it, computed once for all rows and threads."""

    D: Array
    _known: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the dictionary alone: what is derived from it is computed where it is needed."""
        return Atoms, (self.D,)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives, computed at the first call with this key."""
        if key not in self._known:
            with self._lock:
                if key not in self._known:
                    self._known[key] = compute()
        value: T = self._known[key]
        return value

    @property
    def gram(self) -> Array:
        """D Dᵀ, shape (k, k)."""
        return self.once("gram", lambda: self.D @ self.D.T)

    @property
    def visible(self) -> Atoms:
        """The same, with atoms whose squared norm vanishes in this precision replaced by 0.

        Codes of such atoms would leave the range of numbers; they do nothing, as atoms of 0 do.
        """
        return self.once("visible", self._made_visible)

    def _made_visible(self) -> Atoms:
        limits = np.finfo(self.D.dtype)
        squares, least = self.gram.diagonal(), limits.tiny / limits.eps
        if squares.min(initial=np.inf) >= least:
            return self
        faint = squares < least
        if not np.any(self.D[faint]):
            return self
        return Atoms(np.where(faint[:, None], 0, self.D).astype(self.D.dtype))

    @property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues (ascending) and eigenvectors of the Gram matrix."""
        return self.once("spectrum", lambda: scipy.linalg.eigh(self.gram))

    @property
    def squared_norm(self) -> float:
        """‖D‖₂², the Lipschitz constant of the code problem's gradient; 1 for a zero dictionary."""
        largest = float(self.spectrum[0][-1])
        return largest if largest > 0 else 1.0

    @property
    def norm(self) -> float:
        """‖D‖₂ from below, at little cost: the unit of errors; 1 for a zero dictionary."""
        return self.once("norm", lambda: float(leading_value(self.gram)) ** 0.5 or 1.0)

    @property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of the Gram matrix."""
        return max(float(self.spectrum[0][0]), 0.0)


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes of some rows, with what is known of their quality.

    ``error`` is a bound on the distance of 0 to the subdifferential of the code problem at each
    code, divided by ‖x − prox(x)‖·‖D‖₂, the scale of its gradient at zero: 0 is exact. (‖D‖₂ is
    estimated from below, so the error from above.)
    """

    H: Array
    error: Array
    iterations: Array
    finished: Array  #: whether the error is below the tolerance, or as small as rounding allows
    scale: Array | None = None  #: the unit of the error, or None if the codes were given

    def replace_where_better(self, rows: Array, others: Codes) -> None:
        """Replace codes of the given rows, in place, where others are better; add their iterations."""
        self.iterations[rows] += others.iterations
        better = others.error < self.error[rows]
        chosen = rows[better]
        self.H[chosen], self.error[chosen] = others.H[better], others.error[better]
        self.finished[chosen] = others.finished[better]

    @classmethod
    def given(cls, H: Array) -> Codes:
        """Return codes that are known already, with an error of 0."""
        n = len(H)
        return cls(H, np.zeros(n), np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool))


@dataclass(frozen=True, eq=False)
class Task:
    """Rows whose codes are wanted: minimise ½‖x − hD − r‖² + φ(h) + ϕ(r) for each row x."""

    rows: Block
    atoms: Atoms
    code: AbstractRowTerm  #: φ
    outliers: AbstractRowTerm  #: ϕ
    tol: float  #: the relative error to reach
    max_iter: int  #: bound on the iterations for a row
    start: Array | None = None  #: codes to start from, or None for zero

    @property
    def X(self) -> Array:
        """The rows as a matrix, for methods that need their entries."""
        return self.rows.dense

    @property
    def has_outliers(self) -> bool:
        """Whether outliers may differ from zero."""
        return not isinstance(self.outliers, Absent)

    @computed_once
    def scale(self) -> Array:
        """The unit of the error of each row's code, never 0."""
        if not self.has_outliers:
            return error_scale(self.atoms, self.rows.squares)
        envelope = residual_with_outliers(self.outliers, self.X, np.zeros_like(self.X))
        return error_scale(self.atoms, row_squares(envelope))

    def first_codes(self) -> Array:
        """Return the codes to start from, in the precision of the rows."""
        if self.start is None:
            return np.zeros((len(self.rows), len(self.atoms.D)), self.rows.dtype)
        return self.start.astype(self.rows.dtype, copy=False)

    def of(self, rows: Array, start: Array, max_iter: int) -> Task:
        """Return the task of some of the rows, from other codes."""
        return replace(self, rows=self.rows.take(rows), start=start, max_iter=max_iter)


class AbstractMethod(ABC):
    """A way to find codes, for some terms."""

    @abstractmethod
    def applies_to(self, task: Task) -> bool:
        """Whether the method knows these terms, and is fast for these rows."""

    @abstractmethod
    def encode(self, task: Task) -> Codes:
        """Return codes with their errors; rows may be left unfinished."""


class Account:
    """Which rows are done, and their codes, in an iteration over many rows."""

    #: Rows that are done are taken out when they are one in so many.
    SHARE = 8

    def __init__(self, like: Array, scale: Array, max_iter: int) -> None:
        n = len(like)
        self.H, self.error, self.scale, self.max_iter = np.zeros_like(like), np.zeros(n), scale, max_iter
        self.iterations, self.finished = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        self.open_rows = np.arange(n)  #: the rows that are not done

    def close(self, ended: Array, P: Array, miss: Array, done: Array) -> Array:
        """Store the codes of rows that ended, with their absolute errors; return which rows remain."""
        rows = self.open_rows[ended]
        self.H[rows], self.error[rows] = P[ended], miss[ended] / self.scale[rows]
        self.finished[rows] = done[ended] & np.isfinite(miss[ended])
        self.open_rows = self.open_rows[~ended]
        return ~ended

    def close_at(
        self, iteration: int, P: Array, miss: Array, done: Array, leaving: Array | None = None
    ) -> Array | None:
        """Store the codes of rows that are done, once they are one in SHARE; in the end those of all rows.

        Rows that are ``leaving`` end as well, unfinished. Returns which rows remain, or None for all.
        """
        gone = done if leaving is None else done | leaving
        every = bool(np.all(gone)) or iteration == self.max_iter
        if not every and self.SHARE * np.count_nonzero(gone) < len(gone):
            return None
        ended = np.ones_like(gone) if every else gone
        self.iterations[self.open_rows[ended]] = iteration
        return self.close(ended, P, miss, done)

    def codes(self, H: Array | None = None) -> Codes:
        """Return the codes of the account, or the same in the user's coordinates, ``H``."""
        return Codes(self.H if H is None else H, self.error, self.iterations, self.finished, self.scale)


def residual_with_outliers(outliers: AbstractRowTerm, X: Array, E: Array) -> Array:
    """Return hD + r − x for the best outliers r, in place of E = hD."""
    numbers = _numbers_for_kernels(outliers, X)
    if numbers is None:
        np.subtract(X, E, out=E)
        E[:] = outliers.envelope_gradient(E)
    else:
        level, rest, _, low, high = numbers
        subtract_outliers(E, X, np.full(len(X), level, X.dtype), rest, low, high)
    return np.negative(E, out=E)


def residual_and_outliers(outliers: AbstractRowTerm, X: Array, E: Array) -> tuple[Array, Array]:
    """Return hD + r − x in place of E = hD, and the best outliers r themselves."""
    numbers = _numbers_for_kernels(outliers, X)
    if numbers is None:
        R = outliers.prox(X - E, 1.0)
        return residual_with_outliers(outliers, X, E), R
    R = np.empty_like(X)
    separate_outliers(E, X, R, *numbers)
    return E, R


def _numbers_for_kernels(outliers: AbstractRowTerm, X: Array) -> tuple[float, ...] | None:
    """Return level, rest, shrink, low and high of a term that acts on entries, in that precision."""
    known, number = outliers.canonical, X.dtype.type
    if known is None or not known.is_entrywise:
        return None
    level = within(known.slope, X.dtype)
    rest, shrink = known.ridge / (1 + known.ridge), 1 / (1 + known.ridge)
    with np.errstate(over="ignore"):  # a bound beyond the precision is none
        return number(level), number(rest), number(shrink), number(known.low), number(known.high)


def error_scale(atoms: Atoms, squares: Array) -> Array:
    """Return the unit in which the error of each row's code is told, never 0, from ‖x − prox(x)‖²."""
    scale = np.sqrt(squares) * atoms.norm
    return np.where(scale > 0, scale, 1)
