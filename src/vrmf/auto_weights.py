"""Automatic weights: what the data say about the scale of every regulariser.

The rules are equivariant: for data c·X they give the weights for which the problem is that of X
with all its terms multiplied by c², so that ``fit(c·X)`` gives the scaled model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import check_range, real_number
from vrmf.sources import AbstractSource

#: Rows that are looked at where a sample is enough.
SAMPLE_ROWS = 1000

#: The automatic ridge on codes over atoms in the simplex, in units of 1/d, the least ‖a‖² of an atom.
HARMLESS = 1e-7

#: The automatic ℓ₁ weight is at most this share of the norm of a row about the mean: a code of one atom
#: shrinks by it.
MOST_SHRINKAGE = 0.1


@dataclass(frozen=True, eq=False)
class Sums:
    """What one pass tells of the scales of some rows."""

    count: int  #: number of rows
    squares: float
    squared_sums: float
    largest_row: float
    largest_entry: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.count + other.count,
            self.squares + other.squares,
            self.squared_sums + other.squared_sums,
            max(self.largest_row, other.largest_row),
            max(self.largest_entry, other.largest_entry),
        )

    @classmethod
    def of(cls, block: Block) -> Sums:
        """Return the sums of a block of rows."""
        X = block.dense
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        return cls(
            len(X),
            float(np.sum(squares)),
            float(np.sum(np.square(np.sum(X, axis=1, dtype=np.float64)))),
            float(np.sqrt(np.max(squares, initial=0.0))),
            float(np.max(np.abs(X), initial=0.0)),
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """Root mean squares of rows and of their sums, the largest row and the largest entry."""
        means = (self.squares / self.count) ** 0.5, (self.squared_sums / self.count) ** 0.5
        return *means, self.largest_row, self.largest_entry


@dataclass(frozen=True, eq=False)
class DataSummary:
    """The scales of some data."""

    n_samples: int
    n_features: int
    entry: float  #: root mean square of the entries
    deviation: float  #: the same about the mean of each feature, in the sample
    row_sum: float  #: root mean square of the sums of rows
    largest_row: float  #: largest norm of a row
    largest_entry: float  #: largest absolute entry
    center: Array  #: median of each feature
    spread: float  #: median distance of entries from the center, where not zero: robust
    sums: Sums  #: from which the means and maxima come
    sample: Array  #: the rows from which the medians come

    @classmethod
    def of(cls, source: AbstractSource) -> DataSummary:
        """Summarise a source by one pass, and the medians by a sample of its rows.

        >>> from vrmf.sources import as_source
        >>> summary = DataSummary.of(as_source(np.array([[3.0, 0.0], [0.0, 4.0]])))
        >>> summary.largest_row, summary.row_sum == 12.5**0.5
        (4.0, True)
        """
        sums = source.reduce(Sums.of)
        check_range(sums.largest_row, sums.largest_entry, source.dtype)
        return cls.from_sums(sums, source.rows(source.layout.spread(SAMPLE_ROWS)))

    @classmethod
    def from_sums(cls, sums: Sums, sample: Array) -> DataSummary:
        """Summarise data by the sums over their rows and a sample of these."""
        n, d = sums.count, sample.shape[1]
        center = np.median(sample, axis=0)
        distances = np.abs(sample - center)
        distances = distances[distances > 0]
        entry = float(np.sqrt(sums.squares / (n * d)))
        deviation = float(np.sqrt(np.mean(np.square(sample - np.mean(sample, axis=0), dtype=np.float64))))
        is_constant = deviation <= 1e-6 * entry
        return cls(
            n_samples=n,
            n_features=d,
            entry=entry or 1.0,
            deviation=(entry if is_constant else deviation) or 1.0,
            row_sum=float(np.sqrt(sums.squared_sums / n)) or 1.0,
            largest_row=sums.largest_row or 1.0,
            largest_entry=sums.largest_entry or 1.0,
            center=center,
            spread=float(np.median(distances)) if len(distances) else entry or 1.0,
            sums=sums,
            sample=sample,
        )

    @property
    def sparsity_weight(self) -> float:
        """The automatic weight of an ℓ₁ norm of codes over atoms of norm 1.

        For rows of norm 1 and mean 0 it is the paper's 1/√d, but at most MOST_SHRINKAGE, so that data of
        few features keep their size. Rows count about their mean: what they have in common would else
        hide what tells them apart.
        """
        return self.deviation * min(1.0, MOST_SHRINKAGE * self.n_features**0.5)

    def clipped(self, rows: Array) -> Array:
        """Return rows with entries far from the center pulled back to five spreads from it."""
        reach = 5 * self.spread
        low, high = self.center - reach, self.center + reach
        return np.clip(rows, low, high).astype(rows.dtype, copy=False)


def chosen_weight(name: str, value: Any, *, auto: float, paper: float, zero: bool = False) -> float:
    """Return a positive weight, from a number or one of the words "auto" and "paper".

    With ``zero`` the weight may also be 0.
    """
    if isinstance(value, str):
        if value not in ("auto", "paper"):
            need = "a number of at least 0" if zero else "a positive number"
            raise ValueError(f'`{name}` is {value!r}. Use {need}, "auto" or "paper".')
        return auto if value == "auto" else paper
    return real_number(name, value, low=0, strict=not zero)


def harmless_ridge(name: str, value: Any, n_features: int) -> float:
    """Return the weight of a ridge on codes over atoms in the simplex.

    Such atoms have ‖a‖² ≥ 1/d. So "auto", HARMLESS/d, shrinks the code of a single atom by less than
    the share HARMLESS, and picks one of the codes where atoms depend on each other.

    >>> harmless_ridge("alpha", "auto", 10), harmless_ridge("alpha", 0, 10)
    (1e-08, 0.0)
    """
    return chosen_weight(name, value, auto=HARMLESS / n_features, paper=n_features**-0.5, zero=True)
