"""Compiled: codes by sweeps over the entries and damped Newton steps, one row at a time.

For one row minimise F(h) = Σᵢ env(xᵢ − (hD)ᵢ) + (ridge/2)‖h‖² + Σⱼ slope·|hⱼ| with low ≤ hⱼ ≤ high, where
env is the Moreau envelope of the outlier penalty of one entry (½e² without outliers). F is convex and
piecewise quadratic. A sweep minimises over one entry after another a quadratic function that lies above
F and touches it; from any start, such sweeps converge linearly on convex piecewise quadratic functions,
also where the solution is not unique [1]_. How fast depends on the dictionary, so each sweep is followed
by a Newton step on the free entries [2]_: projected, and as long as F falls along it. Where little of
that step is of use, Newton steps on the face come next, of the entries that are at no end or kink,
until F is least there; each that does not get there brings an entry to an end. All steps lower F, so no
face is visited twice, and the last one holds a solution.

References
----------
.. [1] P. Tseng, S. Yun, "A coordinate gradient descent method for nonsmooth separable minimization",
   Mathematical Programming 117 (2009).
.. [2] D. Bertsekas, "Projected Newton methods for optimization problems with simple constraints", SIAM
   Journal on Control and Optimization 20 (1982).
"""

from __future__ import annotations

import numpy as np

from vrmf.coding._alternating import best_fit
from vrmf.coding._pivoting import solve
from vrmf.compiled import compiled
from vrmf.terms.base import Array

#: Damping of Newton steps, relative to the squared norms of the atoms: at first, at least, at most.
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e-14, 1.0

#: Steps after a code is good enough: nearly exact ones, which make it depend little on where it came from.
EXTRA = 2

#: Steps after a code is good enough to know its norm.
POLISH = 8

#: An entry that is this part of a step short of an end has arrived.
SNAP = 1e-12

#: Trial steps of a line search, and halvings of a direction that points uphill once it is projected.
MOST_TRIALS, MOST_HALVINGS = 40, 30


@compiled
def newton_rows(
    X: Array,
    D: Array,
    H: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    in_ball: bool,
    allowed: Array,
    roundings: float,
    max_iter: int,
    error: Array,
    iterations: Array,
) -> None:
    """Move each row of ``H`` to an ``error`` of at most ``allowed``, or as near as ``max_iter`` steps lead.

    ``penalty`` is (slope, low, high), ``outliers`` (level, rest, low, high) as in ``best_fit``. All
    arrays are in double precision. A code whose error is below ``roundings`` · Σⱼ|hⱼ|·‖dⱼ‖ is also left.
    """
    squares = np.empty(len(D))
    for j in range(len(D)):
        squares[j] = np.dot(D[j], D[j])
    for row in range(len(X)):
        h, x = H[row], X[row]
        for j in range(len(h)):
            if squares[j] == 0 and ridge == 0:  # an atom that does nothing
                h[j] = min(max(0.0, penalty[1]), penalty[2])
        if in_ball:
            error[row], iterations[row] = minimise_in_ball(
                x, D, squares, h, ridge, penalty, outliers, allowed[row], roundings, max_iter
            )
        else:
            error[row], iterations[row] = minimise(
                x, D, squares, h, ridge, penalty, outliers, allowed[row], roundings, max_iter
            )


@compiled
def measure_rows(
    X: Array,
    D: Array,
    H: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    in_ball: bool,
    sphere: float,
    error: Array,
    size: Array,
) -> None:
    """Write the error of each row of ``H``; codes longer than ``sphere`` are at the end of the ball.

    ``size`` becomes the norm of those entries of the row whose rounding matters: no outliers.
    """
    e, g, force = np.empty(X.shape[1]), np.empty(X.shape[1]), np.empty(len(D))
    for row in range(len(X)):
        error[row] = measure(X[row], D, H[row], ridge, penalty, outliers, in_ball, sphere, e, g, force)
        square = 0.0
        for i in range(len(e)):
            square += slope_of_fit(e[i], outliers) * X[row, i] ** 2
        size[row] = np.sqrt(square)


