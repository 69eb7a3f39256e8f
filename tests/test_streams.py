"""Laws of streams: weights follow the data, a refused batch does not count, an empty one is skipped."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas
import pytest
import scipy.sparse

import vrmf
from estimator_cases import (
    NAMES,
    WITH_OUTLIERS,
    automatic,
    codes_may_stop_short,
    corrupted,
    every_estimator,
    make,
    rows,
    stream_of,
)
from inputs import npy
from inputs import without_a_cluster as without_a_cluster  # a fixture for all tests here
from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.seen import FEWEST_ROWS, MOST_ROWS, DataSeen, remembered_rows
from vrmf.solvers import SGD, SMM
from vrmf.solvers.smm import SMMState
from vrmf.sources import as_source

X = corrupted(rows(n=42))

# The scale of a stream --------------------------------------------------------------------------------


def mixed(n: int) -> Array:
    """Return nonnegative rows of three patterns with some outlying entries."""
    rng = np.random.default_rng(n)
    patterns = np.abs(rng.standard_normal((3, 12)))
    clean = (0.5 + rng.random((n, 3))) @ patterns + 0.05 * rng.random((n, 12))
    return clean + 10 * (rng.random(clean.shape) < 0.03)


def learned(model: AbstractFactorizer, batches: list[Array]) -> AbstractFactorizer:
    for batch in batches:
        model.partial_fit(batch)
    return model


def told_weights(model: AbstractFactorizer) -> dict[str, float]:
    """Return the weights in use, and the weight of the term that stands for none."""
    told = {name: getattr(model, f"{name}_", None) for name in model.get_params(deep=False)}
    if hasattr(model, "code_"):
        told["code"] = model.code_.weight
    return {name: value for name, value in told.items() if isinstance(value, float) and value}


#: Epochs that suffice for weights to follow the noise.
ENOUGH = {name: {"max_iter": 100} for name in WITH_OUTLIERS}

CASES = [
    (name, solver)
    for name in NAMES
    for solver in ("vr", "smm", "sgd")
    # One pass of SGD does not fit codes in a ball, with or without the small batch.
    if (name, solver) != ("max-norm-decomposition", "sgd")
]


@pytest.mark.slow
@codes_may_stop_short
@pytest.mark.parametrize(("name", "solver"), CASES)
def test_a_stream_that_begins_small_ends_as_if_it_had_not(name: str, solver: str) -> None:
    data = mixed(900)
    small, rest = data[:60] / 100, np.array_split(data[60:], 14)
    options: dict[str, Any] = {"n_components": 4, "solver": solver} | ENOUGH.get(name, {})
    model = learned(automatic(name, **options), [small, *rest])
    other = learned(automatic(name, **options), rest)
    if name in WITH_OUTLIERS:  # their weights follow the noise, which streams overestimate
        assert other.outlier_alpha_ / 5 < model.outlier_alpha_ < 5 * other.outlier_alpha_
    else:
        whole = automatic(name, **options, max_iter=1).fit(np.concatenate([small, *rest]))
        ours, theirs = told_weights(model), told_weights(whole)
        assert ours.keys() == theirs.keys() and ours
        for weight, value in theirs.items():
            assert value / 1.5 < ours[weight] < 1.5 * value, weight
    model.formulation_ = other.formulation_
    slack = 2.5 if name in WITH_OUTLIERS else 1.2
    assert model.objective(data[60:]) < slack * other.objective(data[60:])


@codes_may_stop_short
@every_estimator
def test_weights_follow_a_stream_after_a_fit(name: str) -> None:
    options = ENOUGH.get(name, {})
    model = automatic(name, **options).fit(X / 100).partial_fit(X).partial_fit(X).partial_fit(X)
    whole = automatic(name, **options).fit(np.concatenate([X / 100, X, X, X]))
    if name in WITH_OUTLIERS:
        assert whole.outlier_alpha_ / 1.5 < model.outlier_alpha_ < 1.5 * whole.outlier_alpha_
        return
    ours, theirs = told_weights(model), told_weights(whole)
    for weight, value in theirs.items():
        assert value / 1.5 < ours[weight] < 1.5 * value, weight


def test_bounds_are_never_below_the_rows_seen_by_more_than_a_percent() -> None:
    model = automatic("robust-nmf")
    for scale in (1.0, 1.005, 1.02, 7.0, 3.0):
        model.partial_fit(scale * X)
        largest = max(scale, 1.0) if scale != 3.0 else 7.0
        assert model.max_code_ >= 0.99 * largest * np.linalg.norm(X, axis=1).max()
        assert model.max_outlier_ >= 0.99 * largest * X.max()


@codes_may_stop_short
@every_estimator
def test_weights_that_were_given_stay(name: str) -> None:
    given = {weight: 0.3 for weight in ("alpha", "outlier_alpha", "smoothness", "max_code", "max_outlier")}
    model = make(name)
    model.set_params(**{key: value for key, value in given.items() if hasattr(model, key)})
    for scale in (0.01, 1.0, 100.0):
        model.partial_fit(scale * X)
        assert all(getattr(model, f"{key}_") == 0.3 for key in given if hasattr(model, key))


@pytest.mark.parametrize("name", ["robust-pca", "max-norm-decomposition", "robust-nmf"])
def test_one_wild_row_does_not_move_the_weight_of_outliers(name: str) -> None:
    data = corrupted(rows(n=150))
    wild = data[:5].copy()
    wild[2] *= 1e5
    model = learned(automatic(name, **ENOUGH[name]), [data, data, data])
    before = model.outlier_alpha_
    assert model.partial_fit(wild).outlier_alpha_ == pytest.approx(before, rel=0.3)


def test_an_automatic_step_of_sgd_is_chosen_anew_with_the_scale() -> None:
    model = make("nmf", solver=SGD()).partial_fit(X / 100)
    first = stream_of(model).state.scale
    model.partial_fit(X)
    assert stream_of(model).state.scale < 1e-3 * first
    assert model.n_steps_ == 2
    given = make("nmf", solver=SGD(scale=2.0)).partial_fit(X / 100).partial_fit(X)
    assert stream_of(given).state.scale == 2.0 and stream_of(given).state.step == 2


FREE = [name for name, kind in ESTIMATORS.items() if kind._size_power]


@pytest.mark.slow
@codes_may_stop_short
@pytest.mark.parametrize("name", NAMES)
def test_estimators_say_how_their_atoms_scale(name: str) -> None:
    """Atoms of c·X are c^p times those of X."""
    # Fits of models with outliers solve several problems before the last one.
    whole: dict[str, Any] = {"max_iter": 300, "tol": 1e-3} if name in WITH_OUTLIERS else {}
    one, other = (automatic(name, **whole).fit(c * X).components_ for c in (1.0, 16.0))
    size = np.linalg.norm(other) / np.linalg.norm(one)
    assert size == pytest.approx(16.0 ** ESTIMATORS[name]._size_power, rel=1e-3)


@pytest.mark.slow
@codes_may_stop_short
@pytest.mark.parametrize("name", FREE)
def test_atoms_and_sums_that_are_rescaled_fit_each_other(name: str) -> None:
    """The state after c·X, rescaled by 1/c, is the state after X."""
    power = ESTIMATORS[name]._size_power
    options = {"solver": SMM()} | ENOUGH[name]
    one, other = (stream_of(automatic(name, **options).partial_fit(c * X)).state for c in (1.0, 16.0))
    back = SMM().rescaled(one, 16.0**power)
    assert isinstance(back, SMMState) and isinstance(other, SMMState)
    assert back.gram is not None and back.cross is not None
    assert other.gram is not None and other.cross is not None
    np.testing.assert_allclose(back.D, other.D, rtol=1e-3, atol=1e-3 * np.abs(other.D).max())
    # Codes of c·X are c^(1 − p) times those of X at their own atoms; rescaled, they still are of X.
    np.testing.assert_allclose(np.trace(back.gram) * 16.0**2, np.trace(other.gram), rtol=1e-2)
    np.testing.assert_allclose(np.linalg.norm(back.cross) * 16.0**2, np.linalg.norm(other.cross), rtol=1e-2)


# What a stream remembers ------------------------------------------------------------------------------


def seen_of(pieces: list[Array], limit: int) -> DataSeen:
    seen = DataSeen.of(DataSummary.of(as_source(pieces[0])), limit)
    for piece in pieces[1:]:
        seen = seen.after(as_source(piece), limit)
    return seen


@pytest.mark.parametrize("limit", [1, 2, 7, 64, 1000])
def test_the_sample_is_even_bounded_and_does_not_depend_on_batches(limit: int) -> None:
    data = np.random.default_rng(0).normal(size=(333, 2))
    whole = seen_of([data], limit)
    for cuts in ([1], [100, 101, 250], range(1, 333)):
        seen = seen_of(np.split(data, list(cuts)), limit)
        np.testing.assert_array_equal(seen.rows, data[:: seen.stride])
        assert min(333, limit) / 2 <= len(seen.rows) <= limit
        assert seen.stride == whole.stride and seen.sums.count == 333
        assert seen.sums.scales == pytest.approx(whole.sums.scales)
    np.testing.assert_allclose(whole.rows, data[:: whole.stride])


def test_the_sample_keeps_none_of_the_batches_alive() -> None:
    seen = seen_of([X, X], limit=8)
    assert seen.rows.base is None


def test_the_number_of_remembered_rows_follows_their_size() -> None:
    assert remembered_rows(1) == MOST_ROWS and remembered_rows(10**9) == FEWEST_ROWS
    assert remembered_rows(256) == 256
    model = make("low-rank-representation", n_components=100)
    assert model._remembered_rows(256) == 2000


def test_a_stream_without_a_sample_of_its_rows_keeps_its_weights() -> None:
    model = make("robust-nmf").fit(X)
    before = told_weights(model)
    del stream_of(model).weights["seen"]  # as in files of earlier versions
    assert told_weights(model.partial_fit(100 * X)) == before


@codes_may_stop_short
@every_estimator
def test_a_stream_in_a_file_goes_on_following(name: str, tmp_path: Path) -> None:
    model = make(name).partial_fit(X / 100).partial_fit(X)
    vrmf.save(model, tmp_path / "model")
    same = vrmf.load(tmp_path / "model").partial_fit(10 * X)
    np.testing.assert_array_equal(same.components_, model.partial_fit(10 * X).components_)
    assert told_weights(same) == told_weights(model)


# Batches that are refused -----------------------------------------------------------------------------


def spoiled(value: float, width: int = 6) -> Array:
    Z = np.resize(X, (20, width)).copy()
    Z[13, 2] = value
    return Z


#: What is given to NMF, and a part of what it says.
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nan": (lambda folder: spoiled(np.nan), "NaN"),
    "infinite": (lambda folder: spoiled(np.inf), "of the data is inf"),
    "negative": (lambda folder: spoiled(-1.0), "Negative values"),
    "too wide": (lambda folder: spoiled(1.0, width=7), "7 features"),
    "too large": (lambda folder: spoiled(1e160), "The data are of size"),
    "no rows": (lambda folder: X[:0], "0 sample"),
    "flat": (lambda folder: X[0], "Expected 2D"),
    "words": (lambda folder: np.array([["a"] * 6]), "could not convert|Unable to convert"),
    "nan in a file": (lambda folder: npy(spoiled(np.nan), folder), "row 13, column 2 of the data is nan"),
    "negative in a file": (lambda folder: npy(spoiled(-1.0), folder), "Negative values"),
    "too large in a file": (lambda folder: npy(spoiled(1e160), folder), "The data are of size"),
    "too wide in a file": (lambda folder: npy(spoiled(1.0, width=7), folder), "7 features"),
    "nan in a sparse matrix": (lambda folder: scipy.sparse.csr_array(spoiled(np.nan)), "NaN"),
    "too large, sparse": (lambda folder: scipy.sparse.csr_array(spoiled(1e160)), "The data are of size"),
    "nan, lazy": (lambda folder: dask.array.from_array(spoiled(np.nan), chunks=7), "row 13, column 2"),
}
every_refusal = pytest.mark.parametrize("case", REFUSED)
#: How a model comes to the batch that it refuses.
BEFORE: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda model: model,
    "fit": lambda model: model.fit(X),
    "stream": lambda model: model.partial_fit(X[:20]).partial_fit(X),
    "stream of frames": lambda model: model.partial_fit(pandas.DataFrame(X, columns=list("abcdef"))),
}


def assert_untouched(model: AbstractFactorizer, before: dict[str, Any], copied: dict[str, Any]) -> None:
    """Assert that all attributes are the same objects, and that arrays among them were not written to."""
    assert vars(model).keys() == before.keys()
    for name, value in before.items():
        assert vars(model)[name] is value, name
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, copied[name], name)
    if "stream_" in before:
        np.testing.assert_array_equal(stream_of(model).state.D, copied["stream_"].state.D)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("origin", BEFORE)
@pytest.mark.parametrize("solver", ["vr", "sgd"])
@every_refusal
def test_a_refused_batch_does_not_count(case: str, solver: str, origin: str, tmp_path: Path) -> None:
    make_batch, match = REFUSED[case]
    if case.startswith("too wide") and origin == "nothing":
        make_batch, match = REFUSED["nan"]  # any width is right for the first batch
    generator = np.random.RandomState(0)
    model = BEFORE[origin](make("nmf", solver=solver, random_state=generator))
    before, copied = dict(vars(model)), copy.deepcopy(dict(vars(model)))
    drawn = copy.deepcopy(generator).random_sample(5)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(make_batch(tmp_path))
    assert_untouched(model, before, copied)
    np.testing.assert_array_equal(generator.random_sample(5), drawn)


@pytest.mark.parametrize("change", [{"n_components": 5}, {"max_iter": 0}, {"solver": "none"}])
def test_a_batch_that_parameters_refuse_does_not_count(change: dict[str, Any]) -> None:
    model = make("nmf").partial_fit(X).set_params(**change)
    before, copied = dict(vars(model)), copy.deepcopy(dict(vars(model)))
    with pytest.raises(ValueError, match=next(iter(change))):
        model.partial_fit(X)
    assert_untouched(model, before, copied)


@every_estimator
def test_a_step_that_fails_does_not_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(name).partial_fit(X)
    before, copied = dict(vars(model)), copy.deepcopy(dict(vars(model)))

    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SMM, "absorb", interrupted)
        model.partial_fit(100 * X)
    assert_untouched(model, before, copied)
    again = make(name).partial_fit(X).partial_fit(X[:9])
    np.testing.assert_array_equal(model.partial_fit(X[:9]).components_, again.components_)


def test_batches_before_the_refused_one_count() -> None:
    model, expected = make("nmf"), make("nmf").partial_fit(X[:9]).partial_fit(X[9:])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(iter([X[:9], X[9:], spoiled(np.nan), X]))
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.n_samples_seen_ == len(X)


@pytest.mark.parametrize("batches", [[spoiled(np.nan), X], [X[:0], spoiled(-1.0)], [], [X[:0]]])
def test_a_fit_of_a_stream_whose_beginning_is_refused_leaves_the_model(batches: list[Array]) -> None:
    model = make("nmf").fit(X)
    before, copied = dict(vars(model)), copy.deepcopy(dict(vars(model)))
    with pytest.raises(ValueError, match=r"NaN|Negative|The stream has no"):
        model.fit(iter(batches))
    assert_untouched(model, before, copied)


# Batches without rows ---------------------------------------------------------------------------------

EMPTY: dict[str, Callable[[Path], Any]] = {
    "array": lambda folder: X[:0],
    "sparse": lambda folder: scipy.sparse.csr_array((0, 6)),
    "frame": lambda folder: pandas.DataFrame(X[:0]),
    "file": lambda folder: npy(X[:0], folder),
    "lazy": lambda folder: dask.array.zeros((0, 6)),
}
every_empty = pytest.mark.parametrize("kind", EMPTY)


@every_empty
def test_empty_batches_are_skipped(kind: str, tmp_path: Path) -> None:
    nothing = EMPTY[kind](tmp_path)
    expected = make("nmf").fit(iter([X[:9], X[9:]]))
    for method in ("fit", "partial_fit"):
        model = getattr(make("nmf"), method)(iter([nothing, X[:9], nothing, nothing, X[9:], nothing]))
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert (model.n_samples_seen_, model.n_steps_) == (len(X), 2)


@every_empty
def test_answers_to_empty_batches_are_empty(kind: str, tmp_path: Path) -> None:
    model = make("robust-nmf").fit(X)
    nothing = EMPTY[kind](tmp_path)
    assert [len(codes) for codes in model.transform(iter([nothing, X, nothing]))] == [0, len(X), 0]
    assert [len(scores) for scores in model.score_samples(iter([X, nothing]))] == [len(X), 0]
    shapes = [(L.shape, S.shape) for L, S in model.decompose(iter([nothing, X]))]
    assert shapes == [((0, 6), (0, 6)), (X.shape, X.shape)]
    assert next(model.transform(iter([nothing]))).shape == (0, 3)
    assert model.objective(iter([nothing, X, nothing])) == model.objective(X)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "objective", "explained_variance_ratio"])
def test_a_stream_without_rows_is_refused(method: str) -> None:
    model = make("nmf").fit(X)
    with pytest.raises(ValueError, match=r"The stream has no rows: all of its 2 batches are empty\. Use"):
        getattr(model, method)(iter([X[:0], X[:0]]))
    with pytest.raises(ValueError, match=r"The stream has no batches\. Use one with rows\."):
        getattr(model, method)(iter([]))


def test_empty_batches_of_another_width_are_refused() -> None:
    for batches in ([X, X[:0, :4]], [X, X[:0, :4], X]):
        with pytest.raises(ValueError, match="X has 4 features, but NMF is expecting 6"):
            make("nmf").fit(iter(batches))
    model = make("nmf").fit(X)
    for method in ("partial_fit", "transform", "objective"):
        with pytest.raises(ValueError, match="X has 4 features, but NMF is expecting 6"):
            answer = getattr(model, method)(iter([X[:0, :4]]))
            list(answer)
    assert model.fit(iter([X[:0, :4], X[:, :4]])).n_features_in_ == 4, "a fit begins anew"
