"""Laws of Newton's method for codes with entrywise outliers, and of its kernels."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import reference
from precisions import Precision, every_precision
from tables import generator
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.coding import METHODS, Atoms, Coder, Codes
from vrmf.coding import _huber as shared
from vrmf.coding import _huber_ball as ball
from vrmf.coding import _huber_box as box
from vrmf.coding.base import Task
from vrmf.formulations import Formulation
from vrmf.running.clock import Clock, OutOfTime, watched_by
from vrmf.terms import L1, AbstractRowTerm, Box, Free, NonNegative, Ridge, UnitBall

CODES: dict[str, AbstractRowTerm] = {
    "ridge": Ridge(0.1),
    "free": Free(),
    "ball": UnitBall(),
    "ball+ridge": UnitBall() + Ridge(0.1),
    "box": Box(0.0, 1.5),
    "box-around-zero": Box(-0.5, 0.5),
    "nonneg": NonNegative(),
    "nonneg+l1+ridge": NonNegative() + L1(0.2) + Ridge(0.1),
}

OUTLIERS: dict[str, AbstractRowTerm] = {
    "l1": L1(0.1),
    "l1+box": L1(0.1) + Box(-3.0, 3.0),
    "l1+ridge": L1(0.1) + Ridge(0.5),
}

every_code = pytest.mark.parametrize("code", CODES)
every_outlier = pytest.mark.parametrize("outliers", OUTLIERS)
cold_or_warm = pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])


def rows_and_atoms(n: int = 40, k: int = 9, d: int = 30, share: float = 0.2) -> tuple[Array, Array]:
    """Rows of some atoms, noise, and outliers in the given share of entries."""
    rng = generator(f"huber {n} {k} {d} {share}")
    D = np.abs(rng.standard_normal((k, d))) / 3
    H = np.maximum(rng.standard_normal((n, k)), 0)
    outliers = (rng.random((n, d)) < share) * rng.uniform(-5, 5, (n, d))
    return H @ D + 0.05 * rng.standard_normal((n, d)) + outliers, D


def encode(
    X: Array, D: Array, code: AbstractRowTerm, outliers: AbstractRowTerm, tol: float = 1e-9, **options: Any
) -> Codes:
    start = options.pop("start", None)
    return Coder(tol=tol, **options).encode(X, Atoms(D), code, outliers, start)


def start_for(
    X: Array, D: Array, code: AbstractRowTerm, outliers: AbstractRowTerm, warm: bool
) -> Array | None:
    """Codes of a dictionary nearby, or None."""
    if not warm:
        return None
    near = D * (1 + 0.01 * generator("nearby").standard_normal(D.shape))
    return encode(X, near.astype(D.dtype), code, outliers, 1e-6).H


def relative_errors(
    X: Array, D: Array, code: AbstractRowTerm, outliers: AbstractRowTerm, H: Array
) -> Array:
    """The distance of 0 to the subdifferential of each row's problem, from the definition, in its unit."""
    X, D, H = X.astype(np.float64), D.astype(np.float64), H.astype(np.float64)
    forces = outliers.envelope_gradient(X - H @ D) @ D.T
    slack = 1e-6 if H.dtype == np.float32 else 1e-12
    miss = [reference.subdifferential_distance(code, h, g, slack) for h, g in zip(H, forces, strict=True)]
    unit = np.linalg.norm(outliers.envelope_gradient(X), axis=1) * np.linalg.norm(D, 2)
    return np.array(miss) / np.where(unit > 0, unit, 1)


# ------------------------------------------------------------------ codes are the minimisers


@every_code
@every_outlier
@cold_or_warm
def test_codes_meet_the_conditions_of_optimality(code: str, outliers: str, warm: bool) -> None:
    X, D = rows_and_atoms()
    terms = CODES[code], OUTLIERS[outliers]
    codes = encode(X, D, *terms, start=start_for(X, D, *terms, warm))
    assert np.all(codes.finished) and np.all(codes.error <= 1e-9)
    assert np.max(relative_errors(X, D, *terms, codes.H)) <= 1e-9


