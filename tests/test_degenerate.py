"""Laws of codes for degenerate dictionaries: every code reaches the tolerance."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import reference
import vrmf
from precisions import Precision
from tables import generator
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder, Codes
from vrmf.formulations import Formulation, robust_nmf
from vrmf.terms import L1, Absent, AbstractRowTerm, Box, Free, GroupL2, NonNegative, Ridge, UnitBall

K, ROWS = 12, 12

APART = [range(i, i + 3) for i in range(0, K, 3)]
OVERLAPPING = [range(i, min(i + 5, K)) for i in range(0, K, 3)]
NESTED = [[0], [0, 1], [0, 1, 2], range(6), range(K)]

CODES: dict[str, AbstractRowTerm] = {
    "l1": L1(0.1),
    "l1-small": L1(1e-3),
    "l1+nonneg": L1(0.05) + NonNegative(),
    "l1+box": L1(0.05) + Box(-0.5, 0.4),
    "elastic-net": L1(0.1) + Ridge(0.1),
    "nonneg": NonNegative(),
    "nonneg+ridge": NonNegative() + Ridge(0.05),
    "box": Box(0.0, 60.0),
    "box-above-zero": Box(0.1, 0.7),
    "ridge": Ridge(0.1),
    "ridge-small": Ridge(1e-9),
    "free": Free(),
    "ball": UnitBall(),
    "ball+ridge": UnitBall() + Ridge(0.1),
    "ball+l1": L1(0.05) + UnitBall(),
    "ball+nonneg": NonNegative() + UnitBall(),
    "groups": GroupL2(APART, [0.1, 0.1, 0.2, 0.05]),
    "groups-small": GroupL2(APART, [1e-3] * 4),
    "groups+ridge": GroupL2(APART, [0.1] * 4) + Ridge(0.1),
    "groups-overlapping": GroupL2(OVERLAPPING, [0.1] * 4),
    "groups-overlapping+ridge": GroupL2(OVERLAPPING, [0.1, 0.05, 0.2, 0.1]) + Ridge(0.1),
    "groups-nested": GroupL2(NESTED, [0.05, 0.05, 0.1, 0.1, 0.05]),
}

OUTLIERS: dict[str, AbstractRowTerm] = {
    "absent": Absent(),
    "l1": L1(0.05),
    "l1+box": L1(0.01) + Box(-10.0, 10.0),
    "l1+ridge": L1(0.05) + Ridge(0.1),
}


def equal(rng: np.random.Generator, d: int) -> Array:
    return np.ones((K, d)) * rng.random(d)


def parallel(rng: np.random.Generator, d: int) -> Array:
    D = rng.random((K, d))
    D[1::2] = D[::2] + 1e-6 * rng.normal(size=(K // 2, d))
    return D


def zeros_among(rng: np.random.Generator, d: int) -> Array:
    return rng.normal(size=(K, d)) * (np.arange(K) % 3 > 0)[:, None]


def normal(rng: np.random.Generator, d: int) -> Array:
    return rng.normal(size=(K, d))


def of_all_lengths(rng: np.random.Generator, d: int) -> Array:
    return rng.normal(size=(K, d)) * np.geomspace(1e-6, 1e6, K)[:, None]


def equal_columns(rng: np.random.Generator, d: int) -> Array:
    return np.repeat(rng.random((K, d // 4)), 4, axis=1)


def none(rng: np.random.Generator, d: int) -> Array:
    return np.zeros((K, d))


#: Kinds of dictionaries, with the number of features.
DICTIONARIES: dict[str, tuple[Any, int]] = {
    "equal-one-feature": (equal, 1),
    "equal": (equal, 20),
    "parallel": (parallel, 20),
    "parallel-wide": (parallel, 6),
    "zeros-among": (zeros_among, 20),
    "wide": (normal, 3),
    "of-all-lengths": (of_all_lengths, 20),
    "equal-columns": (equal_columns, 16),
    "none": (none, 5),
}


def problem(kind: str, dtype: Precision) -> tuple[Array, Array]:
    """Rows near combinations of unit atoms, some entries far off, one row zero."""
    make, d = DICTIONARIES[kind]
    rng = generator(kind)
    D = make(rng, d)
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    X = 0.3 * rng.gamma(0.5, size=(ROWS, K)) @ (D / np.where(lengths > 0, lengths, 1))
    X += 0.1 * rng.normal(size=X.shape) + 3 * (rng.random(X.shape) < 0.1)
    X[0] = 0
    return X.astype(dtype), D.astype(dtype)


def check(model: Formulation, X: Array, D: Array, codes: Codes, tol: float) -> None:
    """All codes are finished, and as good as they say, from the definition and in double precision."""
    eps = float(np.finfo(X.dtype).eps)
    X, D, H = (Z.astype(np.float64) for Z in (X, D, codes.H))
    assert np.all(np.isfinite(H))
    assert np.all(codes.finished)
    assert np.isfinite(model.code.value(codes.H))
    E = X - H @ D
    G = E - model.outliers.prox(E, 1.0)
    slack = 1e-13 if eps < 1e-10 else 4 * eps
    pairs = zip(H, G @ D.T, strict=True)
    distance = np.array([reference.subdifferential_distance(model.code, h, g, slack) for h, g in pairs])
    norm = float(np.linalg.norm(D, 2))
    unit = np.linalg.norm(X - model.outliers.prox(X, 1.0), axis=1) * norm
    # what rounding of the code and of x − hD does, one product at a time
    products = np.abs(H) @ np.linalg.norm(D, axis=1) + np.linalg.norm(X, axis=1)
    assert np.all(distance <= 3 * tol * np.where(unit > 0, unit, 1) + 16 * eps * norm * products)
    assert np.max(codes.iterations) <= 1500


@pytest.mark.parametrize("dtype, tol", [(np.float32, 1e-5), (np.float64, 1e-8)])
@pytest.mark.parametrize("kind", DICTIONARIES)
@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("code", CODES)
def test_codes_of_degenerate_dictionaries_end_at_the_promised_error(
    code: str, outliers: str, kind: str, dtype: Precision, tol: float
) -> None:
    model = Formulation(UnitBall(), CODES[code], OUTLIERS[outliers])
    X, D = problem(kind, dtype)
    cold = model.encode(X, Atoms(D), Coder(tol=tol))
    check(model, X, D, cold, tol)
    noise = generator(code + kind).normal(size=cold.H.shape)
    for reach in (1e-6, 0.05, 1e3):  # from nearby, and from far off
        start = (cold.H + reach * noise * np.max(np.abs(cold.H), initial=1e-3)).astype(dtype)
        check(model, X, D, model.encode(X, Atoms(D), Coder(tol=tol), start), tol)


@pytest.mark.slow
@pytest.mark.parametrize("max_iter", [3, 40, 1000])
@pytest.mark.parametrize("method", ["auto", "gradient", "bsum"])
@pytest.mark.parametrize("kind", ["equal", "parallel", "wide"])
def test_errors_of_overlapping_groups_are_bounds(kind: str, method: str, max_iter: int) -> None:
    # also of codes that are stopped on their way
    code = CODES["groups-overlapping"]
    X, D = problem(kind, np.float64)
    codes = Coder(tol=1e-8, max_iter=max_iter, method=method).encode(X, Atoms(D), code, Absent())
    assert codes.scale is not None
    force = (X - codes.H @ D) @ D.T
    pairs = zip(codes.H, force, strict=True)
    distance = np.array([reference.subdifferential_distance(code, h, f, 0.0) for h, f in pairs])
    assert np.all(distance <= codes.error * codes.scale * (1 + 1e-6) + 1e-9)
    assert not np.any(codes.finished & (codes.error > 1e-7))


@pytest.mark.parametrize("kind", ["equal", "parallel", "wide", "equal-columns"])
@pytest.mark.parametrize("outliers", ["absent", "l1+box"])
@pytest.mark.parametrize("code", ["l1", "box", "ball+l1", "groups", "groups-overlapping", "groups-nested"])
def test_losses_are_those_of_a_general_convex_solver(code: str, outliers: str, kind: str) -> None:
    model = Formulation(UnitBall(), CODES[code], OUTLIERS[outliers])
    X, D = problem(kind, np.float64)
    X = X[:4]
    H, R = cp.Variable((len(X), K)), cp.Variable(X.shape)
    value, constraints = reference.to_cvxpy(model.code, H)
    noise, others = reference.to_cvxpy(model.outliers, R)
    best = reference.minimise(cp.sum_squares(X - H @ D - R) / 2 + value + noise, constraints + others)
    ours = float(np.sum(model.losses(X, D, model.encode(X, Atoms(D), Coder(tol=1e-9)).H)))
    assert ours == pytest.approx(best, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("outliers", ["absent", "l1"])
def test_long_chains_of_groups_end_although_groups_shrink_down_to_nothing(outliers: str) -> None:
    # Each group shares half of its atoms with the next, so that codes fall off along the chain.
    k, d = 256, 64
    rng = generator("chain")
    groups = [range(i, min(i + 8, k)) for i in range(0, k - 4, 4)]
    code = GroupL2(groups, [0.4 * len(group) ** 0.5 for group in groups])
    X = rng.random((d, d))
    D = X[rng.integers(d, size=k)] + 0.3 * rng.random((k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = X[:5]
    codes = Coder(tol=1e-8).encode(X, Atoms(D), code, OUTLIERS[outliers])
    assert np.all(codes.finished) and np.max(codes.error) <= 1e-8
    H, R = cp.Variable((len(X), k)), cp.Variable(X.shape)
    value, constraints = reference.to_cvxpy(code, H)
    noise, others = reference.to_cvxpy(OUTLIERS[outliers], R)
    best = reference.minimise(cp.sum_squares(X - H @ D - R) / 2 + value + noise, constraints + others)
    model = Formulation(UnitBall(), code, OUTLIERS[outliers])
    assert float(np.sum(model.losses(X, D, codes.H))) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("k", [11, 12, 13, 50])
def test_any_number_of_equal_atoms_share_a_code(k: int) -> None:
    model = robust_nmf(0.01, 60.0, 10.0)
    codes = model.encode(np.array([[0.6]]), Atoms(np.ones((k, 1))), Coder(tol=1e-8))
    assert np.all(codes.finished)
    assert np.sum(codes.H) == pytest.approx(0.6, rel=1e-7)
    assert np.max(codes.iterations) <= 50


def fit_iterations(model: Any, X: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(max_iter|epochs|passes).*")
        return model.fit(X)


def test_codes_after_fits_whose_codes_are_not_unique_are_finished() -> None:
    # more atoms than features; few distinct columns; one entry far off
    rng = generator("fits")
    spiked = rng.random((60, 7))
    spiked[3, 2] = 1e6
    for k, X in (
        (20, load_digits().data[:100, 18:26]),
        (10, np.repeat(rng.random((100, 4)), 4, axis=1)),
        (5, spiked),
    ):
        model = fit_iterations(vrmf.RobustNMF(k, max_iter=3, random_state=0, n_jobs=1), X)
        codes = model.formulation_.encode(X, Atoms(model.components_), Coder(tol=1e-7))
        assert np.all(codes.finished)
        assert np.max(codes.error) <= 1e-7
        assert np.max(codes.iterations) <= 500
