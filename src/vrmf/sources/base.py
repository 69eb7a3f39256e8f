"""What every source does: apply a function to blocks of rows, and add up the results."""

from __future__ import annotations

import copy
import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import check_range, is_too_long
from vrmf.running.clock import Clock
from vrmf.sources.companions import Carry, Companion
from vrmf.sources.layout import Layout
from vrmf.sources.selection import Batch, Rows, Sample

T = TypeVar("T")


@dataclass(frozen=True)
class RowCheck:
    """What a block of rows must satisfy when it is read."""

    name: str  #: of the estimator that asks
    nonnegative: bool = False
    feature_names: tuple[str, ...] | None = None

    def __call__(self, X: Array, numbers: Any, dtype: np.dtype[Any]) -> None:
        """Raise if a row has NaN or infinite entries, negative ones where there must be none, or too large.

        ``numbers`` are those of the rows, ``dtype`` is the precision in which they will be worked on.
        """
        low, high = float(np.min(X, initial=0)), float(np.max(X, initial=0))
        if not (math.isfinite(low) and math.isfinite(high)):
            place, column = np.argwhere(~np.isfinite(X))[0].tolist()
            raise ValueError(self.not_finite(_number(numbers, place), column, X[place, column]))
        if self.nonnegative and low < 0:
            row = _number(numbers, int(np.argmin(np.min(X, axis=1))))
            raise ValueError(
                f"Negative values in data passed to {self.name}: the smallest entry of row {row} is "
                f"{low:g}. Use data without negative entries, or RobustNMF, whose outliers absorb them."
            )
        check_sizes(X, max(-low, high), dtype)

    def not_finite(self, row: int, column: int, value: float) -> str:
        """Return what is to be said of an entry that is not a finite number."""
        name = "" if self.feature_names is None else f" ({self.feature_names[column]!r})"
        return (
            f"The entry in row {row}, column {column}{name} of the data is {value}. {self.name} takes no "
            "NaN or infinite entries: leave out such rows or columns, or fill them in, as SimpleImputer of "
            "scikit-learn does."
        )


def check_sizes(X: Any, largest_entry: float, dtype: Any, what: str = "data") -> None:
    """Raise if a row of X, dense or sparse, is too long for the dtype; entries are as large as given."""
    if not is_too_long(largest_entry * X.shape[1] ** 0.5, dtype):
        return
    scaled = X / largest_entry  # whose squares do not overflow
    squares = scaled.multiply(scaled) if scipy.sparse.issparse(X) else np.square(scaled)
    check_range(largest_entry * float(np.max(squares.sum(axis=1))) ** 0.5, largest_entry, dtype, what)


def _number(numbers: Any, place: int) -> int:
    return int(numbers.start + place if isinstance(numbers, slice) else numbers[place])


@dataclass(frozen=True, eq=False)
class Reading:
    """What is done to a block of rows when it is read."""

    dtype: np.dtype[Any]
    mean: Array | None = None  #: subtracted from each row
    check: RowCheck | None = None

    def __call__(self, X: Array, numbers: Any) -> Array:
        """Return the rows with the given numbers, checked, in their precision, and shifted."""
        if self.check is not None:
            self.check(X, numbers, self.dtype)
        X = np.ascontiguousarray(X, dtype=self.dtype)
        return X if self.mean is None else X - self.mean


class AbstractSource(ABC):
    """Rows of data, somewhere.

    Functions that are mapped or summed may run in other threads or processes: they must be pure, and
    those of the library can be pickled.
    """

    n_features: int
    reading: Reading
    layout: Layout

    #: The names of features, where they have some.
    feature_names: tuple[str, ...] | None = None

    #: What the names of rows are called.
    row_label: str = "row"

    #: What was found out of how a file is to be read.
    remarks: tuple[str, ...] = ()

    #: Height and width, where each row is an image.
    image_shape: tuple[int, int] | None = None

    #: After whose time blocks of rows are refused, if that is wanted.
    clock: Clock | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return self.reading.dtype

    @property
    def mean(self) -> Array | None:
        """What is subtracted from each row."""
        return self.reading.mean

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self.layout.n_samples

    @abstractmethod
    def map(self, function: Callable[[Block], T], rows: Rows = None) -> Iterator[T]:
        """Apply a function to blocks of rows, in order: of all rows, or of those given."""

    @abstractmethod
    def reduce(
        self, function: Callable[[Block], Any], rows: Rows = None, carry: Carry | None = None
    ) -> Any:
        """Add up the results of a function over the blocks of each part, and then over parts, in order.

        With ``carry`` the function finds the companions that it reads in the block, as far as they are
        known there, and returns its result and the companions that it writes, by name.
        """

    @abstractmethod
    def companion(self, kind: str, number: int, width: int) -> Companion:
        """Return a new companion with ``width`` entries for each row, which nothing has written yet.

        The number tells those of a kind apart.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what was stored between calls: chunks that were read, companions on workers."""

    def draw(self, size: int, *key: int, sample: Sample | None = None) -> Batch:
        """Draw a mini-batch, which the key decides (see :class:`~vrmf.sources.layout.Layout`)."""
        return self.layout.draw(size, *key, sample=sample)

    def sample(self, count: int, seed: int) -> Sample | None:
        """Return a sample of about ``count`` rows, or None for all if they are more than half."""
        return self.layout.sample(count, seed)

    def read_as(self, **changes: Any) -> Self:
        """Return the same rows, read with another ``dtype``, ``mean`` or ``check``."""
        other = copy.copy(self)
        other.reading = replace(self.reading, **changes)
        return other

    def row_names(self, start: int, stop: int) -> list[str] | None:
        """Return the names of the rows from ``start`` up to ``stop``, or None if they have none."""
        return None

    def named(self, feature_names: tuple[str, ...] | None) -> Self:
        """Return the same rows, whose features have the given names."""
        other = copy.copy(self)
        other.feature_names = feature_names
        return other

    def until(self, clock: Clock) -> Self:
        """Return the same rows; blocks that this process reads raise when the clock's time is over."""
        other = copy.copy(self)
        other.clock = clock
        return other

    def rows(self, rows: Array) -> Array:
        """Return the rows with the given sorted numbers."""
        return np.concatenate(list(self.map(dense_rows, rows)))


def dense_rows(block: Block) -> Array:
    """Return the rows of a block as a matrix."""
    return block.dense


def added_up(results: Iterable[T]) -> T:
    """Add up results in order."""
    return functools.reduce(operator.add, results)
