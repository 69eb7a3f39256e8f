"""Laws of whole coders, on larger and harder problems than those of the tables."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import reference
from precisions import Precision, every_precision, roundings
from tables import DICTIONARIES, generator, groups
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder, Codes
from vrmf.coding.forms import EntrywiseForm, GroupForm, form_of
from vrmf.formulations import Formulation
from vrmf.terms import L1, Absent, AbstractRowTerm, Box, Free, NonNegative, Ridge, UnitBall


def windows(k: int, step: int, width: int, weight: float) -> AbstractRowTerm:
    """Groups of neighbours, of which there is one at each ``step``; they overlap if width > step."""
    columns = [range(i, min(i + width, k)) for i in range(0, k, step)]
    return groups(columns, [weight] * len(columns))


def problem(rng: np.random.Generator, k: int, d: int, n: int) -> tuple[Array, Array]:
    """Rows near sparse combinations of unit atoms, one entry in twenty far off."""
    D = rng.normal(size=(k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    H = rng.normal(size=(n, k)) * (rng.random((n, k)) < 0.3)
    X = H @ D + 0.05 * rng.normal(size=(n, d))
    return X + np.where(rng.random(X.shape) < 0.05, rng.choice([-4, 4], size=X.shape), 0), D


PLAIN: dict[str, AbstractRowTerm] = {
    "l1": L1(0.2),
    "l1+nonneg": L1(0.1) + NonNegative(),
    "l1+box": L1(0.1) + Box(-0.5, 0.5),
    "elastic-net": L1(0.2) + Ridge(0.1),
    "nonneg": NonNegative(),
    "nonneg+ridge": NonNegative() + Ridge(0.1),
    "box": Box(0.25, 0.75),
    "groups": windows(60, 4, 4, 0.3),
    "groups+ridge": windows(60, 4, 4, 0.3) + Ridge(0.1),
    "groups-overlapping": windows(60, 4, 6, 0.2),
    "groups-overlapping+ridge": windows(60, 4, 6, 0.2) + Ridge(0.1),
    "l1+ball": L1(0.05) + UnitBall(),
}

NOISY: dict[str, AbstractRowTerm] = {
    "ridge": Ridge(0.1),
    "ball": UnitBall(),
    "ball+ridge": UnitBall() + Ridge(0.1),
    "box": Box(-0.5, 0.5),
    "box-above-zero": Box(0.25, 0.75),
    "l1": L1(0.1),
    "nonneg+ridge": NonNegative() + Ridge(0.1),
    "free": Free(),
}

OUTLIERS: dict[str, AbstractRowTerm] = {"l1": L1(0.3), "l1+box": L1(0.3) + Box(-2.0, 3.0)}

#: Formulations by name; the dictionary term plays no part.
MODELS: dict[str, Formulation] = {
    **{name: Formulation(UnitBall(), code) for name, code in PLAIN.items()},
    **{
        f"{name}, outliers {kind}": Formulation(UnitBall(), code, noise)
        for name, code in NOISY.items()
        for kind, noise in OUTLIERS.items()
    },
}

every_model = pytest.mark.parametrize("name", MODELS)

#: What decides the code: entries, whose pivoting is exact, or groups.
ENTRYWISE = [name for name in MODELS if isinstance(form_of(MODELS[name].code), EntrywiseForm)]
GRADIENT = Coder(tol=1e-10, max_iter=100_000, method="gradient")


def has_ridge(model: Formulation) -> bool:
    return "Ridge" in repr(model.code)


def encode(model: Formulation, X: Array, D: Array, tol: float = 1e-10, start: Array | None = None) -> Codes:
    return model.encode(X, Atoms(D), Coder(tol=tol), start)


def distances(model: Formulation, X: Array, D: Array, H: Array, slack: float = 1e-13) -> Array:
    """The distance of 0 to the subdifferential of each row's problem, in the unit of errors."""
    minus_gradient = -model.residual(X, D, H)[0] @ D.T
    unit = np.linalg.norm(X - model.outliers.prox(X, 1.0), axis=1) * np.linalg.norm(D, 2)
    pairs = zip(H, minus_gradient, strict=True)
    found = [reference.subdifferential_distance(model.code, h, g, slack) for h, g in pairs]
    return np.array(found) / np.where(unit > 0, unit, 1)


