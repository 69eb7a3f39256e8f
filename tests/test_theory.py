"""Laws of vrmf.theory, and of Lemma 2 of the paper by full enumeration of mini-batches."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from vrmf import theory
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.coding import Atoms, Coder
from vrmf.dictionaries import feasible
from vrmf.formulations import (
    Formulation,
    dictionary_learning,
    nonnegative,
    robust_nmf,
    robust_pca,
)
from vrmf.problem import Problem
from vrmf.solvers import Algorithm1
from vrmf.sources import as_source
from vrmf.terms import Ridge, Simplex, UnitBall

CODER = Coder(tol=1e-12)
FORMULATIONS = {
    "P1": dictionary_learning(alpha=0.1),
    "P3": nonnegative(alpha=0.1),
    "P5": robust_pca(alpha=0.5, outlier_alpha=0.1, n_samples=6),
    "P8": robust_nmf(outlier_alpha=0.1, max_code=1.0, max_outlier=0.3),
}
every_formulation = pytest.mark.parametrize("name", FORMULATIONS)


def make(name: str, n: int = 6, k: int = 3, d: int = 8, seed: int = 0) -> tuple[Problem, Array]:
    """Return a small problem and a feasible dictionary."""
    rng = np.random.default_rng([seed, n, k, d])
    problem = Problem(FORMULATIONS[name], as_source(2 * rng.random((n, d))))
    return problem, feasible(problem.formulation, rng.random((k, d)))


def near(problem: Problem, D: Array, distance: float, seed: int = 1) -> Array:
    """Return another feasible dictionary, about so far from D relative to its norm."""
    N = np.random.default_rng(seed).standard_normal(D.shape)
    size = distance * np.linalg.norm(D) / np.linalg.norm(N)
    return feasible(problem.formulation, D + size * N)


def row_gradients(problem: Problem, D: Array) -> Array:
    """Return hᵀ(hD + r − x) of each row in full, shape (n, k, d)."""

    def of_block(block: Block) -> list[Array]:
        X = block.dense
        H = problem.formulation.encode(X, Atoms(D), CODER).H
        R = problem.formulation.outliers.prox(X - H @ D, 1.0)
        return [np.outer(h, h @ D + r - x) for h, r, x in zip(H, R, X, strict=True)]

    return np.array(problem.source.reduce(of_block))


def scalar_problem(*rows: float) -> Problem:
    """Return the problem of loss ½x² / (1 + D²), k = d = 1."""
    return Problem(Formulation(UnitBall(), Ridge(1.0)), as_source(np.array(rows)[:, None]))


def scalar_curvature(x: float, D: float) -> float:
    return -(x**2) * (1 - 3 * D**2) / (1 + D**2) ** 3


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_sampling_factor_at_its_ends(n: int) -> None:
    assert theory.sampling_factor(n, n) == 0
    assert theory.sampling_factor(n, 1) == (1 if n > 1 else 0)


def test_sampling_factor_falls_with_the_batch_and_is_at_most_one_over_b() -> None:
    factors = [theory.sampling_factor(50, b) for b in range(1, 51)]
    assert factors == sorted(factors, reverse=True)
    assert all(factor <= 1 / b for b, factor in enumerate(factors, start=1))
    assert theory.sampling_factor(5, 2) == pytest.approx(3 / 8)


@every_formulation
@pytest.mark.parametrize("n", [6, 1100])
def test_gradient_differences_equal_brute_force(name: str, n: int) -> None:
    problem, D = make(name, n)
    E = near(problem, D, 0.3)
    expected = np.linalg.norm(row_gradients(problem, D) - row_gradients(problem, E), axis=(1, 2))
    assert np.max(expected) > 0.01
    found = theory.gradient_differences(problem, D, E, CODER)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(theory.gradient_differences(problem, E, D, CODER), found, atol=1e-9)


@every_formulation
def test_gradient_differences_vanish_between_equal_dictionaries(name: str) -> None:
    problem, D = make(name)
    assert not np.any(theory.gradient_differences(problem, D, D.copy(), CODER))


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_gradient_differences_keep_their_digits_between_near_dictionaries(distance: float) -> None:
    rows, D = (1.0, 3.0, 0.2), 0.4
    E = D + distance
    found = theory.gradient_differences(scalar_problem(*rows), np.array([[D]]), np.array([[E]]), CODER)
    slopes = [abs(scalar_curvature(x, D + distance / 2)) * (E - D) for x in rows]
    np.testing.assert_allclose(found, slopes, rtol=1e-5)


@every_formulation
def test_gradient_differences_are_linear_at_small_distances(name: str) -> None:
    problem, D = make(name)
    change = {
        size: theory.gradient_differences(problem, D, D * (1 - size), CODER) / size for size in (1e-5, 1e-8)
    }
    np.testing.assert_allclose(change[1e-8], change[1e-5], rtol=1e-3, atol=1e-4)


@every_formulation
@pytest.mark.parametrize("b", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_lemma_2_over_all_batches(name: str, b: int, seed: int) -> None:
    problem, anchor = make(name, seed=seed)
    n, D = problem.n_samples, near(problem, anchor, 0.2, seed)
    gradient = problem.stats(D, CODER).gradient
    at_anchor = problem.stats(anchor, CODER).gradient
    estimates = []
    for batch in itertools.combinations(range(n), b):
        pair = problem.paired_stats(D, anchor, CODER, np.array(batch))
        estimates.append(pair.current.gradient - pair.anchor.gradient + at_anchor)
    np.testing.assert_allclose(np.mean(estimates, axis=0), gradient, atol=1e-12)

    deviation = np.mean([np.sum((V - gradient) ** 2) for V in estimates])
    differences = theory.gradient_differences(problem, D, anchor, CODER)
    ratios = differences / np.linalg.norm(D - anchor)
    squared_distance = np.sum((D - anchor) ** 2)
    factor = theory.sampling_factor(n, b)
    bound = factor * np.mean(ratios**2) * squared_distance
    assert 0.05 * bound < deviation <= bound <= factor * np.max(ratios) ** 2 * squared_distance
    # What the bound leaves out is the mean, so without it the bound is an equality.
    mean_change = np.sum((gradient - at_anchor) ** 2)
    assert deviation == pytest.approx(bound - factor * mean_change, rel=1e-8)


@every_formulation
def test_lipschitz_estimate_is_the_largest_ratio_of_its_pairs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, D = make(name, n=20)
    pairs: list[tuple[Array, Array]] = []
    measure = theory.gradient_differences

    def spy(problem: Problem, D: Array, E: Array, coder: Coder) -> Array:
        pairs.append((D, E))
        return measure(problem, D, E, coder)

    monkeypatch.setattr(theory, "gradient_differences", spy)
    estimate = theory.estimate_lipschitz(problem, D, n_pairs=6, random_state=0)
    assert 0 < estimate.n_pairs == len(pairs) <= 6
    ratios = np.array([measure(problem, A, B) / np.linalg.norm(A - B) for A, B in pairs])
    assert estimate.worst == pytest.approx(np.max(ratios))
    assert estimate.mean_square == pytest.approx(np.max(np.sqrt(np.mean(ratios**2, axis=1))))
    assert 0 < estimate.mean_square <= estimate.worst
    for E in itertools.chain(*pairs):
        assert math.isfinite(problem.formulation.dictionary.value(E))
        assert np.linalg.norm(E - D) <= 0.021 * np.linalg.norm(D)


@every_formulation
def test_lipschitz_estimate_is_decided_by_random_state(name: str) -> None:
    problem, D = make(name)
    before = D.copy()
    first, again, other = (
        theory.estimate_lipschitz(problem, D, n_pairs=3, random_state=seed) for seed in (5, 5, 6)
    )
    assert first == again != other
    np.testing.assert_array_equal(D, before)


@pytest.mark.parametrize("D", [0.05, 0.3, 0.9, 1.0])
def test_lipschitz_estimate_finds_curvature_of_either_sign(D: float) -> None:
    problem = scalar_problem(1.0, 3.0, 2.0)
    estimate = theory.estimate_lipschitz(problem, np.array([[D]]), random_state=0)
    assert estimate.worst == pytest.approx(abs(scalar_curvature(3.0, D)), rel=0.05)
    mean_square = math.sqrt(np.mean([scalar_curvature(x, D) ** 2 for x in (1.0, 3.0, 2.0)]))
    assert estimate.mean_square == pytest.approx(mean_square, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_lipschitz_estimate_turns_round_at_the_end_of_the_set(seed: int) -> None:
    problem, D = scalar_problem(1.0), np.array([[1.0]])
    assert theory.estimate_lipschitz(problem, D, n_pairs=2, random_state=seed).n_pairs >= 1


@every_formulation
def test_lipschitz_estimate_goes_beyond_random_directions(name: str) -> None:
    problem, D = make(name, n=40, k=5, d=30)
    random = max(
        theory.estimate_lipschitz(problem, D, n_pairs=1, random_state=seed).worst for seed in range(6)
    )
    assert theory.estimate_lipschitz(problem, D, n_pairs=6, random_state=0).worst > 1.5 * random


def test_lipschitz_estimate_takes_single_precision() -> None:
    problem, D = make("P5", n=20)
    rows = np.concatenate(list(problem.source.map(lambda block: block.dense)))
    single = Problem(problem.formulation, as_source(rows.astype(np.float32)))
    expected = theory.estimate_lipschitz(problem, D, random_state=0).worst
    found = theory.estimate_lipschitz(single, D.astype(np.float32), random_state=0).worst
    assert found == pytest.approx(expected, rel=0.05)


def test_no_codes_mean_no_lipschitz_constant_and_any_step() -> None:
    problem = Problem(dictionary_learning(alpha=1e3), as_source(np.eye(3)))
    D = np.eye(3)[:2]
    assert theory.estimate_lipschitz(problem, D, random_state=0).worst == 0
    conditions = theory.check_solver(problem, Algorithm1(batch_size=1, step_size=9.0), D, random_state=0)
    assert conditions.holds
    assert conditions.largest_step == math.inf


SHAPES = [(100, 1, 1), (100, 10, 1), (100, 20, 5), (1000, 20, 5), (60_000, 307, 20), (50, 50, 9)]


@pytest.mark.parametrize("inexact", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lipschitz", [0.01, 7.0])
def test_conditions_hold_below_the_largest_step_and_fail_above(
    shape: tuple[int, int, int], lipschitz: float, inexact: bool
) -> None:
    def check(step_size: float) -> theory.Conditions:
        return theory.check_conditions(*shape, step_size, lipschitz, inexact=inexact)

    largest = check(1.0).largest_step
    assert largest <= 0.5 / lipschitz
    for factor in (1 - 1e-9, 0.5, 1e-3):
        assert check(factor * largest).holds
        assert check(factor * largest).largest_step == largest
    for factor in (1 + 1e-9, 2, 1e3):
        assert not check(factor * largest).holds


def test_theta_must_exceed_two_even_for_full_batches() -> None:
    assert not theory.check_conditions(50, 50, 3, step_size=0.5, lipschitz=1.0).holds
    assert theory.check_conditions(50, 50, 3, step_size=0.499, lipschitz=1.0).holds


def test_conditions_loosen_with_the_batch_and_tighten_with_steps() -> None:
    def right(b: int, m: int) -> float:
        return theory.check_conditions(100, b, m, 0.1, 1.0).right

    by_batch = [right(b, 5) for b in range(1, 101)]
    by_steps = [right(20, m) for m in range(1, 30)]
    assert by_batch == sorted(by_batch, reverse=True) and by_batch[-1] == 0
    assert by_steps == sorted(by_steps)
    lefts = [theory.check_conditions(100, 20, 5, step, 1.0).left for step in (0.01, 0.1, 0.5)]
    assert lefts == sorted(lefts, reverse=True)


def test_conditions_depend_on_the_product_of_step_and_constant() -> None:
    one = theory.check_conditions(100, 20, 5, step_size=0.125, lipschitz=1.0)
    other = theory.check_conditions(100, 20, 5, step_size=0.5, lipschitz=0.25)
    assert (one.theta, one.left, one.right) == (other.theta, other.left, other.right)
    assert (one.theta, one.left) == (8, 56)
    assert one.right == pytest.approx(60 * 80 / (20 * 99))


@pytest.mark.parametrize("shape", SHAPES)
def test_theorem_2_is_twice_as_strict(shape: tuple[int, int, int]) -> None:
    exact = theory.check_conditions(*shape, step_size=0.1, lipschitz=1.0)
    inexact = theory.check_conditions(*shape, step_size=0.1, lipschitz=1.0, inexact=True)
    assert inexact.right == 2 * exact.right
    assert (inexact.theta, inexact.left) == (exact.theta, exact.left)
    assert inexact.largest_step <= exact.largest_step
    assert (exact.theorem, inexact.theorem) == (1, 2)


def test_conditions_say_what_to_change() -> None:
    def says(step_size: float, inexact: bool = False) -> str:
        return str(theory.check_conditions(100, 1, 2, step_size, 1.0, inexact=inexact))

    assert says(0.1) == (
        "Theorem 1 applies: θ = 10 exceeds 2 and θ(θ − 1) = 90 is at least 2 m (m + 1) α(n, b) = 12."
    )
    assert says(0.4, inexact=True) == (
        "Theorem 2 does not apply: θ(θ − 1) = 3.75 is below 4 m (m + 1) α(n, b) = 24. Use a "
        "`step_size` below 0.1844, a larger `batch_size` or fewer `inner_steps`."
    )
    assert says(0.5) == ("Theorem 1 does not apply: θ = 2 is not above 2. Use a `step_size` below 0.25.")


@pytest.mark.parametrize(
    "solver",
    [
        Algorithm1(),
        Algorithm1(batch_size=3, inner_steps=4, step_size=0.01),
        Algorithm1(batch_size=3, inner_steps=4, tau=0.1),
    ],
)
def test_check_solver_reads_the_solver(solver: Algorithm1) -> None:
    problem, D = make("P1", n=30)
    estimate = theory.estimate_lipschitz(problem, D, random_state=0, coder=solver.coder)
    if solver.step_size == "auto":
        step_size = 1 / problem.stats(D, solver.coder).largest_curvature
    else:
        step_size = float(solver.step_size)
    b, m = solver.epoch_shape(30)
    expected = theory.check_conditions(30, b, m, step_size, estimate.worst, inexact=solver.tau is not None)
    assert theory.check_solver(problem, solver, D, random_state=0) == expected


PROBLEM, D = make("P1")
ONE_ATOM = Problem(Formulation(Simplex(), Ridge(1.0)), as_source(np.ones((3, 1))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: theory.sampling_factor(0, 1),
            "`n_samples` is 0. Use a whole number of at least 1.",
        ),
        (
            lambda: theory.sampling_factor(9, 0.5),  # type: ignore[arg-type]
            "`batch_size` is 0.5. Use a whole number of at least 1.",
        ),
        (
            lambda: theory.sampling_factor(9, 10),
            "`batch_size` is 10 but `n_samples` is 9. Use at most 9.",
        ),
        (
            lambda: theory.check_conditions(9, 3, 0, 0.1, 1.0),
            "`inner_steps` is 0. Use a whole number of at least 1.",
        ),
        (
            lambda: theory.check_conditions(9, 3, 2, 0.0, 1.0),
            "`step_size` is 0.0. Use a finite number above 0.",
        ),
        (
            lambda: theory.check_conditions(9, 3, 2, 0.1, math.nan),
            "`lipschitz` is nan. Use a finite number of at least 0.",
        ),
        (
            lambda: theory.gradient_differences(PROBLEM, D[:, 1:], D[:, 1:]),
            "`D` has the shape (3, 7). Use one of shape (3, 8).",
        ),
        (
            lambda: theory.gradient_differences(PROBLEM, D, D[1:]),
            "`E` has the shape (2, 8). Use one of shape (3, 8).",
        ),
        (
            lambda: theory.estimate_lipschitz(PROBLEM, D[:, 1:]),
            "`D` has the shape (3, 7). Use one of shape (3, 8).",
        ),
        (
            lambda: theory.estimate_lipschitz(PROBLEM, 0 * D),
            "`D` is zero, which gives `radius` no scale. Use a nonzero dictionary.",
        ),
        (
            lambda: theory.estimate_lipschitz(PROBLEM, D, radius=-1),
            "`radius` is -1. Use a finite number above 0.",
        ),
        (
            lambda: theory.estimate_lipschitz(PROBLEM, D, n_pairs=0),
            "`n_pairs` is 0. Use a whole number of at least 1.",
        ),
        (
            lambda: theory.estimate_lipschitz(ONE_ATOM, np.ones((1, 1)), n_pairs=4),
            "Near `D`, none of 4 pairs were two different feasible dictionaries (`radius` is 0.01). "
            "Use a larger `radius` or `n_pairs`.",
        ),
        (
            lambda: theory.check_solver(PROBLEM, Algorithm1(batch_size=7), D),
            "`batch_size` is 7 but the data has 6 rows.",
        ),
    ],
)
def test_bad_input_is_named_with_what_would_do(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        call()
