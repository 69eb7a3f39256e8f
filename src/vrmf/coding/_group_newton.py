"""Compiled: codes of groups, which may overlap, by primal-dual Newton steps, one row at a time.

For one row minimise F(h) = Σᵢ env(xᵢ − (hD)ᵢ) + (ridge/2)‖h‖² + Σ_g w_g·‖h_g‖. With √(‖h_g‖² + μ_g²) for
‖h_g‖ the function is smooth, and falls to F with μ. Newton's method on its gradient alone would take
ever more steps as μ falls. Instead the subgradients u_g of the groups are unknowns of their own [1]_,

    force(h) = Σ_g u_g,    u_g · √(‖h_g‖² + μ_g²) = w_g · h_g,

which is nearly linear for all μ; a step that solves both to first order, with the matrix made symmetric,
leads downhill. At each μ the groups that are as small as μ are tried at zero: there any u_g of
length at most w_g is a subgradient, so what is left of the force when the best u_g are taken off is a
bound on the error, whatever led there. Newton steps on the groups that are not zero do the rest.

References
----------
.. [1] T. Chan, G. Golub, P. Mulet, "A nonlinear primal-dual method for total variation-based image
   restoration", SIAM Journal on Scientific Computing 20 (1999).
"""

from __future__ import annotations

import numpy as np

from vrmf._vectors import copy
from vrmf.arrays import Array
from vrmf.coding._group_steps import LEAST_DAMPING, GroupProblem, step
from vrmf.coding._groups import Groups, length_of, take_subgradients
from vrmf.coding._measuring import fit, slope_of_fit
from vrmf.compiled import compiled, kernel_part

#: The first and the last μ of a group, in units of the code that fits the row by its longest atom alone.
#: Groups that overlap in a chain may shrink by a constant factor from one to the next, down to nothing; the
#: subgradient of each counts, however short it is, and entries far below rounding of others are exact.
FIRST_MU, LAST_MU = 1e-2, 1e-40

#: By how much μ falls; from HARD_MU on by its square.
MU_FALLS = 0.1

#: Steps after which μ falls although the code is not yet that of the last μ; if the method fails, it starts
#: again from the first μ with four times as many.
MOST_AT_MU = 30

#: Bound on these steps.
MOST_AT_MU_EVER = 500

#: Groups shorter than these multiples of μ are tried at zero.
SMALL = (10.0, 1e3, 1e6)

#: From this μ on, subgradients of groups at zero are also found by Newton steps, for the best trial.
HARD_MU = 1e-5

#: Since that takes long, it is done for one in so many μ only.
PROOF_EVERY = 3

#: These Newton steps have a μ of their own. There are so many of them at each.
PROOF_STEPS = 5

#: The last μ of theirs.
LAST_PROOF_MU = 1e-14

#: Newton steps on the groups that are not zero.
ON_FACE = 4


@compiled
def newton_rows_of_groups(
    X: Array,
    H: Array,
    U: Array,
    problem: GroupProblem,
    allowed: Array,
    roundings: float,
    max_iter: int,
    iterations: Array,
) -> None:
    """Move each row of ``H`` to an error of at most ``allowed``, or as near as ``max_iter`` steps lead.

    ``U`` becomes the subgradients of its groups, which show the error. A code whose error is below
    ``roundings`` · Σⱼ|hⱼ|·‖dⱼ‖ is also left.
    """
    for row in range(len(X)):
        iterations[row] = minimise(X[row], problem, H[row], U[row], allowed[row], roundings, max_iter)


@compiled
def measure_rows_of_groups(
    X: Array, H: Array, U: Array, problem: GroupProblem, error: Array, size: Array
) -> None:
    """Write a bound on the error of each row of ``H``, and the norm of the entries that are no outliers.

    The search for subgradients begins at ``U``.
    """
    _, _, _, _, outliers = problem
    e, g = np.empty(X.shape[1]), np.empty(X.shape[1])
    for row in range(len(X)):
        error[row] = measure(X[row], problem, H[row], U[row], e, g)
        square = 0.0
        for i in range(len(e)):
            square += slope_of_fit(e[i], outliers) * X[row, i] ** 2
        size[row] = np.sqrt(square)


@kernel_part
def measure(x: Array, problem: GroupProblem, h: Array, u: Array, e: Array, g: Array) -> float:
    """Return a bound on the distance of 0 to ∂F(h); ``u`` is where the search for subgradients begins."""
    D, _, ridge, groups, outliers = problem
    fit(x, D, h, outliers, e, g)
    left = np.empty(len(h))
    for j in range(len(h)):
        left[j] = np.dot(g, D[j]) - ridge * h[j]
    return take_subgradients(h, left, groups, u)