@pytest.mark.slow
@every_model
def test_codes_are_those_of_the_proximal_gradient_method(name: str) -> None:
    model = MODELS[name]
    X, D = problem(generator(name), 60, 80, 40)
    codes, slow = encode(model, X, D), model.encode(X, Atoms(D), GRADIENT)
    assert np.all(codes.finished)
    assert np.all(slow.finished)
    assert np.all(codes.error <= 1e-10)
    assert 0.1 < np.mean(np.abs(codes.H) > 1e-3)
    losses, expected = (model.losses(X, D, H) for H in (codes.H, slow.H))
    np.testing.assert_allclose(losses, expected, rtol=1e-8)
    if has_ridge(model) or not model.has_outliers:
        np.testing.assert_allclose(codes.H, slow.H, rtol=0, atol=1e-6)
    np.testing.assert_array_less(distances(model, X[:6], D, codes.H[:6]), 2e-10)


@every_model
def test_codes_in_single_precision_are_nearly_as_good(name: str) -> None:
    model = MODELS[name]
    X, D = problem(generator(name), 60, 80, 40)
    codes = encode(model, X.astype(np.float32), D.astype(np.float32), 1e-5)
    assert codes.H.dtype == np.float32
    assert np.all(codes.finished)
    best = model.losses(X, D, encode(model, X, D).H)
    H = model.code.prox(codes.H.astype(np.float64), 1e-14)
    np.testing.assert_allclose(model.losses(X, D, H), best, rtol=1e-4)


def wide(X: Array, D: Array) -> tuple[Array, Array]:
    return X[:, :30], D[:, :30]


def nearly_equal(X: Array, D: Array) -> tuple[Array, Array]:
    return X, np.concatenate([D[:-5], D[:5] + 1e-3 * D[-5:]])


def equal_but_for_rounding(X: Array, D: Array) -> tuple[Array, Array]:
    # the squared difference is 1e-12, a few roundings of what elimination subtracts
    return X, np.concatenate([D[:-5], D[:5] + 1e-6 * D[-5:]])


def zeros_among_atoms(X: Array, D: Array) -> tuple[Array, Array]:
    return X, D * (np.arange(len(D)) % 7 > 0)[:, None]


def zeros_among_rows(X: Array, D: Array) -> tuple[Array, Array]:
    return X * (np.arange(len(X)) % 3 > 0)[:, None], D


@pytest.mark.parametrize(
    "case, tol",
    [
        (wide, 1e-8),
        (nearly_equal, 1e-8),
        (equal_but_for_rounding, 1e-6),
        (zeros_among_atoms, 1e-8),
        (zeros_among_rows, 1e-8),
    ],
)
@every_model
def test_codes_of_hard_problems_are_as_good_as_any(name: str, case: Any, tol: float) -> None:
    model = MODELS[name]
    X, D = case(*problem(generator(name), 60, 80, 6))
    codes = encode(model, X, D, tol)
    assert np.all(np.isfinite(codes.H))
    assert np.all(codes.finished)
    assert np.all(distances(model, X, D, codes.H) <= 2 * tol)
    if np.isfinite(model.code.value(0 * codes.H)):
        assert np.all(codes.H[:, ~np.any(D, axis=1)] == 0)
    slow = model.encode(X, Atoms(D), Coder(tol=tol, max_iter=2000, method="gradient"))
    others = model.losses(X, D, slow.H)
    assert np.all(model.losses(X, D, codes.H) <= others * (1 + 10 * tol) + 1e-12)


#: Terms that let the atoms fit a row exactly, or nearly so, if there are more atoms than features.
FITTING: dict[str, AbstractRowTerm] = {
    "nonneg": NonNegative(),
    "box": Box(-3.0, 3.0),
    "l1-small": L1(1e-4),
    "nonneg+ridge-small": NonNegative() + Ridge(1e-6),
    "groups-small": windows(20, 4, 4, 1e-4),
}


@pytest.mark.slow
@every_precision
@pytest.mark.parametrize("kind", ["normal", "simplex"])
@pytest.mark.parametrize("name", FITTING)
def test_rows_that_the_atoms_fit_exactly_are_finished_as_by_the_gradient_method(
    name: str, kind: str, dtype: Precision
) -> None:
    rng = generator(name + kind)
    D = DICTIONARIES[kind](rng, (20, 10))
    D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)
    X = ((rng.random((40, 20)) < 0.3) * rng.gamma(1.0, size=(40, 20)) @ D).astype(dtype)
    model = Formulation(UnitBall(), FITTING[name])
    codes, slow = (
        model.encode(X, Atoms(D), Coder(tol=1e-6, max_iter=4000, method=method))
        for method in ("auto", "gradient")
    )
    assert np.all(np.isfinite(codes.H))
    assert np.all(codes.finished | ~slow.finished)


