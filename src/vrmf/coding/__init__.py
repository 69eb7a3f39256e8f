"""Coding: the best codes of given rows for a given dictionary.

The method is chosen by the types of the terms: a formula where there is one, else the accelerated
proximal gradient method, which takes any terms.

>>> import numpy as np
>>> from vrmf.coding import Atoms, Coder
>>> from vrmf.terms import L1, Absent
>>> codes = Coder(tol=1e-12).encode(np.array([[3.0, 0.5]]), Atoms(np.eye(2)), L1(1.0), Absent())
>>> codes.H
array([[2., 0.]])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.checks import one_of, real_number, whole_number
from vrmf.coding.alternating import alternating_codes
from vrmf.coding.base import Atoms, Codes
from vrmf.coding.closed_form import ridge_codes
from vrmf.coding.conjugate import conjugate_codes
from vrmf.coding.forms import acts_on_entries
from vrmf.coding.gradient import proximal_gradient_codes
from vrmf.coding.halves import EntrywiseHalf, RadialHalf, half_of
from vrmf.coding.newton import AbstractNewtonCoder, GroupNewtonCoder, newton_coder
from vrmf.coding.splitting import plain_codes
from vrmf.terms.base import AbstractRowTerm, Array
from vrmf.terms.penalties import Free, Ridge
from vrmf.terms.sets import Absent
from vrmf.terms.sums import ridge_of

__all__ = ["EXACT", "Atoms", "Coder", "Codes"]

METHODS = ("auto", "gradient", "bsum")

#: Rows that take a fast method more iterations than this are left to one that is sure to converge.
MOST_FAST_ITERATIONS = 500

#: The same for alternation whose steps are themselves iterations.
MOST_ALTERNATIONS = 30


@dataclass(frozen=True)
class Coder:
    """How codes are computed, and how well.

    Parameters
    ----------
    tol : float
        The relative error at which a code counts as solved: the distance of 0 to the
        subdifferential of its problem over the size of the gradient at zero. In float32 it is
        raised to what rounding allows.
    max_iter : int
        Bound on the iterations for one row.
    method : {"auto", "gradient", "bsum"}
        ``"auto"`` takes the fastest method for the types of the terms; ``"gradient"`` is the
        accelerated proximal gradient method; ``"bsum"`` the alternating scheme of the paper.
    """

    tol: float = 1e-6
    max_iter: int = 10_000
    method: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", real_number("tol", self.tol, low=0, strict=True))
        object.__setattr__(self, "max_iter", whole_number("max_iter", self.max_iter, low=1))
        one_of("method", self.method, METHODS)

    def encode(
        self,
        X: Array,
        atoms: Atoms,
        code: AbstractRowTerm,
        outliers: AbstractRowTerm,
        start: Array | None = None,
    ) -> Codes:
        """Return the codes of the rows of ``X``, from the codes ``start`` if given."""
        tol, newton = self.reachable_tol(X.dtype), newton_coder(code, outliers)
        atoms = atoms.visible
        if self.method != "auto":
            momentum = self.method == "gradient"
            codes = proximal_gradient_codes(
                *(X, atoms, code, outliers), tol=tol, max_iter=self.max_iter, start=start, momentum=momentum
            )
            if isinstance(newton, GroupNewtonCoder) and newton.overlapping:  # whose prox is not exact
                newton.check(codes, np.arange(len(X)), X.astype(np.float64), atoms, tol)
            return codes
        first = min(self.max_iter, MOST_FAST_ITERATIONS)
        fast = self._fast_method(atoms, code, outliers, newton, cold=start is None)
        codes = fast(X, tol=tol, max_iter=first, start=start)
        if newton is not None:
            newton.finish(codes, X, atoms, tol, self.max_iter)
            return codes
        hard = np.flatnonzero(~codes.finished)
        if len(hard) and self.max_iter > first:
            rest = proximal_gradient_codes(
                *(X[hard], atoms, code, outliers),
                tol=tol,
                max_iter=self.max_iter - first,
                start=codes.H[hard],
            )
            codes.replace_where_better(hard, rest)
        return codes

    def _fast_method(
        self,
        atoms: Atoms,
        code: AbstractRowTerm,
        outliers: AbstractRowTerm,
        newton: AbstractNewtonCoder | None,
        *,
        cold: bool,
    ) -> Callable[..., Codes]:
        """Return the fastest method for the types of the terms, a function of the rows."""
        if isinstance(outliers, Absent):
            if isinstance(code, Ridge | Free):
                return functools.partial(ridge_codes, atoms=atoms, weight=ridge_of(code))
            return functools.partial(plain_codes, atoms=atoms, code=code)
        half = half_of(code, atoms)
        if isinstance(half, RadialHalf) and not half.in_ball and acts_on_entries(outliers):
            return functools.partial(conjugate_codes, atoms=atoms, half=half, outliers=outliers)
        if isinstance(half, EntrywiseHalf) and newton is not None:
            # With dependent atoms half a step is itself hard, unless a penalty picks few of them.
            if half.system.inverse is None and not (cold and half.form.slope > 0):
                return functools.partial(newton.begin, atoms=atoms, outliers=outliers)
            return functools.partial(
                alternating_codes, atoms=atoms, half=half, outliers=outliers, most=MOST_ALTERNATIONS
            )
        if half is not None:
            return functools.partial(alternating_codes, atoms=atoms, half=half, outliers=outliers)
        if isinstance(newton, GroupNewtonCoder):
            return functools.partial(newton.begin, atoms=atoms, outliers=outliers)
        return functools.partial(proximal_gradient_codes, atoms=atoms, code=code, outliers=outliers)

    def reachable_tol(self, dtype: np.dtype[Any]) -> float:
        """Return ``tol``, raised to the level of rounding in the given precision."""
        return max(self.tol, 64 * float(np.finfo(dtype).eps))


#: How exactly codes are computed where a dictionary is judged, and for new rows.
EXACT = Coder(tol=1e-8)
