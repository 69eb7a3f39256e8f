"""The convex programs that recovery.py compares with: principal component pursuit, and its stable form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.common import Array
from benchmarks.recovery_data import mixture
from vrmf.momentum import next_momentum

Shrink = Callable[[Array, float], tuple[Array, int]]

#: Factors by which the penalty of PCP grows in each iteration: that of its authors, and a smaller one.
#: With the smaller one the iterates come closer to the minimum where L is not recovered.
GROWTH, SLOW_GROWTH = 1.5, 1.1


def soft(T: Array, level: float) -> Array:
    """Return the entries of T moved toward 0 by a level."""
    return np.sign(T) * np.maximum(np.abs(T) - level, 0)


def soft_spectrum(T: Array, level: float) -> tuple[Array, int]:
    """Return T with its singular values moved toward 0 by a level, and the rank that is left."""
    U, values, V = np.linalg.svd(T, full_matrices=False)
    rank = int(np.sum(values > level))
    return (U[:, :rank] * (values[:rank] - level)) @ V[:rank], rank


def soft_spectrum_by_gram(T: Array, level: float) -> tuple[Array, int]:
    """Return the same from the eigenvectors of TᵀT or TTᵀ: faster, but with half of the digits."""
    if T.shape[0] < T.shape[1]:
        L, rank = soft_spectrum_by_gram(T.T, level)
        return L.T, rank
    values, V = np.linalg.eigh(T.T @ T)
    values = np.sqrt(np.maximum(values, 0))
    V, values = V[:, values > level], values[values > level]
    return (T @ (V * (1 - level / values))) @ V.T, len(values)


def pcp_iterates(
    X: Array,
    shrink: Shrink = soft_spectrum,
    growth: float = GROWTH,
) -> Iterator[tuple[Array, Array, int]]:
    """Yield L, S and the rank of L, as they approach principal component pursuit.

    That is the minimum of ‖L‖_* + λ‖S‖₁ over L + S = X with λ = 1/√max(n, d). The method is the inexact
    augmented Lagrangian one of Lin, Chen and Ma (2010). Its penalty grows in each iteration. The slower
    it grows, the closer the iterates come to the minimum.
    """
    weight = 1 / np.sqrt(max(X.shape))
    norm = float(np.linalg.norm(X, 2))
    multiplier = X / max(norm, float(np.max(np.abs(X))) / weight)
    penalty = first = 1.25 / norm
    S = np.zeros_like(X)
    while True:
        L, rank = shrink(X - S + multiplier / penalty, 1 / penalty)
        S = soft(X - L + multiplier / penalty, weight / penalty)
        yield L, S, rank
        multiplier = multiplier + penalty * (X - L - S)
        penalty = min(growth * penalty, 1e7 * first)


def pcp(
    X: Array,
    tol: float = 1e-7,
    max_iter: int = 500,
    shrink: Shrink = soft_spectrum,
    growth: float = GROWTH,
) -> tuple[Array, int]:
    """Return L of principal component pursuit and its rank, for ‖X − L − S‖ ≤ tol ‖X‖."""
    size = np.linalg.norm(X)
    for step, (L, S, rank) in enumerate(pcp_iterates(X, shrink, growth), start=1):
        if np.linalg.norm(X - L - S) <= tol * size or step == max_iter:
            return L, rank
    raise AssertionError("iterates have no end")


def stable_weights(shape: tuple[int, ...], noise: float) -> tuple[float, float]:
    """Return alpha and the weight of errors for noise of a standard deviation."""
    weight = noise * sum(np.sqrt(shape)) / np.sqrt(max(shape))
    return float(weight * np.sqrt(max(shape))), float(weight)


def stable_pcp(X: Array, alpha: float, weight: float, tol: float = 1e-7, max_iter: int = 5000) -> Array:
    """Return L of stable PCP, the minimum of ½‖X − L − S‖² + alpha‖L‖_* + weight‖S‖₁.

    Minimised over S, this is a function of L whose gradient has the Lipschitz constant 1, plus alpha‖L‖_*.
    FISTA with restarts of the momentum minimises it, until L changes by less than tol ‖L‖.
    """
    L = leading = np.zeros_like(X)
    momentum = 1.0
    for _ in range(max_iter):
        before = L
        L, _ = soft_spectrum(X - soft(X - leading, weight), alpha)
        if np.linalg.norm(L - before) <= tol * np.linalg.norm(L):
            break
        if np.sum((leading - L) * (L - before)) > 0:
            momentum = 1.0
        factor, momentum = next_momentum(momentum)
        leading = L + factor * (L - before)
    return L


def nuclear_norm(L: Array) -> float:
    """Return the sum of singular values."""
    return float(np.sum(np.linalg.svd(L, compute_uv=False)))


def check() -> None:
    """Raise if the objective of a program differs from that of CVXPY by more than 1e-4 of it."""
    import cvxpy

    X = mixture(12, 10, 2, 0.1, seed=0, noise=0.1).X
    classical = 1 / np.sqrt(12)
    alpha, weight = 0.1, 0.05
    L, S = cvxpy.Variable(X.shape), cvxpy.Variable(X.shape)
    residual = 0.5 * cvxpy.sum_squares(X - L - S)
    penalty = alpha * cvxpy.normNuc(L) + weight * cvxpy.sum(cvxpy.abs(S))
    pursuit = cvxpy.Minimize(cvxpy.normNuc(L) + classical * cvxpy.sum(cvxpy.abs(X - L)))
    options = {"solver": "SCS", "eps": 1e-8, "max_iters": 100_000}
    L1, L2 = pcp(X, tol=1e-9, growth=SLOW_GROWTH)[0], stable_pcp(X, alpha, weight)
    S2 = soft(X - L2, weight)
    found = {
        "PCP": (
            nuclear_norm(L1) + classical * float(np.sum(np.abs(X - L1))),
            cvxpy.Problem(pursuit).solve(**options),
        ),
        "stable PCP": (
            0.5 * float(np.sum((X - L2 - S2) ** 2))
            + alpha * nuclear_norm(L2)
            + weight * float(np.sum(np.abs(S2))),
            cvxpy.Problem(cvxpy.Minimize(residual + penalty)).solve(**options),
        ),
    }
    for name, (ours, theirs) in found.items():
        print(f"{name}: objective {ours:.8f}, by CVXPY {theirs:.8f}")
        if abs(ours - theirs) > 1e-4 * theirs:
            raise AssertionError(f"{name} has the objective {ours}, CVXPY finds {theirs}.")
