"""Names of features and rows are read from every kind of data that has them, saved, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import h5py
import numpy as np
import pandas
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse
import xarray
import zarr

import vrmf
from estimator_cases import rows
from vrmf.arrays import Array
from vrmf.sources import as_source
from vrmf.sources.conversion import as_table

X = rows(40)
NAMES = [f"gene {i}" for i in range(X.shape[1])]
ROWS = [f"cell {i}" for i in range(len(X))]
OTHERS = NAMES[::-1]


def frame(names: list[str], X: Array = X) -> Any:
    return pandas.DataFrame(X, columns=names, index=ROWS)


def parquet(names: list[str], folder: Path, X: Array) -> Path:
    frame(names, X).to_parquet(folder / "a.parquet")
    return folder / "a.parquet"


def parquet_folder(names: list[str], folder: Path, X: Array) -> Path:
    (folder / "parts").mkdir()
    frame(names, X).iloc[:25].to_parquet(folder / "parts" / "0.parquet")
    frame(names, X).iloc[25:][sorted(names)].to_parquet(folder / "parts" / "1.parquet")
    return folder / "parts"


def feather(names: list[str], folder: Path, X: Array) -> Path:
    pyarrow.feather.write_feather(pyarrow.Table.from_pandas(frame(names, X)), str(folder / "a.feather"))
    return folder / "a.feather"


def hdf5(names: list[str], folder: Path, X: Array) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file["rows"] = X
        file["rows"].attrs["feature_names"] = names
        file["rows"].attrs["row_names"] = ROWS
    return folder / "a.h5"


def zarr_array(names: list[str], folder: Path, X: Array) -> Any:
    array = zarr.create_array(folder / "a.zarr", shape=X.shape, dtype=X.dtype, chunks=(16, X.shape[1]))
    array[...] = X
    array.attrs.update({"columns": names, "index": ROWS})
    return folder / "a.zarr"


def labelled(names: list[str], X: Any) -> Any:
    return xarray.DataArray(X, dims=("cell", "gene"), coords={"gene": names, "cell": ROWS})


def lazy(names: list[str], X: Array) -> Any:
    return labelled(names, dask.array.from_array(X, chunks=(10, -1)))


KINDS: dict[str, Callable[[list[str], Path, Array], Any]] = {
    "frame": lambda names, folder, X: frame(names, X),
    "sparse frame": lambda names, folder, X: frame(names, X).astype(pandas.SparseDtype(float, 0.0)),
    "Arrow": lambda names, folder, X: pyarrow.Table.from_pandas(frame(names, X)),
    "Parquet": parquet,
    "folder of Parquet": parquet_folder,
    "Feather": feather,
    "HDF5": hdf5,
    "zarr": zarr_array,
    "xarray": lambda names, folder, X: labelled(names, X),
    "lazy xarray": lambda names, folder, X: lazy(names, X),
    "source": lambda names, folder, X: as_source(frame(names, X)),
}
WITH_ROWS = ["frame", "sparse frame", "Arrow", "Parquet", "folder of Parquet", "Feather", "zarr", "xarray"]
NAMELESS: dict[str, Callable[[list[str], Path, Array], Any]] = {
    "array": lambda names, folder, X: X,
    "sparse": lambda names, folder, X: scipy.sparse.csr_array(X),
    "array of a source": lambda names, folder, X: as_source(X),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def fitted(data: Any) -> Any:
    return vrmf.NMF(2, max_iter=2, tol=0, random_state=0, n_jobs=1).fit(data)


@every_kind
def test_names_of_features_are_learned_kept_and_checked(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind](NAMES, tmp_path, X)
    model = fitted(data)
    assert list(model.feature_names_in_) == NAMES
    vrmf.save(model, tmp_path / "m")
    same = vrmf.load(tmp_path / "m")
    np.testing.assert_array_equal(np.asarray(same.transform(data)), np.asarray(model.transform(data)))
    (tmp_path / "other").mkdir()
    other = KINDS[kind](OTHERS, tmp_path / "other", X)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        same.transform(other)


@every_kind
def test_columns_that_the_fit_did_not_see_are_named(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind](["strange", *NAMES[1:]], tmp_path, X)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- strange\n.*now missing:\n- gene 0"):
        fitted(frame(NAMES)).transform(data)


@every_kind
def test_columns_that_are_missing_are_named(kind: str, tmp_path: Path) -> None:
    model = fitted(frame(["one more", *NAMES], np.c_[X[:, 0], X]))
    with pytest.raises(ValueError, match="now missing:\n- one more"):
        model.transform(KINDS[kind](NAMES, tmp_path, X))


def test_a_column_of_words_is_named() -> None:
    for column in (["a"] * len(X), pandas.date_range("2026-01-01", periods=len(X))):
        with pytest.raises(ValueError, match=r"The column 'label' is of type .*X.set_index\('label'\)"):
            fitted(frame(NAMES).assign(label=column))


def test_columns_of_one_name_have_the_precision_of_all() -> None:
    single = pandas.DataFrame(X[:, :1].astype(np.float32))  # whose names are numbers, so that they may
    table = as_table(pandas.concat([pandas.DataFrame(X[:, 1:2]), single], axis=1))
    assert table.dtype == np.float64


def test_frames_of_dask_are_refused_with_a_remedy() -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="to_dask_array"):
        fitted(dataframe.from_pandas(frame(NAMES), npartitions=2))


def test_frames_are_not_made_of_iterators() -> None:
    model = fitted(X).set_output(transform="pandas")
    with pytest.raises(ValueError, match="An iterator of batches gives arrays"):
        model.transform(iter([X]))


def test_data_without_names_are_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="X does not have valid feature names, but NMF was fitted with"):
        fitted(frame(NAMES)).transform(as_source(X))
    with pytest.warns(UserWarning, match="X has feature names, but NMF was fitted without"):
        fitted(X).transform(as_source(frame(NAMES)))
    model = fitted(frame(NAMES))
    assert not hasattr(model.fit(as_source(X)), "feature_names_in_")


@pytest.mark.parametrize("kind", WITH_ROWS)
def test_an_index_names_rows_and_is_no_feature(kind: str, tmp_path: Path) -> None:
    table = as_table(KINDS[kind](NAMES, tmp_path, X))
    assert table.shape == X.shape
    np.testing.assert_array_equal(table.read(3, 33), X[3:33])
    assert table.row_names(0, len(X)) == ROWS and table.row_names(20, 30) == ROWS[20:30]


def test_levels_of_an_index_are_joined_and_a_plain_count_is_no_name(tmp_path: Path) -> None:
    levels = pandas.MultiIndex.from_product([["a", "b"], range(20)], names=["who", "when"])
    pandas.DataFrame(X, index=levels, columns=NAMES).to_parquet(tmp_path / "levels.parquet")
    table = as_table(tmp_path / "levels.parquet")
    assert table.shape == X.shape and table.row_names(19, 21) == ["a/19", "b/0"]
    pandas.DataFrame(X, columns=NAMES).to_parquet(tmp_path / "count.parquet")
    assert as_table(tmp_path / "count.parquet").row_names(0, 2) is None


def test_an_index_that_lost_its_metadata_is_still_no_feature(tmp_path: Path) -> None:
    table = pyarrow.Table.from_pandas(frame(NAMES)).replace_schema_metadata(None)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert as_table(tmp_path / "a.parquet").feature_names == tuple(NAMES)


# Folders of Parquet files ---------------------------------------------------------------------------


def folder_of(folder: Path, *parts: Any) -> Path:
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"{number}.parquet")
    return folder


def test_columns_of_a_folder_go_by_name(tmp_path: Path) -> None:
    shuffled = frame(NAMES).iloc[20:][[NAMES[i] for i in (3, 0, 5, 1, 4, 2)]]
    table = as_table(folder_of(tmp_path, frame(NAMES).iloc[:20], shuffled))
    np.testing.assert_array_equal(table.read(0, 40), X)
    assert table.row_names(18, 23) == ROWS[18:23]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda part: part.drop(columns=NAMES[1]), "There is no column 'gene 1', which .*0.parquet has"),
        (lambda part: part.rename(columns={NAMES[1]: "c"}), "There is no column 'gene 1'"),
        (lambda part: part.assign(extra=1.0), "There is a column 'extra', which .*0.parquet lacks"),
        (lambda part: part.assign(**{NAMES[1]: "word"}), "The column 'gene 1' is of type (large_)?string"),
        (lambda part: part.reset_index(drop=True), "There is no index '__index_level_0__'"),
    ],
    ids=["missing", "renamed", "extra", "words", "no index"],
)
def test_a_file_that_does_not_fit_the_others_is_named(change: Any, words: str, tmp_path: Path) -> None:
    folder_of(tmp_path, frame(NAMES).iloc[:20], change(frame(NAMES).iloc[20:]))
    with pytest.raises(ValueError, match=f"1.parquet: {words}"):
        as_table(tmp_path)


def test_files_that_are_no_tables_are_left_aside(tmp_path: Path) -> None:
    folder_of(tmp_path, frame(NAMES))
    for name in ("notes.txt", "_SUCCESS", ".hidden.parquet", "_metadata.parquet"):
        (tmp_path / name).write_text("notes")
    np.testing.assert_array_equal(as_table(tmp_path).read(0, 40), X)


def test_tables_without_rows_say_so(tmp_path: Path) -> None:
    empty = pyarrow.table({"a": pyarrow.array([], pyarrow.float64())})
    pyarrow.parquet.write_table(empty, tmp_path / "empty.parquet")
    for data in (empty, tmp_path / "empty.parquet"):
        with pytest.raises(ValueError, match="The data have 0 rows"):
            fitted(data)
    (tmp_path / "folder" / "none.parquet").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holds no \.parquet files"):
        as_table(tmp_path / "folder")


def test_a_missing_data_set_is_refused_with_a_list_of_those_in_the_file(tmp_path: Path) -> None:
    path = hdf5(NAMES, tmp_path, X)
    with pytest.raises(ValueError, match="has no data set 'nope'"):
        as_table(f"{path}::nope")
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(ValueError, match="has no data sets inside"):
        as_table(f"{tmp_path / 'a.npy'}::rows")


def test_a_folder_of_two_precisions_is_read_in_the_higher(tmp_path: Path) -> None:
    folder_of(tmp_path, frame(NAMES).iloc[:20].astype(np.float32), frame(NAMES).iloc[20:])
    assert as_table(tmp_path).dtype == np.float64


def test_a_column_that_occurs_twice_is_refused() -> None:
    twice = pyarrow.Table.from_arrays([pyarrow.array([1.0])] * 2, names=["a", "a"])
    with pytest.raises(ValueError, match="The column 'a' occurs twice"):
        as_table(twice)
    with pytest.raises(ValueError, match="The column 'a' occurs twice"):
        as_table(pandas.DataFrame(np.eye(2), columns=["a", "a"]))


def test_attributes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["rows"] = X
        file["rows"].attrs["feature_names"] = NAMES[:2]
    with pytest.raises(ValueError, match=f"feature_names has 2 names for {X.shape[1]}"):
        as_table(tmp_path / "a.h5")


# Entries that are no numbers ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [*NAMELESS, *KINDS])
def test_an_entry_that_is_not_finite_is_named_by_row_and_column(
    kind: str, value: float, tmp_path: Path
) -> None:
    bad = X.copy()
    bad[17, 4] = value
    name = "" if kind in NAMELESS else r" \('gene 4'\)"
    told = f"row 17, column 4{name} of the data is {value}.*leave out such rows"
    with pytest.raises(ValueError, match=told):
        fitted((NAMELESS | KINDS)[kind](NAMES, tmp_path, bad))


def test_masked_entries_are_not_taken_for_numbers() -> None:
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    np.testing.assert_array_equal(fitted(masked).components_, fitted(X).components_)
    masked[3, 2] = np.ma.masked
    for attempt in (fitted, fitted(X).transform, fitted(X).partial_fit, as_source):
        with pytest.raises(ValueError, match=r"1 masked entries, the first at \[3, 2\].*fill them"):
            attempt(masked)


def test_sparse_columns_of_pandas_are_rows_like_others() -> None:
    thin = np.where(X > np.median(X), X, 0)
    columns = pandas.DataFrame(thin, columns=NAMES)
    whole = columns.astype(pandas.SparseDtype(float, 0.0))
    mixed = columns.assign(**{NAMES[0]: pandas.arrays.SparseArray(thin[:, 0])})
    filled = columns.astype(pandas.SparseDtype(float, np.nan))
    for data in (whole, mixed, filled):
        np.testing.assert_allclose(fitted(data).components_, fitted(thin).components_, rtol=1e-7)
