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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import one_of, whole_number

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


@dataclass(frozen=True)
class Sample:
    """The rows at some places of a random order of all rows, which the seed decides."""

    seed: int
    first: int  #: the place where the sample begins
    last: int  #: the place before which it ends


@dataclass(frozen=True, eq=False)
class Part:
    """Rows whose sum is formed first: a whole chunk, or chosen rows."""

    rows: Any  #: a slice, or sorted row numbers
    chunk: int | None  #: in which all of them lie, or None if they may lie anywhere

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)


@dataclass(frozen=True, eq=False)
class Lane:
    """Chunks that a pointer goes through, one after the other."""

    chunks: Array
    begins: Array  #: where on the lane each chunk begins
    length: int

    @classmethod
    def of(cls, chunks: Array, sizes: Array, skipped: int) -> Lane:
        """Return the lane of chunks of which the first one's rows come last, as many as are skipped."""
        sizes = np.append(sizes, skipped)
        sizes[0] -= skipped
        chunks, sizes = np.append(chunks, chunks[0])[sizes > 0], sizes[sizes > 0]
        return cls(chunks, np.cumsum(sizes) - sizes, int(np.sum(sizes)))


def _progress(lanes: list[Lane], drawn: int) -> list[int]:
    """Return how far the pointers have come when so many rows have been drawn from all lanes."""
    places, total = [], sum(lane.length for lane in lanes)
    for lane in lanes:
        places.append(drawn * lane.length // total)
        drawn, total = drawn - places[-1], total - lane.length
    return places


#: All rows, those with the given sorted numbers, or a sample.
Rows = Array | Sample | None


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
        """The rows of a mini-batch below which it costs no less: LEAST_ROWS of each chunk it comes from."""
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

    def draw(self, size: int, *key: int, sample: Sample | None = None) -> Array:
        """Draw the sorted row numbers of a mini-batch; the key (seed, step, …) decides.

        They come from the rows of the sample, if there is one.
        """
        rng = np.random.default_rng(key)
        if not self.by_blocks:
            among = None if sample is None else self._sampled_rows(sample)
            count = self.n_samples if among is None else len(among)
            chosen = np.sort(rng.choice(count, size, replace=False, shuffle=False))
            return chosen if among is None else among[chosen]
        shares = self._shares(size, key[0], key[1], sample)
        each = [
            self.bounds[chunk] + rng.choice(int(self.sizes[chunk]), count, replace=False, shuffle=False)
            for chunk, count in sorted(shares.items())
        ]
        return np.sort(np.concatenate(each))

    def active_chunks(self, size: int, seed: int, step: int, sample: Sample | None) -> tuple[Array, int]:
        """Return the chunks that the mini-batch of a step comes from, and the one that comes next."""
        turn, lanes, _, after = self._moves(size, seed, step, sample)
        waits = []
        for lane, place in zip(lanes, after, strict=True):
            number = int(np.searchsorted(lane.begins, place))
            if number < len(lane.chunks):
                waits.append(((lane.begins[number] - place) / lane.length, int(lane.chunks[number])))
        following = min(waits)[1] if waits else int(self._lanes(size, seed, turn + 1, sample)[0].chunks[0])
        return np.sort(list(self._shares(size, seed, step, sample))), following

    def _shares(self, size: int, seed: int, step: int, sample: Sample | None) -> dict[int, int]:
        """Return how many rows of a mini-batch come from which chunk.

        A chunk gives as many rows as a pointer moves on in it. So over a pass it gives as many as it
        has, and each row is drawn equally often, however unequal chunks are.
        """
        _, lanes, before, after = self._moves(size, seed, step, sample)
        shares: dict[int, int] = {}
        for lane, start, stop in zip(lanes, before, after, strict=True):
            first, last = lane.begins.searchsorted(start, "right") - 1, lane.begins.searchsorted(stop)
            edges = [start, *lane.begins[first + 1 : last].tolist(), stop]
            for chunk, (low, high) in zip(lane.chunks[first:last].tolist(), pairwise(edges), strict=False):
                if high > low:
                    shares[chunk] = shares.get(chunk, 0) + high - low
        return shares

    def _moves(
        self, size: int, seed: int, step: int, sample: Sample | None
    ) -> tuple[int, list[Lane], list[int], list[int]]:
        """Return the pass that a step is in, its lanes, and where pointers are before and after it."""
        total = sum(lane.length for lane in self._lanes(size, seed, 0, sample))
        if size > total:
            raise ValueError(f"A mini-batch has {size} rows. Use at most {total}, as many as there are.")
        turn, drawn = divmod(step * size, total)
        drawn = min(drawn, total - size)  # the last mini-batch of a pass does not reach into the next
        lanes = self._lanes(size, seed, turn, sample)
        return turn, lanes, _progress(lanes, drawn), _progress(lanes, drawn + size)

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

    def _lanes(self, size: int, seed: int, turn: int, sample: Sample | None) -> list[Lane]:
        """Return the lanes of a pass: all chunks in a random order, cut into a piece for each lane."""
        count = min(self.window, max(2, size // LEAST_ROWS))

        def compute() -> list[Lane]:
            chunks = np.arange(self.n_chunks) if sample is None else self._sampled_chunks(sample)
            order = np.random.default_rng([seed, turn, 4]).permutation(chunks)
            pieces = np.array_split(order, min(count, len(order)))
            # Pointers begin at different places of a chunk, so that they do not enter new ones together;
            # what lies before that place comes at the end.
            return [
                Lane.of(piece, self.sizes[piece], number * int(self.sizes[piece[0]]) // len(pieces))
                for number, piece in enumerate(pieces)
            ]

        known: list[Lane] = self._once((count, seed, turn, sample), compute)
        return known

    def _once(self, key: Any, compute: Any) -> Any:
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
