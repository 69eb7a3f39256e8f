"""Codes with outliers and a ridge: conjugate gradients on the Moreau envelope.

With the outliers eliminated, q(h) + (ridge/2)‖h‖² is convex, smooth and piecewise quadratic. In the
eigenbasis of DDᵀ its Hessian lies below metric + ridge, a diagonal, which preconditions nonlinear
conjugate gradients with an exact line search. Momentum (:mod:`vrmf.coding.alternating`) needs two to
three times as many steps where most entries are outliers. From cold, some alternating steps come first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._conjugate import line_search, next_direction
from vrmf.coding.alternating import OutlierUpdate
from vrmf.coding.base import Account, Codes, Task
from vrmf.coding.code_updates import RadialCodeUpdate
from vrmf.running.clock import check_time


class AbstractSwitchRule(ABC):
    """Decides which rows another method should solve."""

    @abstractmethod
    def rows_to_switch(self, steps: int, P: Array, E: Array, miss: Array, allowed: Array) -> Array | None:
        """Return which rows to switch after so many steps, or None; E holds x − hD, ``miss`` the errors."""

    @abstractmethod
    def retain(self, rows: Array) -> None:
        """Retain some of the rows."""


def conjugate_codes(task: Task, update: RadialCodeUpdate, switch_rule: AbstractSwitchRule) -> Codes:
    """Minimise ½‖x − hD − r‖² + (ridge/2)‖h‖² + ϕ(r) for each row, where ϕ acts on each entry alone.

    The error is the norm of the gradient at the code. Rows stay unfinished that ``switch_rule`` selects,
    that take all iterations, or in whose residuals too many roundings may have added up.
    """
    X, n, dtype = task.X, len(task.X), task.X.dtype
    outliers = OutlierUpdate(task.outliers, X, cold=task.start is None and task.max_iter > 1)
    allowed, rounding = task.tol * task.scale, 2 * float(np.finfo(dtype).eps) * task.atoms.squared_norm
    P = update.into_coordinates(task.first_codes())
    spent = _approach(X, update, outliers, P, task.max_iter - 1)
    account = Account(P, task.scale, task.max_iter)
    E, W = X - P @ update.D, np.empty_like(X)
    # What the moves of E add up to: roundings of what it was at first.
    drift = rounding / update.norm * np.sqrt(row_squares(E))
    direction, G, old = np.zeros_like(P), np.zeros_like(P), np.full(n, np.inf, dtype)
    alpha, miss, ridge = np.ones(n, dtype), np.empty(n, dtype), dtype.type(update.ridge)
    for iteration in range(spent + 1, task.max_iter + 1):
        check_time()
        np.matmul(direction, update.D, out=W)
        line_search(E, W, P, direction, G, alpha, ridge, *outliers.numbers(dtype))
        next_direction(P, direction, G, old, W @ update.D.T, update.metric, ridge, miss)
        enough = np.maximum(allowed[account.open_rows], rounding * np.sqrt(row_squares(P)))
        leaving = switch_rule.rows_to_switch(iteration - spent, P, E, miss, enough)
        stay = account.close_at(iteration, P, miss, miss <= enough, leaving)
        if not len(account.open_rows):
            break
        if stay is not None:
            P, direction, G, E = P[stay], direction[stay], G[stay], E[stay]
            old, alpha, miss = old[stay], alpha[stay], miss[stay]
            W = W[: len(account.open_rows)]
            switch_rule.retain(stay)
    account.finished &= drift <= 0.5 * allowed
    return account.codes(update.out_of_coordinates(account.H))


def _approach(X: Array, update: RadialCodeUpdate, outliers: OutlierUpdate, P: Array, max_iter: int) -> int:
    """Move cold codes by alternating steps until thresholds are at their end; return how many it took."""
    Y, t, E, steps = P.copy(), np.ones(len(X), X.dtype), np.empty_like(X), 0
    while steps < max_iter and not np.all(outliers.arrived):
        steps += 1
        np.matmul(Y, update.D, out=E)
        outliers.subtract(E, X)
        update.step(P, Y, E @ update.D.T, t, t)
        outliers.halve_thresholds()
    outliers.end_thresholds()
    return steps