@pytest.mark.slow
def test_codes_of_overlapping_groups_are_finished_where_atoms_outnumber_features() -> None:
    model = MODELS["groups-overlapping"]
    X, D = wide(*problem(generator("groups-overlapping"), 60, 80, 12))
    slow = model.encode(X, Atoms(D), Coder(tol=1e-6, max_iter=300, method="gradient"))
    assert np.all(slow.finished)
    assert np.all(encode(model, X, D, 1e-6).finished)


@every_precision
@pytest.mark.parametrize("code", [UnitBall(), Free(), Ridge(1e-12), UnitBall() + Ridge(1e-12)], ids=repr)
def test_the_error_bounds_the_distance_also_in_directions_that_count_as_flat(
    code: AbstractRowTerm, dtype: Precision
) -> None:
    # the difference of two atoms is so small that its square is lost in the Gram matrix, or nearly so
    model, rng = Formulation(UnitBall(), code, L1(0.3)), generator(repr(code))
    X, D = problem(rng, 20, 40, 20)
    for size in (1e-7, 1e-5, 1e-3, 1e-2):
        close = np.concatenate([D[:-3], D[:3] + size * D[-3:]]).astype(dtype)
        codes = encode(model, X.astype(dtype), close, 1e-10)
        H, atoms = codes.H.astype(np.float64), close.astype(np.float64)
        unit = np.linalg.norm(np.clip(X, -0.3, 0.3), axis=1) * np.linalg.norm(atoms, 2)
        # what rounding of x − hD does, an entry at a time
        rounding = roundings(dtype, 16) * (1 + np.linalg.norm(H, axis=1)) * np.linalg.norm(atoms, 2) ** 2
        distance = distances(model, X.astype(dtype).astype(np.float64), atoms, H, roundings(dtype, 10))
        assert np.all(distance <= codes.error * (1 + 1e-6) + rounding / unit)


def test_codes_without_weight_are_those_without_the_term() -> None:
    X, D = problem(generator("no weight"), 60, 80, 20)
    free = encode(Formulation(UnitBall(), Free()), X, D).H
    positive = encode(Formulation(UnitBall(), NonNegative()), X, D).H
    pairs = [(L1(0.0), free), (L1(0.0) + Ridge(0.0), free), (L1(0.0) + NonNegative(), positive)]
    pairs += [(windows(60, 4, 4, 0.0), free), (windows(60, 4, 6, 0.0), free)]
    for code, expected in pairs:
        codes = encode(Formulation(UnitBall(), code), X, D)
        assert np.all(codes.finished)
        np.testing.assert_allclose(codes.H, expected, rtol=0, atol=1e-7)


HUGE: dict[str, Any] = {
    "l1": L1,
    "l1+nonneg": lambda weight: L1(weight) + NonNegative(),
    "l1+ridge": lambda weight: L1(weight) + Ridge(weight),
    "ridge": Ridge,
    "nonneg+ridge": lambda weight: NonNegative() + Ridge(weight),
    "groups": lambda weight: windows(60, 4, 4, weight),
    "groups-overlapping": lambda weight: windows(60, 4, 6, weight),
    "groups+ridge": lambda weight: windows(60, 4, 4, weight) + Ridge(weight),
}


@pytest.mark.parametrize("dtype, weight", [(np.float32, 1e12), (np.float32, 1e30), (np.float64, 1e12)])
@pytest.mark.parametrize("name", HUGE)
def test_codes_under_a_large_weight_vanish(name: str, dtype: Precision, weight: float) -> None:
    X, D = (Z.astype(dtype) for Z in problem(generator(name), 60, 80, 10))
    for noise in (Absent(), L1(0.3)):
        codes = encode(Formulation(UnitBall(), HUGE[name](weight), noise), X, D, 1e-5)
        assert np.all(codes.finished)
        assert np.all(np.abs(codes.H) <= 1e-9)


