"""Codes with outliers and a ridge: conjugate gradients on the Moreau envelope.

With the outliers eliminated, q(h) + (ridge/2)‖h‖² is convex, smooth and piecewise quadratic. In the
eigenbasis of DDᵀ its Hessian lies below metric + ridge, a diagonal, which preconditions nonlinear
conjugate gradients with an exact line search. Momentum (:mod:`vrmf.coding.alternating`) needs two to
three times as many steps where most entries are outliers. From cold, some alternating steps come first.
"""

from __future__ import annotations

import numpy as np

from vrmf.clock import check_time
from vrmf.coding._conjugate import line_search, turn
from vrmf.coding.alternating import OutlierSide
from vrmf.coding.base import AbstractMethod, Account, Codes, Task
from vrmf.coding.halves import RadialHalf, half_of
from vrmf.rows import row_squares
from vrmf.terms.base import Array


class Conjugate(AbstractMethod):
    """Codes that minimise ½‖x − hD − r‖² + (ridge/2)‖h‖² + ϕ(r), where ϕ acts on each entry alone.

    The error is the norm of the gradient at the code.
    """

    def applies_to(self, task: Task) -> bool:
        code, outliers = task.code.canonical, task.outliers.canonical
        if code is None or outliers is None:
            return False
        return task.has_outliers and code.is_plain and outliers.is_entrywise

    def encode(self, task: Task) -> Codes:
        X, atoms, half = task.X, task.atoms, half_of(task.code, task.atoms)
        assert isinstance(half, RadialHalf)
        n, dtype = len(X), X.dtype
        side = OutlierSide(task.outliers, X, cold=task.start is None and task.max_iter > 1)
        allowed, rounding = task.tol * task.scale, 2 * float(np.finfo(dtype).eps) * atoms.squared_norm
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
            done = (miss <= allowed[account.alive]) | (miss <= rounding * np.sqrt(row_squares(P)))
            going = account.close_at(iteration, P, miss, done)
            if not len(account.alive):
                break
            if going is not None:
                P, direction, G, E = P[going], direction[going], G[going], E[going]
                old, alpha, miss, W = old[going], alpha[going], miss[going], W[: len(account.alive)]
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
