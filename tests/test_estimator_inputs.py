"""Laws of what estimators take: the same model from every kind of data, no copy of it, clear refusals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import scipy.sparse
import zarr

from estimator_cases import corrupted, every_estimator, every_solver, fitted, make, rows
from inputs import FILES, KINDS, ROWLESS, STORED, every_kind, lazy, npy, zarr_folder
from inputs import without_a_cluster as without_a_cluster  # a fixture for all tests here
from vrmf.arrays import Array
from vrmf.solvers import SOLVERS
from vrmf.sources import as_source, tables

#: Frames and Arrow tables have names, arrays have none: scikit-learn notes the difference.
pytestmark = pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")

X = corrupted(rows(5 * STORED + 3))
CHUNK_BYTES = 2 * STORED * X.shape[1] * 8


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_BYTES", CHUNK_BYTES)


def twin(data: Any) -> Any:
    """Return the source of the array X in the same chunks and with the same sampling as other data."""
    layout = as_source(data).layout
    size = int(layout.sizes[0])
    source = as_source(X, n_jobs=1, chunk_rows=size, sampling=layout.sampling)
    np.testing.assert_array_equal(source.layout.bounds, layout.bounds)
    return source


# The same model ----------------------------------------------------------------------------------


@every_kind
def test_every_kind_of_data_gives_the_same_bits(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind].make(X, tmp_path)
    model = make("robust-pca").fit(data)
    expected = make("robust-pca").fit(X if KINDS[kind].in_memory else twin(data))
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.objective_ == expected.objective_ and model.n_features_in_ == X.shape[1]
    _same_answers(model, data)


@every_solver
@pytest.mark.parametrize("kind", ["zarr", "parquet"])
def test_every_solver_gives_the_same_bits(kind: str, solver: str, tmp_path: Path) -> None:
    data = KINDS[kind].make(X, tmp_path)
    model, expected = (make("nmf", solver=solver).fit(given) for given in (data, twin(data)))
    np.testing.assert_array_equal(model.components_, expected.components_)


@every_estimator
def test_every_estimator_takes_a_file(name: str, tmp_path: Path) -> None:
    data = npy(X, tmp_path)
    model, expected = (make(name, center=False).fit(given) for given in (data, twin(data)))
    np.testing.assert_array_equal(model.components_, expected.components_)
    _same_answers(model, data)


def _same_answers(model: Any, data: Any) -> None:
    """Compare codes, decomposition, objective and scores of rows with those of the array."""
    np.testing.assert_allclose(model.transform(data), model.transform(X), rtol=1e-6, atol=1e-8)
    for part, expected in zip(model.decompose(data), model.decompose(X), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-6, atol=1e-7)
    assert model.objective(data) == pytest.approx(model.objective(X), rel=1e-9)
    np.testing.assert_allclose(model.score_samples(data), model.score_samples(X), rtol=1e-6)


@pytest.mark.parametrize("kind", ["npy", "hdf5", "sparse", "dask"])
def test_a_batch_of_a_stream_may_be_of_any_kind(kind: str, tmp_path: Path) -> None:
    model, expected = make("nmf", solver="smm"), make("nmf", solver="smm")
    data = KINDS[kind].make(X, tmp_path)
    model.partial_fit(data).partial_fit(X)
    expected.partial_fit(X if KINDS[kind].in_memory else twin(data)).partial_fit(X)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["npy", "zarr", "hdf5", "arrow", "dask"])
def test_codes_of_a_fit_are_those_of_a_transformation(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind].make(X, tmp_path)
    model = make("nmf")
    codes = model.fit_transform(data)
    np.testing.assert_allclose(codes, model.transform(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["npy", "zarr", "sparse", "dask"])
def test_centring_is_that_of_the_array(kind: str, tmp_path: Path) -> None:
    model = make("robust-pca", center=True).fit(KINDS[kind].make(X, tmp_path))
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    _same_answers(model, KINDS[kind].make(X, tmp_path / "again") if kind == "sparse" else X)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
@pytest.mark.parametrize("kind", ["mapped", "fortran mapped", "strided mapped"])
def test_whole_numbers_in_a_file_become_floats(kind: str, dtype: str, tmp_path: Path) -> None:
    numbers = np.minimum(10 * X, 255).astype(dtype)
    # Chunks change the order of sums. A large ridge keeps differences of the size of rounding.
    model = make("nmf", alpha=0.1).fit(KINDS[kind].make(numbers, tmp_path))
    expected = make("nmf", alpha=0.1).fit(numbers.astype(float))
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet"])
def test_bits_do_not_depend_on_threads(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind].make(X, tmp_path)
    one, two = (make("nmf", n_jobs=n_jobs).fit(data) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)


# Lazy answers ------------------------------------------------------------------------------------


def test_answers_to_a_lazy_array_are_lazy() -> None:
    model = fitted("robust-pca")
    data = lazy(X)
    for answer in (model.transform(data), *model.decompose(data), model.score_samples(data)):
        assert isinstance(answer, dask.array.Array) and answer.chunks[0] == data.chunks[0]
    back = model.inverse_transform(model.transform(data))
    np.testing.assert_allclose(back.compute(), model.inverse_transform(model.transform(X)), atol=1e-7)


def test_a_lazy_answer_names_the_row_that_will_not_do() -> None:
    bad = X.copy()
    bad[3 * STORED + 5, 1] = np.nan
    with pytest.raises(ValueError, match=rf"row {3 * STORED + 5}, column \d.* of the data is nan"):
        fitted("nmf").transform(lazy(bad)).compute(scheduler="synchronous")


def test_an_empty_chunk_has_no_codes() -> None:
    data = dask.array.from_array(X, chunks=((0, 40, 0, len(X) - 40), -1))
    codes = fitted("nmf").transform(data).compute(scheduler="synchronous")
    np.testing.assert_allclose(codes, fitted("nmf").transform(X), rtol=1e-6, atol=1e-8)


# Memory ------------------------------------------------------------------------------------------

BIG = 2**24  #: bytes


def big(kind: str, folder: Path) -> Any:
    data = np.random.default_rng(0).random((BIG // 8 // 64, 64))
    if kind == "sparse":
        data[data < 0.98] = 0
        return scipy.sparse.csr_array(data)
    if kind == "zarr":
        return zarr_folder(data, folder, chunks=(1024, 64), compressors=None)
    return npy(data, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "solver"), [("npy", "vr"), ("npy", "smm"), ("zarr", "vr"), ("sparse", "vr")]
)
def test_no_copy_of_the_data_is_made(
    kind: str, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK_BYTES", BIG // 16)
    monkeypatch.setattr(tables, "ROWS_BYTES", 0)
    data = big(kind, tmp_path)
    model = make("nmf", solver=solver, max_iter=1, init="data")
    model.fit(np.random.default_rng(0).random((200, 64)))  # kernels are loaded
    tracemalloc.start()
    try:
        model.fit(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BIG / 2


def test_codes_may_be_kept_in_a_folder(tmp_path: Path) -> None:
    source = as_source(X, companion_folder=tmp_path)
    model = make("nmf", max_iter=4).fit(source)
    expected = make("nmf", max_iter=4).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"`companion_folder` is .*nowhere.*\. Use a folder that exists\."):
        as_source(X, companion_folder=tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"`companion_folder` is 3\. Use the path of a folder, or None\."):
        as_source(X, companion_folder=3)


# Streams -----------------------------------------------------------------------------------------


def batches() -> Iterator[Array]:
    return iter(np.array_split(X, 6))


@every_estimator
def test_a_stream_is_learned_from_batch_by_batch(name: str) -> None:
    model, expected = make(name).fit(batches()), make(name)
    for batch in batches():
        expected.partial_fit(batch)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(make(name).partial_fit(batches()).components_, expected.components_)
    assert model.n_samples_seen_ == len(X)


def test_a_fit_of_a_stream_begins_anew() -> None:
    model, expected = make("nmf").fit(X + 1).fit(batches()), make("nmf").fit(batches())
    np.testing.assert_array_equal(model.components_, expected.components_)
    centred = make("robust-pca", center=True).fit(X).set_params(center=False).fit(batches())
    assert not hasattr(centred, "mean_")


def test_answers_to_a_stream_are_streams() -> None:
    model = fitted("robust-pca")
    for method in (model.transform, model.score_samples):
        answers = method(batches())
        assert isinstance(answers, Iterator)
        np.testing.assert_allclose(np.concatenate(list(answers)), method(X), rtol=1e-6, atol=1e-8)
    parts = list(model.decompose(batches()))
    for number, expected in enumerate(model.decompose(X)):
        np.testing.assert_allclose(np.concatenate([part[number] for part in parts]), expected, atol=1e-7)
    assert model.objective(batches()) == pytest.approx(model.objective(X), rel=1e-9)
    assert model.score(batches()) == -model.objective(batches())


def test_streams_that_will_not_do_are_refused() -> None:
    model = make("nmf").fit(X)
    before = model.components_
    for method in (model.fit, model.objective):
        with pytest.raises(ValueError, match=r"The stream has no batches\. Use one with rows\."):
            method(iter([]))
    np.testing.assert_array_equal(model.components_, before)
    with pytest.raises(ValueError, match=r"can be read once only\. Use fit, then transform\."):
        model.fit_transform(batches())
    with pytest.raises(ValueError, match=r"6 features|expecting"):
        model.fit(iter([X, X[:, :4]]))


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "solver"), [*((kind, "vr") for kind in FILES), *(("hdf5", solver) for solver in SOLVERS)]
)
def test_a_fit_names_the_row_that_is_not_finite(kind: str, solver: str, tmp_path: Path) -> None:
    bad = X.copy()
    bad[37, 2] = np.inf
    data = KINDS[kind].make(bad, tmp_path)
    with pytest.raises(ValueError, match=r"row 37, column \d.* of the data is (nan|inf)"):
        make("nmf", solver=solver).fit(data)


@pytest.mark.parametrize("kind", FILES)
def test_a_fit_names_the_row_that_is_negative(kind: str, tmp_path: Path) -> None:
    bad = X.copy()
    bad[37, 2] = -1.0
    data = KINDS[kind].make(bad, tmp_path)
    for act in (make("nmf").fit, fitted("nmf").objective):
        with pytest.raises(ValueError, match=r"passed to NMF: the smallest entry of row 37 is -1\. Use"):
            act(data)
    if kind == "npy":
        make("robust-nmf").fit(data)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("kind", ["sparse", "frame", "array"])
def test_bad_rows_in_memory_are_refused(kind: str, bad: float, tmp_path: Path) -> None:
    entries = X.copy()
    entries[37, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity|Negative values in data passed to NMF"):
        make("nmf").fit(KINDS[kind].make(entries, tmp_path))


@every_kind
def test_new_rows_have_the_features_of_the_fit(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind].make(X[:, :4].copy(), tmp_path)
    for method in ("transform", "decompose", "objective", "score_samples"):
        with pytest.raises(ValueError, match=r"X has 4 features, but NMF is expecting 6 features"):
            getattr(fitted("nmf"), method)(data)


@pytest.mark.parametrize("kind", ROWLESS)
def test_data_without_rows_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"have 0 rows and 6 features\. Use at least one of each\."):
        make("nmf").fit(KINDS[kind].make(X[:0], tmp_path))


@pytest.mark.parametrize("path", ["none.npy", "none.h5::rows"])
def test_a_missing_file_is_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.\w+ does not exist\. Use the path"):
        make("nmf").fit(tmp_path / path)


def test_a_zarr_array_of_three_dimensions_is_refused(tmp_path: Path) -> None:
    images = zarr.create_array(tmp_path / "images.zarr", shape=(5, 3, 3), dtype="f8")
    with pytest.raises(ValueError, match=r"shape \(5, 3, 3\)\. Use rows and features"):
        make("nmf").fit(images)
