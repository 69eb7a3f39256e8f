"""Laws of tables and their sources: the rows of the array, read chunk by chunk and never all at once."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import xarray
import zarr

from inputs import FILES, KINDS, STORED, every_kind, hdf5, npy
from inputs import without_a_cluster as without_a_cluster  # a fixture for all tests here
from tables import generator
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.sources import LocalSource, RowCheck, as_source, tables
from vrmf.sources.conversion import as_table
from vrmf.sources.tables import AbstractRowTable, AbstractTable

X = generator("tables").normal(size=(5 * STORED + 3, 4))
DTYPES = ["float64", "float32", "float16", "int64", "bool"]


def cheap(table: AbstractTable) -> bool:
    return isinstance(table, AbstractRowTable) and table.cheap_rows


# Rows --------------------------------------------------------------------------------------------


@every_kind
def test_a_table_reads_the_rows_of_the_array(kind: str, tmp_path: Path) -> None:
    table = as_table(KINDS[kind].make(X, tmp_path))
    assert table.shape == X.shape and as_table(table) is table
    assert table.in_memory is KINDS[kind].in_memory and cheap(table) is not KINDS[kind].by_blocks
    edges = [0, 1, STORED - 1, STORED, STORED + 1, 3 * STORED, len(X) - 1, len(X)]
    for start in edges:
        for stop in (stop for stop in edges if stop > start):
            np.testing.assert_array_equal(table.read(start, stop), X[start:stop])
    if isinstance(table, AbstractRowTable):
        rows = np.array([0, 2, STORED, len(X) - 1])
        np.testing.assert_array_equal(table.take(rows), X[rows])


@pytest.mark.parametrize(
    ("kind", "dtype"),
    # SciPy has no sparse matrices of float16.
    [
        (k, dtype)
        for k in KINDS
        for dtype in DTYPES
        if not KINDS[k].is_text and not (dtype == "float16" and k in ("sparse", "csc", "sparse npz", "mat"))
    ],
)
def test_single_precision_stays_and_all_else_is_double(kind: str, dtype: str, tmp_path: Path) -> None:
    numbers = (10 * np.abs(X)).astype(dtype)
    source = as_source(KINDS[kind].make(numbers, tmp_path), n_jobs=1)
    expected = np.dtype("float32" if dtype == "float32" else "float64")
    for rows in (
        source.rows(np.arange(len(X))),
        np.concatenate(list(source.map(lambda block: block.dense))),
    ):
        assert source.dtype == rows.dtype == expected
        np.testing.assert_array_equal(rows, numbers)


# Chunks ------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("rows", [1, 7, STORED, 2 * STORED + 5, 10**6])
def test_chunks_are_whole_stored_ones_of_about_a_size(
    kind: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK_BYTES", rows * X.shape[1] * 8)
    table = as_table(KINDS[kind].make(X, tmp_path))
    bounds = table.bounds(None)
    assert bounds[0] == 0 and bounds[-1] == len(X) and np.all(np.diff(bounds) > 0)
    if kind == "parquet folder":  # whose first file ends inside of nothing, but whose second begins anew
        assert np.max(np.diff(bounds)) <= max(rows, STORED)
    elif KINDS[kind].stored:
        assert np.all(bounds[:-1] % STORED == 0)
        assert np.max(np.diff(bounds)) <= max(rows, STORED)
    elif not KINDS[kind].in_memory:
        assert np.max(np.diff(bounds)) <= rows
    np.testing.assert_array_equal(table.bounds(30), [0, 30, 60, len(X)])


def test_empty_chunks_are_left_out() -> None:
    import dask.array

    empty = dask.array.from_array(X, chunks=((0, 20, 0, len(X) - 20, 0), -1))
    np.testing.assert_array_equal(as_table(empty).bounds(None), [0, 20, len(X)])
    np.testing.assert_array_equal(as_source(empty).rows(np.arange(len(X))), X)


@pytest.mark.parametrize("value", [0, -3, 2.5, "many"])
def test_chunk_rows_are_checked(value: object) -> None:
    with pytest.raises(ValueError, match=r"`chunk_rows` is .*\. Use a whole number of at least 1\."):
        as_source(X, chunk_rows=value)


@pytest.mark.parametrize("kind", ["zarr", "parquet"])
def test_what_is_read_by_chunks_cannot_be_drawn_by_rows(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'`sampling` is "rows", but .*\. Use "blocks"\.'):
        as_source(KINDS[kind].make(X, tmp_path), sampling="rows")


def test_a_large_mapped_array_is_drawn_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not as_source(npy(X, tmp_path)).layout.by_blocks
    monkeypatch.setattr(tables, "ROWS_BYTES", X.nbytes - 1)
    assert as_source(npy(X, tmp_path)).layout.by_blocks
    assert not as_source(npy(X, tmp_path), sampling="rows").layout.by_blocks


# Reading -----------------------------------------------------------------------------------------


class CountingTable(AbstractTable):
    """Rows of X, and a record of what was read and of the chunks that are alive."""

    def __init__(self, X: Array) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.began: list[int] = []
        self.most = 0
        self.living = weakref.WeakSet[Any]()
        self.news = threading.Condition()

    def read(self, start: int, stop: int) -> Array:
        chunk = self.X[start:stop].view(Chunk)
        with self.news:
            self.living.add(chunk)
            self.most = max(self.most, len(self.living))
            self.began.append(start)
            self.news.notify_all()
        return chunk

    def wait_for(self, start: int) -> bool:
        with self.news:
            return self.news.wait_for(lambda: start in self.began, timeout=5)


class Chunk(np.ndarray):
    """An array that counts in a set by what it is, not by what it holds."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self is other


