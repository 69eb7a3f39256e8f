"""Compiled: codes by sweeps over the entries and damped Newton steps, one row at a time.

For one row minimise F(h) = Σᵢ env(xᵢ − (hD)ᵢ) + (ridge/2)‖h‖² + Σⱼ slope·|hⱼ| with low ≤ hⱼ ≤ high, where
env is the Moreau envelope of the outlier penalty of one entry (½e² without outliers). F is convex and
piecewise quadratic. A sweep minimises over one entry after another a quadratic function that lies above
F and touches it; from any start, such sweeps converge linearly on convex piecewise quadratic functions,
also where the solution is not unique [1]_. How fast depends on the dictionary, so each sweep is followed
by a Newton step on the free entries (:mod:`vrmf.coding._faces`). Where little of that step is of use,
Newton steps on the face come next, of the entries that are at no end or kink, until F is least there;
each that does not get there brings an entry to an end. All steps lower F, so no face is visited twice,
and the last one holds a solution.

References
----------
.. [1] P. Tseng, S. Yun, "A coordinate gradient descent method for nonsmooth separable minimization",
   Mathematical Programming 117 (2009).
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.coding._faces import LEAST_DAMPING, newton_step
from vrmf.coding._measuring import Problem, fit, measure
from vrmf.compiled import compiled, kernel_part

#: Damping of the first Newton step, relative to the squared norms of the atoms.
FIRST_DAMPING = 1e-6

#: Steps after a code is good enough. They are nearly exact, so that it hardly depends on its start.
EXTRA = 2

#: Steps after a code is good enough to know its norm.
POLISH = 8


@compiled
def newton_rows(
    X: Array,
    H: Array,
    problem: Problem,
    in_ball: bool,
    allowed: Array,
    roundings: float,
    max_iter: int,
    iterations: Array,
) -> None:
    """Move each row of ``H`` to an error of at most ``allowed``, or as near as ``max_iter`` steps lead.

    A code whose error is below ``roundings`` · Σⱼ|hⱼ|·‖dⱼ‖ is also left.
    """
    _, squares, ridge, penalty, _ = problem
    _, low, high = penalty
    for row in range(len(X)):
        h = H[row]
        for j in range(len(h)):
            if squares[j] == 0 and ridge == 0:  # an atom that does nothing
                h[j] = min(max(0.0, low), high)
        iterations[row] = minimise_in_ball(X[row], problem, h, in_ball, allowed[row], roundings, max_iter)[
            1
        ]


@kernel_part
def minimise(
    x: Array, problem: Problem, h: Array, allowed: float, roundings: float, max_iter: int
) -> tuple[float, int]:
    """Move h to a minimiser of F; return its error and how many steps it took."""
    D, squares, _, penalty, outliers = problem
    penalty, squares = penalty, squares
    e, g, force = np.empty(len(x)), np.empty(len(x)), np.empty(len(h))
    for j in range(len(h)):
        h[j] = min(max(h[j], penalty[1]), penalty[2])
    best, least, damping, faces = h.copy(), np.inf, FIRST_DAMPING, 0
    extra = EXTRA
    for iteration in range(max_iter + 1):
        miss = measure(x, problem, h, np.inf, e, g, force)
        if miss < least:
            least = miss
            copy(best, h)
        rounding = 0.0
        for j in range(len(h)):
            rounding += roundings * abs(h[j]) * np.sqrt(squares[j])
        extra -= least <= allowed
        if miss <= rounding or extra < 0 or iteration == max_iter:
            break
        on_face = faces > 0
        if not on_face:
            sweep(problem, h, e, g)
            fit(x, D, h, outliers, e, g)
        start = LEAST_DAMPING if on_face else damping
        after, taken = newton_step(problem, h, e, g, start, on_face)
        if on_face:
            faces = faces - 1 if taken < 1 else 0
        else:
            damping, faces = after, 2 * len(h) if taken < 0.1 else 0
    copy(h, best)
    return least, iteration


@kernel_part
def sweep(problem: Problem, h: Array, e: Array, g: Array) -> None:
    """Minimise over one entry after another; F lies below a parabola of curvature ‖dⱼ‖² + ridge."""
    D, squares, ridge, penalty, outliers = problem
    slope, low, high = penalty
    level, rest, least, most = outliers
    for j in range(len(h)):
        curvature = squares[j] + ridge
        if not curvature > 0:
            continue
        atom, old = D[j], h[j]
        at = old + (np.dot(g, atom) - ridge * old) / curvature
        threshold = slope / curvature
        new = min(max(at - min(max(at, -threshold), threshold), low), high)
        if new == old:
            continue
        h[j] = new
        for i in range(len(e)):
            e[i] -= (new - old) * atom[i]
            g[i] = best_fit(e[i], level, rest, least, most)


@kernel_part
def minimise_in_ball(
    x: Array, problem: Problem, h: Array, in_ball: bool, allowed: float, roundings: float, max_iter: int
) -> tuple[float, int]:
    """Move h to a minimiser of F, of the unit ball if ``in_ball``; return its error and the steps it took.

    The code is that of a ridge larger by the multiplier μ ≥ 0 of the ball. 1 − 1/‖h(μ)‖ falls with μ,
    and is nearly a line: regula falsi finds its root. The code itself is taken between the best found
    inside of the ball and outside: where h(μ) changes fast, both are minimisers for nearly the same μ.
    """
    error, spent = minimise(x, problem, h, allowed, roundings, max_iter)
    length = np.sqrt(np.dot(h, h))
    if not in_ball or length <= 1:
        return error, spent
    e, g, force = np.empty(len(x)), np.empty(len(x)), np.empty(len(h))
    best = h / length
    least = measure(x, problem, best, 1.0, e, g, force)
    low, high, above, below, last = 0.0, np.inf, 1 - 1 / length, 0.0, 0
    inner, outer = np.zeros(len(h)), h.copy()
    mu = max(np.dot(force, best), allowed)
    while least > allowed and spent < max_iter and low < high * (1 - 4e-16):
        D, squares, ridge, penalty, outliers = problem
        pressed = (D, squares, ridge + mu, penalty, outliers)
        # The norm is known to allowed / curvature only: some more steps make it as good as rounding allows.
        for more in (False, True):
            most = min(POLISH, max_iter - spent) if more else max_iter - spent
            part = (0.0, roundings / 8) if more else (allowed / 8, roundings)
            spent += minimise(x, pressed, h, part[0], part[1], most)[1]
        spent += 1
        length = np.sqrt(np.dot(h, h))
        if length > 1:
            low, above, outer = mu, 1 - 1 / length, h.copy()
            below, last = below / 2 if last > 0 else below, 1
        else:
            high, below, inner = mu, 1 - 1 / length if length > 0 else -np.inf, h.copy()
            above, last = above / 2 if last < 0 else above, -1
        for onto in (True, False):
            unit = between(inner, outer) if onto else inner
            miss = measure(x, problem, unit, 1.0, e, g, force)
            if miss < least:
                least = miss
                copy(best, unit)
        if high == np.inf:
            mu *= 4
        elif below > -1e3:
            mu = low + (high - low) * above / (above - below)
        else:
            mu = low + (high - low) / 16
    copy(h, best)
    return least, min(spent, max_iter)


@kernel_part
def between(inner: Array, outer: Array) -> Array:
    """Return the point of length 1 on the way from a point inside of the unit ball to one outside."""
    way = outer - inner
    a, b, c = np.dot(way, way), np.dot(inner, way), np.dot(inner, inner) - 1
    root = np.sqrt(max(b * b - a * c, 0.0))
    part = -c / (b + root) if b > 0 else (root - b) / a
    point = inner + part * way
    return point / np.sqrt(np.dot(point, point))