@compiled
def measure(
    x: Array,
    D: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    in_ball: bool,
    sphere: float,
    e: Array,
    g: Array,
    force: Array,
) -> float:
    """Return the distance of 0 to the subdifferential at h, or a bound; write e, g and the force on h.

    On the sphere the subdifferential has any multiple μh, μ ≥ 0, in it: the best for the free entries
    is taken.
    """
    slope, low, high = penalty
    fit(x, D, h, outliers, e, g)
    for j in range(len(h)):
        force[j] = np.dot(g, D[j]) - ridge * h[j]
    square = np.dot(h, h)
    if not in_ball or np.sqrt(square) < sphere * (1 - 4e-16):
        return distance(h, force, slope, low, high)
    mu = 0.0
    for j in range(len(h)):
        mu += pull_of(h[j], force[j], slope, low, high) * h[j] / square
    pressed = force - max(mu, 0.0) * h
    return distance(h, pressed, slope, low, high)


@compiled
def minimise(
    x: Array,
    D: Array,
    squares: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    allowed: float,
    roundings: float,
    max_iter: int,
) -> tuple[float, int]:
    """Move h to a minimiser of F; return its error and how many steps it took."""
    e, g, force = np.empty(len(x)), np.empty(len(x)), np.empty(len(h))
    for j in range(len(h)):
        h[j] = min(max(h[j], penalty[1]), penalty[2])
    best, least, damping, faces = h.copy(), np.inf, FIRST_DAMPING, 0
    extra = EXTRA
    for iteration in range(max_iter + 1):
        miss = measure(x, D, h, ridge, penalty, outliers, False, 1.0, e, g, force)
        if miss < least:
            least = miss
            best[:] = h
        rounding = 0.0
        for j in range(len(h)):
            rounding += roundings * abs(h[j]) * np.sqrt(squares[j])
        extra -= least <= allowed
        if miss <= rounding or extra < 0 or iteration == max_iter:
            break
        if faces == 0:
            sweep(D, squares, h, ridge, penalty, outliers, e, g)
            fit(x, D, h, outliers, e, g)
            damping, taken = newton_step(D, squares, h, ridge, penalty, outliers, e, g, damping, False)
            faces = 2 * len(h) if taken < 0.1 else 0
        else:
            taken = newton_step(D, squares, h, ridge, penalty, outliers, e, g, LEAST_DAMPING, True)[1]
            faces = faces - 1 if taken < 1 else 0
    h[:] = best
    return least, iteration


@compiled
def fit(
    x: Array, D: Array, h: Array, outliers: tuple[float, float, float, float], e: Array, g: Array
) -> None:
    """Write e = x − hD, and g = e − r for the best outliers r."""
    e[:] = x
    for j in range(len(h)):
        if h[j] != 0:
            atom, c = D[j], h[j]
            for i in range(len(e)):
                e[i] -= c * atom[i]
    level, rest, low, high = outliers
    for i in range(len(e)):
        g[i] = best_fit(e[i], level, rest, low, high)


@compiled
def distance(h: Array, force: Array, slope: float, low: float, high: float) -> float:
    """Return the distance of ``force`` to the subdifferential of slope·|h| + δ[low, high] at h."""
    square = 0.0
    for j in range(len(h)):
        miss = pull_of(h[j], force[j], slope, low, high)
        square += miss * miss
    return np.sqrt(square)


@compiled
def pull_of(h: float, force: float, slope: float, low: float, high: float) -> float:
    """Return what is left of the force on an entry when its penalty has pulled against it; 0 at rest."""
    right = slope if h >= 0 else -slope
    left = slope if h > 0 else -slope
    if force > right:
        return force - right if h < high else 0.0
    if force < left:
        return force - left if h > low else 0.0
    return 0.0


@compiled
def sweep(
    D: Array,
    squares: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    e: Array,
    g: Array,
) -> None:
    """Minimise over one entry after another; F lies below a parabola of curvature ‖dⱼ‖² + ridge."""
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


