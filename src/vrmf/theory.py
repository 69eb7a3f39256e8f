"""Whether the paper's convergence theorems cover a run: their constants, estimated from the data.

The noise of a mini-batch of b out of n rows, drawn without replacement, is that of one row times

>>> round(sampling_factor(n_samples=100, batch_size=20), 4)
0.0404

The constant L of Lemma 1 bounds how fast the gradient of a *single row's* loss changes, in either
direction. Here the curvature is −8.5 at its worst, of which λ_max(A), the bound from above that
steps are taken from, knows nothing:

>>> import numpy as np
>>> from vrmf.coding import Coder
>>> from vrmf.formulations import Formulation
>>> from vrmf.problem import Problem
>>> from vrmf.solvers import Algorithm1
>>> from vrmf.sources import as_source
>>> from vrmf.terms import Ridge, UnitBall
>>> problem = Problem(Formulation(UnitBall(), Ridge(1.0)), as_source(np.array([[1.0], [3.0]])))
>>> D = np.array([[0.1]])
>>> L = estimate_lipschitz(problem, D, random_state=0).worst
>>> round(L, 1), round(problem.stats(D, Coder()).largest_curvature, 3)
(8.5, 0.049)

And the conditions of Theorem 1 on b, m and the step size follow:

>>> print(check_solver(problem, Algorithm1(1, 2, step_size=0.05), D, random_state=0))
Theorem 1 does not apply: θ(θ − 1) = 3.195 is below 2 m (m + 1) α(n, b) = 12. Use a `step_size` \
below 0.02945, a larger `batch_size` or fewer `inner_steps`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import real_number, whole_number
from vrmf.coding import Atoms, Coder
from vrmf.dictionaries import feasible
from vrmf.problem import Problem
from vrmf.solvers import Algorithm1

#: Codes whose errors are far below the changes that are measured.
DIFFERENCE_CODER = Coder(tol=1e-9)


@dataclass(frozen=True)
class LipschitzEstimate:
    """Lower bounds of the Lipschitz constant of ∇ℓ(x, ·), from pairs of dictionaries D and E."""

    worst: float  #: largest ‖∇ℓ(xᵢ, D) − ∇ℓ(xᵢ, E)‖ / ‖D − E‖ over rows and pairs: L of Lemma 1
    mean_square: float  #: the same for the root mean square over rows: all that Lemma 2 needs
    n_pairs: int  #: pairs that were compared


@dataclass(frozen=True)
class Conditions:
    """The conditions θ > 2 and θ(θ − 1) ≥ c m (m + 1) α(n, b) of a theorem; str() explains them."""

    theta: float  #: θ = 1 / (step_size · L)
    left: float  #: θ(θ − 1)
    right: float  #: c m (m + 1) α(n, b), where c is 2 in Theorem 1 and 4 in Theorem 2
    holds: bool  #: whether both conditions hold
    largest_step: float  #: every smaller step size satisfies both, every larger one breaks one
    theorem: int = 1  #: 1 for exact codes, 2 for inexact ones

    def __str__(self) -> str:
        name, factor = f"Theorem {self.theorem}", 2 * self.theorem
        left = f"θ(θ − 1) = {self.left:.4g}"
        right = f"{factor} m (m + 1) α(n, b) = {self.right:.4g}"
        if self.holds:
            return f"{name} applies: θ = {self.theta:.4g} exceeds 2 and {left} is at least {right}."
        use = f"Use a `step_size` below {self.largest_step:.4g}"
        if self.theta <= 2:
            return f"{name} does not apply: θ = {self.theta:.4g} is not above 2. {use}."
        use = f"{use}, a larger `batch_size` or fewer `inner_steps`"
        return f"{name} does not apply: {left} is below {right}. {use}."


def sampling_factor(n_samples: int, batch_size: int) -> float:
    """Return α(n, b) = (n − b) / (b (n − 1)), and 0 for b = n.

    The mean of b out of n vectors, drawn without replacement, has the variance of one times α.

    >>> sampling_factor(10, 1), sampling_factor(10, 4), sampling_factor(10, 10)
    (1.0, 0.16666666666666666, 0.0)
    """
    n = whole_number("n_samples", n_samples, low=1)
    b = whole_number("batch_size", batch_size, low=1)
    if b > n:
        raise ValueError(f"`batch_size` is {b} but `n_samples` is {n}. Use at most {n}.")
    return 0.0 if b == n else (n - b) / (b * (n - 1))


def gradient_differences(problem: Problem, D: Array, E: Array, coder: Coder = DIFFERENCE_CODER) -> Array:
    """Return ‖∇ℓ(xᵢ, D) − ∇ℓ(xᵢ, E)‖ for each row, shape (n,).

    With the residual u = hD + r − x the gradient of a row is hᵀu, of rank one. A difference of two
    is (h − h′)ᵀu + h′ᵀ(u − u′), whose norm takes inner products only and keeps its digits where
    the two are close.

    >>> from vrmf.formulations import dictionary_learning
    >>> from vrmf.sources import as_source
    >>> problem = Problem(dictionary_learning(alpha=0.5), as_source(np.array([[2.0], [0.1]])))
    >>> gradient_differences(problem, np.array([[1.0]]), np.array([[0.5]])).round(3)
    array([1.25, 0.  ])
    """
    _check_dictionary("D", D, (len(D), problem.source.n_features))
    _check_dictionary("E", E, D.shape)
    formulation, here, there = problem.formulation, Atoms(D), Atoms(E)

    def of_block(X: Block) -> Array:
        H, G = (formulation.encode(X, atoms, coder).H for atoms in (here, there))
        U, V = formulation.residual(X, D, H)[0], formulation.residual(X, E, G)[0]
        codes, residuals = H - G, U - V
        squares = _dots(codes, codes) * _dots(U, U) + _dots(G, G) * _dots(residuals, residuals)
        return np.sqrt(np.maximum(squares + 2 * _dots(codes, G) * _dots(U, residuals), 0))

    return np.concatenate(list(problem.source.map(of_block)))


def estimate_lipschitz(
    problem: Problem,
    D: Array,
    *,
    radius: float = 1e-2,
    n_pairs: int = 10,
    random_state: int | np.random.Generator | None = None,
    coder: Coder = DIFFERENCE_CODER,
) -> LipschitzEstimate:
    """Estimate the constant L of Lemma 1, ‖∇ℓ(x, D) − ∇ℓ(x, E)‖ ≤ L‖D − E‖, near D.

    An estimate and a lower bound: only some pairs near D are compared. λ_max(A) does not replace
    it, being a mean over rows and a bound on the curvature from above, while L is for each row and
    must cover negative curvature too.

    The first of a pair is random. The second lies in a random direction from it for the first
    pair, and then in the direction in which the gradient of the worst row changed last (the power
    method on its Hessian): random directions alone fall several times short. Both are made
    feasible. The proofs of Theorems 1 and 2 use L only for Lemma 2 and for the gradient of the
    mean loss, so ``mean_square`` would do for them as well; but the pairs seek the worst row, so
    it falls shorter than ``worst``.

    Parameters
    ----------
    problem : Problem
    D : array of shape (k, d), not zero
    radius : float
        The distance of the two of a pair, and of the first from D, relative to ‖D‖.
    n_pairs : int
        How many pairs to compare; each costs two passes over the rows.
    random_state : int, Generator or None
        Decides the pairs.
    coder : Coder
        How codes are computed; their errors must be small beside ``radius``.

    Examples
    --------
    The loss of x = 2 is 2 / (1 + D²), whose second derivative is −4 at D = 0 and 1 at D = 1:

    >>> from vrmf.formulations import robust_pca
    >>> from vrmf.sources import as_source
    >>> formulation = robust_pca(alpha=1.0, outlier_alpha=9.0, n_samples=1)
    >>> problem = Problem(formulation, as_source(np.array([[2.0]])))
    >>> [round(estimate_lipschitz(problem, np.array([[D]]), random_state=0).worst, 1)
    ...  for D in (0.01, 1.0)]
    [4.0, 1.0]
    """
    radius = real_number("radius", radius, low=0, strict=True)
    n_pairs = whole_number("n_pairs", n_pairs, low=1)
    _check_dictionary("D", D, (len(D), problem.source.n_features))
    size = radius * float(np.linalg.norm(D))
    if size == 0:
        raise ValueError("`D` is zero, which gives `radius` no scale. Use a nonzero dictionary.")
    ratios = _ratios(problem, D, size, n_pairs, np.random.default_rng(random_state), coder)
    if not ratios:
        raise ValueError(
            f"Near `D`, none of {n_pairs} pairs were two different feasible dictionaries "
            f"(`radius` is {radius:g}). Use a larger `radius` or `n_pairs`."
        )
    return LipschitzEstimate(
        worst=max(float(np.max(rows)) for rows in ratios),
        mean_square=max(math.sqrt(np.mean(rows**2)) for rows in ratios),
        n_pairs=len(ratios),
    )


def check_conditions(
    n_samples: int,
    batch_size: int,
    inner_steps: int,
    step_size: float,
    lipschitz: float,
    *,
    inexact: bool = False,
) -> Conditions:
    """Check θ > 2 and θ(θ − 1) ≥ 2 m (m + 1) α(n, b) with θ = 1 / (step_size · L): Theorem 1.

    Theorem 2, for ``inexact`` codes, has 4 in place of 2. Both then bound the mean of ‖Γ‖² over the
    iterates by O(1/(mS)) for S epochs of m steps, given the paper's other assumptions.

    >>> check_conditions(1000, 20, 5, step_size=0.2, lipschitz=1.0).holds
    True
    >>> print(check_conditions(1000, 20, 5, step_size=1.0, lipschitz=1.0))
    Theorem 1 does not apply: θ = 1 is not above 2. Use a `step_size` below 0.4373.
    """
    m = whole_number("inner_steps", inner_steps, low=1)
    step_size = real_number("step_size", step_size, low=0, strict=True)
    lipschitz = real_number("lipschitz", lipschitz, low=0)
    theorem = 2 if inexact else 1
    right = 2 * theorem * m * (m + 1) * sampling_factor(n_samples, batch_size)
    theta = 1 / (step_size * lipschitz) if lipschitz > 0 else math.inf
    smallest_theta = max(2.0, (1 + math.sqrt(1 + 4 * right)) / 2)
    return Conditions(
        theta=theta,
        left=theta * (theta - 1),
        right=right,
        holds=theta > 2 and theta * (theta - 1) >= right,
        largest_step=1 / (smallest_theta * lipschitz) if lipschitz > 0 else math.inf,
        theorem=theorem,
    )


def check_solver(
    problem: Problem,
    solver: Algorithm1,
    D: Array,
    *,
    radius: float = 1e-2,
    n_pairs: int = 10,
    random_state: int | np.random.Generator | None = None,
) -> Conditions:
    """Check the conditions for Algorithm 1 on a problem, with L estimated near D.

    A step size of ``"auto"`` is taken as 1/λ_max(A) at D, and with ``tau`` Theorem 2 is meant. The
    other parameters are those of :func:`estimate_lipschitz`. As L is estimated from below, only a
    step well under ``largest_step`` is safe.

    >>> from vrmf.formulations import dictionary_learning
    >>> from vrmf.sources import as_source
    >>> problem = Problem(dictionary_learning(alpha=0.1), as_source(np.eye(6) + 0.5))
    >>> D = np.eye(6)[:2] + 0.1
    >>> check_solver(problem, Algorithm1(), D, random_state=0).holds
    False
    >>> check_solver(problem, Algorithm1(step_size=0.01, inner_steps=2), D, random_state=0).holds
    True
    """
    n = problem.n_samples
    b, m = solver.epoch_shape(n)
    estimate = estimate_lipschitz(
        problem, D, radius=radius, n_pairs=n_pairs, random_state=random_state, coder=solver.coder
    )
    if solver.step_size == "auto":
        step_size = 1 / problem.stats(D, solver.coder).largest_curvature
    else:
        step_size = float(solver.step_size)
    return check_conditions(n, b, m, step_size, estimate.worst, inexact=solver.tau is not None)


def _check_dictionary(name: str, D: Array, shape: tuple[int, ...]) -> None:
    """Raise unless the dictionary has the given shape."""
    if D.shape != shape:
        raise ValueError(f"`{name}` has the shape {D.shape}. Use one of shape {shape}.")


def _dots(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with that of B, in double precision."""
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)


def _ratios(
    problem: Problem, D: Array, size: float, n_pairs: int, rng: np.random.Generator, coder: Coder
) -> list[Array]:
    """Return the change of each row's gradient over that of the dictionary, for each pair."""
    found: list[Array] = []
    direction = rng.standard_normal(D.shape)
    for _ in range(n_pairs):
        first = _moved(problem, D, rng.standard_normal(D.shape), size)
        second = _moved(problem, first, direction, size)
        distance = float(np.linalg.norm(second - first))
        if distance < 0.1 * size:  # the set ends here, and rounding would tell more than curvature
            direction = -direction
            continue
        ratios = gradient_differences(problem, second, first, coder) / distance
        pair = problem.paired_stats(second, first, coder, np.array([np.argmax(ratios)]))
        change = pair.current.slope - pair.anchor.slope
        direction = change if np.linalg.norm(change) > 0 else rng.standard_normal(D.shape)
        found.append(ratios)
    return found


def _moved(problem: Problem, D: Array, direction: Array, size: float) -> Array:
    """Return a feasible dictionary near the one at distance ``size`` from D in the direction."""
    step = size / float(np.linalg.norm(direction)) * direction
    return feasible(problem.formulation, D + step.astype(D.dtype))
