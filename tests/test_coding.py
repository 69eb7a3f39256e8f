"""Laws of codes and of the sums formed from them, over every formulation of the table."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sklearn.linear_model

import reference
from tables import CROSSING, FORMULATIONS, Instance, every_formulation, generator, groups
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.coding import Atoms, Coder, Codes
from vrmf.formulations import Formulation
from vrmf.stats import Stats, WorstRows
from vrmf.terms import (
    L1,
    Absent,
    AbstractRowTerm,
    Box,
    Free,
    NonNegative,
    Ridge,
    Sum,
    UnitBall,
)

EXACT = Coder(tol=1e-10)


def instance(name: str) -> Instance:
    return FORMULATIONS[name](generator(name))


def encode(model: Formulation, X: Array, D: Array, coder: Coder = EXACT, **options: Any) -> Codes:
    return model.encode(X, Atoms(D), coder, **options)


def has_unique_codes(model: Formulation) -> bool:
    """Whether the code problem is strictly convex, given atoms that are linearly independent."""
    parts = model.code.terms if isinstance(model.code, Sum) else (model.code,)
    return not model.has_outliers or any(isinstance(part, Ridge) for part in parts)


def outliers(model: Formulation, X: Array, D: Array, H: Array) -> Array:
    R = model.residual(X, D, H)[1]
    return np.zeros_like(X) if R is None else R


def objective(model: Formulation, X: Array, D: Array, H: Array, R: Array) -> Array:
    """½‖x − hD − r‖² + φ(h) + ϕ(r) of each row, from the definition."""
    fit = 0.5 * np.sum((X - H @ D - R) ** 2, axis=1)
    return fit + model.code.row_values(H) + model.outliers.row_values(R)


def distances(model: Formulation, X: Array, D: Array, H: Array, slack: float = 1e-13) -> Array:
    """The distance of 0 to the subdifferential of each row's problem in h, r being the best for h."""
    minus_gradient = (X - H @ D - outliers(model, X, D, H)) @ D.T
    return np.array(
        [
            reference.subdifferential_distance(model.code, h, g, slack)
            for h, g in zip(H, minus_gradient, strict=True)
        ]
    )


def units(model: Formulation, X: Array, D: Array) -> Array:
    """‖x − prox(x)‖ · ‖D‖₂ for each row, the unit of errors; 1 where that is 0."""
    unit = np.linalg.norm(X - model.outliers.prox(X, 1.0), axis=1) * np.linalg.norm(D, 2)
    return np.where(unit > 0, unit, 1)


# ------------------------------------------------------------------ codes are the minimisers


@every_formulation
def test_the_dictionary_of_the_table_is_feasible_and_its_terms_matter(name: str) -> None:
    model, X, D = instance(name)
    assert np.isfinite(model.dictionary.value(D))
    model.check_width(len(D), X.shape[1])
    H = encode(model, X, D).H
    free = Coder().encode(X, Atoms(D), Free(), Absent()).H
    assert np.max(np.abs(H - free)) > 0.1
    R = outliers(model, X, D, H)
    assert np.any(R != 0) == model.has_outliers


@every_formulation
def test_codes_agree_with_a_general_convex_solver(name: str) -> None:
    model, X, D = instance(name)
    X = X[:8]
    codes = encode(model, X, D)
    H, R = cp.Variable((len(X), len(D))), cp.Variable(X.shape)
    code, code_constraints = reference.to_cvxpy(model.code, H)
    outlier, outlier_constraints = reference.to_cvxpy(model.outliers, R)
    fit = cp.sum_squares(X - H @ D - R) / 2
    best = reference.minimise(fit + code + outlier, code_constraints + outlier_constraints)
    ours = objective(model, X, D, codes.H, outliers(model, X, D, codes.H))
    assert np.sum(ours) == pytest.approx(best, rel=1e-8)
    assert np.sum(model.losses(X, D, codes.H)) == pytest.approx(np.sum(ours), rel=1e-13)
    if has_unique_codes(model):
        np.testing.assert_allclose(codes.H, np.asarray(H.value), rtol=0, atol=1e-6)


@every_formulation
def test_codes_meet_the_optimality_conditions(name: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, X, D)
    assert np.all(codes.error <= 1e-10)
    assert np.all(distances(model, X, D, codes.H) <= 1e-10 * units(model, X, D))