LONG = generator("long").normal(size=(400, 3))


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_never_more_chunks_than_the_window_and_one(window: int, n_jobs: int) -> None:
    table = CountingTable(LONG)
    source = LocalSource(table, n_jobs, chunk_rows=20, window=window)
    for turn in range(2):
        source.reduce(lambda rows: rows.dense.sum(axis=0))
        source.rows(source.layout.spread(50))
        source.reduce(lambda rows: rows.dense.sum(), source.sample(60, 0))
        for step in range(40 * turn, 40 * (turn + 1)):
            source.reduce(lambda rows: rows.dense.sum(), source.draw(10, 0, step))
    assert table.most <= window + 1


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_pass_reads_each_chunk_once(window: int) -> None:
    table = CountingTable(LONG)
    source = LocalSource(table, 1, chunk_rows=20, window=window)
    source.reduce(lambda rows: rows.dense.sum())
    assert table.began == list(range(0, 400, 20))
    table.began.clear()
    for step in range(40):
        source.reduce(lambda rows: rows.dense.sum(), source.draw(10, 0, step))
    assert len(table.began) <= 20 + window  # those that pointers return to, and one of the next pass


def test_rows_that_fit_into_the_window_are_read_once() -> None:
    table = CountingTable(LONG)
    source = LocalSource(table, 1, chunk_rows=150)
    for step in range(5):
        source.reduce(lambda rows: rows.dense.sum())
        source.reduce(lambda rows: rows.dense.sum(), source.draw(10, 0, step))
    assert sorted(table.began) == [0, 150, 300]


def test_the_next_chunk_of_a_pass_is_read_meanwhile() -> None:
    table, seen = CountingTable(LONG), []

    def work(rows: Block) -> int:
        seen.append(len(rows))
        return int(sum(seen) == 400 or table.wait_for(sum(seen)))

    assert LocalSource(table, 1, chunk_rows=20).reduce(work) == 20


def test_the_next_chunk_of_mini_batches_is_read_meanwhile() -> None:
    table = CountingTable(LONG)
    source = LocalSource(table, 1, chunk_rows=20)
    for step in range(38):
        batch = source.draw(10, 0, step)
        assert batch.next_chunk is not None
        assert source.reduce(lambda rows, start=20 * batch.next_chunk: table.wait_for(start), batch)  # type: ignore[misc]


def test_a_failed_read_comes_through() -> None:
    class Broken(CountingTable):
        def read(self, start: int, stop: int) -> Array:
            if start >= 40:
                raise OSError("the disk is gone")
            return super().read(start, stop)

    with pytest.raises(OSError, match="the disk is gone"):
        LocalSource(Broken(LONG), 1, chunk_rows=20).reduce(lambda rows: 1)


