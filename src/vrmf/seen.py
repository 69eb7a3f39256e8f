"""What a stream remembers of the rows that it has seen, so that automatic weights can follow them.

Sums and maxima merge exactly. Medians do not, so every s-th row is remembered, s being a power of two that
grows with the stream: the sample is spread evenly over all rows seen, it does not depend on how they
were cut into batches, and its size is bounded.

>>> import numpy as np
>>> from vrmf.sources import as_source
>>> from vrmf.auto_weights import DataSummary
>>> rows = np.arange(1.0, 41.0)[:, None]
>>> seen = DataSeen.of(DataSummary.of(as_source(rows[:7])), limit=10)
>>> seen = seen.after(as_source(rows[7:]), limit=10)
>>> seen.rows.ravel(), seen.summary.largest_entry, seen.summary.n_samples
(array([ 1.,  5.,  9., 13., 17., 21., 25., 29., 33., 37.]), 40.0, 40)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.auto_weights import DataSummary, Sums
from vrmf.sources import AbstractSource

#: The entries of the rows that are remembered, and the fewest and most rows that these may be.
REMEMBERED_ENTRIES = 2**16
FEWEST_ROWS, MOST_ROWS = 128, 1024

#: Scales have changed if one did by this share, or if there are so many times the rows.
CHANGE, GROWTH = 0.01, 1.25


def remembered_rows(n_features: int) -> int:
    """Return how many rows of that many features are remembered at most."""
    return min(MOST_ROWS, max(FEWEST_ROWS, REMEMBERED_ENTRIES // max(1, n_features)))


@dataclass(frozen=True, eq=False)
class DataSeen:
    """Sums and maxima over all rows seen, and every ``stride``-th of the rows."""

    sums: Sums
    rows: Array
    stride: int
    used: Sums  #: the sums from which the present weights were derived
    used_row: float  #: the typical norm of a row when they were

    @classmethod
    def of(cls, summary: DataSummary, limit: int) -> DataSeen:
        """Return what to remember of summarised data, whose weights are derived from the summary."""
        n = summary.n_samples
        stride = _stride(1, n, limit)
        places = np.arange(0, n, stride) * len(summary.sample) // n
        # Rows of a source are often views; what is remembered must not hold on to all of them.
        rows = summary.sample[places].copy()
        return cls(summary.sums, rows, stride, summary.sums, _typical_norm(rows))

    def after(self, source: AbstractSource, limit: int) -> DataSeen:
        """Return what to remember when the rows of a source have followed."""
        first, sums = self.sums.count, self.sums + source.reduce(Sums.of)
        chosen = np.arange(-first % self.stride, source.n_samples, self.stride)
        rows = self.rows
        if len(chosen):
            rows = np.concatenate([rows, source.rows(chosen).astype(rows.dtype, copy=False)])
        stride = _stride(self.stride, sums.count, limit)
        if stride > self.stride:
            rows = rows[:: stride // self.stride].copy()
        return DataSeen(sums, rows, stride, self.used, self.used_row)

    @property
    def has_changed(self) -> bool:
        """Whether the data are of other scales, or much more, than when weights were derived."""
        scales = zip(self.sums.scales, self.used.scales, strict=True)
        return self.sums.count >= GROWTH * self.used.count or any(
            abs(now - before) > CHANGE * before for now, before in scales
        )

    @property
    def summary(self) -> DataSummary:
        """The scales of all rows seen."""
        return DataSummary.from_sums(self.sums, self.rows)

    @property
    def growth(self) -> float:
        """The typical norm of a row over that when weights were derived; a few wild rows do not matter."""
        return _typical_norm(self.rows) / self.used_row

    def settled(self) -> DataSeen:
        """Return the same with weights derived from all rows seen."""
        return replace(self, used=self.sums, used_row=_typical_norm(self.rows))


def _typical_norm(rows: Array) -> float:
    """Return the median norm of rows that are not zero, or 1 if all are."""
    norms = row_norms(rows)
    norms = norms[norms > 0]
    return float(np.median(norms)) if len(norms) else 1.0


def _stride(stride: int, n_samples: int, limit: int) -> int:
    """Return the smallest stride, doubled from the given one, that takes at most ``limit`` of n rows."""
    while -(-n_samples // stride) > limit:
        stride *= 2
    return stride
