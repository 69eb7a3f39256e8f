"""Compiled: codes with a ridge or in the unit ball, with outliers, by Newton's method, row by row.

For one row minimise F(h) + (ridge/2)‖h‖², also with ‖h‖ ≤ 1 (F: :mod:`vrmf.coding._huber`). Each step
goes from h towards the minimiser of the damped quadratic model of the present pieces, in the ball if
there is one, as far as the objective falls.
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._cholesky import solve
from vrmf.coding._huber import (
    MOST_DAMPING,
    combine,
    correlate,
    line_search,
    look,
    next_damping,
    room_for_features,
    update,
)
from vrmf.coding._measuring import Outliers
from vrmf.compiled import compiled, inlined

#: What all rows have in common, in double precision: D, DDᵀ, ridge, whether in the ball, outliers.
BallProblem = tuple[Array, Array, float, bool, Outliers]

#: Pivots that are this small, relative to the diagonal, are rounding.
TINY = 1e-15

#: Codes longer than this are on the sphere.
SPHERE = 1 - 8e-16

#: Bound on the multipliers that are tried for one model.
MOST_MULTIPLIERS = 30

#: The tolerance with which the length of its minimiser has to be 1.
LENGTH_TOLERANCE = 1e-9


@compiled
def newton_rows_in_ball(
    X: Array,
    H: Array,
    problem: BallProblem,
    allowed: Array,
    most: Array,
    first_damping: float,
    steps: Array,
    error: Array,
) -> None:
    """Move each row of ``H`` to an error of at most ``allowed``, or as near as its ``most`` steps lead."""
    k, d = H.shape[1], X.shape[1]
    features, changes = room_for_features(k, d)
    entries = (np.empty(k), np.empty(k), np.empty(k), np.empty(k, np.int64), np.arange(k))
    model = (np.zeros((k + 4, k + 4)), np.empty((k, k)), np.empty(k), np.empty(k))
    for row in range(len(X)):
        limits = (allowed[row], most[row], first_damping)
        steps[row], error[row] = newton_in_ball(
            X[row], H[row], problem, limits, features, changes, entries, model
        )


@inlined
def newton_in_ball(
    x: Array,
    h: Array,
    problem: BallProblem,
    limits: tuple[float, int, float],
    features: tuple[Array, Array, Array, Array, Array],
    changes: tuple[Array, Array, Array],
    entries: tuple[Array, Array, Array, Array, Array],
    model: tuple[Array, Array, Array, Array],
) -> tuple[int, float]:
    """Move the code h of one row to its optimum; return how many steps it took, and its error.

    ``limits`` are the error that is allowed, a bound on steps, and the damping of the first.
    """
    D, gram, ridge, in_ball, outliers = problem
    allowed, max_iter, damping = limits
    e, fit, w, still, before = features
    force, p, z, used, W = entries
    combine(h, D, used, w)
    for i in range(len(x)):
        e[i] = x[i] - w[i]
    multiplier, is_known = -1.0, max_iter < 0  # a literal has another type, and is compiled again
    for step in range(max_iter + 1):
        count = look(e, outliers, fit, still)
        correlate(D, fit, force)
        error, needed = conditions(h, force, ridge, in_ball)
        if error <= allowed or step == max_iter:
            return step, error
        update(model[0], D, gram, W, outliers, is_known, count, still, before, changes)
        is_known, multiplier = True, needed if multiplier < 0 else multiplier
        multiplier = ball_step(h, force, problem, damping, multiplier, z, model)
        for j in range(len(h)):
            p[j] = z[j] - h[j]
        downhill = np.dot(force, p)
        if multiplier < 0 or not downhill > 0:  # the model is not definite, or its minimum is reached
            if damping >= MOST_DAMPING:
                return step, error
            damping = min(100 * damping, MOST_DAMPING)
            continue
        combine(p, D, used, w)
        bend, sums = ridge * np.dot(p, p), ridge * np.dot(h, p)
        alpha = line_search(e, w, outliers, downhill, sums, bend)
        for j in range(len(h)):
            h[j] = z[j] if alpha == 1 else h[j] + alpha * p[j]
        for i in range(len(e)):
            e[i] -= alpha * w[i]
        damping = next_damping(damping, alpha)
    return max_iter, np.inf


@inlined
def conditions(h: Array, force: Array, ridge: float, in_ball: bool) -> tuple[float, float]:
    """Turn D·fit into the force on each entry; return the error, and the multiplier of the ball.

    On the sphere the force may be any multiple μh, μ ≥ 0: the error is the rest.
    """
    square, along, miss, multiplier = np.dot(h, h), 0.0, 0.0, 0.0
    for j in range(len(h)):
        force[j] -= ridge * h[j]
        along += force[j] * h[j]
    if in_ball and np.sqrt(square) >= SPHERE:
        multiplier = max(along / square, 0.0)
    for j in range(len(h)):
        miss += (force[j] - multiplier * h[j]) ** 2
    return np.sqrt(miss), multiplier


@inlined
def ball_step(
    h: Array,
    force: Array,
    problem: BallProblem,
    damping: float,
    multiplier: float,
    z: Array,
    model: tuple[Array, Array, Array, Array],
) -> float:
    """Write the minimiser z of the damped model, in the ball if there is one; return its multiplier.

    z = (B + μ)⁻¹ c with B = A + damping · diag(DDᵀ) + ridge, A the Hessian, and c = Bh + force. ‖z‖ = 1
    is solved for μ by Newton's method on 1/‖z‖, from the given multiplier. It is −1 if B is not definite.
    Without a ball z − h = B⁻¹ force is found instead, which takes no product.
    """
    _, gram, ridge, in_ball, _ = problem
    A, factor, target, room = model
    k = len(h)
    for j in range(k):
        target[j] = force[j] + ((damping * gram[j, j] + ridge) * h[j] if in_ball else 0.0)
    if in_ball:
        add_product(A, h, target)
    for _ in range(MOST_MULTIPLIERS):
        for j in range(k):
            source, line = A[j, j:k], factor[j, j:]
            for c in range(len(line)):
                line[c] = source[c]
            line[0] += damping * gram[j, j] + ridge + multiplier
            z[j] = target[j]
        if solve(factor, z, room, k, TINY) >= 0:
            return -1.0
        length = np.sqrt(np.dot(z, z))
        if not in_ball:
            for j in range(k):
                z[j] += h[j]
            return 0.0
        if (multiplier == 0 and length <= 1) or abs(length - 1) <= LENGTH_TOLERANCE:
            break
        change = length * length / solved_square(factor, z, room) * (length - 1)
        multiplier = max(multiplier + change, 0.0)
    if length > 1 or multiplier > 0:
        for j in range(k):
            z[j] /= length
    return multiplier


@inlined
def add_product(A: Array, h: Array, out: Array) -> None:
    """Add hA to ``out``, with the symmetric matrix of which A holds the upper triangle."""
    k = len(h)
    for j in range(k):
        line, tail, behind = A[j, j:k], out[j:], h[j:]
        total, weight = 0.0, h[j]
        for c in range(1, len(line)):
            total += line[c] * behind[c]
            tail[c] += weight * line[c]
        tail[0] += total + weight * line[0]


@inlined
def solved_square(factor: Array, z: Array, room: Array) -> float:
    """Return ‖U⁻ᵀz‖² = z (UᵀU)⁻¹ zᵀ for the upper triangular factor U; ``room`` is overwritten."""
    copy(room, z)
    square = 0.0
    for j in range(len(z)):
        line, tail = factor[j, j:], room[j:]
        part = tail[0] / line[0]
        square += part * part
        for c in range(1, len(line)):
            tail[c] -= part * line[c]
    return square