@every_formulation
def test_no_feasible_perturbation_improves(name: str) -> None:
    model, X, D = instance(name)
    rng = generator(name)
    H = encode(model, X, D).H
    R = outliers(model, X, D, H)
    best = objective(model, X, D, H, R)
    assert np.all(np.isfinite(best))
    for reach in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            H2 = model.code.prox(H + reach * rng.normal(size=H.shape), 1e-9)
            R2 = model.outliers.prox(R + reach * rng.normal(size=R.shape), 1e-9)
            for other in ((H2, R), (H, R2), (H2, R2)):
                assert np.all(objective(model, X, D, *other) >= best - 1e-11 * np.maximum(best, 1))


@every_formulation
@pytest.mark.parametrize("method", ["auto", "gradient", "bsum"])
def test_every_method_finds_the_same_codes(name: str, method: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, X, D, Coder(tol=1e-10, max_iter=100_000, method=method))
    assert np.all(codes.error <= 1e-10)
    np.testing.assert_allclose(codes.H, encode(model, X, D).H, rtol=0, atol=1e-7)


@pytest.mark.parametrize("positive", [False, True])
def test_lasso_codes_agree_with_scikit_learn(positive: bool) -> None:
    _, X, D = instance("P1")
    code: AbstractRowTerm = L1(0.2) + NonNegative() if positive else L1(0.2)
    H = EXACT.encode(X, Atoms(D), code, Absent()).H
    lasso = sklearn.linear_model.Lasso(
        alpha=0.2 / D.shape[1], fit_intercept=False, positive=positive, tol=1e-14, max_iter=100_000
    )
    with warnings.catch_warnings():  # its tolerance is below what it can certify
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        expected = lasso.fit(D.T, X.T).coef_
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-8)
    assert 0.1 < np.mean(H == 0) < 0.9


@pytest.mark.parametrize("weight", [1e-3, 0.3, 1e3])
def test_ridge_codes_are_a_linear_solve(weight: float) -> None:
    _, X, D = instance("P1")
    expected = np.linalg.solve(D @ D.T + weight * np.eye(len(D)), D @ X.T).T
    for method in ("auto", "gradient", "bsum"):
        coder = Coder(tol=1e-12, max_iter=200_000, method=method)
        codes = coder.encode(X, Atoms(D), Ridge(weight), Absent())
        np.testing.assert_allclose(codes.H, expected, rtol=0, atol=1e-10)
        assert np.all(codes.error <= 1e-12)


def test_codes_without_penalty_are_least_squares() -> None:
    _, X, D = instance("P1")
    expected = np.linalg.lstsq(D.T, X.T, rcond=None)[0].T
    for code in (Free(), Ridge(0.0)):
        np.testing.assert_allclose(
            EXACT.encode(X, Atoms(D), code, Absent()).H, expected, rtol=0, atol=1e-12
        )


def test_codes_without_penalty_have_least_norm_where_atoms_are_dependent() -> None:
    _, X, D = instance("P1")
    D = np.concatenate([D, D[:2], np.zeros((1, D.shape[1]))])
    codes = EXACT.encode(X, Atoms(D), Free(), Absent())
    np.testing.assert_allclose(codes.H, X @ np.linalg.pinv(D), rtol=0, atol=1e-10)
    assert np.all(codes.error <= 1e-10)


def test_an_outlier_term_that_is_absent_or_forbidden_is_the_same() -> None:
    # a box of the point zero is the same set as Absent, but is coded by another method
    _, X, D = instance("P1")
    absent = EXACT.encode(X, Atoms(D), L1(0.2), Absent())
    forbidden = EXACT.encode(X, Atoms(D), L1(0.2), Box(0.0, 0.0))
    np.testing.assert_allclose(absent.H, forbidden.H, rtol=0, atol=1e-12)


def test_a_ridge_on_outliers_scales_the_fit() -> None:
    # min over r of ½‖e − r‖² + (μ/2)‖r‖² is μ/(1 + μ) · ½‖e‖²
    _, X, D = instance("P1")
    with_outliers = EXACT.encode(X, Atoms(D), L1(0.1), Ridge(1.0))
    without = EXACT.encode(X, Atoms(D), L1(0.2), Absent())
    np.testing.assert_allclose(with_outliers.H, without.H, rtol=0, atol=1e-8)


