"""Codes for any terms, by proximal gradient steps on the Moreau envelope.

Minimising over the outliers first leaves, for each row x,

    min over h of  q(h) + φ(h),   q(h) = min over r of ½‖x − hD − r‖² + ϕ(r),

where q is smooth with ∇q(h) = −(e − prox_ϕ(e)) Dᵀ at e = x − hD and Lipschitz constant ‖D‖₂². One
accelerated proximal gradient method therefore serves every formulation. Without its momentum the
method is the paper's alternating scheme (BSUM): its step in h at the best r is the same step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vrmf.clock import check_time
from vrmf.coding.base import Atoms, Codes, error_scale
from vrmf.terms.base import AbstractRowTerm, Array
from vrmf.terms.sets import Absent

#: Rows are checked for convergence, and finished ones put aside, once in so many iterations.
CHECK_EVERY = 5


def proximal_gradient_codes(
    X: Array,
    atoms: Atoms,
    code: AbstractRowTerm,
    outliers: AbstractRowTerm,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    momentum: bool = True,
) -> Codes:
    """Minimise ½‖x − hD − r‖² + φ(h) + ϕ(r) over h and r, for all rows of ``X`` together.

    A row is finished when its error (see :class:`Codes`) is at most ``tol``, or at the level of
    rounding; at a prox step from y to p with step 1/L, 2L‖y − p‖ bounds the distance of 0 to the
    subdifferential at p. Each row has its own momentum, restarted when it points uphill [1]_.

    References
    ----------
    .. [1] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes",
       Foundations of Computational Mathematics 15 (2015).
    """
    n, k = len(X), len(atoms.D)
    lipschitz = atoms.squared_norm
    rounding = 16 * float(np.finfo(X.dtype).eps) * lipschitz
    data, gradient, envelope = _smooth_part(X, atoms, outliers)
    scale = error_scale(atoms, envelope)
    H = np.zeros((n, k), dtype=X.dtype) if start is None else start.astype(X.dtype)
    error, iterations = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
    solved = np.zeros(n, dtype=bool)
    alive, P, Y, t = np.arange(n), H, H, np.ones((n, 1), dtype=X.dtype)
    for iteration in range(1, max_iter + 1):
        check_time()
        previous, P = P, code.prox(Y - gradient(Y, data) / lipschitz, 1 / lipschitz)
        move = Y - P
        if iteration % CHECK_EVERY == 0 or iteration in (1, max_iter):
            residual = 2 * lipschitz * np.sqrt(np.einsum("ij,ij->i", move, move))
            size = np.sqrt(np.einsum("ij,ij->i", P, P))
            done = (residual <= tol * scale[alive]) | (residual <= rounding * size)
            ended = done if iteration < max_iter else np.ones_like(done)
            finished = alive[ended]
            H[finished], iterations[finished], solved[finished] = P[ended], iteration, done[ended]
            error[finished] = residual[ended] / scale[finished]
            if len(finished) == len(alive):
                break
            if len(finished):
                going = ~ended
                alive, data, t = alive[going], data[going], t[going]
                P, previous, move = P[going], previous[going], move[going]
        if momentum:
            uphill = np.einsum("ij,ij->i", move, P - previous) > 0
            t[uphill] = 1
            faster = (1 + np.sqrt(1 + 4 * t * t)) / 2
            Y, t = P + ((t - 1) / faster) * (P - previous), faster
        else:
            Y = P
    return Codes(H, error, iterations, solved, scale)


def _smooth_part(
    X: Array, atoms: Atoms, outliers: AbstractRowTerm
) -> tuple[Array, Callable[[Array, Array], Array], Array]:
    """Return the data of each row, the gradient of q as a function of (H, data), and ∇env at x."""
    D, gram = atoms.D, atoms.gram
    if isinstance(outliers, Absent):  # ∇q(h) = h DDᵀ − x Dᵀ needs k numbers for each row, not d
        return X @ D.T, lambda H, C: H @ gram - C, X

    def gradient(H: Array, rows: Array) -> Array:
        E = rows - H @ D
        return -outliers.envelope_gradient(E) @ D.T

    return X, gradient, outliers.envelope_gradient(X)
