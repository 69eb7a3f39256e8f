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

from vrmf.coding._newton import measure_rows, newton_rows
from vrmf.coding.base import Atoms, Codes
from vrmf.coding.forms import EntrywiseForm, entrywise_form, form_of
from vrmf.rows import row_squares
from vrmf.terms.base import AbstractRowTerm, Array
from vrmf.terms.penalties import L1, Free, Ridge
from vrmf.terms.sets import Absent, Box, NonNegative, UnitBall
from vrmf.terms.sums import parts_of

#: Roundings of each product hⱼ·dⱼ by which x − hD may be off when a code is as good as rounding allows.
ROUNDINGS = 4.0


@dataclass(frozen=True)
class NewtonCoder:
    """Entrywise terms: φ(h) = slope·|h| + (ridge/2) h² in an interval, also in the unit ball; ϕ the same or absent."""

    code: EntrywiseForm
    in_ball: bool
    outliers: tuple[float, float, float, float]  #: the numbers of ``best_fit``

    @classmethod
    def of(cls, code: AbstractRowTerm, outliers: AbstractRowTerm) -> NewtonCoder | None:
        """Return the method for these terms, or None if there is none for their types."""
        if not all(
            isinstance(part, L1 | Ridge | Free | Box | NonNegative | UnitBall) for part in parts_of(code)
        ):
            return None
        in_ball = any(isinstance(part, UnitBall) for part in parts_of(code))
        if isinstance(outliers, Absent):
            return cls(entrywise_form(code), in_ball, (math.inf, 0.0, -math.inf, math.inf))
        noise = form_of(outliers)
        if not isinstance(noise, EntrywiseForm):
            return None
        rest = noise.ridge / (1 + noise.ridge)
        return cls(entrywise_form(code), in_ball, (noise.slope, rest, noise.low, noise.high))

    def finish(self, codes: Codes, X: Array, atoms: Atoms, tol: float, max_iter: int) -> None:
        """Measure doubtful codes again, and move those that are not good enough, in place."""
        assert codes.scale is not None
        unit = 2 * float(np.finfo(X.dtype).eps) * atoms.norm**2
        doubt = codes.error + unit * np.sqrt(row_squares(codes.H)) / codes.scale
        rows = np.flatnonzero(~((doubt <= tol) & codes.finished))
        if not len(rows):
            return
        x, D = _double(X[rows]), atoms.once("double", lambda: _double(atoms.D))
        self._measure(codes, rows, x, D, tol)
        left = ~codes.finished[rows]
        rows, x = rows[left], x[left]
        budget = max_iter - int(np.max(codes.iterations[rows], initial=0))
        if len(rows) and budget > 0:
            H, error, steps = _double(codes.H[rows]), np.empty(len(rows)), np.empty(len(rows), np.int64)
            newton_rows(x, D, H, *self._terms, tol * codes.scale[rows], budget, error, steps)
            codes.H[rows] = H
            codes.iterations[rows] += steps
            self._measure(codes, rows, x, D, tol)

    @property
    def _terms(self) -> tuple[Any, ...]:
        return (
            self.code.ridge,
            (self.code.slope, self.code.low, self.code.high),
            self.outliers,
            self.in_ball,
        )

    def _measure(self, codes: Codes, rows: Array, x: Array, D: Array, tol: float) -> None:
        """Write the errors of some codes, in double precision, and whether they are finished."""
        assert codes.scale is not None
        eps, H, error = float(np.finfo(codes.H.dtype).eps), _double(codes.H[rows]), np.empty(len(rows))
        measure_rows(x, D, H, *self._terms, 1 - 4 * eps, error)
        rounding = ROUNDINGS * eps * np.linalg.norm(D, 2) * (np.abs(H) @ np.sqrt(row_squares(D)))
        codes.error[rows] = error / codes.scale[rows]
        codes.finished[rows] = (error <= tol * codes.scale[rows]) | (error <= rounding)


def _double(Z: Array) -> Array:
    return np.ascontiguousarray(Z, np.float64)