# Checks ------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [np.inf, -np.inf]])
def test_a_row_that_is_not_finite_is_named(kind: str, bad: list[float], tmp_path: Path) -> None:
    damaged = X.copy()
    damaged[37, : len(bad)] = bad
    source = as_source(KINDS[kind].make(damaged, tmp_path), n_jobs=1, check=RowCheck("NMF"))
    for rows in (None, np.arange(30, 40)):
        with pytest.raises(ValueError, match=r"row 37, column \d.* of the data is -?(nan|inf).* leave out"):
            source.reduce(len, rows)


@every_kind
def test_a_negative_row_is_named(kind: str, tmp_path: Path) -> None:
    damaged = np.abs(X)
    damaged[37, 1] = -0.5
    source = as_source(KINDS[kind].make(damaged, tmp_path), n_jobs=1, check=RowCheck("NMF", True))
    with pytest.raises(ValueError, match=r"passed to NMF: the smallest entry of row 37 is -0\.5\. Use"):
        source.reduce(len)


def test_rows_that_are_too_long_are_refused_but_not_as_infinite() -> None:
    huge = np.full((3, 40), np.finfo(np.float32).max, dtype=np.float32)
    with pytest.raises(ValueError, match=r"The data are of size 2\.2e\+39\. In float32 use sizes between"):
        as_source(huge, check=RowCheck("NMF")).reduce(len)
    longest = np.finfo(np.float32).max ** 0.25 / 40**0.5
    assert as_source(0.99 * huge / huge * longest, check=RowCheck("NMF")).reduce(len) == 3


def test_missing_entries_are_not_finite() -> None:
    frame = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]})
    table = pyarrow.table({"a": [1, None, 3], "b": [1.0, 2.0, 3.0]})
    for data in (frame, table):
        with pytest.raises(ValueError, match=r"row 1, column \d.* of the data is nan"):
            as_source(data, check=RowCheck("NMF")).reduce(len)


NOT_NUMBERS = {
    "one dimension": (np.ones(3), r"shape \(3,\)\. Use rows and features"),
    "three dimensions": (np.ones((2, 3, 4)), r"shape \(2, 3, 4\)\. Use rows and features"),
    "complex": (np.ones((2, 2), dtype=complex), r"dtype complex128\. Use real numbers"),
    "objects": (np.array([[1, "a"]], dtype=object), r"dtype object\. Use real numbers"),
    "words": (np.array([["a", "b"]]), r"dtype <U1\. Use real numbers"),
    "frame of words": (pandas.DataFrame({"a": [1], "b": ["x"]}), r"column 'b' is of type .*\. Use columns"),
    "series": (pandas.Series([1.0, 2.0]), r"shape \(2,\)\. Use rows and features"),
    "arrow words": (pyarrow.table({"a": [1], "b": ["x"]}), r"column 'b' is of type string\. Use columns"),
    "arrow dates": (
        pyarrow.table({"a": pyarrow.array([1], pyarrow.timestamp("s"))}),
        r"column 'a' is of type timestamp.*\. Use columns",
    ),
    "arrow lists": (pyarrow.table({"a": [[1, 2]]}), r"column 'a' is of type list.*\. Use columns"),
    "xarray of one dimension": (xarray.DataArray(np.ones(3)), r"shape \(3,\)\. Use rows and features"),
    "xarray data set": (xarray.Dataset({"a": ("x", [1.0])}), r"are Dataset\. Use one array"),
}


@pytest.mark.parametrize("case", NOT_NUMBERS)
def test_what_is_no_table_of_numbers_is_refused(case: str) -> None:
    data, message = NOT_NUMBERS[case]
    with pytest.raises(ValueError, match=message):
        as_source(data)


def test_a_dask_array_of_unknown_length_is_refused() -> None:
    import dask.array

    unknown = dask.array.from_array(X, chunks=(20, -1))
    unknown = unknown[unknown[:, 0] > 0]
    with pytest.raises(ValueError, match=r"shape \(nan, 4\)\. Use X\.compute_chunk_sizes\(\)"):
        as_source(unknown)


# Files -------------------------------------------------------------------------------------------


def damaged_files() -> list[str]:
    return [name for name in ("npy", "hdf5", "parquet", "arrow file", "feather") if name in FILES]


@pytest.mark.parametrize("kind", damaged_files())
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_a_damaged_file_is_named(kind: str, share: float, tmp_path: Path) -> None:
    path = Path(KINDS[kind].make(X, tmp_path))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ValueError, match=rf"{path.name} cannot be read: .+\. Use a whole {path.suffix} file"
    ):
        as_source(path).reduce(len)


