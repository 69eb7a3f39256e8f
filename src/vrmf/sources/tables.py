"""Tables: one way to read rows from arrays, sparse matrices, data frames and files.

A table reads consecutive rows as a dense array of floats, a chunk at a time; it never reads all of
them. :func:`~vrmf.sources.conversion.as_table` finds the table for what a user has.

>>> import numpy as np, scipy.sparse
>>> table = SparseTable(scipy.sparse.csr_array(np.eye(4)))
>>> table.read(1, 3)
array([[0., 1., 0., 0.],
       [0., 0., 1., 0.]])
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from vrmf.arrays import Array

#: Bytes of a chunk that is read at once, unless the file has chunks of its own that are larger.
CHUNK_BYTES = 2**25

#: A memory-mapped array of at most so many bytes is read by single rows: it fits into the page cache of the
#: operating system.
ROWS_BYTES = 2**30

#: It has at most so many rows, too, since permutations of rows are held in memory.
MOST_ROWS = 10**6

#: Attributes of zarr arrays and data sets of HDF5 that hold names of features.
FEATURE_NAMES = ("feature_names", "columns")

#: The same for names of rows.
ROW_NAMES = ("row_names", "index")

#: How frames of a video become rows.
FLATTENED = "X.reshape(len(X), -1) makes a row of each frame, and the path of a file is taken as it is"

#: The smallest pages of operating systems, in bytes. To read a page, one entry of it is read.
PAGE = 4096


class AbstractTable(ABC):
    """Rows that can be read.

    ``in_memory`` says that any rows can be read at once and by several threads.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]  #: of the rows that are read: float32 if they are stored so, else float64
    in_memory: bool = False
    feature_names: tuple[str, ...] | None = None  #: of the columns, where they have names
    row_label: str = "row"  #: what the names of rows are called
    image_shape: tuple[int, int] | None = None  #: height and width, where each row is an image
    remarks: tuple[str, ...] = ()  #: what was inferred about the format of a file

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Return the rows from ``start`` up to ``stop``, dense."""

    def row_names(self, start: int, stop: int) -> list[str] | None:
        """Return the names of the rows from ``start`` up to ``stop``, or None if they have none."""
        return None

    def bounds(self, chunk_rows: int | None) -> Array:
        """Return where chunks begin and the last one ends."""
        n = self.shape[0]
        step = chunk_rows or rows_per_chunk(self.shape[1], self.dtype)
        return np.append(np.arange(0, n, step), n)


class AbstractRowTable(AbstractTable):
    """A table that can read single rows, and not chunks only.

    ``cheap_rows`` says that they cost about what they weigh, so that mini-batches may be uniform.
    """

    cheap_rows: bool = True

    @abstractmethod
    def take(self, rows: Array) -> Array:
        """Return the rows with the given numbers."""


class ArrayTable(AbstractRowTable):
    """An array in memory, in one chunk, or mapped from a file."""

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, X.shape, float_type(X.dtype)
        self.in_memory = not is_mapped(X)
        self.cheap_rows = self.in_memory or (X.nbytes <= ROWS_BYTES and len(X) <= MOST_ROWS)

    def read(self, start: int, stop: int) -> Array:
        X = self.X[start:stop]
        if not self.in_memory:
            touch(X)
        return X

    def take(self, rows: Array) -> Array:
        return np.asarray(self.X[rows])

    def bounds(self, chunk_rows: int | None) -> Array:
        if self.in_memory and chunk_rows is None:
            return np.array([0, self.shape[0]])
        return super().bounds(chunk_rows)


class NamedTable(ArrayTable):
    """An array whose features or rows have names."""

    def __init__(
        self,
        X: Any,
        feature_names: tuple[str, ...] | None,
        row_names: list[str] | None,
        row_label: str = "row",
    ) -> None:
        super().__init__(X)
        self.feature_names, self.row_label, self._row_names = feature_names, row_label, row_names

    def row_names(self, start: int, stop: int) -> list[str] | None:
        return None if self._row_names is None else self._row_names[start:stop]


class SparseTable(AbstractRowTable):
    """A sparse matrix in CSR form, of which a block of rows at a time is made dense."""

    in_memory = True

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, X.shape, float_type(X.dtype)

    def read(self, start: int, stop: int) -> Array:
        return self.X[start:stop].toarray()

    def take(self, rows: Array) -> Array:
        return self.X[rows].toarray()

    def bounds(self, chunk_rows: int | None) -> Array:
        return np.array([0, self.shape[0]]) if chunk_rows is None else super().bounds(chunk_rows)


class SlicedTable(AbstractTable):
    """Anything with ``shape``, ``dtype`` and slices of rows: zarr arrays, h5py data sets, dask arrays.

    Chunks are whole numbers of the chunks in which it is stored, so that none is read twice in a pass.
    Frames of a video, which has three dimensions, become rows.
    """

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, (X.shape[0], math.prod(X.shape[1:])), float_type(X.dtype)
        stored = getattr(X, "shards", None) or getattr(X, "chunks", None)
        self.stored_rows: int | None = stored[0] if stored else None
        self.feature_names = _names_in(X, FEATURE_NAMES, self.shape[1])
        self._row_names = _names_in(X, ROW_NAMES, self.shape[0])

    def row_names(self, start: int, stop: int) -> list[str] | None:
        return None if self._row_names is None else list(self._row_names[start:stop])

    def read(self, start: int, stop: int) -> Array:
        # One stored chunk after the other, since libraries unpack what they are asked for all at once.
        step = self.stored_rows or max(1, stop - start)
        rows = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        edges = [start, *range((start // step + 1) * step, stop, step), stop]
        for low, high in pairwise(edges):
            rows[low - start : high - start] = np.reshape(self.X[low:high], (high - low, self.shape[1]))
        return rows

    def bounds(self, chunk_rows: int | None) -> Array:
        if chunk_rows is None and self.stored_rows:
            wanted = rows_per_chunk(self.shape[1], self.dtype)
            chunk_rows = self.stored_rows * max(1, wanted // self.stored_rows)
        return super().bounds(chunk_rows)


class DaskTable(AbstractTable):
    """A dask array whose chunks are computed in this process, by whichever scheduler dask is set to."""

    def __init__(self, X: Any) -> None:
        if not all(isinstance(length, int) for length in X.shape):
            raise ValueError(
                f"The dask array has the shape {X.shape}. Use X.compute_chunk_sizes() to make it known."
            )
        self.X, self.shape, self.dtype = X, X.shape, float_type(X.dtype)

    def read(self, start: int, stop: int) -> Array:
        return np.asarray(self.X[start:stop].compute(), dtype=self.dtype)

    def bounds(self, chunk_rows: int | None) -> Array:
        if chunk_rows is not None:
            return super().bounds(chunk_rows)
        return np.unique(np.cumsum([0, *self.X.chunks[0]]))  # some may be empty


def _names_in(X: Any, attributes: tuple[str, ...], count: int) -> tuple[str, ...] | None:
    """Return names from an attribute of a zarr array or a data set of HDF5, or None if it has none."""
    known = getattr(X, "attrs", {})
    attribute = next((name for name in attributes if name in known), None)
    if attribute is None:
        return None
    found = known[attribute]
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in np.ravel(found).tolist()]
    if len(names) != count and attribute != attributes[0]:  # a common word, which may mean something else
        return None
    if len(names) != count:
        raise ValueError(
            f"The attribute {attributes[0]} has {len(names)} names for {count}. Use one for each."
        )
    return tuple(names)


def joined(name: Any) -> str:
    """Return the name of a row; levels of an index are joined by slashes."""
    return "/".join(map(str, name)) if isinstance(name, tuple) else str(name)


def without_mask(X: Any) -> Any:
    """Return an array without its mask, or raise if entries are masked, since these have no value."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if np.ma.is_masked(X):
        places = np.argwhere(np.ma.getmaskarray(X)).tolist()
        raise ValueError(
            f"X is a masked array with {len(places)} masked entries, the first at {places[0]}. Missing "
            "entries are not supported: fill them, as in X.filled(0), or leave their rows out."
        )
    return X.data


