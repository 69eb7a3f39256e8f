"""Codes for any terms, by proximal gradient steps on the Moreau envelope.

Minimising over the outliers first leaves, for each row x,

    min over h of  q(h) + φ(h),   q(h) = min over r of ½‖x − hD − r‖² + ϕ(r),

where q is smooth with ∇q(h) = −(e − prox_ϕ(e)) Dᵀ at e = x − hD and Lipschitz constant ‖D‖₂². One
accelerated proximal gradient method therefore serves every formulation. Without its momentum the
method is the paper's alternating scheme (BSUM): its step in h at the best r is the same step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.coding.base import AbstractMethod, Account, Codes, Task
from vrmf.momentum import next_momentum
from vrmf.running.clock import check_time

#: Rows are checked for convergence, and finished ones taken out, once in so many iterations.
CHECK_EVERY = 5


@dataclass(frozen=True)
class ProximalGradient(AbstractMethod):
    """Accelerated proximal gradient steps for all rows together; without momentum the paper's scheme.

    A row is finished when its error (see :class:`Codes`) is at most ``tol``, or at the level of
    rounding; at a prox step from y to p with step 1/L, 2L‖y − p‖ bounds the distance of 0 to the
    subdifferential at p. Each row has its own momentum, restarted when it points uphill [1]_.

    References
    ----------
    .. [1] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes",
       Foundations of Computational Mathematics 15 (2015).
    """

    momentum: bool = True

    def applies_to(self, task: Task) -> bool:
        return True

    def encode(self, task: Task) -> Codes:
        code, lipschitz = task.code, task.atoms.squared_norm
        rounding = 16 * float(np.finfo(task.rows.dtype).eps) * lipschitz
        data, gradient = _smooth_part(task)
        P = Y = task.first_codes()
        account = Account(P, task.scale, task.max_iter)
        t = np.ones((len(P), 1), dtype=P.dtype)
        for iteration in range(1, task.max_iter + 1):
            check_time()
            previous, P = P, code.prox(Y - gradient(Y, data) / lipschitz, 1 / lipschitz)
            move = Y - P
            if iteration % CHECK_EVERY == 0 or iteration in (1, task.max_iter):
                miss = 2 * lipschitz * np.sqrt(np.einsum("ij,ij->i", move, move))
                size = np.sqrt(np.einsum("ij,ij->i", P, P))
                done = (miss <= task.tol * task.scale[account.open_rows]) | (miss <= rounding * size)
                ended = done if iteration < task.max_iter else np.ones_like(done)
                account.iterations[account.open_rows[ended]] = iteration
                stay = account.close(ended, P, miss, done)
                if not len(account.open_rows):
                    break
                if not np.all(stay):
                    data, t, P, previous, move = (Z[stay] for Z in (data, t, P, previous, move))
            if self.momentum:
                uphill = np.einsum("ij,ij->i", move, P - previous) > 0
                t[uphill] = 1
                factor, t = next_momentum(t)
                Y = P + factor * (P - previous)
            else:
                Y = P
        return account.codes()


def _smooth_part(task: Task) -> tuple[Array, Callable[[Array, Array], Array]]:
    """Return the data of each row, and the gradient of q as a function of (H, data)."""
    D, gram = task.atoms.D, task.atoms.gram
    if not task.has_outliers:  # ∇q(h) = h DDᵀ − x Dᵀ needs k numbers for each row, not d
        return task.rows.times_atoms(D), lambda H, C: H @ gram - C

    def gradient(H: Array, rows: Array) -> Array:
        E = rows - H @ D
        return -task.outliers.envelope_gradient(E) @ D.T

    return task.X, gradient
