"""Tables of data frames of pandas and polars, and of the labelled arrays of xarray."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.sources.tables import (
    AbstractRowTable,
    AbstractTable,
    SparseTable,
    common_float_type,
    joined,
)

#: What to do about a column of a pandas data frame that does not hold numbers.
REMEDY = "drop it, or make it the index by X.set_index({name})"


class FrameTable(AbstractRowTable):
    """A pandas data frame of numbers; a block of rows at a time is made an array."""

    in_memory = True

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape
        self.dtype = common_float_type(_columns(X), REMEDY)
        self.feature_names, self.row_label = frame_names(X), index_label(X.index)

    def read(self, start: int, stop: int) -> Array:
        return self.X.iloc[start:stop].to_numpy(dtype=self.dtype, na_value=np.nan)

    def take(self, rows: Array) -> Array:
        return self.X.iloc[rows].to_numpy(dtype=self.dtype, na_value=np.nan)

    def row_names(self, start: int, stop: int) -> list[str] | None:
        return index_names(self.X.index, start, stop)

    def bounds(self, chunk_rows: int | None) -> Array:
        return np.array([0, self.shape[0]]) if chunk_rows is None else super().bounds(chunk_rows)


class SparseFrameTable(SparseTable):
    """A pandas data frame of sparse columns, whose other entries are 0."""

    def __init__(self, X: Any) -> None:
        super().__init__(X.sparse.to_coo().tocsr())
        self.feature_names, self.index, self.row_label = frame_names(X), X.index, index_label(X.index)

    def row_names(self, start: int, stop: int) -> list[str] | None:
        return index_names(self.index, start, stop)


def frame_table(X: Any) -> AbstractTable:
    """Return the table of a data frame."""
    common_float_type(_columns(X), REMEDY)
    is_sparse = all(type(kind).__name__ == "SparseDtype" and kind.fill_value == 0 for kind in X.dtypes)
    return SparseFrameTable(X) if is_sparse and len(X.columns) else FrameTable(X)


class PolarsTable(AbstractRowTable):
    """A polars data frame of numbers; a block of rows at a time is made an array, with NaN for null."""

    in_memory = True

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape
        self.dtype = common_float_type((name, _polars_type(name, kind)) for name, kind in X.schema.items())
        self.feature_names = tuple(X.columns)

    def read(self, start: int, stop: int) -> Array:
        return self._array(self.X[start:stop])

    def take(self, rows: Array) -> Array:
        return self._array(self.X[rows])

    def bounds(self, chunk_rows: int | None) -> Array:
        return np.array([0, self.shape[0]]) if chunk_rows is None else super().bounds(chunk_rows)

    def _array(self, X: Any) -> Array:
        polars = sys.modules["polars"]
        kind = polars.Float32 if self.dtype == np.float32 else polars.Float64
        return np.asarray(X.cast(kind).to_numpy(), dtype=self.dtype)


def polars_table(X: Any) -> AbstractTable:
    """Return the table of a data frame of polars."""
    kind = type(X).__name__
    if kind == "DataFrame":
        return PolarsTable(X)
    remedy = "X.collect()" if kind == "LazyFrame" else "a DataFrame of rows and features"
    raise ValueError(f"The data are a {kind} of polars. Use {remedy}.")


def _polars_type(name: str, kind: Any) -> np.dtype[Any]:
    """Return the dtype of NumPy for a column of polars, or raise if it does not hold numbers."""
    if kind.is_float() or kind.is_integer() or str(kind) == "Boolean":
        return np.dtype(np.float32 if str(kind) == "Float32" else _SHORT.get(str(kind), np.float64))
    raise ValueError(
        f"The column {name!r} is of type {kind}. Use columns of real numbers: drop it by X.drop({name!r}), "
        "or turn it into numbers."
    )


#: Types of polars whose numbers single precision holds.
_SHORT = {
    "Boolean": np.bool_,
    "Int8": np.int8,
    "UInt8": np.uint8,
    "Int16": np.int16,
    "UInt16": np.uint16,
}


def _columns(X: Any) -> list[tuple[Any, Any]]:
    """Return the names and dtypes of the columns; names may occur twice."""
    return [(name, _numpy_type(kind)) for name, kind in X.dtypes.items()]


def _numpy_type(kind: Any) -> Any:
    """Return the dtype of NumPy in a dtype of pandas: of nullable and of sparse columns."""
    return getattr(kind, "numpy_dtype", getattr(kind, "subtype", kind))


def frame_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame, or None if they are no words."""
    are_words = {isinstance(name, str) for name in X.columns}
    if len(are_words) == 2:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but some columns "
            "have names of other types. Use X.columns = X.columns.astype(str)."
        )
    if are_words != {True}:
        return None
    if not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"The column {twice!r} occurs twice. Use a name of its own for each.")
    return tuple(X.columns)


def index_label(index: Any) -> str:
    """Return what an index is called."""
    return "/".join(map(str, index.names)) if all(isinstance(name, str) for name in index.names) else "row"


def index_names(index: Any, start: int, stop: int) -> list[str] | None:
    """Return the names in a part of an index, or None if it only counts rows."""
    if type(index).__name__ == "RangeIndex":
        return None
    return [joined(name) for name in index[start:stop]]


def with_labels(table: AbstractTable, X: Any) -> AbstractTable:
    """Return the table of what is in a DataArray of xarray, with coordinates that are words as names."""
    rows, features = (_labels(X, dimension) for dimension in X.dims)
    table.feature_names = None if features is None else tuple(features)
    table.row_label = str(X.dims[0])
    if rows is not None:
        table.row_names = lambda start, stop: rows[start:stop]  # type: ignore[method-assign]
    return table


def _labels(X: Any, dimension: Any) -> list[str] | None:
    labels = X.coords[dimension].values if dimension in X.coords else None
    return None if labels is None or labels.dtype.kind not in "UOST" else list(map(str, labels))