# ------------------------------------------------------------------ the paper's scheme


@every_formulation
def test_bsum_is_the_papers_alternating_scheme_step_by_step(name: str) -> None:
    model, X, D = instance(name)
    X = X[:6]
    for iterations in (1, 2, 3, 4, 5, 10, 15):
        codes = encode(model, X, D, Coder(tol=1e-300, max_iter=iterations, method="bsum"))
        H, R = reference.alternating_codes(X, D, model.code.prox, model.outliers.prox, iterations)
        np.testing.assert_allclose(codes.H, H, rtol=0, atol=1e-12)
        np.testing.assert_allclose(outliers(model, X, D, codes.H), R, rtol=0, atol=1e-12)
        assert np.all(codes.iterations == iterations)


@every_formulation
def test_the_papers_scheme_descends(name: str) -> None:
    model, X, D = instance(name)
    coders = [Coder(tol=1e-300, max_iter=m, method="bsum") for m in range(1, 12)]
    path = np.array([model.losses(X, D, encode(model, X, D, coder).H) for coder in coders])
    assert np.all(np.diff(path, axis=0) <= 1e-13 * np.maximum(path[:-1], 1))


# ------------------------------------------------------------------ what is said of the codes


@every_formulation
@pytest.mark.parametrize("method", ["auto", "bsum"])
def test_the_error_bounds_the_distance_to_stationarity(name: str, method: str) -> None:
    model, X, D = instance(name)
    for coder in (
        *(Coder(tol=1e-300, max_iter=m, method=method) for m in (1, 2, 5, 13, 20)),
        *(Coder(tol=tol, method=method) for tol in (1e-1, 1e-3, 1e-6)),
    ):
        codes = encode(model, X, D, coder)
        distance = distances(model, X, D, codes.H) / units(model, X, D)
        assert np.all(distance <= codes.error + 1e-13)
        # and the bound is not loose: it is of the order of the distance or of the tolerance
        assert np.median(codes.error) <= 1e3 * np.median(distance) + max(coder.tol, 1e-12)


def test_the_error_bounds_the_distance_for_l1_by_hand() -> None:
    _, X, D = instance("P1")
    codes = Coder(tol=1e-2).encode(X, Atoms(D), L1(0.2), Absent())
    G, H = (codes.H @ D - X) @ D.T, codes.H
    residual = np.where(H != 0, G + 0.2 * np.sign(H), np.maximum(np.abs(G) - 0.2, 0))
    distance = np.linalg.norm(residual, axis=1)
    unit = np.linalg.norm(X, axis=1) * np.linalg.norm(D, 2)
    assert np.all(distance <= (codes.error + 1e-15) * unit)
    assert np.max(distance / unit) > 1e-5


def test_the_error_bounds_the_distance_for_huber_and_ridge_by_hand() -> None:
    _, X, D = instance("P5")
    codes = Coder(tol=1e-2).encode(X, Atoms(D), Ridge(0.3), L1(0.4))
    gradient = -np.clip(X - codes.H @ D, -0.4, 0.4) @ D.T + 0.3 * codes.H
    unit = np.linalg.norm(np.clip(X, -0.4, 0.4), axis=1) * np.linalg.norm(D, 2)
    distance = np.linalg.norm(gradient, axis=1)
    assert np.all(distance <= (codes.error + 1e-15) * unit)
    assert np.max(distance / unit) > 1e-5


@every_formulation
def test_the_error_does_not_depend_on_the_start(name: str) -> None:
    model, X, D = instance(name)
    start = model.code.prox(generator(name).normal(size=(len(X), len(D))), 1e-9)
    codes = encode(model, X, D, start=start)
    assert np.all(codes.error <= 1e-10)
    np.testing.assert_allclose(codes.H, encode(model, X, D).H, rtol=0, atol=1e-8)


