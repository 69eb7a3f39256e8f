"""Slow reference implementations of what the library computes fast, and optimality conditions.

Nothing here calls a prox of the library, unless a test hands one over.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize
import scipy.sparse

from tables import AsymmetricL1
from vrmf.arrays import Array
from vrmf.terms import (
    L1,
    Absent,
    AbstractTerm,
    Box,
    Free,
    GroupL2,
    LowRankQuadratic,
    MaxColumnNorm,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    UnitBall,
)

# ------------------------------------------------------------------ a general convex solver

Convex = tuple[Any, list[Any]]


def _box(term: Box, Z: Any) -> Convex:
    below = [Z >= term.low] if np.isfinite(term.low) else []
    return 0, below + ([Z <= term.high] if np.isfinite(term.high) else [])


def _groups(term: GroupL2, Z: Any) -> Convex:
    pairs = zip(term.groups, term.weights or (), strict=True)
    return sum(w * cp.sum(cp.norm(Z[:, list(g)], 2, axis=1)) for g, w in pairs), []


#: What each class of terms says, in the language of CVXPY: (convex expression, constraints).
CONVEX: dict[type[AbstractTerm], Callable[[Any, Any], Convex]] = {
    Free: lambda term, Z: (0, []),
    L1: lambda term, Z: (term.weight * cp.sum(cp.abs(Z)), []),
    Ridge: lambda term, Z: (term.weight / 2 * cp.sum_squares(Z), []),
    MaxColumnNorm: lambda term, Z: (
        term.weight / 2 * cp.square(cp.max(cp.norm(Z, 2, axis=0))),
        [],
    ),
    NonNegative: lambda term, Z: (0, [Z >= 0]),
    Box: _box,
    UnitBall: lambda term, Z: (0, [cp.norm(Z, 2, axis=1) <= 1]),
    Simplex: lambda term, Z: (0, [Z >= 0, cp.sum(Z, axis=1) == 1]),
    Absent: lambda term, Z: (0, [Z == 0]),
    Quadratic: lambda term, Z: (cp.sum_squares(Z @ _root(term)) / 2, []),
    LowRankQuadratic: lambda term, Z: (cp.sum_squares(Z @ _root(term)) / 2, []),
    GroupL2: _groups,
    AsymmetricL1: lambda term, Z: (
        term.up * cp.sum(cp.pos(Z)) + term.down * cp.sum(cp.neg(Z)),
        [],
    ),
}


def to_cvxpy(term: AbstractTerm, Z: Any) -> Convex:
    """Return the term at the CVXPY variable ``Z``: an expression and constraints."""
    if isinstance(term, Sum):
        parts = [to_cvxpy(part, Z) for part in term.terms]
        return sum(part[0] for part in parts), [c for part in parts for c in part[1]]
    return CONVEX[type(term)](term, Z)


def minimise(objective: Any, constraints: list[Any]) -> float:
    """Solve a convex programme with CVXPY to high accuracy; return its value."""
    # Shorter steps keep the iterates inside the cones, which gains two digits.
    accuracy = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, max_step_fraction=0.9, **accuracy)
    assert problem.status in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE}, problem.status
    return float(problem.value)


def convex_prox(term: AbstractTerm, X: Array, step: float) -> Array:
    """Return the prox by a general convex solver."""
    P = cp.Variable(X.shape)
    value, constraints = to_cvxpy(term, P)
    minimise(cp.sum_squares(P - X) / 2 + step * value, constraints)
    return np.asarray(P.value)


def quadratic_matrix(term: AbstractTerm) -> Array:
    """Return weight · Q of a quadratic penalty, dense."""
    if isinstance(term, LowRankQuadratic):
        V = term.vectors
        rest = term.rest * (np.eye(len(V)) - V @ V.T)
        return term.weight * ((V * term.values) @ V.T + rest)
    assert isinstance(term, Quadratic)
    dense = term.matrix.toarray() if scipy.sparse.issparse(term.matrix) else term.matrix
    return np.asarray(term.weight * dense)


def _root(term: AbstractTerm) -> Array:
    values, vectors = np.linalg.eigh(quadratic_matrix(term))
    return vectors * np.sqrt(np.maximum(values, 0))


# ------------------------------------------------------------------ optimality conditions

Interval = tuple[Array, Array]


def _l1_interval(up: float, down: float, p: Array, slack: float) -> Interval:
    return np.where(p > slack, up, -down), np.where(p < -slack, -down, up)


def _box_interval(low: float, high: float, p: Array, slack: float) -> Interval:
    return np.where(p <= low + slack, -np.inf, 0.0), np.where(p >= high - slack, np.inf, 0.0)


#: Subdifferentials that are an interval for each entry; p within ``slack`` of a kink counts as on it.
INTERVALS: dict[type[AbstractTerm], Callable[[Any, Array, float], Interval]] = {
    Free: lambda term, p, slack: (np.zeros_like(p), np.zeros_like(p)),
    L1: lambda term, p, slack: _l1_interval(term.weight, term.weight, p, slack),
    AsymmetricL1: lambda term, p, slack: _l1_interval(term.up, term.down, p, slack),
    NonNegative: lambda term, p, slack: _box_interval(0.0, np.inf, p, slack),
    Simplex: lambda term, p, slack: _box_interval(0.0, np.inf, p, slack),
    Box: lambda term, p, slack: _box_interval(term.low, term.high, p, slack),
    Absent: lambda term, p, slack: (np.full_like(p, -np.inf), np.full_like(p, np.inf)),
}

GRADIENTS: dict[type[AbstractTerm], Callable[[Any, Array], Array]] = {
    Ridge: lambda term, p: term.weight * p,
    Quadratic: lambda term, p: p @ quadratic_matrix(term),
    LowRankQuadratic: lambda term, p: p @ quadratic_matrix(term),
}


def has_conditions(term: AbstractTerm) -> bool:
    """Whether :func:`subdifferential_distance` knows the term."""
    return all(type(part) in {*INTERVALS, *GRADIENTS, UnitBall, GroupL2} for part in _parts(term))


def subdifferential_distance(term: AbstractTerm, p: Array, g: Array, slack: float = 1e-13) -> float:
    """Return the distance of g to ∂f(p), for one row p.

    ∂f(p) is the sum of gradients, an interval for each entry, w_g p_g/‖p_g‖ or a ball of radius w_g
    for each group, and a multiplier times p (on the unit sphere) or times 1 (in the simplex).
    """
    parts = _parts(term)
    y = g - sum(GRADIENTS[type(t)](t, p) for t in parts if type(t) in GRADIENTS)
    low, high = np.zeros_like(p), np.zeros_like(p)
    for part in parts:
        if type(part) in INTERVALS:
            ends = INTERVALS[type(part)](part, p, slack)
            low, high = low + ends[0], high + ends[1]
    balls: list[tuple[Array, float]] = []
    for part in parts:
        if isinstance(part, GroupL2):
            for columns, weight in zip(map(np.array, part.groups), part.weights or (), strict=True):
                norm = float(np.linalg.norm(p[columns]))
                if norm > slack:
                    y[columns] -= weight * p[columns] / norm
                else:
                    balls.append((columns, weight))

    def left(multiplier: float, direction: Array) -> Array:
        return _left_over(y - multiplier * direction, low, high, balls)

    if any(isinstance(part, Simplex) for part in parts):
        return _best_multiplier(left, np.ones_like(p), -np.inf)
    if any(isinstance(t, UnitBall) for t in parts) and np.linalg.norm(p) >= 1 - max(slack, 1e-12):
        return _best_multiplier(left, p, 0.0)
    return float(np.linalg.norm(left(0.0, p)))


def max_column_norm_distance(weight: float, P: Array, G: Array) -> float:
    """Return how far G is from ∂(weight/2 · max ‖P[:, j]‖²): multipliers on the longest columns."""
    norms = np.linalg.norm(P, axis=0)
    longest = norms >= np.max(norms) * (1 - 1e-12)
    if np.max(norms) == 0:
        return float(np.linalg.norm(G))
    units = P / np.where(norms > 0, norms, 1)
    multipliers = np.where(longest, np.maximum(np.sum(G * units, axis=0), 0), 0)
    total = abs(float(np.sum(multipliers)) - weight * float(np.max(norms)))
    return float(np.linalg.norm(G - multipliers * units)) + total


def _parts(term: AbstractTerm) -> tuple[AbstractTerm, ...]:
    return term.terms if isinstance(term, Sum) else (term,)


def _left_over(y: Array, low: Array, high: Array, balls: list[tuple[Array, float]]) -> Array:
    """Return y less its best approximation by a point of the box plus one of each ball."""
    duals = [np.zeros(len(columns)) for columns, _ in balls]
    r = y - np.clip(y, low, high)
    for _ in range(500 if len(balls) else 0):
        before = r.copy()
        for i, (columns, weight) in enumerate(balls):
            total = r[columns] + duals[i]
            norm = float(np.linalg.norm(total))
            duals[i] = total * (weight / norm if norm > weight else 1.0)
            r[columns] = total - duals[i]
        pushed = y.copy()
        for dual, (columns, _) in zip(duals, balls, strict=True):
            pushed[columns] -= dual
        r = pushed - np.clip(pushed, low, high)
        if np.max(np.abs(r - before)) <= 1e-15 * np.max(np.abs(y)):
            break
    else:  # alternating projections are slow where balls overlap and r is near their boundaries
        return _convex_left_over(y, low, high, balls) if len(balls) else r
    return r


def _convex_left_over(y: Array, low: Array, high: Array, balls: list[tuple[Array, float]]) -> Array:
    """The same by a general convex solver."""
    size = float(np.max(np.abs(y)))
    inside = cp.Variable(len(y))
    total, constraints = inside, []
    for bound, sign in ((low / size, 1), (high / size, -1)):
        finite = np.flatnonzero(np.isfinite(bound))
        constraints += [sign * inside[finite] >= sign * bound[finite]] if len(finite) else []
    for columns, weight in balls:
        dual = cp.Variable(len(columns))
        constraints.append(cp.norm(dual) <= weight / size)
        total = total + np.eye(len(y))[:, columns] @ dual
    minimise(cp.norm(y / size - total), constraints)
    return y - size * np.asarray(total.value)


def _best_multiplier(left: Callable[[float, Array], Array], direction: Array, lowest: float) -> float:
    """Return the least ‖left(m)‖ over m ≥ lowest: ‖left‖² is convex, with slope −2⟨left, direction⟩."""

    def pull(m: float) -> float:
        return float(left(m, direction) @ direction)

    if np.isfinite(lowest) and pull(lowest) <= 0:
        return float(np.linalg.norm(left(lowest, direction)))
    width = 1.0 + float(np.linalg.norm(left(0.0, direction)))
    while pull(width) > 0:
        width *= 4
    start = lowest if np.isfinite(lowest) else -width
    while pull(start) < 0:
        start *= 4
    best = scipy.optimize.brentq(pull, start, width, xtol=1e-300, rtol=1e-15, maxiter=500)
    return float(np.linalg.norm(left(best, direction)))


# ------------------------------------------------------------------ alternating codes


def alternating_codes(
    X: Array,
    D: Array,
    code_prox: Callable[[Array, float], Array],
    outlier_prox: Callable[[Array, float], Array],
    iterations: int,
) -> tuple[Array, Array]:
    """The paper's scheme word by word, row by row: one step in h, then the best r."""
    lipschitz = float(np.linalg.norm(D, ord=2)) ** 2
    H, R = np.zeros((len(X), len(D))), np.zeros_like(X)
    for i, x in enumerate(X):
        h, r = np.zeros(len(D)), outlier_prox(x[None], 1.0)[0]
        for _ in range(iterations):
            slope = (h @ D + r - x) @ D.T
            h = code_prox((h - slope / lipschitz)[None], 1 / lipschitz)[0]
            r = outlier_prox((x - h @ D)[None], 1.0)[0]
        H[i], R[i] = h, r
    return H, R