@every_code
@every_outlier
def test_codes_are_as_good_as_those_of_proximal_gradients(code: str, outliers: str) -> None:
    X, D = rows_and_atoms(20)
    terms = CODES[code], OUTLIERS[outliers]
    ours, theirs = encode(X, D, *terms), encode(X, D, *terms, method="gradient", max_iter=100_000)
    values = [_objective(X, D, *terms, codes.H) for codes in (ours, theirs)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-7)


@pytest.mark.slow
@every_code
def test_codes_agree_with_a_general_convex_solver(code: str) -> None:
    X, D = rows_and_atoms(5)
    H, R = cp.Variable((len(X), len(D))), cp.Variable(X.shape)
    phi, bounds = reference.to_cvxpy(CODES[code], H)
    rho, more_bounds = reference.to_cvxpy(OUTLIERS["l1+box"], R)
    best = reference.minimise(cp.sum_squares(X - H @ D - R) / 2 + phi + rho, bounds + more_bounds)
    codes = encode(X, D, CODES[code], OUTLIERS["l1+box"])
    assert np.sum(_objective(X, D, CODES[code], OUTLIERS["l1+box"], codes.H)) == pytest.approx(
        best, rel=1e-7
    )


def _objective(X: Array, D: Array, code: AbstractRowTerm, outliers: AbstractRowTerm, H: Array) -> Array:
    E = X - H @ D
    R = outliers.prox(E, 1.0)
    assert np.all(np.linalg.norm(H, axis=1) <= 1 + 1e-12) or not isinstance(code, UnitBall)
    inside = H if not isinstance(code, UnitBall) else H / np.maximum(np.linalg.norm(H, axis=1), 1)[:, None]
    return 0.5 * np.sum((E - R) ** 2, axis=1) + code.row_values(inside) + outliers.row_values(R)


@every_code
@every_precision
@cold_or_warm
def test_errors_are_kept_in_both_precisions(code: str, dtype: Precision, warm: bool) -> None:
    X, D = (Z.astype(dtype) for Z in rows_and_atoms())
    terms = CODES[code], OUTLIERS["l1"]
    codes = encode(X, D, *terms, 1e-6, start=start_for(X, D, *terms, warm))
    assert codes.H.dtype == dtype and np.all(codes.finished)
    # In single precision the rounding of a code itself is as large as what it is allowed to miss.
    assert np.max(codes.error) <= (1e-6 if dtype == np.float64 else 1e-4)


# ------------------------------------------------------------------ hard rows and dictionaries


def _dictionary(kind: str, D: Array) -> Array:
    D = D.copy()
    if kind == "equal":
        D[1] = D[0]
    elif kind == "parallel":
        D[1] = 3 * D[0]
    elif kind == "nearly-parallel":
        D[1] = D[0] * (1 + 1e-9 * generator(kind).standard_normal(D.shape[1]))
    elif kind == "zero":
        D[:2] = 0
    elif kind == "wide":
        D = D[:, :4].copy()
    return D


@pytest.mark.parametrize("kind", ["equal", "parallel", "nearly-parallel", "zero", "wide"])
@every_code
@every_precision
@cold_or_warm
def test_codes_of_degenerate_dictionaries_are_finished(
    kind: str, code: str, dtype: Precision, warm: bool
) -> None:
    X, D = rows_and_atoms(12)
    D = _dictionary(kind, D)
    X, D = X[:, : D.shape[1]].astype(dtype), D.astype(dtype)
    terms = CODES[code], OUTLIERS["l1"]
    codes = encode(X, D, *terms, 1e-6, start=start_for(X, D, *terms, warm))
    assert np.all(codes.finished) and np.all(np.isfinite(codes.H))
    if dtype == np.float64:
        assert np.max(codes.error) <= 1e-6
        assert np.max(relative_errors(X, D, *terms, codes.H)) <= 1.1e-6


@every_code
@pytest.mark.parametrize("share", [0.8, 1.0])
def test_rows_with_fewer_inliers_than_atoms(code: str, share: float) -> None:
    X, D = rows_and_atoms(share=share)
    codes = encode(X, D, CODES[code], OUTLIERS["l1"])
    assert np.all(codes.finished)
    assert np.max(relative_errors(X, D, CODES[code], OUTLIERS["l1"], codes.H)) <= 1e-9