@compiled
def newton_step(
    D: Array,
    squares: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    e: Array,
    g: Array,
    damping: float,
    on_face: bool,
) -> tuple[float, float]:
    """Take a Newton step on the free entries; return the next damping, and the part of the step it was.

    Each free entry stays on its side of 0, if there is a kink, and within the bounds. The step is
    projected: an entry that would leave stops at the end. A step *on the face* of the entries that are
    at no end or kink stops where the first of them arrives at one.
    """
    k = len(h)
    S, pull, side = np.empty(k, np.int64), np.empty(k), np.empty(k)
    size = free_entries(D, squares, h, ridge, penalty, g, on_face, S, pull, side)
    if size == 0:
        return damping, 1.0
    B, scale = hessian(D, squares, S[:size], ridge, outliers, e)
    step, move = np.empty(size), np.empty(size)
    damping = damped_solve(B, pull, scale, step, damping)
    part = room(h, penalty, S[:size], side, step) if on_face else 1.0
    downhill = 0.0
    for _ in range(1 if on_face else MOST_HALVINGS):
        downhill = 0.0
        for a in range(size):
            low, high = ends(penalty, side[a])
            move[a] = min(max(h[S[a]] + part * step[a], low), high) - h[S[a]]
            downhill += move[a] * pull[a]
        if downhill > 0:
            break
        part /= 2
    if not downhill > 0:
        return min(10 * damping, MOST_DAMPING), 1.0 if on_face else 0.0
    w, linear, curved = np.zeros(len(e)), 0.0, 0.0
    for a in range(size):
        atom = D[S[a]]
        for i in range(len(w)):
            w[i] += move[a] * atom[i]
        linear += (ridge * h[S[a]] + penalty[0] * side[a]) * move[a]
        curved += ridge * move[a] * move[a]
    alpha = descent(e, w, downhill, linear, curved, outliers)
    for a in range(size):
        low, high = ends(penalty, side[a])
        at, far = h[S[a]], (1 + SNAP) * part * step[a]
        if alpha == 1 and not low < at + far < high:
            h[S[a]] = low if step[a] < 0 else high
        else:
            h[S[a]] = at + alpha * move[a]
    taken = alpha * part
    if taken > 0.75:
        return max(damping / 10, LEAST_DAMPING), taken
    return (damping if on_face or taken > 0.25 else min(4 * damping, MOST_DAMPING)), taken


@compiled
def free_entries(
    D: Array,
    squares: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    g: Array,
    on_face: bool,
    S: Array,
    pull: Array,
    side: Array,
) -> int:
    """Write the entries that are not at rest at a kink or an end, what pulls at them, and their sides.

    On the face, those that are at no kink or end at all. The side is that of 0 on which an entry stays, 0
    if there is no kink.
    """
    slope, low, high = penalty
    size = 0
    for j in range(len(h)):
        if not squares[j] + ridge > 0:
            continue
        left = pull_of(h[j], np.dot(g, D[j]) - ridge * h[j], slope, low, high)
        kink = slope > 0 and h[j] == 0
        if (left == 0 or on_face) and (kink or h[j] <= low or h[j] >= high):
            continue
        S[size], pull[size] = j, left
        side[size] = 0.0 if slope == 0 else np.sign(h[j] if h[j] != 0 else left)
        size += 1
    return size


@compiled
def ends(penalty: tuple[float, float, float], side: float) -> tuple[float, float]:
    """Return between which ends an entry stays on its side."""
    low = max(penalty[1], 0.0) if side > 0 else penalty[1]
    high = min(penalty[2], 0.0) if side < 0 else penalty[2]
    return low, high


@compiled
def damped_solve(B: Array, pull: Array, scale: Array, step: Array, damping: float) -> float:
    """Write the step (B + damping)⁻¹ pull, in units of the entries; return the damping that it took."""
    size = len(B)
    diagonal, failed = np.empty(size), True
    while failed:
        C = B.copy()
        for a in range(size):
            C[a, a] += damping
            step[a] = pull[a] * scale[a]
        failed = solve(C, step, diagonal, size, 1e-16) >= 0
        if failed:
            damping *= 10
    for a in range(size):
        step[a] *= scale[a]
    return damping


@compiled
def room(h: Array, penalty: tuple[float, float, float], S: Array, side: Array, step: Array) -> float:
    """Return the part of the step, at most 1, at which the first entry arrives at an end."""
    part = 1.0
    for a in range(len(S)):
        low, high = ends(penalty, side[a])
        if step[a] > 0:
            part = min(part, (high - h[S[a]]) / step[a])
        elif step[a] < 0:
            part = min(part, (low - h[S[a]]) / step[a])
    return part


@compiled
def hessian(
    D: Array, squares: Array, S: Array, ridge: float, outliers: tuple[float, float, float, float], e: Array
) -> tuple[Array, Array]:
    """Return the Hessian of the smooth part on the entries S, in units in which atoms have length 1."""
    root, columns, count = np.empty(len(e)), np.empty(len(e), np.int64), 0
    for i in range(len(e)):
        weight = slope_of_fit(e[i], outliers)
        if weight > 0:
            root[count], columns[count] = np.sqrt(weight), i
            count += 1
    M, scale = np.empty((len(S), count)), np.empty(len(S))
    for a in range(len(S)):
        atom = D[S[a]]
        scale[a] = 1 / np.sqrt(squares[S[a]] + ridge)
        for c in range(count):
            M[a, c] = atom[columns[c]] * root[c] * scale[a]
    B = np.dot(M, M.T)
    for a in range(len(S)):
        B[a, a] += ridge * scale[a] * scale[a]
    return B, scale


