"""The rows from which a suggestion is made: few, finite, and dense.

>>> import numpy as np
>>> sample = SampleRows.of(np.array([[1.0, np.nan], [2.0, 4.0], [3.0, 6.0]]))
>>> sample.rows, round(sample.missing_share, 2)
(array([[1., 5.],
       [2., 4.],
       [3., 6.]]), 0.17)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import check_range
from vrmf.sources import AbstractSource, as_source
from vrmf.sources.base import check_sizes

#: Rows that are read, at most, unless the user says otherwise.
MOST_ROWS = 2000

#: Entries that are read, at most, so that fewer rows are read if they are wide.
MOST_ENTRIES = 2**24

#: Rows that are read at least, however wide they are.
LEAST_ROWS = 200

#: Rows of the block of which singular values are computed.
BLOCK_ROWS = 1000

#: Features of this block; there may be more of them if there are fewer rows.
BLOCK_FEATURES = 400


@dataclass(frozen=True, eq=False)
class SampleRows:
    """Rows spread over the data. Missing entries are filled with the median of their feature."""

    rows: Array  #: in double precision
    is_missing: Array  #: which of the entries were NaN or infinite
    n_samples: int  #: rows of the data
    image_shape: tuple[int, int] | None  #: of a row, where the data have it
    feature_names: tuple[str, ...] | None = None  #: where the data have them

    @classmethod
    def of(cls, X: Any, max_rows: int = MOST_ROWS) -> SampleRows:
        """Read a sample of the rows of X, which is anything that ``vrmf.sources.as_source`` takes."""
        source = as_source(X)
        if source.n_samples == 0 or source.n_features == 0:
            raise ValueError(
                f"The data have {source.n_samples} rows and {source.n_features} features. Use at least one "
                "of each."
            )
        count = min(max_rows, max(LEAST_ROWS, MOST_ENTRIES // source.n_features))
        rows = source.rows(source.layout.spread(count)).astype(np.float64)
        _check_sizes(rows, source.dtype)
        names = source.feature_names
        return cls(*_filled(rows), source.n_samples, _image_shape(X, source), names and tuple(names))

    @property
    def missing_share(self) -> float:
        """The share of entries that are missing."""
        return float(np.mean(self.is_missing))

    def block(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return a block of random rows and of features spread over all, and what is missing of it."""
        n, d = self.rows.shape
        chosen = np.sort(rng.permutation(n)[:BLOCK_ROWS])
        width = max(BLOCK_FEATURES, BLOCK_ROWS * BLOCK_FEATURES // max(2 * len(chosen), 1))
        features = np.unique(np.linspace(0, d - 1, min(d, width)).astype(np.int64))
        where = np.ix_(chosen, features)
        return self.rows[where], self.is_missing[where]


def _check_sizes(rows: Array, dtype: np.dtype[Any]) -> None:
    """Raise if rows or their finite entries are of sizes that no fit takes in the dtype of the data."""
    there = np.where(np.isfinite(rows), rows, 0)
    largest = float(np.max(np.abs(there)))
    check_range(largest, largest, dtype)
    check_sizes(there, largest, dtype)


def _filled(rows: Array) -> tuple[Array, Array]:
    """Return rows without gaps, and where these were."""
    is_missing = ~np.isfinite(rows)
    if not np.any(is_missing):
        return rows, is_missing
    gaps = np.ma.masked_array(rows, is_missing)
    return np.where(is_missing, np.ma.median(gaps, axis=0).filled(0), rows), is_missing


def _image_shape(X: Any, source: AbstractSource) -> tuple[int, int] | None:
    """Return the height and width of the images in rows, if data, source or table have them."""
    for place in (X, source, getattr(source, "table", None)):
        shape = getattr(place, "image_shape", None)
        if shape is not None and len(shape) == 2 and int(shape[0]) * int(shape[1]) == source.n_features:
            return int(shape[0]), int(shape[1])
    return None
