"""Paths: which table a file or a folder holds.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "rows.csv"
>>> _ = path.write_text("cell;size;tissue\\na;1,5;liver\\nb;2;lung\\n")
>>> table = open_table(path, FileOptions(drop=("tissue",), decimal=","))
>>> table.feature_names, table.row_names(0, 2), table.read(0, 2).tolist()
(('size',), ['a', 'b'], [[1.5], [2.0]])
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.io
import scipy.sparse
from scipy.io.matlab import MatReadError, matfile_version

from vrmf.extras import library
from vrmf.sources.arrow import ArrowTable, Columns
from vrmf.sources.images import SUFFIXES as IMAGES
from vrmf.sources.images import image_table
from vrmf.sources.options import FileOptions, NoSuchColumn
from vrmf.sources.tables import AbstractTable, ArrayTable, SlicedTable, SparseTable, two_dimensional
from vrmf.sources.text import text_table

#: The separator between the path of a file and the name of a data set in it.
INSIDE = "::"

#: Suffixes of files that hold data sets with names.
WITH_DATA_SETS = (".zarr", ".h5", ".hdf5", ".npz", ".mat")

#: Exceptions that libraries raise for files that are damaged, or whose suffix is wrong.
DAMAGE = (OSError, LookupError, EOFError, ValueError, BadZipFile, zlib.error, MatReadError)

#: The major version of MATLAB files, 7.3, that are HDF5.
HDF5_VERSION = 2

#: Suffixes of compressed texts.
COMPRESSED = (".gz", ".bz2", ".zst")


def open_table(path: Path, options: FileOptions | None = None) -> AbstractTable:
    """Return the table in a file or folder.

    Files are .npy, .npz, .zarr, .h5, .mat, .parquet, .arrow, .feather, .csv or .tsv (also .gz). A folder
    holds .parquet files or images. A data set in a file is named as in ``faces.h5::group/images``, unless
    it is the only one. Frames of a video, an array of three dimensions, become rows.
    """
    options = options or FileOptions()
    file, _, inside = ("" if path.exists() else str(path)).partition(INSIDE)
    path = Path(file) if file else path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Use the path of a file or folder with rows.")
    suffix = _suffix(path)
    if suffix not in OPENERS:
        raise ValueError(f"{path} is {_reason_against(path, suffix)}. Use one of {', '.join(OPENERS)}.")
    if inside and suffix not in WITH_DATA_SETS:
        raise ValueError(f"{path} has no data sets inside. Use its path without {INSIDE}{inside}.")
    kind = OPENERS[suffix]
    options.check_unused(path, but=kind.options)
    try:
        return kind.open(path, inside, options)
    except NoSuchColumn:
        raise
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} cannot be read: its name is no text in UTF-8, which what reads {suffix} files needs. "
            "Use another name for it."
        ) from error
    except DAMAGE as error:
        if str(error).startswith(str(path)) and isinstance(error, ValueError):
            raise
        if isinstance(error, ValueError) and ". Use " in str(error):  # which says already what to do
            raise ValueError(f"{path} cannot be read: {error}") from error
        reason = str(error).strip("'\" .").partition("\n")[0] or type(error).__name__
        what = "folder of images" if suffix == "images" else f"{suffix} file"
        raise ValueError(f"{path} cannot be read: {reason}. Use a whole {what} of rows.") from error


def takes_drop(path: Path) -> bool:
    """Whether columns of a file may be left out when it is read."""
    kind = OPENERS.get(_suffix(path))
    return kind is not None and "drop" in kind.options


def _suffix(path: Path) -> str:
    """Return the suffix that says what a file is, or what a folder holds."""
    suffix = path.suffix.lower()
    if suffix in COMPRESSED:
        suffix = Path(path.stem).suffix.lower()
    if path.is_dir() and suffix not in OPENERS:
        if any(path.glob("**/*.parquet")):
            return ".parquet"
        if any(file.suffix.lower() in IMAGES for file in path.iterdir()):
            return "images"
    return suffix


def _reason_against(path: Path, suffix: str) -> str:
    """Return why a path cannot be opened."""
    if path.is_dir():
        return "a folder without .parquet files and without images"
    if suffix in (".xlsx", ".xls", ".ods"):
        return "a spreadsheet, which is to be saved as .csv first"
    if suffix in (".mp4", ".avi", ".mov", ".mkv"):
        return "a film, whose frames are to be saved as images in a folder, or as a .npy array, first"
    if suffix in (".txt", ".dat", ".asc"):
        return "of an unknown kind: a table in text is to be named .csv or .tsv"
    return "of an unknown kind"


# One array -----------------------------------------------------------------------------------------


def _npy(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    return _array_table(np.lib.format.open_memmap(path, mode="r"))


def _npz(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    # NumPy leaves a damaged file open if it has opened it itself.
    with open(path, "rb") as stream, np.load(stream) as file:
        if "format" in file and "shape" in file and not inside:
            return SparseTable(scipy.sparse.load_npz(path).tocsr())
        shapes = {name: file[name] for name in file.files if file[name].dtype.kind in "fiub"}
    return _array_table(_only_array(path, inside, shapes))


def _mat(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    if matfile_version(path)[0] == HDF5_VERSION:
        with library("h5py", path).File(path, "r") as file:
            # Columns come first there.
            arrays = {name: np.asarray(item[()]).T for name, item in file.items() if hasattr(item, "shape")}
        return _array_table(_only_array(path, inside, arrays))
    try:
        found = scipy.io.loadmat(path)
    except TypeError as error:  # which the reader of scipy raises at an element of a wrong type
        raise ValueError(str(error)) from error
    arrays = {name: X for name, X in found.items() if not name.startswith("__") and hasattr(X, "shape")}
    numbers = {
        name: X for name, X in arrays.items() if X.dtype.kind in "fiub" and min(X.shape, default=0) > 1
    }
    X = _only_array(path, inside, arrays if inside else numbers)
    return SparseTable(two_dimensional(X).tocsr()) if scipy.sparse.issparse(X) else _array_table(X)


def _array_table(X: Any) -> AbstractTable:
    """Return the table of an array of rows, or of frames."""
    if len(X.shape) != 3:
        return (
            ArrayTable(two_dimensional(X)) if isinstance(X, np.ndarray) else SlicedTable(two_dimensional(X))
        )
    n, height, width = X.shape
    two_dimensional(np.empty((0, 0), dtype=X.dtype))  # which raises if it holds no numbers
    is_view = isinstance(X, np.ndarray) and X.flags.c_contiguous
    table = ArrayTable(X.reshape(n, height * width)) if is_view else SlicedTable(X)
    table.image_shape = (height, width)
    table.remarks = (f"{n} frames of {height} × {width} pixels",)
    return table


# Arrays in containers ------------------------------------------------------------------------------


def _zarr(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    opened = library("zarr", path).open(str(path), mode="r")
    return _array_table(_array_inside(path, inside, opened, lambda group: dict(group.arrays())))


def _hdf5(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    h5py = library("h5py", path)

    def datasets(group: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        group.visititems(
            lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
        )
        return found

    return _array_table(_array_inside(path, inside, h5py.File(path, "r"), datasets))


def _array_inside(path: Path, inside: str, opened: Any, arrays: Callable[[Any], dict[str, Any]]) -> Any:
    """Return the array that was opened, or the one in it that is wanted."""
    if hasattr(opened, "dtype") and not inside:
        return opened
    return _only_array(path, inside, {} if hasattr(opened, "dtype") else arrays(opened))


def _only_array(path: Path, inside: str, known: dict[str, Any]) -> Any:
    """Return the array with the given name, or the only one of two or three dimensions."""
    if inside and inside.strip("/") not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ValueError(f"{path} has no data set {inside!r}. Use one of those that it has: {names}.")
    if inside:
        return known[inside.strip("/")]
    found = {name: array for name, array in known.items() if len(array.shape or ()) in (2, 3)}
    if len(found) != 1:
        names = ", ".join(f"{name} {tuple(found[name].shape)}" for name in sorted(found)) or "none"
        raise ValueError(
            f"{path} holds {len(found)} data sets of two or three dimensions: {names}. "
            f"Name one of them: {path}{INSIDE}NAME."
        )
    return next(iter(found.values()))


# Tables of Arrow -----------------------------------------------------------------------------------


def _parquet(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    files = _parquet_files(path)
    fragments = list(library("pyarrow.dataset", path).dataset(files, format="parquet").get_fragments())
    schemas = {fragment.path: fragment.physical_schema for fragment in fragments}
    columns = Columns.common(schemas, options)
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


def _arrow(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    pyarrow = library("pyarrow", path)
    # A compressed batch is decompressed when it is asked for; another is a view of the mapped file.
    reader = library("pyarrow.ipc", path).open_file(pyarrow.memory_map(str(path)))
    numbers = range(reader.num_record_batches)
    sizes = [reader.get_batch(i).num_rows for i in numbers]
    columns = Columns.common({str(path): reader.schema}, options)
    return ArrowTable([partial(_read_batch, reader, i) for i in numbers], sizes, columns)


def _read_batch(reader: Any, number: int, names: list[str]) -> Any:
    return reader.get_batch(number).select(names)


# Text and images -----------------------------------------------------------------------------------


def _text(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    return text_table(path, options)


def _images(path: Path, inside: str, options: FileOptions) -> AbstractTable:
    return image_table(path)


class _Kind:
    """How a kind of file is opened, and which options say something of it."""

    def __init__(self, open: Callable[[Path, str, FileOptions], AbstractTable], *options: str) -> None:
        self.open, self.options = open, options


_TEXT = _Kind(_text, *vars(FileOptions()))
_ARROW = _Kind(_arrow, "drop", "index")

OPENERS: dict[str, _Kind] = {
    ".csv": _TEXT,
    ".tsv": _TEXT,
    ".npy": _Kind(_npy),
    ".npz": _Kind(_npz),
    ".zarr": _Kind(_zarr),
    ".h5": _Kind(_hdf5),
    ".hdf5": _Kind(_hdf5),
    ".mat": _Kind(_mat),
    ".parquet": _Kind(_parquet, "drop", "index"),
    ".arrow": _ARROW,
    ".feather": _ARROW,
    "images": _Kind(_images),
}
