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
from vrmf.coding.halves import RadialHalf, half_of
from vrmf.coding.splitting import plain_codes
from vrmf.terms.base import AbstractRowTerm, Array
from vrmf.terms.penalties import Free, Ridge
from vrmf.terms.sets import Absent

__all__ = ["EXACT", "Atoms", "Coder", "Codes"]

METHODS = ("auto", "gradient", "bsum")


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
        tol = self.reachable_tol(X.dtype)
        if self.method == "auto" and isinstance(outliers, Absent):
            if isinstance(code, Ridge | Free):
                return ridge_codes(X, atoms, code.weight if isinstance(code, Ridge) else 0.0)
            return plain_codes(X, atoms, code, tol=tol, max_iter=self.max_iter, start=start)
        half = half_of(code, atoms) if self.method == "auto" else None
        if isinstance(half, RadialHalf) and not half.in_ball and acts_on_entries(outliers):
            return conjugate_codes(X, atoms, half, outliers, tol=tol, max_iter=self.max_iter, start=start)
        if half is not None:
            return alternating_codes(X, atoms, half, outliers, tol=tol, max_iter=self.max_iter, start=start)
        return proximal_gradient_codes(
            X,
            atoms,
            code,
            outliers,
            tol=tol,
            max_iter=self.max_iter,
            start=start,
            momentum=self.method != "bsum",
        )

    def reachable_tol(self, dtype: np.dtype[Any]) -> float:
        """Return ``tol``, raised to the level of rounding in the given precision."""
        return max(self.tol, 64 * float(np.finfo(dtype).eps))


#: How exactly codes are computed where a dictionary is judged, and for new rows.
EXACT = Coder(tol=1e-8)