@kernel_part
def minimise(
    x: Array, problem: GroupProblem, h: Array, proof: Array, allowed: float, roundings: float, max_iter: int
) -> int:
    """Move h to a minimiser of F, with ``proof`` its subgradients; return how many steps it took."""
    _, squares, _, groups, _ = problem
    e, g = np.empty(len(x)), np.empty(len(x))
    members, _, weights = groups
    u, trial, dual = np.zeros(len(members)), np.empty(len(h)), np.zeros(len(members))
    for j in range(len(h)):
        if squares[j] == 0:  # nothing is gained by it
            h[j] = 0
    best, least = h.copy(), measure(x, problem, h, proof, e, g)
    copy(u, proof)
    unit, mu = units(x, problem), np.zeros(len(weights))
    size, most_at_mu = np.sqrt(np.dot(weights, weights)), MOST_AT_MU
    factor, damping, at_mu, spent, level = FIRST_MU, LEAST_DAMPING, 0, 0, 0
    closest, short = h.copy(), np.zeros(len(members))
    warm, movable = bool(np.any(h != 0)), squares > 0  # a warm start may have the right groups
    while spent < max_iter and most_at_mu <= MOST_AT_MU_EVER:
        if least <= allowed or least <= roundings * products(best, squares):
            break
        if not warm:
            mu[:] = factor * unit
            damping, miss = step(x, problem, h, u, mu, movable, damping, e, g)
            spent, at_mu = spent + 1, at_mu + 1
            if miss > max(factor**0.5 * size, 0.1 * allowed) and at_mu < most_at_mu:
                continue
        nearest = np.inf
        for small in SMALL:
            copy(trial, h)
            copy(dual, u)
            free = vanish(trial, groups, small * mu, movable)
            miss, steps = polish(
                x, problem, trial, dual, free, allowed, min(ON_FACE, max_iter - spent), e, g
            )
            spent += steps
            if miss < nearest:
                nearest = miss
                copy(closest, trial)
                copy(short, dual)
            if warm or miss <= allowed:
                break
        if nearest > allowed and factor <= HARD_MU and level % PROOF_EVERY == 0:
            nearest = prove(x, problem, closest, short, e, g)
        if nearest < least:
            least = nearest
            copy(best, closest)
            copy(proof, short)
        if warm:
            warm = False
            copy(h, best)
            copy(u, proof)
            continue
        factor, at_mu, level = factor * (MU_FALLS if factor > HARD_MU else MU_FALLS**2), 0, level + 1
        if factor < LAST_MU:  # μ fell too fast
            factor, most_at_mu = FIRST_MU, 4 * most_at_mu
    copy(h, best)
    return spent


@kernel_part
def prove(x: Array, problem: GroupProblem, h: Array, u: Array, e: Array, g: Array) -> float:
    """Return the error of h, with subgradients found by Newton steps where turns take too many rounds.

    What the groups at zero leave of a force y is its prox: the code of the row y for the unit atoms. Its
    subgradients are those that are wanted.
    """
    D, _, ridge, groups, outliers = problem
    fit(x, D, h, outliers, e, g)
    members, ends, given = groups
    left, weights = np.empty(len(h)), given.copy()
    for j in range(len(h)):
        left[j] = np.dot(g, D[j]) - ridge * h[j]
    movable = np.zeros(len(h), np.bool_)
    for group in range(len(weights)):
        length = length_of(h, groups, group)
        for i in range(ends[group], ends[group + 1]):
            if length > 0:
                left[members[i]] -= weights[group] * (h[members[i]] / length)
                u[i] = 0
            else:
                movable[members[i]] = True
        weights[group] = 0.0 if length > 0 else weights[group]
    p, near, fitted = np.zeros(len(h)), np.empty(len(h)), np.empty(len(h))
    size, no_outliers = np.sqrt(np.dot(left, left)), (np.inf, 0.0, -np.inf, np.inf)
    unit_atoms = (np.eye(len(h)), np.ones(len(h)), 0.0, (members, ends, weights), no_outliers)
    factor = FIRST_MU
    while factor >= LAST_PROOF_MU:
        mu = np.full(len(weights), factor * size)
        for _ in range(PROOF_STEPS):
            miss = step(left, unit_atoms, p, u, mu, movable, LEAST_DAMPING, near, fitted)[1]
            if miss <= factor * size:
                break
        factor *= MU_FALLS
    return measure(x, problem, h, u, e, g)


@kernel_part
def products(h: Array, squares: Array) -> float:
    """Return Σⱼ |hⱼ|·‖dⱼ‖."""
    total = 0.0
    for j in range(len(h)):
        total += abs(h[j]) * np.sqrt(squares[j])
    return total


@kernel_part
def units(x: Array, problem: GroupProblem) -> Array:
    """Return for each group the length of a code that fits x by the group's longest atom, never 0."""
    _, squares, ridge, groups, _ = problem
    members, ends, weights = groups
    unit, size = np.ones(len(weights)), np.sqrt(np.dot(x, x))
    for group in range(len(weights)):
        most = ridge
        for i in range(ends[group], ends[group + 1]):
            most = max(most, squares[members[i]])
        if size > 0 and most > 0:
            unit[group] = size / np.sqrt(most)
    return unit


@kernel_part
def vanish(h: Array, groups: Groups, small: Array, movable: Array) -> Array:
    """Set groups to zero that are no longer than ``small``; return which entries are in no such group."""
    members, ends, _ = groups
    free = movable.copy()
    changed = True
    zero = np.zeros(len(small), np.bool_)
    while changed:  # a group of which others leave nothing
        changed = False
        for group in range(len(small)):
            if not zero[group] and length_of(h, groups, group) <= small[group]:
                zero[group] = changed = True
                for i in range(ends[group], ends[group + 1]):
                    h[members[i]] = 0
                    free[members[i]] = False
    return free


@kernel_part
def polish(
    x: Array,
    problem: GroupProblem,
    h: Array,
    u: Array,
    free: Array,
    allowed: float,
    most: int,
    e: Array,
    g: Array,
) -> tuple[float, int]:
    """Take Newton steps on the free entries until the error is rounding; return it and their number."""
    _, _, _, groups, _ = problem
    mu, spent = np.zeros(len(groups[2])), 0
    least, best, proof = measure(x, problem, h, u, e, g), h.copy(), u.copy()
    while spent < most:
        step(x, problem, h, u, mu, free, LEAST_DAMPING, e, g)
        spent += 1
        miss = measure(x, problem, h, u, e, g)
        if not miss < 0.5 * least:
            break
        least = miss
        copy(best, h)
        copy(proof, u)
    copy(h, best)
    copy(u, proof)
    return least, spent
