"""Laws of schedules: tracks hold the rows of their chunks, and mini-batches cut them without gaps."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest

from tables import generator
from vrmf.arrays import Array
from vrmf.sources.schedule import BatchPlan, Track, tracks_of
from vrmf.sources.selection import Batch, Part

#: Name → the sizes of all chunks.
SIZES = {
    "one chunk": [7],
    "single rows": [1] * 9,
    "equal": [10] * 12,
    "unequal": [3, 27, 1, 29, 1, 1, 18, 20, 7, 23],
}

every_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
every_count = pytest.mark.parametrize("count", [1, 2, 3, 50])


def tracks(sizes: list[int], count: int) -> list[Track]:
    return tracks_of(generator("order").permutation(len(sizes)), np.array(sizes), count)


def rows_by_chunk(pieces: list[tuple[int, int]]) -> Counter[int]:
    counts = Counter[int]()
    for chunk, rows in pieces:
        counts[chunk] += rows
    return counts


@every_size
@every_count
def test_tracks_hold_each_row_of_each_chunk_once(sizes: list[int], count: int) -> None:
    found, seen = tracks(sizes, count), Counter[int]()
    assert len(found) == min(count, len(sizes))
    for track in found:
        inside = rows_by_chunk(track.rows_between(0, track.length))
        assert sum(inside.values()) == track.length and not seen.keys() & inside.keys()
        seen |= inside
    assert seen == Counter(dict(enumerate(sizes)))


@every_size
@every_count
def test_pieces_of_a_track_add_up_to_the_whole(sizes: list[int], count: int) -> None:
    rng = generator("cuts")
    for track in tracks(sizes, count):
        cuts = np.sort(rng.integers(0, track.length + 1, size=5)).tolist()
        pieces = [track.rows_between(start, stop) for start, stop in pairwise([0, *cuts, track.length])]
        for piece, (start, stop) in zip(pieces, pairwise([0, *cuts, track.length]), strict=True):
            assert sum(rows for _, rows in piece) == stop - start
        assert rows_by_chunk(list(chain(*pieces))) == rows_by_chunk(track.rows_between(0, track.length))


@every_size
def test_skipped_rows_of_the_first_chunk_come_last(sizes: list[int]) -> None:
    chunks = np.arange(len(sizes))
    for skipped in range(sizes[0]):
        track = Track.of(chunks, np.array(sizes), skipped)
        assert track.length == sum(sizes)
        if skipped:
            assert track.rows_between(track.length - skipped, track.length) == [(0, skipped)]
            assert track.rows_between(0, sizes[0] - skipped) == [(0, sizes[0] - skipped)]


def test_the_next_chunk_is_the_first_that_begins_at_or_after_a_position() -> None:
    track = Track.of(np.array([5, 2, 8]), np.array([4, 3, 3]), 1)  # chunks 5, 2, 8 and 5 again
    expected = {0: (0.0, 5), 1: (0.2, 2), 3: (0.0, 2), 4: (0.2, 8), 9: (0.0, 5), 10: None}
    assert {position: track.next_chunk(position) for position in expected} == expected


@every_size
@every_count
@pytest.mark.parametrize("size", [1, 4, 7])
def test_mini_batches_of_a_pass_follow_each_other_on_every_track(
    sizes: list[int], count: int, size: int
) -> None:
    found, total, seen = tracks(sizes, count), sum(sizes), Counter[int]()
    ends = [0] * len(found)
    for start in range(0, total - size + 1, size):
        plan = BatchPlan.between(0, found, start, start + size)
        assert plan.starts == ends, "it begins where the last one ended"
        rows = plan.rows_by_chunk()
        assert sum(rows.values()) == size and min(rows.values()) > 0
        seen.update(rows)
        ends = plan.stops
    assert all(rows <= sizes[chunk] for chunk, rows in seen.items())
    assert BatchPlan.between(0, found, 0, total).rows_by_chunk() == dict(enumerate(sizes))


def test_tracks_do_not_reach_new_chunks_together() -> None:
    found = tracks([10] * 12, 3)
    for row in range(1, 40):
        plan = BatchPlan.between(0, found, 3 * row, 3 * row + 3)  # a row of each track
        assert sum(start in track.begins for track, start in zip(found, plan.starts, strict=True)) <= 1


def test_a_pass_that_is_over_needs_no_chunk() -> None:
    found = tracks(SIZES["equal"], 3)
    assert BatchPlan.between(0, found, 110, 120).next_chunk() is None
    announced = BatchPlan.between(0, found, 0, 10).next_chunk()
    assert announced in {int(chunk) for track in found for chunk in track.chunks}


@pytest.mark.parametrize("rows", [slice(3, 10), np.arange(3, 10)], ids=["slice", "numbers"])
def test_parts_and_mini_batches_know_how_many_rows_they_have(rows: slice | Array) -> None:
    assert len(Part(rows, chunk=None)) == 7 and len(Batch(np.arange(3, 10))) == 7
