"""Tables of Arrow: columns are found by name, and the index that pandas wrote is no feature."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.sources.options import FileOptions
from vrmf.sources.tables import AbstractTable, common_float_type, joined, rows_per_chunk

#: What pandas calls a column for an index without a name.
NAMELESS_INDEX = re.compile(r"__index_level_\d+__")

#: By default all columns of a file are features.
WHOLE = FileOptions()

SAME = "Use files with the same columns."


@dataclass(frozen=True)
class Columns:
    """Which columns of a schema are features, which are names of rows, and the precision of the former."""

    features: tuple[str, ...]
    index: tuple[str, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, schema: Any) -> Columns:
        """Return the columns of a schema of Arrow, or raise if a feature is not a number."""
        return cls.common({"": schema})

    @classmethod
    def common(cls, schemas: Mapping[str, Any], options: FileOptions = WHOLE) -> Columns:
        """Return the columns that files have in common, or raise if one of them has others.

        The order is that of the first file. Options name columns that are no features.
        """
        first, columns = next(iter(schemas)), None
        kinds: dict[str, list[Any]] = {}
        for file, schema in schemas.items():
            found = _split(file, schema, options)
            if columns is None:
                columns = found
            _check_same(first, columns, file, found)
            for name in found[0]:
                kinds.setdefault(name, []).append(_checked_type(file, schema.field(name)))
        assert columns is not None
        dtype = common_float_type((name, np.result_type(*found)) for name, found in kinds.items())
        return cls(*columns, dtype)


class ArrowTable(AbstractTable):
    """Record batches of Arrow: a table in memory, an Arrow (Feather) file, or Parquet's row groups.

    Columns are found by name. Those that pandas wrote for its index are names of rows, not features.

    Parameters
    ----------
    pieces : list of functions
        Each takes names of columns, and returns a record batch or table that has them.
    sizes : list of int
        The rows of each piece; a chunk is a whole number of pieces.
    columns : Columns
    """

    def __init__(
        self, pieces: list[Callable[[list[str]], Any]], sizes: list[int], columns: Columns
    ) -> None:
        self.pieces, self.starts, self.index = pieces, np.cumsum([0, *sizes]), columns.index
        self.feature_names = columns.features
        if not any(NAMELESS_INDEX.fullmatch(name) for name in columns.index):
            self.row_label = "/".join(columns.index) or "row"
        self.dtype = columns.dtype
        self.shape = (int(self.starts[-1]), len(columns.features))

    def read(self, start: int, stop: int) -> Array:
        X = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        assert self.feature_names is not None
        for low, high, piece in self._pieces(start, stop, list(self.feature_names)):
            for column, name in enumerate(self.feature_names):
                X[low - start : high - start, column] = piece.column(name).to_numpy(zero_copy_only=False)
            del piece
            sys.modules["pyarrow"].default_memory_pool().release_unused()
        return X

    def row_names(self, start: int, stop: int) -> list[str] | None:
        if not self.index:
            return None
        names: list[str] = []
        for _, _, piece in self._pieces(start, stop, list(self.index)):
            columns = [piece.column(name).to_pylist() for name in self.index]
            names += [joined(parts) for parts in zip(*columns, strict=True)]
        return names

    def _pieces(self, start: int, stop: int, names: list[str]) -> Iterator[tuple[int, int, Any]]:
        """Yield what of the given columns lies between two rows, with the numbers of its rows."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for i in range(first, int(np.searchsorted(self.starts, stop))):
            low, high = max(start, int(self.starts[i])), min(stop, int(self.starts[i + 1]))
            yield low, high, self.pieces[i](names).slice(low - int(self.starts[i]), high - low)

    def bounds(self, chunk_rows: int | None) -> Array:
        if chunk_rows is not None:
            return super().bounds(chunk_rows)
        wanted = rows_per_chunk(self.shape[1], self.dtype)
        if len(self.pieces) == 0:
            return np.array([0, 0])
        bounds = [0]
        for end, beyond in zip(self.starts[1:], [*self.starts[2:], np.inf], strict=True):
            if beyond - bounds[-1] > wanted:
                bounds.append(int(end))
        return np.array(bounds if bounds[-1] == self.shape[0] else [*bounds, self.shape[0]])


def arrow_table(X: Any) -> AbstractTable:
    """Return the table of an Arrow table or record batch in memory."""
    if not hasattr(X, "schema"):
        raise ValueError(f"The data are {type(X).__name__} of pyarrow. Use a table or a record batch.")
    batches = X.to_batches() if hasattr(X, "to_batches") else [X]
    return ArrowTable(
        [batch.select for batch in batches], [batch.num_rows for batch in batches], Columns.of(X.schema)
    )


Split = tuple[tuple[str, ...], tuple[str, ...]]


def _split(file: str, schema: Any, options: FileOptions) -> Split:
    """Return the names of features and of the columns of an index, without those that are dropped."""
    names = list(schema.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{_in(file)}The column {twice[0]!r} occurs twice. Use a name of its own for each."
        )
    told = (schema.pandas_metadata or {}).get("index_columns", [])
    told = told if isinstance(told, list) else []
    options.check_names(names)
    index = [name for name in names if name in told or NAMELESS_INDEX.fullmatch(name)]
    wanted = options.index or None
    features = options.features(names, {*(() if options.index is False else index), wanted})
    if options.index is not None:
        index = [] if wanted is None else [wanted]
    return features, tuple(name for name in index if name not in options.drop)


def _check_same(first: str, wanted: Split, file: str, found: Split) -> None:
    """Raise if two files do not have the same columns, in whatever order."""
    for what, here, there in (("column", found[0], wanted[0]), ("index", found[1], wanted[1])):
        missing, strange = (sorted(set(a) - set(b)) for a, b in ((there, here), (here, there)))
        if missing:
            raise ValueError(f"{_in(file)}There is no {what} {missing[0]!r}, which {first} has. {SAME}")
        if strange:
            raise ValueError(f"{_in(file)}There is a {what} {strange[0]!r}, which {first} lacks. {SAME}")


def _in(file: str) -> str:
    return f"{file}: " if file else ""


def _checked_type(file: str, field: Any) -> Any:
    """Return the dtype of a column, or raise if it does not hold numbers."""
    known = sys.modules["pyarrow"].types
    if not any(is_kind(field.type) for is_kind in (known.is_floating, known.is_integer, known.is_boolean)):
        raise ValueError(
            f"{_in(file)}The column {field.name!r} is of type {field.type}. Use columns of real numbers; a "
            f"file is read without this one by drop=({field.name!r},) (--drop {field.name})."
        )
    return np.dtype(field.type.to_pandas_dtype())