@every_code
@cold_or_warm
def test_huge_outliers_and_rows_of_zeros_have_optimal_codes(code: str, warm: bool) -> None:
    X, D = rows_and_atoms()
    X[::3, 5], X[1::3], X[2, :7] = 1e12, 0.0, -1e12
    terms = CODES[code], OUTLIERS["l1"]
    codes = encode(X, D, *terms, 1e-8, start=start_for(X, D, *terms, warm))
    assert np.all(codes.finished)
    assert np.max(relative_errors(X, D, *terms, codes.H)) <= 1e-8
    if "box" not in code and not warm:
        np.testing.assert_array_equal(codes.H[1], 0)


@every_code
def test_codes_converge_from_a_start_that_is_far_off(code: str) -> None:
    X, D = rows_and_atoms()
    start = 1e6 * generator("far").standard_normal((len(X), len(D)))
    codes = encode(X, D, CODES[code], OUTLIERS["l1"], 1e-8, start=start)
    assert np.all(codes.finished)
    assert np.max(relative_errors(X, D, CODES[code], OUTLIERS["l1"], codes.H)) <= 1e-8


@every_code
@cold_or_warm
@pytest.mark.parametrize("max_iter", [1, 2, 9, 30])
def test_iterations_are_bounded(code: str, warm: bool, max_iter: int) -> None:
    X, D = rows_and_atoms()
    terms = CODES[code], OUTLIERS["l1"]
    start = start_for(X, D, *terms, warm)
    codes = encode(X, D, *terms, 1e-10, start=start, max_iter=max_iter)
    assert np.max(codes.iterations) <= max_iter
    ends = codes.finished
    assert np.all(relative_errors(X, D, *terms, codes.H)[ends] <= 1e-10)


@every_code
def test_encoding_checks_the_clock(code: str) -> None:
    X, D = rows_and_atoms()
    with watched_by(Clock(limit=0.0)), pytest.raises(OutOfTime):
        encode(X, D, CODES[code], OUTLIERS["l1"])


# ------------------------------------------------------------------ kernels and their twins

NUMBERS = [(0.1, 0.0, -np.inf, np.inf), (0.1, 0.0, -0.4, 0.3), (0.1, 0.25, -1.0, 0.5)]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_the_hessian_is_that_of_the_definition_however_it_is_updated(
    numbers: tuple[float, float, float, float],
) -> None:
    rng = generator("hessian")
    k, d = 7, 23
    D = rng.standard_normal((k, d))
    W, A = np.array([0, 2, 3, 5, 6]), np.zeros((k + 4, k + 4))
    (e, fit, _, still, before), changes = shared.room_for_features(k, d)
    for step, size in enumerate((1.0, 0.9, 0.01, 3.0, 0.1)):
        e[:] = size * rng.standard_normal(d) if step != 1 else 0.9 * e
        count = shared.look(e, numbers, fit, still)
        shared.update(A, D, D @ D.T, W, numbers, step > 0, count, still, before, changes)
        weights = np.where(still, 1.0, numbers[1])
        expected = (D[W] * weights) @ D[W].T
        np.testing.assert_allclose(np.triu(A[:5, :5]), np.triu(expected), atol=1e-12)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_what_stands_still_is_what_the_slope_of_the_fit_says(
    numbers: tuple[float, float, float, float],
) -> None:
    e = np.linspace(-3, 3, 1001) + 1e-4
    fit, still = np.empty_like(e), np.empty(len(e), bool)
    above, below = np.empty_like(e), np.empty_like(e)
    count = shared.look(e, numbers, fit, still)
    shared.look(e + 1e-7, numbers, above, still.copy())
    shared.look(e - 1e-7, numbers, below, still.copy())
    slope = (above - below) / 2e-7
    assert count == np.count_nonzero(still)
    np.testing.assert_allclose(slope, np.where(still, 1.0, numbers[1]), atol=1e-6)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_the_line_search_ends_where_the_slope_is_nearly_gone(
    numbers: tuple[float, float, float, float],
) -> None:
    rng = generator("line")
    for _ in range(50):
        e, w = rng.standard_normal(30), rng.standard_normal(30) * 10 ** rng.uniform(-2, 2)
        fit, still = np.empty(30), np.empty(30, bool)
        shared.look(e, numbers, fit, still)
        downhill = float(fit @ w)
        if downhill < 0:
            w, downhill = -w, -downhill
        alpha = shared.line_search(e, w, numbers, downhill, 0.0, 0.1)
        assert 0 < alpha <= 1
        shared.look(e - alpha * w, numbers, fit, still)
        slope = 0.1 * alpha - float(fit @ w)
        assert abs(slope) <= 0.011 * downhill or (alpha == 1 and slope < 0)