@pytest.mark.parametrize("suffix", [".npy", ".h5", ".parquet", ".arrow", ".zarr"])
def test_a_file_of_another_kind_is_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_text("these are not rows " * 50)
    with pytest.raises(ValueError, match=rf"rows{suffix} cannot be read: .+\. Use a whole {suffix} file"):
        as_source(path)


@pytest.mark.parametrize("kind", ["npz", "sparse npz", "mat", "mat 7.3"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9])
def test_files_that_are_cut_off_are_named(kind: str, share: float, tmp_path: Path) -> None:
    place = Path(str(KINDS[kind].make(X, tmp_path)).partition("::")[0])
    whole = place.read_bytes()
    place.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=rf"{place.name} (cannot be read: |holds 0 data sets)"):
        as_source(place)


def test_missing_and_unknown_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.npy does not exist\. Use the path of a file"):
        as_source(tmp_path / "none.npy")
    (tmp_path / "rows.doc").write_text("1,2")
    with pytest.raises(
        ValueError, match=r"rows\.doc is of an unknown kind\. Use one of \.csv, \.tsv, \.npy"
    ):
        as_source(tmp_path / "rows.doc")
    (tmp_path / "rows.txt").write_text("1,2")
    with pytest.raises(ValueError, match=r"unknown kind: a table in text is to be named \.csv or \.tsv"):
        as_source(tmp_path / "rows.txt")
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files and without images"):
        as_source(tmp_path)


def test_a_file_with_a_video_and_a_table_needs_the_name_of_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", video=np.zeros((3, 4, 5)), table=np.eye(4), labels=np.zeros(3))
    with pytest.raises(ValueError, match=r"table \(4, 4\), video \(3, 4, 5\)\. Name one of them: .*::NAME"):
        as_table(tmp_path / "rows.npz")
    assert as_table(f"{tmp_path / 'rows.npz'}::video").shape == (3, 20)


def test_advice_is_given_once(tmp_path: Path) -> None:
    np.save(tmp_path / "one_d.npy", np.zeros(8))
    with pytest.raises(ValueError, match="Use") as told:
        as_table(tmp_path / "one_d.npy")
    assert str(told.value).count("Use") == 1 and "one_d.npy" in str(told.value)


def test_an_archive_of_arrays_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=X)
    (tmp_path / "rows.npz").rename(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match=r"rows\.npy cannot be read: "):
        as_source(tmp_path / "rows.npy")


@pytest.mark.parametrize("array", [np.ones(3), np.ones((2, 2), dtype=complex), np.array([[None]])])
def test_a_file_without_rows_of_numbers_is_named(array: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(ValueError, match=r"rows\.npy cannot be read: .*(shape|dtype)"):
        as_source(tmp_path / "rows.npy")


def test_one_of_several_data_sets_must_be_named(tmp_path: Path) -> None:
    path = hdf5(X, tmp_path)
    with h5py.File(path, "a") as file:
        file["labels"] = np.arange(5)  # of one dimension: not in question
    np.testing.assert_array_equal(as_table(path).read(0, 2), X[:2])
    with h5py.File(path, "a") as file:
        file["other"] = 2 * X
    with pytest.raises(ValueError, match=r"2 data sets .*group/rows .*, other .*\. Name one.*h5::NAME"):
        as_source(path)
    np.testing.assert_array_equal(as_table(f"{path}::other").read(0, 2), 2 * X[:2])
    with pytest.raises(ValueError, match=r"rows\.h5 has no data set 'nothing'"):
        as_source(f"{path}::nothing")


def test_one_of_several_zarr_arrays_must_be_named(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    for name in ("a", "b"):
        group.create_array(name, data=X)
    with pytest.raises(ValueError, match=r"2 data sets .*a \(.*, b \(.*\)\. Name one of them"):
        as_source(tmp_path / "rows.zarr")
    np.testing.assert_array_equal(as_table(f"{tmp_path}/rows.zarr::b").read(0, 2), X[:2])


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hdf5(X, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(
        ImportError, match=r"needs the package h5py\. Install it with pip: \"vrmf\[files\]\""
    ):
        as_source(path)
