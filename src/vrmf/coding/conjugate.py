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
from vrmf.coding._conjugate import line_search, turn
from vrmf.coding.alternating import OutlierSide
from vrmf.coding.base import Account, Codes, Task
from vrmf.coding.halves import RadialHalf
from vrmf.running.clock import check_time


class AbstractPatience(ABC):
    """Tells which rows had better be left to another method."""

    @abstractmethod
    def is_lost(self, steps: int, P: Array, E: Array, miss: Array, allowed: Array) -> Array | None:
        """Return which rows to leave after so many steps, or None: codes P, x − hD, and their errors."""

    @abstractmethod
    def keep(self, rows: Array) -> None:
        """Go on with some of the rows."""


def conjugate_codes(task: Task, half: RadialHalf, patience: AbstractPatience) -> Codes:
    """Minimise ½‖x − hD − r‖² + (ridge/2)‖h‖² + ϕ(r) for each row, where ϕ acts on each entry alone.

    The error is the norm of the gradient at the code. Unfinished are rows for which ``patience`` was lost,
    those that took all iterations, and those in whose residuals too many roundings may have added up.
    """
    X, n, dtype = task.X, len(task.X), task.X.dtype
    side = OutlierSide(task.outliers, X, cold=task.start is None and task.max_iter > 1)
    allowed, rounding = task.tol * task.scale, 2 * float(np.finfo(dtype).eps) * task.atoms.squared_norm
    P = half.enter(task.first_codes())
    spent = _approach(X, half, side, P, task.max_iter - 1)
    account = Account(P, task.scale, task.max_iter)
    E, W = X - P @ half.D, np.empty_like(X)
    # What the moves of E add up to: roundings of what it was at first.
    drift = rounding / half.norm * np.sqrt(row_squares(E))
    direction, G, old = np.zeros_like(P), np.zeros_like(P), np.full(n, np.inf, dtype)
    alpha, miss, ridge = np.ones(n, dtype), np.empty(n, dtype), dtype.type(half.ridge)
    for iteration in range(spent + 1, task.max_iter + 1):
        check_time()
        np.matmul(direction, half.D, out=W)
        line_search(E, W, P, direction, G, alpha, ridge, *side.numbers(dtype))
        turn(P, direction, G, old, W @ half.D.T, half.metric, ridge, miss)
        enough = np.maximum(allowed[account.alive], rounding * np.sqrt(row_squares(P)))
        leaving = patience.is_lost(iteration - spent, P, E, miss, enough)
        going = account.close_at(iteration, P, miss, miss <= enough, leaving)
        if not len(account.alive):
            break
        if going is not None:
            P, direction, G, E = P[going], direction[going], G[going], E[going]
            old, alpha, miss, W = old[going], alpha[going], miss[going], W[: len(account.alive)]
            patience.keep(going)
    account.finished &= drift <= 0.5 * allowed
    return account.codes(half.leave(account.H))


def _approach(X: Array, half: RadialHalf, side: OutlierSide, P: Array, max_iter: int) -> int:
    """Move cold codes by alternating steps until thresholds are at their end; return how many it took."""
    Y, t, E, steps = P.copy(), np.ones(len(X), X.dtype), np.empty_like(X), 0
    while steps < max_iter and not np.all(side.settled):
        steps += 1
        np.matmul(Y, half.D, out=E)
        side.subtract(E, X)
        half.step(P, Y, E @ half.D.T, t, t)
        side.approach()
    side.arrive()
    return steps
