"""Compiled: codes between bounds, with outliers, by Newton's method on a working set of atoms, row by row.

For one row minimise F(h) + (ridge/2)‖h‖² + linear · Σⱼ hⱼ with low ≤ hⱼ ≤ high (F:
:mod:`vrmf.coding._huber`). Each step minimises the damped quadratic model of the present pieces between
the bounds, over the atoms that are off the bounds or pulled off them, and goes as far towards its
minimiser as the objective falls.
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

#: What all rows have in common, in double precision: D, DDᵀ, ridge, linear, (low, high), outliers.
BoxProblem = tuple[Array, Array, float, float, tuple[float, float], Outliers]

#: Room for the model of a step: its Hessian; damped; of free entries; step, pull, below, above, left,
#: known and diagonal, vectors; side and free, indices.
Model = tuple[Array, ...]

#: Bound on the rounds of pivoting for one model.
MOST_ROUNDS = 60

#: Rounds without progress after which entries change sides one at a time.
MOST_FAILURES = 3

#: Pivots that are this small, relative to the diagonal, are rounding.
TINY = 1e-15

#: Entries may stay at a bound against a force of this part of the error that is allowed.
SLACK = 0.01


@compiled
def newton_rows_in_box(
    X: Array,
    H: Array,
    problem: BoxProblem,
    allowed: Array,
    most: Array,
    first_damping: float,
    steps: Array,
    error: Array,
) -> None:
    """Move each row of ``H`` to an error of at most ``allowed``, or as near as its ``most`` steps lead."""
    k, d = H.shape[1], X.shape[1]
    features, changes = room_for_features(k, d)
    flags = (np.empty(k, np.bool_), np.empty(k, np.bool_))
    entries = (np.empty(k), np.empty(k), np.empty(k, np.int64), *flags)
    matrices = (np.zeros((k + 4, k + 4)), np.empty((k, k)), np.empty((k, k)))
    vectors = (np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k))
    model = (*matrices, *vectors, np.empty(k, np.int64), np.empty(k, np.int64))
    for row in range(len(X)):
        limits = (allowed[row], most[row], first_damping)
        steps[row], error[row] = newton_in_box(
            X[row], H[row], problem, limits, features, changes, entries, model
        )


@inlined
def newton_in_box(
    x: Array,
    h: Array,
    problem: BoxProblem,
    limits: tuple[float, int, float],
    features: tuple[Array, Array, Array, Array, Array],
    changes: tuple[Array, Array, Array],
    entries: tuple[Array, Array, Array, Array, Array],
    model: Model,
) -> tuple[int, float]:
    """Move the code h of one row to its optimum; return how many steps it took, and its error.

    ``limits`` are the error that is allowed, a bound on steps, and the damping of the first.
    """
    D, gram, ridge, linear, _, outliers = problem
    allowed, max_iter, damping = limits
    e, fit, w, still, before = features
    force, p, used, wanted, held = entries
    A, W = model[0], np.empty(len(h), np.int64)
    held[:] = False
    last = np.zeros(len(h), np.int64)
    combine(h, D, used, w)
    for i in range(len(x)):
        e[i] = x[i] - w[i]
    size = -1
    for step in range(max_iter + 1):
        count = look(e, outliers, fit, still)
        correlate(D, fit, force)
        error, need, missing = conditions(h, force, problem, SLACK * allowed, wanted, held)
        if error <= allowed or step == max_iter:
            return step, error
        is_known = size >= 0 and missing == 0 and 3 * need >= 2 * size
        if not is_known:
            size = choose(wanted, held, W)
        update(A, D, gram, W[:size], outliers, is_known, count, still, before, changes)
        is_solved = box_step(h, force, problem, damping, SLACK * allowed, W[:size], last, p, model)
        downhill = np.dot(force, p)
        if not downhill > 0:  # only of a model that pivoting did not solve
            if damping >= MOST_DAMPING:
                return step, error
            damping = min(100 * damping, MOST_DAMPING)
            continue
        combine(p, D, used, w)
        bend, sums = ridge * np.dot(p, p), ridge * np.dot(h, p) + linear * np.sum(p)
        alpha = line_search(e, w, outliers, downhill, sums, bend)
        move(h, p, alpha, problem)
        for i in range(len(e)):
            e[i] -= alpha * w[i]
        damping = next_damping(damping, alpha if is_solved else 0.0)
    return max_iter, np.inf


@inlined
def conditions(
    h: Array, force: Array, problem: BoxProblem, slack: float, wanted: Array, held: Array
) -> tuple[float, int, int]:
    """Turn D·fit into the force on each entry; return the error, and how many atoms a step wants.

    These are all but those that are held at a bound by a force of at least −slack. The third number is
    how many of them are not in the working set ``held``.
    """
    _, _, ridge, linear, (low, high), _ = problem
    square, need, missing = 0.0, 0, 0
    for j in range(len(h)):
        force[j] -= ridge * h[j] + linear
        up, down = h[j] < high, h[j] > low
        miss = min(force[j], 0.0) * down + max(force[j], 0.0) * up
        square += miss * miss
        wanted[j] = (down or force[j] > slack) and (up or force[j] < -slack)
        need += wanted[j]
        missing += wanted[j] and not held[j]
    return np.sqrt(square), need, missing


@inlined
def choose(wanted: Array, held: Array, W: Array) -> int:
    """List the wanted atoms as the new working set, and return how many they are."""
    size = 0
    for j in range(len(wanted)):
        held[j] = wanted[j]
        if wanted[j]:
            W[size] = j
            size += 1
    return size


@inlined
def move(h: Array, p: Array, alpha: float, problem: BoxProblem) -> None:
    """Move h by α·p; an entry that a whole step leads to a bound is put there exactly."""
    _, _, _, _, (low, high), _ = problem
    for j in range(len(h)):
        if p[j] == 0:
            continue
        if alpha == 1 and (p[j] == low - h[j] or p[j] == high - h[j]):
            h[j] = low if p[j] == low - h[j] else high
        else:
            h[j] = min(max(h[j] + alpha * p[j], low), high)


@inlined
def box_step(
    h: Array,
    force: Array,
    problem: BoxProblem,
    damping: float,
    slack: float,
    W: Array,
    last: Array,
    p: Array,
    model: Model,
) -> bool:
    """Write the step p to the minimiser of the damped model in the box; return whether it was found.

    On the working set W the model is ½ pBpᵀ − force·p with B = A + damping · diag(DDᵀ) + ridge.
    """
    _, gram, ridge, _, (low, high), _ = problem
    A, B, _, step, pull, below, above, _, _, _, side, _ = model
    for a in range(len(W)):
        j = W[a]
        for c in range(a, len(W)):
            B[a, c] = B[c, a] = A[a, c]
        B[a, a] += ridge + damping * gram[j, j]
        pull[a], below[a], above[a] = force[j], low - h[j], high - h[j]
        side[a] = last[j]
    is_solved = pivot_in_box(len(W), slack, model)
    p[:] = 0
    for a in range(len(W)):
        p[W[a]] = min(max(step[a], below[a]), above[a])
        last[W[a]] = side[a]
    return is_solved


@inlined
def pivot_in_box(size: int, slack: float, model: Model) -> bool:
    """Minimise ½ pBpᵀ − pull·p with below ≤ p ≤ above by block pivoting; return whether that succeeded.

    ``side`` says which entries are at a bound: −1 below, 1 above, 0 at none. The others solve a linear
    system; entries that leave their bounds, or are pulled off them, change all at once, or where that
    does not lead on, the last one alone (Murty's rule, which ends for every definite B).
    """
    _, B, factor, step, pull, below, above, left, known, diagonal, side, free = model
    fewest, failures = size + 1, 0
    for _ in range(MOST_ROUNDS):
        count = 0
        copy(left[:size], pull)
        for a in range(size):
            if side[a] == 0:
                free[count] = a
                count += 1
            else:
                step[a] = below[a] if side[a] < 0 else above[a]
                subtract(left, step[a], B[a], size)
        for f in range(count):
            line = B[free[f]]
            known[f] = left[free[f]]
            for g in range(f, count):
                factor[f, g] = line[free[g]]
        if solve(factor, known, diagonal, count, TINY) >= 0:
            return False
        for f in range(count):
            step[free[f]] = known[f]
            subtract(left, known[f], B[free[f]], size)
        wrong, last = 0, -1
        for a in range(size):
            if new_side(step[a], left[a], below[a], above[a], side[a], slack) != side[a]:
                wrong, last = wrong + 1, a
        if wrong == 0:
            return True
        failures = 0 if wrong < fewest else failures + 1
        fewest = min(fewest, wrong)
        for a in range(size):
            if failures <= MOST_FAILURES or a == last:
                side[a] = new_side(step[a], left[a], below[a], above[a], side[a], slack)
    return False


@inlined
def new_side(step: float, left: float, below: float, above: float, side: int, slack: float) -> int:
    """Return where an entry should be: at a bound that it left, or at none where ``left`` pulls it."""
    if side == 0:
        return -1 if step < below else 1 if step > above else 0
    return 0 if side * left < -slack else side


@inlined
def subtract(left: Array, factor: float, line: Array, size: int) -> None:
    """Subtract factor · line, the leading ``size`` entries."""
    if factor != 0:
        for c in range(size):
            left[c] -= factor * line[c]
