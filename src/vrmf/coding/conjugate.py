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
from vrmf.coding.base import Atoms, Codes, Ledger, error_scale
from vrmf.coding.halves import RadialHalf
from vrmf.rows import row_squares
from vrmf.terms.base import AbstractRowTerm, Array


def conjugate_codes(
    X: Array,
    atoms: Atoms,
    half: RadialHalf,
    outliers: AbstractRowTerm,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
) -> Codes:
    """Minimise ½‖x − hD − r‖² + (ridge/2)‖h‖² + ϕ(r) for each row of ``X``, to the relative error ``tol``.

    The error is the norm of the gradient at the code. ϕ acts on each entry alone.
    """
    n, dtype = len(X), X.dtype
    side = OutlierSide(outliers, X, cold=start is None and max_iter > 1)
    scale = error_scale(atoms, side.envelope(X))
    allowed, rounding = tol * scale, 2 * float(np.finfo(dtype).eps) * atoms.squared_norm
    P = half.enter(np.zeros((n, len(atoms.D)), dtype) if start is None else start.astype(dtype, copy=False))
    spent = _approach(X, half, side, P, max_iter - 1)
    ledger = Ledger(P, scale, max_iter)
    E, W = X - P @ half.D, np.empty_like(X)
    # What the moves of E add up to: roundings of what it was at first.
    drift = rounding / half.norm * np.sqrt(row_squares(E))
    direction, G, old = np.zeros_like(P), np.zeros_like(P), np.full(n, np.inf, dtype)
    alpha, miss, ridge = np.ones(n, dtype), np.empty(n, dtype), dtype.type(half.ridge)
    for iteration in range(spent + 1, max_iter + 1):
        check_time()
        np.matmul(direction, half.D, out=W)
        line_search(E, W, P, direction, G, alpha, ridge, *side.numbers(dtype))
        turn(P, direction, G, old, W @ half.D.T, half.metric, ridge, miss)
        done = (miss <= allowed[ledger.alive]) | (miss <= rounding * np.sqrt(row_squares(P)))
        going = ledger.close(iteration, P, miss, done)
        if not len(ledger.alive):
            break
        if going is not None:
            P, direction, G, E = P[going], direction[going], G[going], E[going]
            old, alpha, miss, W = old[going], alpha[going], miss[going], W[: len(ledger.alive)]
    ledger.finished &= drift <= 0.5 * allowed
    return ledger.codes(half.leave(ledger.H))


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