def two_dimensional(X: Any) -> Any:
    """Return X, or raise if it does not have rows and columns of numbers."""
    if not hasattr(X, "dtype"):
        raise ValueError(f"The data are {type(X).__name__}. Use one array of rows and features.")
    if len(X.shape) != 2:
        way = f": {FLATTENED}" if len(X.shape) > 2 else ""
        raise ValueError(f"The data have the shape {tuple(X.shape)}. Use rows and features{way}.")
    if np.dtype(X.dtype).kind not in "fiub":
        raise ValueError(f"The data are of dtype {X.dtype}. Use real numbers.")
    return X


def float_type(dtype: Any) -> np.dtype[Any]:
    """Return the precision in which numbers of a dtype are worked on."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def common_float_type(columns: Iterable[tuple[Any, Any]], remedy: str = "") -> np.dtype[Any]:
    """Return the precision for columns of given names and dtypes, or raise if one does not hold numbers.

    ``remedy`` says what to do about a column, whose name stands in it as {name}.
    """
    columns = list(columns)
    for name, kind in columns:
        if not (isinstance(kind, np.dtype | type) and np.dtype(kind).kind in "fiub"):
            raise ValueError(not_numbers(name, kind, remedy))
    return float_type(np.result_type(*(kind for _, kind in columns)) if columns else np.float64)


def not_numbers(name: Any, kind: Any, remedy: str) -> str:
    """Say that a column does not hold numbers, and what to do about it."""
    more = f": {remedy.format(name=repr(name))}" if remedy else ""
    return f"The column {name!r} is of type {kind}. Use columns of real numbers{more}."


def rows_per_chunk(n_features: int, dtype: np.dtype[Any]) -> int:
    """Return how many rows make a chunk of CHUNK_BYTES."""
    return max(1, CHUNK_BYTES // max(1, n_features * dtype.itemsize))


def touch(X: Array) -> None:
    """Have the pages of a mapped array read into the page cache, without a copy."""
    if X.flags.c_contiguous and X.size:
        np.add.reduce(X.reshape(-1)[:: max(1, PAGE // X.itemsize)])


def is_mapped(X: Any) -> bool:
    """Whether an array, or what it is a view of, is mapped from a file."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False