@compiled
def slope_of_fit(e: float, outliers: tuple[float, float, float, float]) -> float:
    """Return the derivative of ``best_fit`` at e: 1 where the outlier stands still."""
    level, rest, low, high = outliers
    r = (1 - rest) * (e - min(max(e, -level), level))
    return rest if abs(e) > level and low < r < high else 1.0


@compiled
def descent(
    e: Array,
    w: Array,
    downhill: float,
    linear: float,
    curved: float,
    outliers: tuple[float, float, float, float],
) -> float:
    """Return 0 ≤ α ≤ 1 up to which F falls along a direction, nearly as far as it does.

    The slope at α is −g(e − αw)·w + linear + α · curved, −``downhill`` at 0; it grows with α.
    """
    level, rest, low, high = outliers
    below, above, slope_below, slope_above = 0.0, 1.0, -downhill, 0.0
    for trial in range(MOST_TRIALS):
        a = 1.0
        if trial > 0:
            part = -slope_below / (slope_above - slope_below)
            a = below + (above - below) * (min(max(part, 0.1), 0.9) if trial % 3 else 0.5)
        slope = linear + a * curved
        for i in range(len(e)):
            slope -= best_fit(e[i] - a * w[i], level, rest, low, high) * w[i]
        if slope <= 0:
            below, slope_below = a, slope
            if a == 1 or -slope <= 0.1 * downhill:
                return a
        else:
            above, slope_above = a, slope
    return below


@compiled
def minimise_in_ball(
    x: Array,
    D: Array,
    squares: Array,
    h: Array,
    ridge: float,
    penalty: tuple[float, float, float],
    outliers: tuple[float, float, float, float],
    allowed: float,
    roundings: float,
    max_iter: int,
) -> tuple[float, int]:
    """Move h to a minimiser of F in the unit ball; return its error and how many steps it took.

    The code is that of a ridge larger by the multiplier μ ≥ 0 of the ball. 1 − 1/‖h(μ)‖ falls with μ,
    and is nearly a line: regula falsi finds its root. The code itself is taken between the best found
    inside of the ball and outside: where h(μ) changes fast, both are minimisers for nearly the same μ.
    """
    error, spent = minimise(x, D, squares, h, ridge, penalty, outliers, allowed, roundings, max_iter)
    length = np.sqrt(np.dot(h, h))
    if length <= 1:
        return error, spent
    e, g, force = np.empty(len(x)), np.empty(len(x)), np.empty(len(h))
    best = h / length
    least = measure(x, D, best, ridge, penalty, outliers, True, 1.0, e, g, force)
    low, high, above, below, last = 0.0, np.inf, 1 - 1 / length, 0.0, 0
    inner, outer = np.zeros(len(h)), h.copy()
    mu = max(np.dot(force, best), allowed)
    while least > allowed and spent < max_iter and low < high * (1 - 4e-16):
        terms = (ridge + mu, penalty, outliers)
        spent += minimise(x, D, squares, h, *terms, allowed / 8, roundings, max_iter - spent)[1]
        # The norm is known to allowed / curvature only: some more steps make it as good as rounding allows.
        spent += minimise(x, D, squares, h, *terms, 0.0, roundings / 8, min(POLISH, max_iter - spent))[1]
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
            miss = measure(x, D, unit, ridge, penalty, outliers, True, 1.0, e, g, force)
            if miss < least:
                least = miss
                best[:] = unit
        if high == np.inf:
            mu *= 4
        elif below > -1e3:
            mu = low + (high - low) * above / (above - below)
        else:
            mu = low + (high - low) / 16
    h[:] = best
    return least, min(spent, max_iter)


@compiled
def between(inner: Array, outer: Array) -> Array:
    """Return the point of length 1 on the way from a point inside of the unit ball to one outside."""
    way = outer - inner
    a, b, c = np.dot(way, way), np.dot(inner, way), np.dot(inner, inner) - 1
    root = np.sqrt(max(b * b - a * c, 0.0))
    part = -c / (b + root) if b > 0 else (root - b) / a
    point = inner + part * way
    return point / np.sqrt(np.dot(point, point))
