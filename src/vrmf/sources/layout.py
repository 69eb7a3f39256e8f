"""The layout of rows: chunks, the parts that are summed together, samples and mini-batches.

A layout is decided by the shape of the data and the user's wishes alone. So two sources with the same
layout, one in this process and one on a cluster, visit the same rows in the same blocks, and their
sums have the same bits.

>>> layout = Layout([0, 4, 8, 10])
>>> [part.rows for part in layout.parts(None)]
[slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
>>> len(layout.draw(3, 0, 5))
3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import one_of, whole_number
from vrmf.sources.schedule import BatchPlan, Track, tracks_of
from vrmf.sources.selection import Batch, Part, Rows, Sample

#: Rows of a block in double precision, twice as many in single, unless fewer make up BLOCK_BYTES.
BLOCK_ROWS = 512
BLOCK_BYTES = 2**25

#: Few rows make this many blocks, so that threads share them, but of no fewer than LEAST_ROWS on average.
FEW_BLOCKS = 4
LEAST_ROWS = 128

#: Chunks that a few rows for a first look come from, where rows are read by chunks.
FEW_CHUNKS = 16

#: Orders of chunks and of rows that are remembered.
REMEMBERED = 4


class Layout:
    """Chunks of rows, and how mini-batches and samples are drawn from them.

    Parameters
    ----------
    bounds : sequence of int
        Where chunks begin, and at the end the number of rows.
    sampling : {"rows", "blocks"}
        ``"rows"``: mini-batches and samples are uniform over all rows, without replacement.
        ``"blocks"``: a mini-batch comes from ``window`` chunks, in equal shares (from fewer, but two,
        if shares would be below LEAST_ROWS rows); over a pass these move through all chunks in a
        random order, so that each chunk is read once, but for ``window`` − 1 that are read twice. A
        sample is made of whole chunks. If the share ρ of the variance lies between chunks, the
        variance of the mean over b rows is about 1 + (b/window − 1) · ρ times that of uniform rows; ρ
        is 0 for rows in random order.
    window : int
        Chunks that a mini-batch comes from, with ``"blocks"``.
    """

    def __init__(self, bounds: Sequence[int] | Array, sampling: str = "rows", window: int = 2) -> None:
        self.bounds = np.asarray(bounds, dtype=np.int64)
        self.sizes = np.diff(self.bounds)
        self.sampling = one_of("sampling", sampling, ("rows", "blocks"))
        self.window = whole_number("window", window, low=1)
        self._remembered: dict[Any, Any] = {}

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.bounds[-1])

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return len(self.sizes)

    @property
    def by_blocks(self) -> bool:
        """Whether mini-batches come from a few chunks each."""
        return self.sampling == "blocks"

    @property
    def least_batch(self) -> int:
        """The smallest mini-batch that is worth reading its chunks: LEAST_ROWS of each."""
        return LEAST_ROWS * self.window if self.by_blocks else 1

    # Parts -------------------------------------------------------------------------------------

    def parts(self, rows: Rows) -> list[Part]:
        """Return the parts that make up some rows, in the order of the data."""
        if rows is None:
            return [self.whole(chunk) for chunk in range(self.n_chunks)]
        if isinstance(rows, Sample):
            if self.by_blocks:
                return [self.whole(int(chunk)) for chunk in np.sort(self._sampled_chunks(rows))]
            rows = self._sampled_rows(rows)
        if isinstance(rows, Batch):
            rows = rows.rows
        if not self.by_blocks:
            return [Part(rows, None)]
        chunks = np.searchsorted(self.bounds, rows, side="right") - 1
        edges = np.flatnonzero(np.diff(chunks, prepend=-1, append=-1))
        return [Part(rows[i:j], int(chunks[i])) for i, j in pairwise(edges)]

    def whole(self, chunk: int) -> Part:
        """Return the part that a chunk makes."""
        return Part(slice(int(self.bounds[chunk]), int(self.bounds[chunk + 1])), chunk)

    # Samples and mini-batches ------------------------------------------------------------------

    def sample(self, count: int, seed: int) -> Sample | None:
        """Return a sample of about ``count`` rows, or None for all if they are more than half.

        Larger samples contain the smaller ones of the same seed.
        """
        if self.by_blocks:
            chunks = self._sampled_chunks(Sample(seed, 0, count))
            count = int(np.sum(self.sizes[chunks]))
        return None if 2 * count > self.n_samples else Sample(seed, 0, count)

    def draw(self, size: int, *key: int, sample: Sample | None = None) -> Batch:
        """Draw a mini-batch, of the rows of the sample if there is one; the key (seed, step, …) decides."""
        rng = np.random.default_rng(key)
        if not self.by_blocks:
            among = None if sample is None else self._sampled_rows(sample)
            count = self.n_samples if among is None else len(among)
            chosen = np.sort(rng.choice(count, size, replace=False, shuffle=False))
            return Batch(chosen if among is None else among[chosen])
        plan = self._plan(size, key[0], key[1], sample)
        counts = sorted(plan.rows_by_chunk().items())
        each = [
            self.bounds[chunk] + rng.choice(int(self.sizes[chunk]), count, replace=False, shuffle=False)
            for chunk, count in counts
        ]
        following = plan.next_chunk()
        if following is None:
            following = int(self._tracks(size, key[0], plan.pass_number + 1, sample)[0].chunks[0])
        return Batch(np.sort(np.concatenate(each)), np.array([chunk for chunk, _ in counts]), following)

    def _plan(self, size: int, seed: int, step: int, sample: Sample | None) -> BatchPlan:
        """Return from which chunks the mini-batch of a step comes."""
        total = sum(track.length for track in self._tracks(size, seed, 0, sample))
        if size > total:
            raise ValueError(f"A mini-batch has {size} rows. Use at most {total}, as many as there are.")
        pass_number, drawn = divmod(step * size, total)
        drawn = min(drawn, total - size)  # the last mini-batch of a pass does not reach into the next
        tracks = self._tracks(size, seed, pass_number, sample)
        return BatchPlan.between(pass_number, tracks, drawn, drawn + size)

    def spread(self, count: int) -> Array:
        """Return the numbers of about ``count`` rows for a first look, evenly spread over the data."""
        count = min(count, self.n_samples)
        if not self.by_blocks or self.n_chunks <= FEW_CHUNKS:
            return np.linspace(0, self.n_samples - 1, count).astype(np.int64)
        chunks = np.linspace(0, self.n_chunks - 1, FEW_CHUNKS).astype(np.int64)
        each = [
            np.linspace(self.bounds[c], self.bounds[c + 1] - 1, min(-(-count // FEW_CHUNKS), self.sizes[c]))
            for c in chunks
        ]
        return np.concatenate(each).astype(np.int64)

    def choose(self, rng: np.random.Generator, count: int) -> Array:
        """Return the sorted numbers of ``count`` random rows, of a few random chunks by blocks."""
        count = min(count, self.n_samples)
        if not self.by_blocks:
            return np.sort(rng.choice(self.n_samples, count, replace=False))
        order = rng.permutation(self.n_chunks)
        enough = int(np.searchsorted(np.cumsum(self.sizes[order]), count)) + 1
        chunks = np.sort(order[: max(enough, FEW_CHUNKS)])
        ends = np.cumsum(self.sizes[chunks])
        chosen = np.sort(rng.choice(int(ends[-1]), count, replace=False))
        place = np.searchsorted(ends, chosen, side="right")
        return chosen - (ends - self.sizes[chunks])[place] + self.bounds[chunks][place]

    # Random orders -----------------------------------------------------------------------------

    def _sampled_rows(self, sample: Sample) -> Array:
        def compute() -> Array:
            order = np.random.default_rng([sample.seed, 0, 3]).permutation(self.n_samples)
            return np.sort(order[sample.first : sample.last])

        rows: Array = self._once(sample, compute)
        return rows

    def _sampled_chunks(self, sample: Sample) -> Array:
        """Return the chunks that begin inside of a sample, in the sample's order."""
        order = np.random.default_rng([sample.seed, 0, 3]).permutation(self.n_chunks)
        begins = np.cumsum(self.sizes[order]) - self.sizes[order]
        return order[(sample.first <= begins) & (begins < sample.last)]

    def _tracks(self, size: int, seed: int, pass_number: int, sample: Sample | None) -> list[Track]:
        """Return the tracks of a pass: all chunks in a random order, cut into a few pieces."""
        count = min(self.window, max(2, size // LEAST_ROWS))

        def compute() -> list[Track]:
            chunks = np.arange(self.n_chunks) if sample is None else self._sampled_chunks(sample)
            order = np.random.default_rng([seed, pass_number, 4]).permutation(chunks)
            return tracks_of(order, self.sizes, count)

        known: list[Track] = self._once((count, seed, pass_number, sample), compute)
        return known

    def _once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` gives, which is remembered under the key."""
        if key not in self._remembered:
            while len(self._remembered) >= REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[key] = compute()
        return self._remembered[key]


def block_slices(count: int, n_features: int, dtype: np.dtype[Any]) -> list[slice]:
    """Cut so many rows into blocks, by their number and size alone."""
    row_bytes = max(1, n_features * dtype.itemsize)
    largest = int(np.clip(BLOCK_BYTES // row_bytes, 32, BLOCK_ROWS * 8 // dtype.itemsize))
    few = min(FEW_BLOCKS, -(-count // LEAST_ROWS)) or 1
    size = min(largest, -(-count // few)) or 1
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]
