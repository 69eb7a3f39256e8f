"""Laws of starts: feasible, repeatable, spread over the directions of the data, and never failing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from estimator_cases import cosines, every_estimator, first_dictionary, make, rows
from tables import FORMULATIONS, generator
from vrmf import NMF, DictionaryLearning
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.dictionaries import feasible
from vrmf.estimators import AbstractFactorizer
from vrmf.formulations import Formulation
from vrmf.sources import as_source
from vrmf.starting.initial import NAMES
from vrmf.starting.multistart import MOST_WORK, STARTS, best_start, rows_for_multistart
from vrmf.starting.starts import Sample, nonnegative_singular_rows, singular_rows, spread_rows

pytestmark = pytest.mark.filterwarnings("ignore:With init='ones'")

every_name = pytest.mark.parametrize("init", NAMES)


def check_feasible(model: AbstractFactorizer, data: Array) -> Array:
    first = first_dictionary(model, data)
    source = as_source(data)
    stage = model._start(source)
    D = stage.D
    assert np.array_equal(first, D), "the same seed gives the same bits"
    assert D.shape == (model.n_components, data.shape[1]) and D.dtype == data.dtype
    assert np.all(np.isfinite(D)) and math.isfinite(stage.formulation.dictionary.value(D))
    return D


# Every name, every estimator ------------------------------------------------------------------------

DEGENERATE: dict[str, Array] = {
    "zero": np.zeros((12, 5)),
    "mostly-zero": np.where(np.arange(12)[:, None] < 10, 0.0, rows(12, 5)),
    "one-distinct-row": np.repeat(rows(1, 5), 12, axis=0),
    "one-direction": np.arange(1.0, 13)[:, None] * rows(1, 5),
    "constant": np.full((12, 5), 3.0),
    "one-row": rows(1, 5),
    "fewer-rows-than-atoms": rows(2, 5),
    "one-feature": rows(12, 1),
    "two-features": rows(12, 2),
    "a-zero-feature": rows(12, 5) * (np.arange(5) != 2),
    "single-precision": rows(12, 5).astype(np.float32),
    "tiny": 1e-30 * rows(12, 5),
    "huge": 1e30 * rows(12, 5),
    "one-giant-row": np.where(np.arange(12)[:, None] == 3, 1e8, 1.0) * rows(12, 5),
}


@every_name
@pytest.mark.parametrize("kind", DEGENERATE)
@every_estimator
def test_starts_are_feasible_on_degenerate_data(name: str, kind: str, init: str) -> None:
    check_feasible(make(name, init=init), DEGENERATE[kind])


@every_name
@pytest.mark.parametrize("n_components", [1, 9])
@every_estimator
def test_starts_are_feasible_for_one_atom_and_for_more_than_features(
    name: str, n_components: int, init: str
) -> None:
    D = check_feasible(make(name, n_components=n_components, init=init), rows(40, 5))
    assert len(np.unique(D.round(12), axis=0)) == (1 if init == "ones" else n_components), "atoms differ"


@every_name
@pytest.mark.parametrize("name", ["dictionary-learning", "nmf", "smooth-dictionary-learning", "robust-pca"])
def test_bits_of_a_start_do_not_depend_on_threads(name: str, init: str) -> None:
    data = rows(1500, 20)
    one, two = (first_dictionary(make(name, init=init, n_jobs=jobs), data) for jobs in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("c", [2.0**-40, 2.0**30])
@pytest.mark.parametrize("init", [name for name in NAMES if name != "ones"])
@pytest.mark.parametrize("name", ["dictionary-learning", "group-dictionary-learning", "nmf"])
def test_scaled_data_give_the_same_atoms(name: str, init: str, c: float) -> None:
    data = rows(60, 8)
    assert first_dictionary(make(name, init=init), c * data) == pytest.approx(
        first_dictionary(make(name, init=init), data)
    )


# Rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_spread_rows_find_every_direction(seed: int, signed: bool) -> None:
    rng = np.random.default_rng(seed)
    directions, labels = rng.standard_normal((12, 6)), np.concatenate([np.arange(12), np.zeros(300, int)])
    factors = rng.choice([-1, 1], size=312) if signed else 1
    X = (factors * rng.gamma(1.0, size=312))[:, None] * directions[labels]
    chosen = spread_rows(Sample(X, 12, signed), rng)
    found = np.abs(cosines(directions, chosen)) if signed else cosines(directions, chosen)
    assert found.max(axis=1) == pytest.approx(1), (
        "each direction is chosen, though most rows have the first"
    )
    more = spread_rows(Sample(X, 20, signed), rng)
    assert len(more) == 12, "there are no more directions"


def test_the_opposite_row_is_another_direction_only_for_codes_of_one_sign() -> None:
    X = np.array([[1.0, 2.0], [-1.0, -2.0]])
    rng = np.random.default_rng(0)
    assert len(spread_rows(Sample(X, 2, signed=True), rng)) == 1
    assert len(spread_rows(Sample(X, 2, signed=False), rng)) == 2


def test_singular_rows_span_the_leading_subspace() -> None:
    X = np.random.default_rng(0).standard_normal((50, 8)) * np.geomspace(1, 1e-2, 8)
    D = singular_rows(Sample(X, 3, signed=True), np.random.default_rng(0))
    rest = X - X @ np.linalg.pinv(D) @ D
    assert np.linalg.norm(rest) == pytest.approx(np.linalg.norm(np.linalg.svd(X)[1][3:]))


def test_nonnegative_singular_rows_are_exact_for_separate_blocks() -> None:
    rng = np.random.default_rng(0)
    X = np.zeros((40, 9))
    parts = [rng.random(3) + 0.5 for _ in range(3)]
    for number, part in enumerate(parts):
        X[number::3, 3 * number : 3 * number + 3] = (number + 1) * rng.random((len(X[number::3]), 1)) * part
    D = nonnegative_singular_rows(Sample(X[np.any(X > 0, axis=1)], 3, signed=False), rng)
    truth = np.zeros((3, 9))
    for number, part in enumerate(parts):
        truth[number, 3 * number : 3 * number + 3] = part
    assert D.min() >= 0
    assert cosines(truth, D).max(axis=1) == pytest.approx(1, abs=1e-3)


def test_rules_that_need_more_directions_than_there_are_return_what_there_is() -> None:
    sample = Sample(np.repeat(rows(1, 4), 5, axis=0), 3, signed=True)
    rng = np.random.default_rng(0)
    for rule in (spread_rows, singular_rows, nonnegative_singular_rows):
        assert len(rule(sample, rng)) == 1
        assert len(rule(Sample(np.zeros((0, 4)), 3, signed=True), rng)) == 0


# The best of several starts --------------------------------------------------------------------------


def objective(formulation: Formulation, X: Array, D: Array) -> float:
    codes = formulation.encode(X, Atoms(D), Coder(tol=1e-8))
    return float(np.mean(formulation.losses(X, D, codes.H))) + formulation.dictionary.value(D)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_the_winner_is_feasible_and_no_worse_than_any_start(name: str) -> None:
    rng = generator(name)
    formulation, X, D = FORMULATIONS[name](rng)
    starts = [D, *(feasible(formulation, D + 0.3 * rng.random(D.shape)) for _ in range(5))]
    best = best_start(formulation, X, starts)
    value = objective(formulation, X, best)
    assert math.isfinite(value)
    assert value <= min(objective(formulation, X, D) for D in starts) * (1 + 1e-3)
    assert np.array_equal(best, best_start(formulation, X, starts))


def test_too_few_rows_for_the_atoms_compare_no_starts() -> None:
    assert rows_for_multistart(10, 10, 5) == 0
    assert rows_for_multistart(11, 10, 5) == 11
    assert rows_for_multistart(1000, 20, 50) == 1000


@pytest.mark.parametrize("k", [1, 5, 30, 200])
@pytest.mark.parametrize("d", [1, 50, 1000, 100_000])
@pytest.mark.parametrize("n", [1, 100, 1000])
def test_the_cost_of_comparing_starts_is_bounded(n: int, d: int, k: int) -> None:
    count = rows_for_multistart(n, k, d)
    assert 0 <= count <= n
    assert count * STARTS * k * (k + d) <= MOST_WORK
    assert count == 0 or count > k


def clustered(seed: int, positive: bool) -> Array:
    """Return rows near ten centers, of uneven numbers."""
    rng = np.random.default_rng(seed)
    centers = rng.gamma(0.5, size=(10, 20)) if positive else rng.standard_normal((10, 20))
    labels = rng.choice(10, 300, p=rng.dirichlet(np.full(10, 2.0)))
    X = centers[labels] + 0.1 * rng.standard_normal((300, 20))
    return np.maximum(X, 0) if positive else X


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [DictionaryLearning, NMF])
def test_the_seed_does_not_decide_the_objective_on_clusters(estimator: Any) -> None:
    X = clustered(101, estimator is NMF)
    options = {"tol": 0, "max_iter": 20, "n_jobs": 1}
    found = [estimator(10, random_state=seed, **options).fit(X).objective_ for seed in range(4)]
    others = [
        estimator(10, init="data", random_state=seed, **options).fit(X).objective_ for seed in range(4)
    ]
    assert max(found) <= 1.02 * min(*found, *others)
