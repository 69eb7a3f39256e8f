"""Compiled: one primal-dual Newton step for the code of a row under groups (see ``_group_newton``)."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.coding._alternating import best_fit
from vrmf.coding._faces import damped_solve, hessian
from vrmf.coding._groups import Groups, length_of
from vrmf.coding._measuring import Outliers, fit
from vrmf.compiled import kernel_part

#: The least and the largest damping of steps, relative to the diagonal.
LEAST_DAMPING, MOST_DAMPING = 1e-15, 1.0

#: Trial steps of a line search.
MOST_TRIALS = 40

#: What all rows have in common: D, ‖dⱼ‖², ridge, groups, outliers.
GroupProblem = tuple[Array, Array, float, Groups, Outliers]


@kernel_part
def step(
    x: Array,
    problem: GroupProblem,
    h: Array,
    u: Array,
    mu: Array,
    movable: Array,
    damping: float,
    e: Array,
    g: Array,
) -> tuple[float, float]:
    """Take a Newton step on the entries that are movable; return the next damping, and what part it was."""
    D, squares, ridge, groups, outliers = problem
    groups, ridge = groups, ridge
    S = np.flatnonzero(movable)
    if len(S) == 0:
        return damping, 0.0
    fit(x, D, h, outliers, e, g)
    eta = np.empty(len(mu))
    for group in range(len(mu)):
        eta[group] = np.hypot(length_of(h, groups, group), mu[group])
    B, scale = hessian(D, squares, S, ridge, outliers, e)
    pull = np.empty(len(S))
    for a in range(len(S)):
        pull[a] = np.dot(g, D[S[a]]) - ridge * h[S[a]]
    bend(B, scale, pull, S, groups, h, u, eta)
    move = np.empty(len(S))
    damping = damped_solve(B, pull, scale, move, damping)
    delta, w = np.zeros(len(h)), np.zeros(len(e))
    for a in range(len(S)):
        delta[S[a]] = move[a]
        atom = D[S[a]]
        for i in range(len(w)):
            w[i] += move[a] * atom[i]
    miss = np.sqrt(np.dot(pull, pull))
    if not np.dot(pull, move) > 0:
        return min(10 * damping, MOST_DAMPING), miss
    part = descent(problem, h, delta, mu, e, w, np.dot(pull, move))
    turn(h, delta, u, groups, eta, part)
    for j in range(len(h)):
        h[j] += part * delta[j]
    if part > 0.75:
        return max(damping / 10, LEAST_DAMPING), miss
    return min(damping * (1.0 if part > 0.25 else 4.0 if part > 0.01 else 1e3), MOST_DAMPING), miss


@kernel_part
def bend(
    B: Array, scale: Array, pull: Array, S: Array, groups: Groups, h: Array, u: Array, eta: Array
) -> None:
    """Add the groups to the Hessian and to what pulls at entries; scale its diagonal down to 1.

    The block of a group is (w/η)(I − (uhᵀ + huᵀ)/(2wη)), which is positive since ‖u‖ ≤ w and ‖h_g‖ ≤ η.
    """
    members, ends, weights = groups
    place = np.full(len(h), -1)
    for a in range(len(S)):
        place[S[a]] = a
    for group in range(len(weights)):
        if not (weights[group] > 0 and eta[group] > 0):
            continue
        curve = weights[group] / eta[group]
        for i in range(ends[group], ends[group + 1]):
            a, s = place[members[i]], h[members[i]] / eta[group]
            if a < 0:
                continue
            pull[a] -= weights[group] * s
            B[a, a] += curve * scale[a] * scale[a]
            for c in range(ends[group], ends[group + 1]):
                b, t = place[members[c]], h[members[c]] / eta[group]
                if b >= 0:
                    B[a, b] -= 0.5 * (u[i] * t + s * u[c]) / eta[group] * scale[a] * scale[b]
    root = np.empty(len(S))
    for a in range(len(S)):
        root[a] = 1 / np.sqrt(max(B[a, a], 1.0))
    for a in range(len(S)):
        scale[a] *= root[a]
        for b in range(len(S)):
            B[a, b] *= root[a] * root[b]


@kernel_part
def turn(h: Array, delta: Array, u: Array, groups: Groups, eta: Array, part: float) -> None:
    """Move the subgradients by part of the step that solves their equation; each is at most w long."""
    members, ends, weights = groups
    for group in range(len(weights)):
        first, last = ends[group], ends[group + 1]
        if not eta[group] > 0:
            continue
        along, square = 0.0, 0.0
        for i in range(first, last):
            along += (h[members[i]] / eta[group]) * (delta[members[i]] / eta[group])
        for i in range(first, last):
            aim = weights[group] * ((h[members[i]] + delta[members[i]]) / eta[group])
            u[i] += part * (aim - u[i] - u[i] * along)
            square += u[i] ** 2
        if square > weights[group] ** 2:
            for i in range(first, last):
                u[i] *= weights[group] / np.sqrt(square)


@kernel_part
def descent(
    problem: GroupProblem, h: Array, delta: Array, mu: Array, e: Array, w: Array, downhill: float
) -> float:
    """Return 0 ≤ α ≤ 1 up to which F falls along a direction, nearly as far as it does.

    The slope grows with α; it is −``downhill`` at 0. Slopes are exact where values are rounding.
    """
    below, above, slope_below, slope_above = 0.0, 1.0, -downhill, 0.0
    for trial in range(MOST_TRIALS):
        a = 1.0
        if trial > 0:
            part = -slope_below / (slope_above - slope_below)
            a = below + (above - below) * (min(max(part, 0.1), 0.9) if trial % 3 else 0.5)
        slope = slope_at(problem, h, delta, mu, e, w, a)
        if slope <= 0:
            below, slope_below = a, slope
            if a == 1 or -slope <= 0.1 * downhill:
                return a
        else:
            above, slope_above = a, slope
            if a == 1 and slope <= 0.1 * downhill:
                return a
    return below


@kernel_part
def slope_at(
    problem: GroupProblem, h: Array, delta: Array, mu: Array, e: Array, w: Array, a: float
) -> float:
    """Return the slope of F, smoothed by μ, at h + aδ in the direction δ."""
    _, _, ridge, groups, outliers = problem
    level, rest, low, high = outliers
    members, ends, weights = groups
    slope = 0.0
    for j in range(len(h)):
        slope += ridge * (h[j] + a * delta[j]) * delta[j]
    for i in range(len(e)):
        slope -= best_fit(e[i] - a * w[i], level, rest, low, high) * w[i]
    for group in range(len(weights)):
        square, along = mu[group] ** 2, 0.0
        for i in range(ends[group], ends[group + 1]):
            at = h[members[i]] + a * delta[members[i]]
            square += at * at
            along += at * delta[members[i]]
        if square > 0:
            slope += weights[group] * along / np.sqrt(square)
    return slope