def test_products_and_sums_of_atoms() -> None:
    rng = generator("products")
    for k in (1, 3, 4, 9):
        D, weights, v = rng.standard_normal((k, 11)), rng.standard_normal(k), rng.standard_normal(11)
        weights[::3] = 0
        out, back = np.empty(11), np.empty(k)
        shared.combine(weights, D, np.empty(k, np.int64), out)
        shared.correlate(D, v, back)
        np.testing.assert_allclose(out, weights @ D, atol=1e-13)
        np.testing.assert_allclose(back, D @ v, atol=1e-13)


@pytest.mark.slow
def test_the_model_in_a_box_is_minimised() -> None:
    rng = generator("model in a box")
    k = 8
    for _ in range(50):
        M = rng.standard_normal((k, k + 2))
        vectors = [np.empty(k) for _ in range(7)]
        side, free = rng.integers(-1, 2, k), np.empty(k, np.int64)
        model = (np.zeros((k + 4, k + 4)), M @ M.T, np.empty((k, k)), *vectors, side, free)
        step, pull, below, above = vectors[:4]
        pull[:], below[:], above[:] = rng.standard_normal(k), -rng.random(k), rng.random(k)
        assert box.pivot_in_box(k, 1e-12, model)
        left = pull - step @ model[1]
        assert np.all((below <= step) & (step <= above))
        assert np.all(np.abs(left[(below < step) & (step < above)]) <= 1e-10)
        assert np.all(left[step == below] <= 1e-10) and np.all(left[step == above] >= -1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_the_model_in_the_ball_is_minimised(size: float) -> None:
    rng = generator("model in the ball")
    k = 8
    D = rng.standard_normal((k, k + 2))
    A, z = np.zeros((k + 4, k + 4)), np.empty(k)
    A[:k, :k] = np.triu(D @ D.T)
    for ridge in (0.0, 0.3):
        h = rng.standard_normal(k)
        h /= 2 * np.linalg.norm(h)
        force = size * rng.standard_normal(k)
        problem = (D, D @ D.T, ridge, True, NUMBERS[0])
        model = (A, np.empty((k, k)), np.empty(k), np.empty(k))
        mu = ball.ball_step(h, force, problem, 1e-6, 0.0, z, model)
        B = D @ D.T + np.diag(1e-6 * np.sum(D * D, axis=1) + ridge)
        np.testing.assert_allclose(force + h @ B, z @ B + mu * z, atol=1e-6 * size)
        assert np.linalg.norm(z) <= 1 + 1e-12
        assert mu == 0 or np.linalg.norm(z) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("size", [1e6, 1e10, 1e13])
def test_codes_from_a_start_that_is_far_off_are_not_finished_by_its_roundings(size: float) -> None:
    rng = generator(f"far {size}")
    D, X = rng.integers(-1, 2, (30, 5)).astype(float), rng.standard_normal((50, 5))
    start = size * rng.standard_normal((50, 30)) * (rng.random((50, 30)) < 0.3)
    code, outliers = L1(0.004) + Ridge(1e-3), L1(0.001) + Box(-0.001, 0.001)
    codes = encode(X, D, code, outliers, tol=1e-6, start=start)
    gradient = -outliers.envelope_gradient(X - codes.H @ D) @ D.T
    true = np.array(
        [reference.subdifferential_distance(code, h, -g) for h, g in zip(codes.H, gradient, strict=True)]
    )
    assert codes.scale is not None and np.all(codes.finished)
    assert np.all(true <= 2e-6 * codes.scale)


@pytest.mark.slow
@cold_or_warm
@pytest.mark.parametrize("code", ["ridge", "ball", "box"])
def test_gross_outliers_in_single_precision_need_no_last_resort(code: str, warm: bool) -> None:
    """Rounding errors of large outliers or at the edge of the ball do not leave codes unfinished."""
    X, D = rows_and_atoms(n=1000, k=20, d=120)
    X = np.where(np.abs(X) > 2, 500 * X, X).astype(np.float32)
    D, terms = D.astype(np.float32), (CODES[code], OUTLIERS["l1"])
    start = start_for(X, D, *terms, warm)
    task = Task(Block(X), Atoms(D), *terms, tol=1e-5, max_iter=500, start=start)
    method = next(method for method in METHODS if method.applies_to(task))
    assert np.mean(method.encode(task).finished) >= 0.99


@pytest.mark.parametrize(("k", "d"), [(20, 8), (8, 8), (5, 30)])
def test_roundings_in_single_precision_do_not_excuse_codes_that_are_far_off(k: int, d: int) -> None:
    # With entries 10⁷ times the threshold, roundings of x − hD are larger than what gradients can be.
    rng = generator(f"gross {k} {d}")
    X, D = 1e5 * rng.standard_normal((50, d)), rng.standard_normal((k, d))
    X, D, terms = X.astype(np.float32), D.astype(np.float32), (Ridge(1e-7), L1(1e-2))
    wide = X.astype(np.float64), D.astype(np.float64)

    def losses(H: Array) -> Array:
        E = wide[0] - H.astype(np.float64) @ wide[1]
        R = terms[1].prox(E, 1.0)
        fits = 0.5 * np.sum((E - R) ** 2, axis=1)
        return fits + terms[0].row_values(H.astype(np.float64)) + terms[1].row_values(R)

    found, best = encode(X, D, *terms, tol=1e-6).H, encode(*wide, *terms, tol=1e-6).H
    assert np.all(losses(found) <= 1.001 * losses(best.astype(np.float32)))


def test_entries_at_one_bound_do_not_jump_to_the_other() -> None:
    D = np.array([[-1.1], [0.8], [1.2], [0.7]])
    codes = encode(np.array([[1.4]]), D, Box(0.0, 1.0), L1(1.0), 1e-6)
    assert codes.finished.all()
    np.testing.assert_allclose(codes.H @ D, [[1.4]], rtol=1e-6)


@every_precision
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("k", [2, 5, 12, 30])
def test_codes_between_bounds_end_with_few_features_and_many_atoms(
    k: int, d: int, dtype: Precision
) -> None:
    rng = generator(f"bounds {k} {d}")
    D = rng.standard_normal((k, d)).astype(dtype)
    X = (2 * rng.standard_normal((40, d))).astype(dtype)
    for row in X:
        assert encode(row[None], D, Box(0.0, 1.0), L1(1.0), 1e-6).finished.all()


@every_precision
@pytest.mark.parametrize("ridge", [0.5, 1e4, 1e8])
def test_outliers_keep_their_digits_under_a_large_ridge(ridge: float, dtype: Precision) -> None:
    X = np.linspace(-1e6, 1e6, 7).reshape(1, 7).astype(dtype)
    form = Formulation(Free(), Free(), L1(0.1) + Ridge(ridge))
    R = form.residual(X, np.zeros((1, 7), dtype), np.zeros((1, 1), dtype))[1]
    assert R is not None
    np.testing.assert_allclose(R, form.outliers.prox(X, 1.0), rtol=1e-5, atol=1e-30)


def test_bounds_beyond_single_precision_are_none() -> None:
    X, zero = np.full((2, 3), 7.0, np.float32), np.zeros((1, 3), np.float32)
    form = Formulation(Free(), Free(), L1(0.1) + Box(-1e300, 1e300))
    R = form.residual(X, zero, np.zeros((2, 1), np.float32))[1]
    assert R is not None
    np.testing.assert_allclose(R, 6.9, rtol=1e-6)