@pytest.mark.parametrize("name", HUGE)
def test_codes_under_a_weight_whose_square_overflows_vanish(name: str) -> None:
    X, D = problem(generator(name), 60, 80, 10)
    for noise in (Absent(), L1(0.3)):
        codes = encode(Formulation(UnitBall(), HUGE[name](1e300), noise), X, D)
        assert np.all(codes.finished)
        assert np.all(np.abs(codes.H) <= 1e-250)


# ------------------------------------------------------------------ warm starts and tolerances


def moved(rng: np.random.Generator, D: Array, by: float = 1e-5) -> Array:
    return D + by * rng.normal(size=D.shape)


@pytest.mark.parametrize("name", [name for name in ENTRYWISE if not MODELS[name].has_outliers])
def test_pivoting_from_the_codes_of_a_dictionary_nearby_takes_few_rounds(name: str) -> None:
    model, rng = MODELS[name], generator(name)
    X, D = problem(rng, 60, 80, 40)
    start = encode(model, X, D).H
    codes = encode(model, X, moved(rng, D), start=start)
    assert np.all(codes.finished)
    assert np.max(codes.iterations) <= 8


@every_model
def test_codes_of_a_dictionary_nearby_are_a_good_start(name: str) -> None:
    model, rng = MODELS[name], generator(name)
    X, D = problem(rng, 60, 80, 40)
    start, nearby = encode(model, X, D, 1e-6).H, moved(rng, D)
    cold, warm = encode(model, X, nearby, 1e-6), encode(model, X, nearby, 1e-6, start)
    assert np.all(warm.finished)
    # with overlapping groups a code determines the sum of the dual variables only
    overlap = isinstance(form_of(model.code), GroupForm) and "overlapping" in name
    assert np.sum(warm.iterations) < np.sum(cold.iterations) + overlap
    expected = model.losses(X, nearby, cold.H)
    np.testing.assert_allclose(model.losses(X, nearby, warm.H), expected, rtol=1e-6)


@every_model
def test_a_loose_tolerance_costs_less_than_a_tight_one(name: str) -> None:
    model = MODELS[name]
    X, D = problem(generator(name), 60, 80, 40)
    loose, tight = (encode(model, X, D, tol) for tol in (1e-1, 1e-10))
    assert np.all(loose.error <= 1e-1)
    assert np.all(tight.error <= 1e-10)
    assert np.sum(loose.iterations) < np.sum(tight.iterations)


# ------------------------------------------------------------------ scales

#: From the sizes of rows and of atoms to a formulation whose codes are size of rows / size of atoms times
#: as large.
SCALED: dict[str, Any] = {
    "l1": lambda x, d: Formulation(UnitBall(), L1(0.2 * x * d)),
    "nonneg+ridge": lambda x, d: Formulation(UnitBall(), NonNegative() + Ridge(0.1 * d * d)),
    "ridge, outliers l1": lambda x, d: Formulation(UnitBall(), Ridge(0.1 * d * d), L1(0.3 * x)),
}


@pytest.mark.parametrize(
    "dtype, sizes, tol, slack",
    [(np.float32, (1e-8, 1.0, 1e8), 1e-5, 1e-3), (np.float64, (1e-70, 1.0, 1e70), 1e-9, 1e-6)],
)
@pytest.mark.parametrize("name", SCALED)
def test_codes_scale_with_rows_and_atoms(
    name: str, dtype: Precision, sizes: tuple[float, ...], tol: float, slack: float
) -> None:
    X, D = problem(generator(name), 30, 40, 20)
    expected = encode(SCALED[name](1.0, 1.0), X, D).H
    for x, d in itertools.product(sizes, sizes):
        codes = encode(SCALED[name](x, d), (x * X).astype(dtype), (d * D).astype(dtype), tol)
        assert np.all(codes.finished)
        assert np.max(codes.iterations) <= 200
        np.testing.assert_allclose(codes.H.astype(np.float64) * (d / x), expected, rtol=0, atol=slack)


# ------------------------------------------------------------------ memory


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("k, d", [(60, 4000), (60, 80)])
def test_coding_takes_memory_for_a_few_copies_of_its_rows_and_codes(name: str, k: int, d: int) -> None:
    # no array of rows × atoms × atoms, and none of atoms × atoms for each row
    model, n = MODELS[name], 512
    X, D = problem(generator(name), k, d, n)
    encode(model, X[:2], D, 1e-2)
    tracemalloc.start()
    encode(model, X, D, 1e-2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 8 * (16 * n * k + 6 * n * d * model.has_outliers + 2 * n * d + 12 * k * k + 4 * k * d)
