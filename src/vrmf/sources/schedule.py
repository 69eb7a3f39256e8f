"""From which chunks the mini-batches of a pass come, where they come from a few chunks each.

All chunks, in a random order, are cut into a few tracks of chunks. Each mini-batch takes rows from all
tracks, and moves on along each of them by as many rows as it took. So over a pass each chunk gives as many
rows as it has, and only a few chunks are needed at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vrmf.arrays import Array


@dataclass(frozen=True, eq=False)
class Track:
    """Chunks that are passed one after the other."""

    chunks: Array
    begins: Array  #: the position at which each chunk begins
    length: int

    @classmethod
    def of(cls, chunks: Array, sizes: Array, skipped: int) -> Track:
        """Return the track of some chunks; ``skipped`` rows of the first chunk come at the end."""
        sizes = np.append(sizes, skipped)
        sizes[0] -= skipped
        chunks, sizes = np.append(chunks, chunks[0])[sizes > 0], sizes[sizes > 0]
        return cls(chunks, np.cumsum(sizes) - sizes, int(np.sum(sizes)))

    def rows_between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the chunks between two positions, and how many rows of each lie there."""
        first, last = self.begins.searchsorted(start, "right") - 1, self.begins.searchsorted(stop)
        edges = [start, *self.begins[first + 1 : last].tolist(), stop]
        chunks = self.chunks[first:last].tolist()
        return [(c, high - low) for c, (low, high) in zip(chunks, pairwise(edges), strict=False)]

    def next_chunk(self, position: int) -> tuple[float, int] | None:
        """Return the first chunk from a position on, and how far it is, as a share of the track."""
        number = int(np.searchsorted(self.begins, position))
        if number == len(self.chunks):
            return None
        return (self.begins[number] - position) / self.length, int(self.chunks[number])


def tracks_of(order: Array, sizes: Array, count: int) -> list[Track]:
    """Return the tracks into which chunks in a random order are cut, with the sizes of all chunks.

    They begin at different places of a chunk, so that they do not reach new chunks together.
    """
    pieces = np.array_split(order, min(count, len(order)))
    return [
        Track.of(piece, sizes[piece], number * int(sizes[piece[0]]) // len(pieces))
        for number, piece in enumerate(pieces)
    ]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Where on the tracks of a pass a mini-batch lies."""

    pass_number: int
    tracks: list[Track]
    starts: list[int]  #: its first position on each track
    stops: list[int]  #: the position after its last one

    @classmethod
    def between(cls, pass_number: int, tracks: list[Track], start: int, stop: int) -> BatchPlan:
        """Return the plan of a mini-batch; so many rows of the pass are drawn before and after it."""
        return cls(pass_number, tracks, _positions(tracks, start), _positions(tracks, stop))

    def rows_by_chunk(self) -> dict[int, int]:
        """Return how many rows come from which chunk."""
        counts: dict[int, int] = {}
        for track, start, stop in zip(self.tracks, self.starts, self.stops, strict=True):
            for chunk, count in track.rows_between(start, stop):
                if count > 0:
                    counts[chunk] = counts.get(chunk, 0) + count
        return counts

    def next_chunk(self) -> int | None:
        """Return the chunk that is needed next, or None if the pass has no more."""
        coming = [track.next_chunk(stop) for track, stop in zip(self.tracks, self.stops, strict=True)]
        known = [each for each in coming if each is not None]
        return min(known)[1] if known else None


def _positions(tracks: list[Track], drawn: int) -> list[int]:
    """Return the position on each track after so many rows have been drawn from all of them."""
    positions, left = [], sum(track.length for track in tracks)
    for track in tracks:
        positions.append(drawn * track.length // left)
        drawn, left = drawn - positions[-1], left - track.length
    return positions
