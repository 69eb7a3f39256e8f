"""Models among other libraries: frames of polars, generators of NumPy, hyperspy and dask-ml."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import vrmf
from estimator_cases import rows
from vrmf.sources.conversion import as_table

X = np.abs(rows(60))
NAMES = [f"gene {i}" for i in range(X.shape[1])]


def model(**options: Any) -> Any:
    given = {"n_components": 3, "max_iter": 3, "tol": 0, "random_state": 0, "n_jobs": 1}
    return vrmf.NMF(**(given | options))


# Frames of polars -------------------------------------------------------------------------------------


@pytest.fixture
def polars() -> Any:
    return pytest.importorskip("polars")


def frame(polars: Any, data: Any = X, **columns: Any) -> Any:
    return polars.DataFrame(dict(zip(NAMES, data.T, strict=True)) | columns)


def test_a_polars_frame_is_its_array_with_names(polars: Any) -> None:
    fit, plain = model().fit(frame(polars)), model().fit(X)
    np.testing.assert_array_equal(fit.components_, plain.components_)
    assert list(fit.feature_names_in_) == NAMES
    np.testing.assert_array_equal(fit.transform(frame(polars)), plain.transform(X))
    for part, expected in zip(fit.decompose(frame(polars)), plain.decompose(X), strict=True):
        np.testing.assert_array_equal(part, expected)
    assert fit.score(frame(polars)) == plain.score(X)


def test_a_stream_of_polars_frames_is_that_of_its_arrays(polars: Any) -> None:
    def batches() -> Iterator[Any]:
        yield frame(polars, X[:30])
        yield frame(polars, X[:0])
        yield frame(polars, X[30:])

    fit, plain = model().partial_fit(batches()), model().partial_fit(X[:30]).partial_fit(X[30:])
    np.testing.assert_array_equal(fit.components_, plain.components_)
    assert list(fit.feature_names_in_) == NAMES


def test_names_of_new_polars_frames_are_compared(polars: Any) -> None:
    fit = model().fit(frame(polars))
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- other"):
        fit.transform(frame(polars).rename({"gene 0": "other"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        fit.transform(frame(polars).select(NAMES[::-1]))


@pytest.mark.parametrize("kind", ["text", "category", "date", "list", "null"])
def test_polars_columns_that_are_no_numbers_are_refused(polars: Any, kind: str) -> None:
    column = {
        "text": polars.Series(["a"] * len(X)),
        "category": polars.Series(["a"] * len(X), dtype=polars.Categorical),
        "date": polars.Series([0] * len(X)).cast(polars.Date),
        "list": polars.Series([[1.0]] * len(X)),
        "null": polars.Series([None] * len(X)),
    }[kind]
    with pytest.raises(ValueError, match=r"The column 'more' is of type .*: drop it by X\.drop\('more'\)"):
        model().fit(frame(polars, more=column))


@pytest.mark.parametrize("kind", ["Float64", "Int32", "Boolean"])
def test_nulls_of_polars_are_missing_entries(polars: Any, kind: str) -> None:
    holes = polars.Series([1, None] * (len(X) // 2)).cast(getattr(polars, kind))
    with pytest.raises(ValueError, match=r"row 1, column \d+ \('more'\) of the data is nan"):
        model().fit(frame(polars, more=holes))


def test_polars_frames_that_hold_no_rows_yet_are_refused(polars: Any) -> None:
    with pytest.raises(ValueError, match=r"LazyFrame of polars\. Use X\.collect\(\)"):
        model().fit(frame(polars).lazy())
    with pytest.raises(ValueError, match=r"Series of polars\. Use a DataFrame"):
        model().fit(polars.Series(X[:, 0]))


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [
        (["Float32", "Float32"], "float32"),
        (["Float32", "Int8"], "float32"),
        (["Float32", "Float64"], "float64"),
        (["Int64", "Boolean"], "float64"),
    ],
)
def test_polars_types_are_read_in_their_precision(polars: Any, kinds: list[str], dtype: str) -> None:
    data = polars.DataFrame(
        {str(i): polars.Series([0, 1, 1]).cast(getattr(polars, k)) for i, k in enumerate(kinds)}
    )
    table = as_table(data)
    assert table.dtype == dtype and table.read(1, 3).dtype == dtype
    np.testing.assert_array_equal(table.read(1, 3), [[1, 1], [1, 1]])
    np.testing.assert_array_equal(table.take(np.array([2, 0])), [[1, 1], [0, 0]])  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", ["array", "pandas", "polars"])
@pytest.mark.parametrize("wanted", ["pandas", "polars"])
def test_codes_come_as_the_frame_that_is_wanted(polars: Any, given: str, wanted: str) -> None:
    pandas = pytest.importorskip("pandas")
    data = {
        "array": X,
        "pandas": pandas.DataFrame(X, columns=NAMES, index=range(100, 160)),
        "polars": frame(polars),
    }[given]
    fit = model().set_output(transform=wanted)
    codes, expected = fit.fit_transform(data), model().fit_transform(X)
    for found in (codes, fit.transform(data)):
        assert type(found).__module__.startswith(wanted)
        assert list(found.columns) == ["nmf0", "nmf1", "nmf2"] == list(fit.get_feature_names_out())
        np.testing.assert_array_equal(found.to_numpy(), expected)
    if given == wanted == "pandas":
        assert list(codes.index) == list(data.index)


def test_polars_in_a_pipeline(polars: Any) -> None:
    pipeline = make_pipeline(MinMaxScaler(), model()).set_output(transform="polars")
    codes = pipeline.fit_transform(frame(polars))
    assert codes.shape == (60, 3) and list(pipeline[-1].feature_names_in_) == NAMES


# Generators -------------------------------------------------------------------------------------------


def generator() -> np.random.Generator:
    return np.random.default_rng(5)


def test_a_generator_gives_a_seed_to_each_fit() -> None:
    shared, alike = generator(), generator()
    first, second = (model(random_state=shared, solver="smm").fit(X) for _ in range(2))
    for fit in (first, second):
        seed = int(alike.integers(2**31 - 1))
        assert fit.stream_.state.seed == seed
    assert shared.bit_generator.state == alike.bit_generator.state
    assert not np.array_equal(first.components_, second.components_)
    again = model(random_state=generator(), solver="smm").fit(X)
    np.testing.assert_array_equal(again.components_, first.components_)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_any_kind_of_generator_decides_the_bits(kind: Any) -> None:
    one, other = (model(random_state=np.random.Generator(kind(3))).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.components_, other.components_)


def test_clones_do_not_share_a_generator() -> None:
    estimator = model(random_state=generator())
    twin = clone(estimator)
    estimator.fit(X)
    np.testing.assert_array_equal(twin.fit(X).components_, estimator.components_)
    estimator.set_params(random_state=generator())
    assert isinstance(estimator.get_params()["random_state"], np.random.Generator)


def test_a_stream_draws_once_and_not_if_it_is_refused() -> None:
    shared, alike = generator(), generator()
    stream = model(random_state=shared)
    with pytest.raises(ValueError, match="nan"):
        stream.partial_fit(np.full_like(X, np.nan))
    with pytest.raises(ValueError, match="`init` has shape"):
        vrmf.NMF(3, random_state=shared, init=X[:2]).partial_fit(X)
    assert shared.bit_generator.state == alike.bit_generator.state
    stream.partial_fit(X[:20]).partial_fit(X[20:])
    alike.integers(2**31 - 1)
    assert shared.bit_generator.state == alike.bit_generator.state


def test_a_resumed_fit_leaves_a_generator_as_an_uninterrupted_one(tmp_path: Path) -> None:
    kept: Any = {"checkpoint": tmp_path / "c", "solver": "smm"}
    model(random_state=generator(), max_iter=1, **kept).fit(X)
    shared, alike = generator(), generator()
    resumed = model(random_state=shared, **kept).fit(X)
    reference = model(random_state=alike, solver="smm").fit(X)
    np.testing.assert_array_equal(resumed.components_, reference.components_)
    assert shared.bit_generator.state == alike.bit_generator.state
    with pytest.raises(ValueError, match="`random_state` was a Generator and is a RandomState"):
        model(random_state=np.random.RandomState(0), **kept).fit(X)


def test_a_saved_model_forgets_its_generator(tmp_path: Path) -> None:
    fit = model(random_state=generator()).fit(X)
    vrmf.save(fit, tmp_path / "m")
    assert vrmf.load(tmp_path / "m").random_state is None


@pytest.mark.parametrize("value", ["seven", -1, 1.5, np.random.default_rng])
def test_what_is_no_seed_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"Use a whole number from 0 to .* a Generator or a RandomState"):
        model(random_state=value).fit(X)


# Progress ---------------------------------------------------------------------------------------------


class Shell:
    config: ClassVar[dict[str, Any]] = {"IPKernelApp": {}}


def test_a_notebook_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tqdm import tqdm

    from vrmf.estimators import progress

    file = io.StringIO()

    def bar(**options: Any) -> Any:
        return tqdm(file=file, mininterval=0, **options)

    monkeypatch.setattr(progress, "notebook_bar", lambda: bar)
    fit = model(verbose=1).fit(X)
    told = file.getvalue()
    assert f"NMF: {fit.n_iter_} epochs" in told.splitlines()[-1].replace("it [", "epochs [")
    assert "relative stationarity" in told and "f = " in told and "passes" in told
    assert not capsys.readouterr().out
    model(verbose=0).fit(X)
    assert file.getvalue() == told


def test_lines_where_the_notebook_has_no_widgets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys
    from types import SimpleNamespace

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    model(verbose=1).fit(X)
    assert capsys.readouterr().out.count("[NMF] epoch") == 3


# Other libraries --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_incremental_of_dask_ml() -> None:
    wrappers = pytest.importorskip("dask_ml.wrappers")
    array = pytest.importorskip("dask.array").from_array(X, chunks=(20, X.shape[1]))
    wrapped = wrappers.Incremental(model(), shuffle_blocks=False).fit(array)
    plain = model()
    for start in range(0, 60, 20):
        plain.partial_fit(X[start : start + 20])
    np.testing.assert_array_equal(wrapped.estimator_.components_, plain.components_)
    np.testing.assert_array_equal(np.asarray(wrapped.transform(array)), plain.transform(X))


def test_hyperspy_decomposes_by_our_estimators() -> None:
    api = pytest.importorskip("hyperspy.api")
    signal = api.signals.Signal1D(X.reshape(6, 10, -1))
    estimator = model(max_iter=30)
    signal.decomposition(algorithm=estimator, output_dimension=3, print_info=False)
    loadings, factors = signal.get_decomposition_loadings(), signal.get_decomposition_factors()
    np.testing.assert_allclose(factors.data, estimator.components_)
    np.testing.assert_allclose(loadings.data.reshape(3, -1).T, estimator.transform(X), atol=1e-8)
