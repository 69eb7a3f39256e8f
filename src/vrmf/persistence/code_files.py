"""Codes in files, written block by block: .npy, .csv, .parquet or .zarr, by suffix.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "codes.csv"
>>> table = CodeTable(2, np.dtype(float), ("nmf0", "nmf1"), lambda start, stop: ["a", "b"][start:stop])
>>> write_codes(path, iter([np.array([[0.5, 0.0]]), np.array([[0.0, 2.0]])]), table)
>>> print(path.read_text())
row,nmf0,nmf1
a,0.5,0.0
b,0.0,2.0
<BLANKLINE>
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.extras import library
from vrmf.persistence.atomic import replacing, replacing_folder

#: Bytes of a chunk of a zarr array.
ZARR_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class CodeTable:
    """The shape, the names and the format of a file of codes."""

    n_rows: int
    dtype: np.dtype[Any]
    components: tuple[str, ...]  #: the names of the columns
    row_names: Callable[[int, int], Sequence[str] | None] = lambda start, stop: None
    row_label: str = "row"  #: what the names of rows are called
    overwrite: bool = True  #: whether the file may replace another

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and components."""
        return self.n_rows, len(self.components)

    @property
    def has_row_names(self) -> bool:
        """Whether rows have names."""
        return self.row_names(0, min(1, self.n_rows)) is not None

    def named(self, blocks: Iterator[Array]) -> Iterator[tuple[Array, Sequence[str] | None]]:
        """Yield blocks of codes, in the precision of the file, with the names of their rows."""
        start = 0
        for block in blocks:
            names = self.row_names(start, start + len(block))
            yield np.ascontiguousarray(block, dtype=self.dtype), names
            start += len(block)


def check_code_file(name: str, path: Path) -> None:
    """Raise if there is no format of this suffix, or if the library for it is not installed."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"`{name}` is {path}. Use a file that ends in {', '.join(FORMATS)}.")
    if needed := FORMATS[suffix].library:
        library(needed, path)


def is_folder(path: Path) -> bool:
    """Whether codes in this format are a folder."""
    return path.suffix.lower() == ".zarr"


def write_codes(path: Path, blocks: Iterator[Array], table: CodeTable) -> None:
    """Write blocks of codes, in order, into a file that is there whole or not at all."""
    FORMATS[path.suffix.lower()].write(path, blocks, table)


def _write_npy(path: Path, blocks: Iterator[Array], table: CodeTable) -> None:
    header = {"descr": table.dtype.str, "fortran_order": False, "shape": table.shape}
    with replacing(path, table.overwrite) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block, _ in table.named(blocks):
            file.write(block.data)


def _write_csv(path: Path, blocks: Iterator[Array], table: CodeTable) -> None:
    with replacing(path, table.overwrite) as file:
        file.write(_csv_lines([[*([table.row_label] if table.has_row_names else []), *table.components]]))
        for block, names in table.named(blocks):
            numbers = block.astype(np.uint8) if block.dtype == bool else block
            lines = numbers.astype(str).tolist()  # the shortest digits that give the same number back
            if names is not None:
                lines = [[name, *line] for name, line in zip(names, lines, strict=True)]
            file.write(_csv_lines(lines))


def _csv_lines(lines: list[list[str]]) -> bytes:
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines).encode()


def _quoted(text: str) -> str:
    """Return a field, in quotes where it needs them; the csv module leaves a bare carriage return alone."""
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


def _write_parquet(path: Path, blocks: Iterator[Array], table: CodeTable) -> None:
    pyarrow, parquet = library("pyarrow", path), library("pyarrow.parquet", path)
    number = pyarrow.from_numpy_dtype(table.dtype)
    fields = [(name, number) for name in table.components]
    schema = pyarrow.schema(fields)
    if table.has_row_names:
        # With this metadata pandas, and vrmf itself, read the names as the index, not as a feature.
        label = table.row_label
        described = [_described(name, str(table.dtype)) for name in table.components]
        told = {
            "index_columns": [label],
            "column_indexes": [],
            "columns": [*described, _described(label, "unicode")],
        }
        metadata = {"pandas": json.dumps(told)}
        schema = pyarrow.schema([*fields, (label, pyarrow.string())], metadata=metadata)
    with replacing(path, table.overwrite) as file, parquet.ParquetWriter(file, schema) as writer:
        for block, names in table.named(blocks):
            columns = [*block.T, *([] if names is None else [names])]
            writer.write_batch(pyarrow.record_batch(list(map(pyarrow.array, columns)), schema=schema))


def _described(name: str, kind: str) -> dict[str, Any]:
    """Return what pandas wants to know of a column."""
    numpy_type = "object" if kind == "unicode" else kind
    return {
        "name": name,
        "field_name": name,
        "pandas_type": kind,
        "numpy_type": numpy_type,
        "metadata": None,
    }


def _write_zarr(path: Path, blocks: Iterator[Array], table: CodeTable) -> None:
    zarr = library("zarr", path)
    row_bytes = max(1, table.shape[1] * table.dtype.itemsize)
    chunk = (max(1, min(table.n_rows, ZARR_CHUNK // row_bytes)), table.shape[1])
    with replacing_folder(path, table.overwrite) as folder:
        array = zarr.create_array(
            str(folder), shape=table.shape, chunks=chunk, dtype=table.dtype, overwrite=True
        )
        array.attrs["feature_names"] = list(table.components)
        if table.has_row_names:
            array.attrs["row_names"] = list(table.row_names(0, table.n_rows) or ())
        start = 0
        for whole in _in_chunks(table.named(blocks), chunk[0]):
            array[start : start + len(whole)] = whole
            start += len(whole)


def _in_chunks(blocks: Iterator[tuple[Array, Any]], size: int) -> Iterator[Array]:
    """Yield the rows of blocks in chunks of equal size, but for the last: none is written twice."""
    waiting: list[Array] = []
    count = 0
    for block, _ in blocks:
        waiting, count = [*waiting, block], count + len(block)
        while count >= size:
            rows = np.concatenate(waiting)
            yield rows[:size]
            waiting, count = [rows[size:]], count - size
    if count:
        yield np.concatenate(waiting)


@dataclass(frozen=True)
class _Format:
    """How a kind of file is written, and which library that takes."""

    write: Callable[[Path, Iterator[Array], CodeTable], None]
    library: str | None = None


FORMATS = {
    ".npy": _Format(_write_npy),
    ".csv": _Format(_write_csv),
    ".parquet": _Format(_write_parquet, "pyarrow"),
    ".zarr": _Format(_write_zarr, "zarr"),
}
