"""Codes with outliers: the best outliers for the codes, the best codes for the outliers, accelerated.

For each row minimise q(h) + φ(h), q(h) = min over r of ½‖x − hD − r‖² + ϕ(r). At y, with e = x − yD
and r = prox of ϕ at e, the function ½‖yD + (e − r) − hD‖² + a constant lies above q and touches it;
so the best code p for the target yD + (e − r) lowers q + φ. This is a proximal gradient step in the
metric of DDᵀ: it converges fast even where atoms are nearly parallel, and momentum works as usual.

From cold, the threshold of an ℓ₁ penalty on outliers begins at the size of the data and is halved
down to its own value. If it started there, rows with large outliers would converge slowly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._alternating import subtract_outliers
from vrmf.coding.base import AbstractMethod, Account, Codes, Task
from vrmf.coding.code_updates import EntrywiseCodeUpdate, code_update_for
from vrmf.coding.forms import EntrywiseForm, form_of
from vrmf.coding.newton import newton_coder
from vrmf.running.clock import check_time
from vrmf.terms.base import AbstractRowTerm

#: From cold the threshold is halved once in so many steps.
HALVE_EVERY = 2

#: Bound on the steps if each update of codes is itself an iteration; the last resort takes over.
MOST_ALTERNATIONS = 30


class Alternating(AbstractMethod):
    """Accelerated alternation.

    With Δ = (y − p)D, what p lacks for optimality is (Δ − the change of e − r from y to p) Dᵀ. The prox is
    firmly nonexpansive, so ‖Δ‖·‖D‖₂ bounds the distance of 0 to the subdifferential at p.
    """

    def applies_to(self, task: Task) -> bool:
        update = code_update_for(task.code, task.atoms) if task.has_outliers else None
        if not isinstance(update, EntrywiseCodeUpdate) or newton_coder(task.code, task.outliers) is None:
            return update is not None
        return update.converges_fast(cold=task.start is None)

    def encode(self, task: Task) -> Codes:
        X, atoms, max_iter = task.X, task.atoms, task.max_iter
        update = code_update_for(task.code, atoms)
        assert update is not None
        if isinstance(update, EntrywiseCodeUpdate) and newton_coder(task.code, task.outliers) is not None:
            max_iter = min(max_iter, MOST_ALTERNATIONS)
        outliers = OutlierUpdate(task.outliers, X, cold=task.start is None and max_iter > 1)
        allowed = task.tol * task.scale
        rounding = 2 * float(np.finfo(X.dtype).eps) * atoms.squared_norm
        P = update.into_coordinates(task.first_codes())
        # The length of a step is that of a difference, which contains roundings of the first codes.
        drift = rounding * np.sqrt(row_squares(P))
        account = Account(P, task.scale, max_iter)
        Y, t, rows, E = P.copy(), np.ones(len(X), X.dtype), X, np.empty_like(X)
        for iteration in range(1, max_iter + 1):
            check_time()
            np.matmul(Y, update.D, out=E)
            outliers.subtract(E, rows)
            miss = update.step(P, Y, E @ update.D.T, t, allowed[account.open_rows])
            done = (miss <= allowed[account.open_rows]) | (miss <= rounding * np.sqrt(row_squares(P)))
            done &= outliers.arrived
            stay = account.close_at(iteration, P, miss, done)
            if not len(account.open_rows):
                break
            if stay is not None:
                rows, P, Y, t = rows[stay], P[stay], Y[stay], t[stay]
                E = E[: len(account.open_rows)]
                outliers.retain(stay)
            if iteration + 1 == max_iter:
                outliers.end_thresholds()
            elif iteration % HALVE_EVERY == 0:
                outliers.halve_thresholds()
        account.finished &= drift <= 0.5 * allowed
        return account.codes(update.out_of_coordinates(account.H))


class OutlierUpdate:
    """The best outliers for given codes, with a threshold for each row that falls to that of the term."""

    def __init__(self, term: AbstractRowTerm, X: Array, cold: bool) -> None:
        form = form_of(term)
        self.term, self.form = term, form if isinstance(form, EntrywiseForm) else None
        slope = self.form.slope if self.form else 0.0
        self.end = X.dtype.type(slope)
        self.level = np.full(len(X), self.end)
        if cold and slope > 0:
            # The median of |x| over some columns: the size of what is not an outlier.
            some = np.abs(X[:, :: max(1, X.shape[1] // 64)])
            size = np.median(some, axis=1)
            self.level = np.maximum(np.where(size > 0, size, np.mean(some, axis=1)), self.end)

    @property
    def arrived(self) -> Array:
        """Whether each row has arrived at the threshold of the term."""
        return self.level <= self.end

    def halve_thresholds(self) -> None:
        """Halve the thresholds that are above that of the term."""
        self.level = np.maximum(self.level / 2, self.end)

    def end_thresholds(self) -> None:
        """Set all thresholds to that of the term."""
        self.level = np.full_like(self.level, self.end)

    def retain(self, rows: Array) -> None:
        """Retain some of the rows."""
        self.level = self.level[rows]

    def subtract(self, E: Array, X: Array) -> None:
        """Turn E = hD into e − r in place, with e = x − hD and the best r at the present thresholds."""
        if self.form is None:
            np.subtract(X, E, out=E)
            E[:] = self.term.envelope_gradient(E)
            return
        subtract_outliers(E, X, self.level, *self.numbers(E.dtype)[1:])

    def numbers(self, dtype: np.dtype[Any]) -> tuple[float, float, float, float]:
        """Return the numbers of ``best_fit``, of a term that acts on entries."""
        assert self.form is not None
        number, ridge = dtype.type, self.form.ridge
        return self.end, number(ridge / (1 + ridge)), number(self.form.low), number(self.form.high)