@every_formulation
@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.parametrize("method", ["auto", "gradient"])
def test_iterations_are_bounded_and_what_is_unfinished_says_so(
    name: str, method: str, max_iter: int
) -> None:
    model, X, D = instance(name)
    codes = encode(model, X, D, Coder(tol=1e-10, max_iter=max_iter, method=method))
    assert np.all(codes.iterations <= max_iter)
    assert np.all(codes.iterations >= 1)
    unfinished = distances(model, X, D, codes.H) > 1e-10 * units(model, X, D)
    assert method == "auto" or np.sum(unfinished) > len(X) / 4
    assert np.all(codes.error[unfinished] > 1e-10)
    assert np.all(codes.iterations[unfinished] == max_iter)
    assert model.stats(X, Atoms(D), codes).unfinished == np.sum(codes.error > 1e-10)


@every_formulation
@pytest.mark.parametrize("dtype, tol", [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_only_codes_that_used_up_the_budget_count_as_unfinished(name: str, dtype: type, tol: float) -> None:
    model, X, D = instance(name)
    X, D = X.astype(dtype), D.astype(dtype)
    codes = encode(model, X, D, Coder(tol=tol))
    assert np.max(codes.iterations) < Coder().max_iter
    assert model.stats(X, Atoms(D), codes).unfinished == 0


@pytest.mark.parametrize("dtype, size", [(np.float32, 1e3), (np.float64, 1e6)])
def test_codes_as_good_as_rounding_allows_do_not_count_as_unfinished(dtype: type, size: float) -> None:
    # The unit of the error is bounded by the outliers' weight, while rounding grows with the codes.
    _, X, D = instance("P1")
    H = size * np.sign(X[:, : len(D)])
    X = H @ D + 0.1 * X
    model, coder = Formulation(UnitBall(), L1(1e-3), L1(0.4)), Coder(tol=1e-15)
    X, D, H = X.astype(dtype), D.astype(dtype), H.astype(dtype)
    codes = encode(model, X, D, coder, start=H)
    assert np.max(codes.iterations) < coder.max_iter
    assert model.stats(X, Atoms(D), codes).unfinished == 0


@every_formulation
def test_iterations_stay_few(name: str) -> None:
    model, X, D = instance(name)
    assert np.max(encode(model, X, D).iterations) <= 1000


@every_formulation
def test_a_warm_start_at_the_solution_finishes_at_once(name: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, X, D)
    start = codes.H.copy()
    again = encode(model, X, D, start=start)
    assert np.max(again.iterations) <= 5
    assert np.all(again.error <= 1e-10)
    np.testing.assert_allclose(again.H, codes.H, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(start, codes.H)
    assert not np.shares_memory(start, again.H)


@every_formulation
def test_a_batch_is_its_rows(name: str) -> None:
    model, X, D = instance(name)
    together = encode(model, X, D)
    for i in range(len(X)):
        alone = encode(model, X[i : i + 1], D)
        np.testing.assert_allclose(alone.H[0], together.H[i], rtol=0, atol=1e-8)


@every_formulation
def test_no_rows_have_no_codes(name: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, X[:0], D)
    assert codes.H.shape == (0, len(D))
    assert codes.error.shape == codes.iterations.shape == (0,)
    stats = model.stats(X[:0], Atoms(D), codes)
    assert stats.count == 0
    assert stats.loss == 0


@pytest.mark.slow
@every_formulation
@pytest.mark.parametrize("method", ["auto", "gradient"])
def test_single_precision_stays_single(name: str, method: str) -> None:
    model, X, D = instance(name)
    coder = Coder(tol=1e-10, method=method)
    codes = encode(model, X.astype(np.float32), D.astype(np.float32), coder)
    assert codes.H.dtype == np.float32
    assert np.max(codes.iterations) < 1000
    # within reach: the tolerance is raised to 64 roundings, or to 16 roundings of the code
    eps = float(np.finfo(np.float32).eps)
    assert coder.reachable_tol(np.dtype(np.float32)) == 64 * eps
    rounding = 16 * eps * np.linalg.norm(D, 2) ** 2 * np.linalg.norm(codes.H, axis=1) / units(model, X, D)
    assert np.all(codes.error <= 1.01 * np.maximum(64 * eps, rounding))
    np.testing.assert_allclose(codes.H, encode(model, X, D).H, rtol=0, atol=2e-3)
    stats = model.stats(X.astype(np.float32), Atoms(D.astype(np.float32)), codes)
    assert {stats.gram.dtype, stats.slope.dtype} == {np.dtype(np.float32)}


@every_formulation
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_and_iterations_have_the_same_types_in_both_precisions(name: str, dtype: type) -> None:
    model, X, D = instance(name)
    for code in (model.code, Ridge(0.1)):
        codes = EXACT.encode(X.astype(dtype), Atoms(D.astype(dtype)), code, model.outliers)
        assert codes.error.dtype == np.float64
        assert codes.iterations.dtype == np.int64


@every_formulation
def test_read_only_and_strided_arrays_will_do(name: str) -> None:
    model, X, D = instance(name)
    expected = encode(model, X, D)
    start = np.zeros((len(X), len(D)))
    wide, tall = np.zeros((2 * len(X), X.shape[1])), np.zeros((len(D), 2 * X.shape[1]))
    wide[::2], tall[:, ::2] = X, D
    for rows, atoms in ((wide[::2], tall[:, ::2]), (np.asfortranarray(X), np.asfortranarray(D))):
        for array in (rows, atoms, start):
            array.setflags(write=False)
        codes = encode(model, rows, atoms, start=start)
        np.testing.assert_allclose(codes.H, expected.H, rtol=0, atol=1e-9)
        stats = model.stats(rows, Atoms(atoms), codes)
        assert stats.loss == pytest.approx(np.sum(model.losses(X, D, expected.H)), rel=1e-10)
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(atoms, D)


@every_formulation
def test_coding_twice_gives_the_same_bits(name: str) -> None:
    model, X, D = instance(name)
    one, two = encode(model, X, D), encode(model, X, D)
    np.testing.assert_array_equal(one.H, two.H)
    np.testing.assert_array_equal(one.error, two.error)


# ------------------------------------------------------------------ hard cases


def duplicate_atoms(X: Array, D: Array) -> tuple[Array, Array]:
    return X, D[[0, 0, 1, 1]]


def zero_atom(X: Array, D: Array) -> tuple[Array, Array]:
    return X, D * [[1], [0], [1], [1]]


def zero_dictionary(X: Array, D: Array) -> tuple[Array, Array]:
    return X, 0 * D


def zero_rows(X: Array, D: Array) -> tuple[Array, Array]:
    return X * (np.arange(len(X)) % 2)[:, None], D


def only_zero_rows(X: Array, D: Array) -> tuple[Array, Array]:
    return 0 * X, D


def more_atoms_than_features(X: Array, D: Array) -> tuple[Array, Array]:
    return X[:, :3], D[:, :3]


def one_feature(X: Array, D: Array) -> tuple[Array, Array]:
    return X[:, :1], D[:, :1]


def nearly_equal_atoms(X: Array, D: Array) -> tuple[Array, Array]:
    return X, D[[0, 0, 1, 1]] + 1e-9 * D


def atoms_of_different_size(X: Array, D: Array) -> tuple[Array, Array]:
    return X, D * [[1e-3], [1], [1e-1], [10]]


@every_formulation
@pytest.mark.parametrize(
    "case",
    [
        duplicate_atoms,
        zero_atom,
        zero_dictionary,
        zero_rows,
        only_zero_rows,
        more_atoms_than_features,
        one_feature,
        nearly_equal_atoms,
    ],
)
def test_codes_of_degenerate_problems_are_stationary(name: str, case: Any) -> None:
    model, X, D = instance(name)
    X, D = case(X, D)
    codes = encode(model, X, D, Coder(tol=1e-8))
    assert np.all(np.isfinite(codes.H))
    assert np.all(np.isfinite(model.code.row_values(codes.H)))
    assert np.all(codes.error <= 1e-8)
    assert np.all(distances(model, X, D, codes.H) <= 2e-8 * units(model, X, D))
    stats = model.stats(X, Atoms(D), codes)
    assert np.isfinite(stats.loss)
    assert stats.largest_curvature > 0


def test_equal_atoms_get_equal_codes_where_codes_are_unique() -> None:
    _, X, D = instance("P1")
    for code in (Ridge(0.1), NonNegative() + Ridge(0.1), L1(0.2) + Ridge(0.1), UnitBall() + Ridge(0.1)):
        H = EXACT.encode(X, Atoms(D[[0, 0, 1]]), code, Absent()).H
        np.testing.assert_allclose(H[:, 0], H[:, 1], rtol=0, atol=1e-10)


@every_formulation
def test_atoms_that_are_zero_get_no_code(name: str) -> None:
    model, X, D = instance(name)
    D = zero_atom(X, D)[1]
    assert np.all(encode(model, X, D).H[:, 1] == 0)


@every_formulation
def test_rows_that_are_zero_get_no_code(name: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, 0 * X, D)
    assert np.all(codes.H == 0)
    assert np.all(codes.error == 0)


def test_l1_without_weight_is_least_squares() -> None:
    _, X, D = instance("P1")
    expected = np.linalg.lstsq(D.T, X.T, rcond=None)[0].T
    codes = EXACT.encode(X, Atoms(D), L1(0.0), Absent())
    np.testing.assert_allclose(codes.H, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("weight", [1e6, 1e300])
def test_codes_under_a_huge_penalty_are_zero(weight: float) -> None:
    _, X, D = instance("P1")
    together = groups(CROSSING, [weight] * 3)
    for code in (L1(weight), L1(weight) + NonNegative(), together):
        for noise in (Absent(), L1(0.3)):
            codes = EXACT.encode(X, Atoms(D), code, noise)
            assert np.all(codes.H == 0)
            assert np.all(codes.error <= 1e-15)


@pytest.mark.parametrize("weight", [0.0, 1e6])
def test_outliers_take_all_or_nothing(weight: float) -> None:
    _, X, D = instance("P5")
    model = Formulation(UnitBall(), Ridge(0.3), L1(weight))
    codes = encode(model, X, D)
    R = outliers(model, X, D, codes.H)
    if weight == 0:
        assert np.all(codes.H == 0)
        np.testing.assert_array_equal(R, X)
    else:
        assert np.all(R == 0)
        expected = Coder().encode(X, Atoms(D), Ridge(0.3), Absent()).H
        np.testing.assert_allclose(codes.H, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-70, 1e-30, 1e30, 1e70])
def test_codes_scale_with_the_rows(factor: float) -> None:
    # of c · x under c · λ, the codes are c times those of x under λ
    _, X, D = instance("P5")
    pairs: list[tuple[AbstractRowTerm, AbstractRowTerm]] = [
        (L1(0.2), L1(0.2 * factor)),
        (Ridge(0.2), Ridge(0.2)),
        (L1(0.2) + NonNegative(), L1(0.2 * factor) + NonNegative()),
        (groups(CROSSING, [0.2] * 3), groups(CROSSING, [0.2 * factor] * 3)),
        (Free(), Free()),
    ]
    for one, scaled in pairs:
        for noise, scaled_noise in ((Absent(), Absent()), (L1(0.4), L1(0.4 * factor))):
            H = EXACT.encode(X, Atoms(D), one, noise).H
            codes = EXACT.encode(factor * X, Atoms(D), scaled, scaled_noise)
            assert np.all(codes.error <= 1e-10)
            np.testing.assert_allclose(codes.H / factor, H, rtol=0, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-70, 1e-30, 1e30, 1e70])
def test_codes_do_not_change_when_rows_and_atoms_scale_together(factor: float) -> None:
    # of c · x in c · D under c² · λ (and c · λ on outliers), the codes are those of x in D under λ
    _, X, D = instance("P5")
    pairs: list[tuple[AbstractRowTerm, AbstractRowTerm]] = [
        (L1(0.2), L1(0.2 * factor**2)),
        (Ridge(0.2), Ridge(0.2 * factor**2)),
        (UnitBall(), UnitBall()),
        (Box(0.0, 0.5), Box(0.0, 0.5)),
    ]
    for one, scaled in pairs:
        for noise, scaled_noise in ((Absent(), Absent()), (L1(0.4), L1(0.4 * factor))):
            H = EXACT.encode(X, Atoms(D), one, noise).H
            codes = EXACT.encode(factor * X, Atoms(factor * D), scaled, scaled_noise)
            assert np.all(codes.error <= 1e-10)
            np.testing.assert_allclose(codes.H, H, rtol=0, atol=1e-7)


@every_formulation
def test_codes_for_atoms_of_very_different_size_reach_the_tolerance(name: str) -> None:
    model, X, D = instance(name)
    X, D = atoms_of_different_size(X, D)
    codes = encode(model, X, D, Coder(tol=1e-8, max_iter=100_000))
    assert np.all(codes.error <= 1e-8)


@every_formulation
def test_rows_of_very_different_size_are_coded_equally_well(name: str) -> None:
    model, X, D = instance(name)
    sizes = np.geomspace(1e-6, 1e3, len(X))[:, None]
    codes = encode(model, sizes * X, D)
    assert np.all(codes.error <= 1e-10)
    for i in (0, len(X) // 2, len(X) - 1):
        alone = encode(model, sizes[i] * X[i : i + 1], D).H[0]
        np.testing.assert_allclose(codes.H[i], alone, rtol=0, atol=1e-8 * max(1, sizes[i, 0]))


# ------------------------------------------------------------------ bad parameters


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"tol": 0}, "`tol` is 0. Use a finite number above 0."),
        ({"tol": -1e-3}, "`tol` is -0.001"),
        ({"tol": float("nan")}, "`tol` is nan"),
        ({"tol": float("inf")}, "`tol` is inf"),
        ({"tol": "small"}, "`tol` is 'small'"),
        ({"max_iter": 0}, "`max_iter` is 0. Use a whole number of at least 1."),
        ({"max_iter": 1.5}, "`max_iter` is 1.5"),
        ({"max_iter": True}, "`max_iter` is True"),
        ({"method": "newton"}, "`method` is 'newton'. Use one of 'auto', 'gradient', 'bsum'"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Coder(**parameters)


def test_a_coder_is_a_value() -> None:
    assert Coder(tol=1e-8) == Coder(tol=1e-8)
    assert Coder(tol=1e-8) != Coder()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Coder().tol = 1.0  # type: ignore[misc]


# ------------------------------------------------------------------ sums over rows


def stats_of(model: Formulation, X: Array, D: Array, coder: Coder = EXACT) -> Stats:
    return model.stats(X, Atoms(D), encode(model, X, D, coder))


def some(codes: Codes, rows: slice) -> Codes:
    fields = (getattr(codes, field.name)[rows] for field in dataclasses.fields(Codes))
    return Codes(*fields)


@every_formulation
@pytest.mark.parametrize("cut", [0, 1, 4, 13, 30])
def test_stats_add_up(name: str, cut: int) -> None:
    model, X, D = instance(name)
    atoms = Atoms(D)
    codes = encode(model, X, D, Coder(tol=1e-10, max_iter=5, method="gradient"))
    whole = model.stats(X, atoms, codes)
    first = model.stats(X[:cut], atoms, some(codes, slice(None, cut)))
    second = model.stats(X[cut:], atoms, some(codes, slice(cut, None)))
    for field in dataclasses.fields(Stats):
        one, other = getattr(first + second, field.name), getattr(whole, field.name)
        if isinstance(other, WorstRows):
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12)
            np.testing.assert_allclose(one.rows, other.rows, rtol=1e-12)
        else:
            np.testing.assert_allclose(
                one, other, rtol=1e-11, atol=1e-11, err_msg=f"the field {field.name}"
            )
    assert whole.iterations == np.sum(codes.iterations)
    assert whole.unfinished > 0


@every_formulation
def test_stats_are_sums_by_their_definition(name: str) -> None:
    model, X, D = instance(name)
    codes = encode(model, X, D)
    H, R = codes.H, outliers(model, X, D, codes.H)
    stats = stats_of(model, X, D)
    residual = H @ D + R - X
    np.testing.assert_allclose(stats.gram, H.T @ H, rtol=1e-12)
    np.testing.assert_allclose(stats.cross(D), H.T @ (X - R), rtol=0, atol=1e-11)
    np.testing.assert_allclose(stats.slope, H.T @ residual, rtol=0, atol=1e-11)
    assert stats.loss == pytest.approx(np.sum(objective(model, X, D, H, R)), rel=1e-12)
    assert stats.residual == pytest.approx(np.sum(residual**2), rel=1e-12)
    assert stats.energy == pytest.approx(np.sum(X**2), rel=1e-12)
    assert stats.reconstruction_error == pytest.approx(
        np.linalg.norm(residual) / np.linalg.norm(X), rel=1e-12
    )
    assert stats.count == len(X)
    np.testing.assert_array_equal(stats.used, np.sum(H != 0, axis=0))
    gradients = [np.outer(h, e) for h, e in zip(H, residual, strict=True)]
    assert stats.noise == pytest.approx(sum(np.sum(g**2) for g in gradients), rel=1e-12)
    assert stats.code_error == np.max(codes.error)
    assert stats.unfinished == 0
    assert stats.mean_loss == pytest.approx(stats.loss / len(X))
    largest = np.linalg.eigvalsh(H.T @ H / len(X))[-1]
    assert stats.largest_curvature == pytest.approx(largest, rel=1e-12)


@every_formulation
def test_worst_rows_have_the_largest_residuals(name: str) -> None:
    model, X, D = instance(name)
    H = encode(model, X, D).H
    R = outliers(model, X, D, H)
    worst = stats_of(model, X, D).worst
    if not model.reseeds:
        assert len(worst.scores) == len(worst.rows) == 0
        return
    squares = np.sum((X - R - H @ D) ** 2, axis=1)
    order = np.argsort(-squares)[: WorstRows.LIMIT]
    np.testing.assert_allclose(worst.scores, squares[order], rtol=1e-12)
    np.testing.assert_allclose(worst.rows, (X - R)[order], rtol=1e-12)


@every_formulation
def test_the_gradient_is_that_of_the_mean_loss(name: str) -> None:
    model, X, D = instance(name)
    rng, tight, step = generator(name), Coder(tol=1e-12, max_iter=100_000), 1e-5
    D = D * rng.uniform(0.8, 1.1, size=(len(D), 1))  # general position; need not be feasible
    gradient = stats_of(model, X, D, tight).gradient
    for _ in range(6):
        V = rng.normal(size=D.shape)
        ahead, behind = (stats_of(model, X, D + t * V, tight).mean_loss for t in (step, -step))
        slope = float(np.sum(gradient * V))
        unit = float(np.linalg.norm(gradient) * np.linalg.norm(V))
        assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6 * unit)


