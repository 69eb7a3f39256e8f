"""The dictionary that minimises a quadratic surrogate ½ tr(Dᵀ A D) − tr(Dᵀ B) + ψ(D).

How, depends on ψ: by a rotation where ψ is quadratic (P5, P7), atom by atom where it acts on rows
(P1–P4, P8), and by accelerated proximal gradient steps where it couples atoms (P6), since descent
by atoms would stall there.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from vrmf.terms import AbstractRowTerm, AbstractTerm, Trait
from vrmf.terms.base import Array

#: Bounds and relative accuracy of the accelerated method.
MAX_ITERATIONS = 200
ACCURACY = 1e-9


def minimise_surrogate(term: AbstractTerm, A: Array, B: Array, D: Array, sweeps: int = 1) -> Array:
    """Return a dictionary no worse than D, the minimiser where it has a closed form.

    >>> from vrmf.terms import Ridge
    >>> minimise_surrogate(Ridge(1.0), np.eye(1), np.array([[4.0]]), np.zeros((1, 1)))
    array([[2.]])
    """
    if Trait.QUADRATIC in term.traits:
        return by_rotation(term, A, B, D)
    if isinstance(term, AbstractRowTerm):
        return by_atoms(term, A, B, D, sweeps)
    return by_gradient(term, A, B, D)


def by_rotation(term: AbstractTerm, A: Array, B: Array, D: Array) -> Array:
    """Solve A D + D Q = B (a Sylvester equation) in the eigenbasis of A, where it is a prox per row.

    A touch of the distance to the old D is added, which decides where A is singular and ψ is flat.
    """
    touch = float(np.trace(A)) * 16 * float(np.finfo(A.dtype).eps) or 1.0
    values, U = scipy.linalg.eigh(A)
    curvature = np.maximum(values, 0) + touch
    targets = U.T @ (B + touch * D) / curvature[:, None]
    rows = [term.prox(targets[[i]], 1 / float(c)) for i, c in enumerate(curvature)]
    return U @ np.concatenate(rows)


def by_atoms(term: AbstractRowTerm, A: Array, B: Array, D: Array, sweeps: int) -> Array:
    """Minimise over one atom after another; each is a prox, since the surrogate is round in an atom."""
    D = D.copy()
    used = np.flatnonzero(np.diag(A) > np.finfo(A.dtype).eps * np.max(np.diag(A), initial=0.0))
    for _ in range(sweeps):
        for j in used:
            target = D[j] + (B[j] - A[j] @ D) / A[j, j]
            D[j] = term.prox(target[None], 1 / float(A[j, j]))[0]
    return D


def by_gradient(term: AbstractTerm, A: Array, B: Array, D: Array) -> Array:
    """Take accelerated proximal gradient steps on all atoms together, with restarts."""
    lipschitz = float(scipy.linalg.eigvalsh(A)[-1])
    if lipschitz <= 0:
        return D.copy()
    accuracy = max(ACCURACY, 16 * float(np.finfo(D.dtype).eps))
    P, Y, t = D, D, 1.0
    for _ in range(MAX_ITERATIONS):
        previous, P = P, term.prox(Y - (A @ Y - B) / lipschitz, 1 / lipschitz)
        if np.linalg.norm(P - Y) <= accuracy * np.linalg.norm(P):
            break
        t = 1.0 if np.sum((Y - P) * (P - previous)) > 0 else t
        faster = (1 + (1 + 4 * t * t) ** 0.5) / 2
        Y, t = P + ((t - 1) / faster) * (P - previous), faster
    return P
