"""Codes that the fast methods leave open: checked, and finished one row at a time in double precision.

The fast methods measure errors in ways that are cheap: through the Gram matrix, in the eigenbasis of DDᵀ,
or from residuals that they update. Each is off by roundings of ‖D‖₂²·‖h‖, which is more than the tolerance
where atoms of very different lengths meet, or where a start is far off. Codes for which that may be so are
measured again, from the definition; those that fail, and those that are unfinished, are moved by a method
that converges for every dictionary (:mod:`vrmf.coding._newton`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.clock import check_time
from vrmf.coding._newton import measure_rows, newton_rows
from vrmf.coding.base import Atoms, Codes, error_scale
from vrmf.coding.forms import EntrywiseForm, entrywise_form, form_of
from vrmf.rows import row_squares
from vrmf.terms.base import AbstractRowTerm, Array
from vrmf.terms.penalties import L1, Free, Ridge
from vrmf.terms.sets import Absent, Box, NonNegative, UnitBall
from vrmf.terms.sums import parts_of

#: Roundings of x, or of the products of entries and atoms, by which x − hD may be off.
ROUNDINGS = 8.0

#: Products of entries and atoms that exceed the row by more than this factor are larger than they need be.
MODEST = 32.0

#: Rows that kernels get at a time.
ROWS_AT_A_TIME = 32


@dataclass(frozen=True)
class NewtonCoder:
    """Newton steps for φ and ϕ of the form slope·|h| + (ridge/2)h², low ≤ h ≤ high, for each entry.

    φ may include the unit ball, and ϕ be absent.
    """

    code: EntrywiseForm
    in_ball: bool
    outliers: tuple[float, float, float, float]  #: the numbers of ``best_fit``

    @classmethod
    def of(cls, code: AbstractRowTerm, outliers: AbstractRowTerm) -> NewtonCoder | None:
        """Return the method for these terms, or None if there is none for their types."""
        known = L1 | Ridge | Free | Box | NonNegative | UnitBall
        if not all(isinstance(part, known) for part in parts_of(code)):
            return None
        in_ball = any(isinstance(part, UnitBall) for part in parts_of(code))
        if isinstance(outliers, Absent):
            return cls(entrywise_form(code), in_ball, (math.inf, 0.0, -math.inf, math.inf))
        noise = form_of(outliers)
        if not isinstance(noise, EntrywiseForm):
            return None
        rest = noise.ridge / (1 + noise.ridge)
        return cls(entrywise_form(code), in_ball, (noise.slope, rest, noise.low, noise.high))

    def begin(
        self,
        X: Array,
        atoms: Atoms,
        outliers: AbstractRowTerm,
        *,
        tol: float,
        max_iter: int,
        start: Array | None,
    ) -> Codes:
        """Return codes that are all unfinished, where no fast method is of use: ``start``, or zeros."""
        n, scale = len(X), error_scale(atoms, outliers.envelope_gradient(X))
        H = np.zeros((n, len(atoms.D)), X.dtype) if start is None else start.astype(X.dtype)
        return Codes(
            self.code.feasible(H), np.full(n, np.inf), np.zeros(n, np.int64), np.zeros(n, bool), scale
        )

    def finish(self, codes: Codes, X: Array, atoms: Atoms, tol: float, max_iter: int) -> None:
        """Measure doubtful codes again, and move those that are not good enough, in place."""
        assert codes.scale is not None
        rounding = _eps(X) * atoms.norm**2 * np.sqrt(row_squares(codes.H))
        sure = codes.finished & (codes.error <= tol) & (rounding <= 2 * tol * codes.scale)
        rows = np.flatnonzero(~sure)
        if not len(rows):
            return
        x, D = _double(X[rows]), atoms.once("double", lambda: _double(atoms.D))
        terms = self._terms(X.dtype)
        size = self._measure(codes, rows, x, D, terms)
        self._judge(
            codes, rows, atoms.norm * np.minimum(self._products(codes.H[rows], D), MODEST * size), tol
        )
        left = ~codes.finished[rows]
        rows, x = rows[left], x[left]
        budget = max_iter - int(np.max(codes.iterations[rows], initial=0))
        if not len(rows) or budget <= 0:
            return
        before, H = self._products(codes.H[rows], D), _double(codes.H[rows])
        # A code whose own rounding is too large is no place to start from.
        far = ~(ROUNDINGS * _eps(X) * atoms.norm * before <= tol * codes.scale[rows] / 2)
        H[far] = 0
        error, steps = np.empty(len(rows)), np.empty(len(rows), np.int64)
        roundings = ROUNDINGS * float(np.finfo(np.float64).eps) * atoms.norm
        for some in _few(len(rows)):
            check_time()
            allowed = tol * codes.scale[rows[some]]
            newton_rows(x[some], D, H[some], *terms, allowed, roundings, budget, error[some], steps[some])
        codes.H[rows] = H
        codes.iterations[rows] += steps
        size = self._measure(codes, rows, x, D, terms)
        self._judge(codes, rows, atoms.norm * np.maximum(size, self._products(codes.H[rows], D)), tol)

    def _terms(self, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Return what kernels take: the numbers of the terms, the ends of codes in their precision."""
        ends = float(dtype.type(self.code.low)), float(dtype.type(self.code.high))
        return self.code.ridge, (self.code.slope, *ends), self.outliers, self.in_ball

    def _measure(self, codes: Codes, rows: Array, x: Array, D: Array, terms: tuple[Any, ...]) -> Array:
        """Write the errors of some codes; return the sizes of rows whose rounding matters."""
        error, size = np.empty(len(rows)), np.empty(len(rows))
        measure_rows(x, D, _double(codes.H[rows]), *terms, 1 - 4 * _eps(codes.H), error, size)
        assert codes.scale is not None
        codes.error[rows] = error / codes.scale[rows]
        return size

    def _judge(self, codes: Codes, rows: Array, size: Array, tol: float) -> None:
        """Write which codes are finished: to the tolerance, or to roundings of the given size."""
        assert codes.scale is not None
        rounding = ROUNDINGS * _eps(codes.H) * size
        codes.finished[rows] = codes.error[rows] * codes.scale[rows] <= np.maximum(
            tol * codes.scale[rows], rounding
        )

    def _products(self, H: Array, D: Array) -> Array:
        """Return Σⱼ |hⱼ|·‖dⱼ‖, the size of what is added up in hD."""
        return np.abs(_double(H)) @ np.sqrt(row_squares(D))


def _few(count: int) -> list[slice]:
    """Return slices of a few rows each, after which time is looked at."""
    return [slice(i, i + ROWS_AT_A_TIME) for i in range(0, count, ROWS_AT_A_TIME)]


def _double(Z: Array) -> Array:
    return np.ascontiguousarray(Z, np.float64)


def _eps(Z: Array) -> float:
    return float(np.finfo(Z.dtype).eps)
