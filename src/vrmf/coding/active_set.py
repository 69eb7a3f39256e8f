"""Sparse codes without outliers, by descent from face to face (:mod:`vrmf.coding._active_set`).

The work for a row grows with the number of its nonzeros, not with the square of the number of atoms. So
this is the method for codes that use a small share of the atoms; dense ones are left to splitting.
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._active_set import active_set_rows
from vrmf.coding.base import AbstractMethod, Codes, Task
from vrmf.coding.forms import SPARE_ENTRIES, EntrywiseForm, entrywise_form
from vrmf.coding.splitting import split_codes
from vrmf.coding.system import System
from vrmf.running.clock import check_time

# Where the method pays was measured over a grid of problems: docs/coding.md.

#: With fewer atoms than this the other method is always taken.
LEAST_ATOMS = 16

#: With this many atoms for each feature the method is always the faster one: codes cannot be dense.
OVERCOMPLETE = 1.5

#: The share of nonzeros up to which the method is the faster one otherwise, for codes that start from zero.
MOST_NONZERO_COLD = 0.2

#: The same for codes that start from others.
MOST_NONZERO_WARM = 0.55

#: With more atoms than features it is also the faster one if rows are fitted by nearly as many atoms as
#: there are features, a case that is hard for splitting.
NEARLY_ALL = 0.75

#: The error to which one row is coded to see how dense codes are.
PROBE_TOL = 1e-3

#: Rounds after which a row is left to other methods.
MOST_ROUNDS = 500

#: Entries of codes that the kernel gets at a time; a fit checks its time limit in between.
ENTRIES_AT_A_TIME = 2**16


class ActiveSet(AbstractMethod):
    """Codes that minimise ½‖x − hD‖² + slope·‖h‖₁ + (ridge/2)‖h‖² with low ≤ hⱼ ≤ high, if most are 0.

    >>> from vrmf.block import Block
    >>> from vrmf.coding.base import Atoms
    >>> from vrmf.terms import L1, Absent
    >>> task = Task(Block(np.array([[3.0, 0.5]])), Atoms(np.eye(2)), L1(1.0), Absent(), 1e-12, max_iter=100)
    >>> ActiveSet().encode(task).H
    array([[2., 0.]])
    """

    def applies_to(self, task: Task) -> bool:
        known = task.code.canonical
        if known is None or not known.is_entrywise or task.has_outliers or not len(task.rows):
            return False
        if (known.slope == 0 and known.low != 0 and known.high != 0) or not known.low <= 0 <= known.high:
            return False  # nothing makes entries vanish
        k, d = task.atoms.D.shape
        if k < LEAST_ATOMS or k >= OVERCOMPLETE * d:
            return k >= LEAST_ATOMS
        if task.start is not None:
            nonzeros, most = float(np.count_nonzero(task.start)) / len(task.rows), MOST_NONZERO_WARM
        else:
            most = MOST_NONZERO_COLD
            nonzeros = self._nonzeros_of_one(task, most_free=k if k > d else int(most * k))
        return nonzeros <= most * k or NEARLY_ALL * d <= nonzeros < k

    def encode(self, task: Task) -> Codes:
        known = task.code.canonical
        assert known is not None
        form, system = entrywise_form(known), System.of(task.atoms, known.ridge)
        C, allowed = task.rows.times_atoms(task.atoms.D), task.tol * task.scale
        rounds = min(MOST_ROUNDS, task.max_iter)
        codes = active_set_codes(C, system, form, allowed, task.scale, rounds, task.start)
        hard = np.flatnonzero(~codes.finished)
        if len(hard) and task.max_iter > rounds:
            numbers = (allowed[hard], task.scale[hard], task.max_iter - rounds, codes.H[hard])
            codes.replace_where_better(hard, split_codes(C[hard], system, form, *numbers))
        return codes

    def _nonzeros_of_one(self, task: Task, most_free: int) -> float:
        """Return the nonzeros of one code, that of the row of median length, infinite if more are free."""
        known = task.code.canonical
        assert known is not None
        form, system = entrywise_form(known), System.of(task.atoms, known.ridge)
        row = np.argsort(task.rows.squares, kind="stable")[len(task.rows) // 2 :][:1]
        c, scale = task.rows.take(row).times_atoms(task.atoms.D), task.scale[row]
        code = active_set_codes(c, system, form, PROBE_TOL * scale, scale, MOST_ROUNDS, most_free=most_free)
        return float(np.count_nonzero(code.H)) if code.finished[0] else np.inf


def active_set_codes(
    C: Array,
    system: System,
    form: EntrywiseForm,
    allowed: Array,
    scale: Array,
    most_rounds: int,
    start: Array | None = None,
    most_free: int | None = None,
) -> Codes:
    """Minimise ½ hAhᵀ − c·h + φ(h) for each row c of ``C`` until its absolute error is at most ``allowed``.

    Errors are told in units of ``scale``. Rows that need more than ``most_free`` free entries are left
    unfinished.
    """
    (n, k), number = C.shape, C.dtype.type
    H = np.empty_like(C) if start is None else form.feasible(start.astype(C.dtype, copy=False))
    rounds, error = np.empty(n, np.int64), np.empty(n, C.dtype)
    rounding = number(2 * float(np.finfo(C.dtype).eps) * system.bound)
    allowed = allowed.astype(C.dtype, copy=False)
    # But for rounding, no more entries than the rank of A can be free at a time.
    room, most_free = system.rank + SPARE_ENTRIES, k if most_free is None else most_free
    rows_at_a_time = max(1, ENTRIES_AT_A_TIME // k)
    for i in range(0, n, rows_at_a_time):
        check_time()
        some = slice(i, i + rows_at_a_time)
        active_set_rows(
            *(C[some], system.A, H[some], start is not None, form.numbers(C), allowed[some]),
            *(rounding, number(system.tiny), room, most_free, most_rounds, rounds[some], error[some]),
        )
    return Codes(H, error / scale, np.abs(rounds), (rounds > 0) & np.isfinite(error), scale)