@every_formulation
def test_the_curvature_bounds_the_loss_from_above(name: str) -> None:
    model, X, D = instance(name)
    stats, rng = stats_of(model, X, D), generator(name)
    for reach in (1e-3, 0.1, 1.0, 10.0):
        V = reach * rng.normal(size=D.shape)
        bound = stats.mean_loss + np.sum(stats.gradient * V) + np.sum(V * (stats.curvature @ V)) / 2
        assert stats_of(model, X, D + V).mean_loss <= bound * (1 + 1e-12)


@pytest.mark.parametrize("name", [name for name in FORMULATIONS if has_unique_codes(instance(name)[0])])
def test_an_error_of_the_codes_moves_the_slope_by_no_more_than_they_say(name: str) -> None:
    # ‖slope − exact slope‖ ≤ sensitivity · error / (strong convexity of the code problem)
    model, X, D = instance(name)
    exact = stats_of(model, X, D, Coder(tol=1e-12)).slope
    for tol in (1e-1, 1e-2, 1e-4):
        stats = stats_of(model, X, D, Coder(tol=tol))
        moved = np.linalg.norm(stats.slope - exact)
        parts = model.code.terms if isinstance(model.code, Sum) else (model.code,)
        modulus = sum(part.weight for part in parts if isinstance(part, Ridge))
        modulus += 0.0 if model.has_outliers else np.linalg.eigvalsh(D @ D.T)[0]
        # second order: the residual and the code both move
        assert moved <= stats.sensitivity * stats.code_error / modulus * 2 + 1e-9


def test_all_codes_zero_give_a_curvature_of_one() -> None:
    model, X, D = instance("P1")
    stats = stats_of(dataclasses.replace(model, code=L1(1e6)), X, D)
    assert np.all(stats.gram == 0)
    assert stats.largest_curvature == 1.0
    assert np.all(stats.used == 0)


def test_equally_bad_rows_keep_their_order() -> None:
    scores, rows = np.arange(1000.0) % 5, np.arange(1000.0)[:, None]
    worst = WorstRows.among(scores, Block(rows))
    np.testing.assert_array_equal(worst.rows, rows[4::5][: WorstRows.LIMIT])
    parts = WorstRows.among(scores[:13], Block(rows[:13])) + WorstRows.among(scores[13:], Block(rows[13:]))
    np.testing.assert_array_equal(parts.rows, worst.rows)
