"""Paths: which table a file or a folder holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vrmf.extras import library
from vrmf.sources.arrow import ArrowTable, Columns
from vrmf.sources.tables import AbstractTable, ArrayTable, SlicedTable, two_dimensional

#: What stands between a file of HDF5 and the data set in it.
INSIDE = "::"

#: The kinds of files that have such.
WITH_DATA_SETS = (".zarr", ".h5", ".hdf5")


def open_table(path: Path) -> AbstractTable:
    """Return the table in a file: .npy, .zarr, .h5, .parquet (or a folder of them), .arrow or .feather.

    A data set in a file of HDF5 is named as in ``faces.h5::group/images``, unless it is the only one.
    """
    file, _, inside = ("" if path.exists() else str(path)).partition(INSIDE)
    path = Path(file) if file else path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Use the path of a file or folder with rows.")
    suffix = path.suffix.lower()
    if path.is_dir() and suffix not in OPENERS and any(path.glob("**/*.parquet")):
        suffix = ".parquet"
    if suffix not in OPENERS:
        raise ValueError(f"{path} is of an unknown kind. Use one of {', '.join(OPENERS)}.")
    if inside and suffix not in WITH_DATA_SETS:
        raise ValueError(f"{path} has no data sets inside. Use its path without {INSIDE}{inside}.")
    try:
        return OPENERS[suffix](path, inside)
    except (OSError, KeyError, EOFError, ValueError) as error:
        if str(error).startswith(str(path)) and isinstance(error, ValueError):
            raise
        reason = str(error).strip("'\" .").partition("\n")[0] or type(error).__name__
        raise ValueError(f"{path} cannot be read: {reason}. Use a whole {suffix} file of rows.") from error


def _npy(path: Path, inside: str) -> AbstractTable:
    return ArrayTable(two_dimensional(np.lib.format.open_memmap(path, mode="r")))


def _zarr(path: Path, inside: str) -> AbstractTable:
    opened = library("zarr", path).open(str(path), mode="r")
    return SlicedTable(_only_array(path, inside, opened, lambda group: dict(group.arrays())))


def _hdf5(path: Path, inside: str) -> AbstractTable:
    h5py = library("h5py", path)

    def datasets(group: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        group.visititems(
            lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
        )
        return found

    return SlicedTable(_only_array(path, inside, h5py.File(path, "r"), datasets))


def _only_array(path: Path, inside: str, opened: Any, arrays: Callable[[Any], dict[str, Any]]) -> Any:
    """Return the array with the given name, or the only one of two dimensions."""
    if hasattr(opened, "dtype") and not inside:
        return two_dimensional(opened)
    known = {} if hasattr(opened, "dtype") else arrays(opened)
    if inside and inside.strip("/") not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ValueError(f"{path} has no data set {inside!r}. Use one of those that it has: {names}.")
    if inside:
        return two_dimensional(known[inside.strip("/")])
    found = {name: array for name, array in known.items() if len(array.shape or ()) == 2}
    if len(found) != 1:
        names = ", ".join(sorted(found)) or "none"
        raise ValueError(
            f"{path} holds {len(found)} data sets of two dimensions ({names}). "
            f"Name one of them: {path}{INSIDE}NAME."
        )
    return two_dimensional(next(iter(found.values())))


def _parquet(path: Path, inside: str) -> AbstractTable:
    files = _parquet_files(path)
    fragments = list(library("pyarrow.dataset", path).dataset(files, format="parquet").get_fragments())
    columns = Columns.common({fragment.path: fragment.physical_schema for fragment in fragments})
    groups = [group for fragment in fragments for group in fragment.split_by_row_group()]
    sizes = [group.metadata.row_group(group.row_groups[0].id).num_rows for group in groups]
    return ArrowTable([partial(_read_group, group) for group in groups], sizes, columns)


def _parquet_files(path: Path) -> list[str]:
    """Return the files of a folder, in the order of their names, without those that are hidden."""
    if not path.is_dir():
        return [str(path)]
    found = [file for file in sorted(path.rglob("*.parquet")) if file.is_file()]
    data = [file for file in found if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not data:
        raise ValueError(f"{path} holds no .parquet files. Use a folder that does.")
    return [str(file) for file in data]


def _read_group(group: Any, names: list[str]) -> Any:
    return group.to_table(schema=group.physical_schema, columns=names, use_threads=False)


def _arrow(path: Path, inside: str) -> AbstractTable:
    pyarrow = library("pyarrow", path)
    # A compressed batch is decompressed when it is asked for; another is a view of the mapped file.
    reader = library("pyarrow.ipc", path).open_file(pyarrow.memory_map(str(path)))
    numbers = range(reader.num_record_batches)
    sizes = [reader.get_batch(i).num_rows for i in numbers]
    return ArrowTable([partial(_read_batch, reader, i) for i in numbers], sizes, Columns.of(reader.schema))


def _read_batch(reader: Any, number: int, names: list[str]) -> Any:
    return reader.get_batch(number).select(names)


OPENERS: dict[str, Callable[[Path, str], AbstractTable]] = {
    ".npy": _npy,
    ".zarr": _zarr,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
}
