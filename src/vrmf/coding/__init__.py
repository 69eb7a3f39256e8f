"""Coding: the best codes of given rows for a given dictionary.

There is a list of methods, and the first that applies to the terms and the rows is taken. The last one, the
accelerated proximal gradient method, takes any terms.

>>> import numpy as np
>>> from vrmf.coding import Atoms, Coder
>>> from vrmf.terms import L1, Absent
>>> codes = Coder(tol=1e-12).encode(np.array([[3.0, 0.5]]), Atoms(np.eye(2)), L1(1.0), Absent())
>>> codes.H
array([[2., 0.]])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block, as_block
from vrmf.checks import one_of, real_number, whole_number
from vrmf.coding.active_set import ActiveSet
from vrmf.coding.alternating import Alternating
from vrmf.coding.base import AbstractMethod, Atoms, Codes, Task
from vrmf.coding.closed_form import ClosedForm
from vrmf.coding.gradient import ProximalGradient
from vrmf.coding.huber import HuberBox, HuberRadial
from vrmf.coding.newton import GroupNewtonCoder, LastResort, newton_coder
from vrmf.coding.splitting import Splitting
from vrmf.terms.base import AbstractRowTerm

__all__ = ["EXACT", "Atoms", "Coder", "Codes"]

#: The first of these that applies to the rows and terms finds their codes.
METHODS: tuple[AbstractMethod, ...] = (
    ClosedForm(),
    ActiveSet(),
    Splitting(),
    HuberRadial(),
    HuberBox(),
    Alternating(),
    LastResort(),
    ProximalGradient(),
)

#: Rows that take a fast method more iterations than this are left to one that is sure to converge.
MOST_FAST_ITERATIONS = 500


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
        one_of("method", self.method, ("auto", "gradient", "bsum"))

    def encode(
        self,
        X: Block | Array,
        atoms: Atoms,
        code: AbstractRowTerm,
        outliers: AbstractRowTerm,
        start: Array | None = None,
    ) -> Codes:
        """Return the codes of the rows of ``X``, from the codes ``start`` if given."""
        rows = as_block(X)
        tol, newton = self.reachable_tol(rows.dtype), newton_coder(code, outliers)
        task = Task(rows, atoms.visible, code, outliers, tol, self.max_iter, start)
        if self.method != "auto":
            codes = ProximalGradient(momentum=self.method == "gradient").encode(task)
            if isinstance(newton, GroupNewtonCoder) and newton.overlapping:  # whose prox is not exact
                newton.check(codes, np.arange(len(rows)), rows.dense.astype(np.float64), task.atoms, tol)
            return codes
        first = replace(task, max_iter=min(self.max_iter, MOST_FAST_ITERATIONS))
        codes = next(method for method in METHODS if method.applies_to(first)).encode(first)
        if newton is not None:
            newton.finish(codes, rows.dense, task.atoms, tol, self.max_iter)
            return codes
        hard, left = np.flatnonzero(~codes.finished), self.max_iter - first.max_iter
        if len(hard) and left > 0:
            codes.replace_where_better(hard, ProximalGradient().encode(task.of(hard, codes.H[hard], left)))
        return codes

    def reachable_tol(self, dtype: np.dtype[Any]) -> float:
        """Return ``tol``, raised to the level of rounding in the given precision."""
        return max(self.tol, 64 * float(np.finfo(dtype).eps))


#: How exactly codes are computed where a dictionary is judged, and for new rows.
EXACT = Coder(tol=1e-8)
