"""Laws of layouts: each row once in a pass, unbiased mini-batches, nested samples."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tables import generator
from vrmf.sources import Layout
from vrmf.sources.layout import LEAST_ROWS, block_slices
from vrmf.sources.selection import Batch, Sample

#: Name → where chunks begin and the last ends.
BOUNDS = {
    "one chunk": [0, 40],
    "one row": [0, 1],
    "two chunks": [0, 30, 50],
    "equal": list(range(0, 121, 10)),
    "a short last one": [*range(0, 111, 10), 113],
    "unequal": [0, 3, 30, 31, 60, 61, 62, 80, 100, 107, 130],
    "single rows": list(range(12)),
}
SAMPLINGS = [("rows", 1), ("blocks", 1), ("blocks", 2), ("blocks", 3), ("blocks", 20)]

every_layout = pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
every_sampling = pytest.mark.parametrize(("sampling", "window"), SAMPLINGS)
every_window = pytest.mark.parametrize("window", [1, 2, 3, 20])


@pytest.fixture(autouse=True)
def mini_batches_are_never_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrmf.sources.layout.LEAST_ROWS", 1)


def numbers(layout: Layout, rows: object) -> np.ndarray:
    """Return the row numbers of all parts, one after the other."""
    everything = np.arange(layout.n_samples)
    return np.concatenate([everything[part.rows] for part in layout.parts(rows)])  # type: ignore[arg-type]


def chunks_of(batch: Batch) -> set[int]:
    assert batch.chunks is not None
    return set(batch.chunks.tolist())


# Parts -------------------------------------------------------------------------------------------


@every_layout
@every_sampling
def test_parts_cover_rows_once_in_order(bounds: list[int], sampling: str, window: int) -> None:
    layout = Layout(bounds, sampling, window)
    np.testing.assert_array_equal(numbers(layout, None), np.arange(bounds[-1]))
    chosen = np.sort(generator("parts").choice(bounds[-1], -(-bounds[-1] // 3), replace=False))
    np.testing.assert_array_equal(numbers(layout, chosen), chosen)
    for part in layout.parts(chosen):
        if sampling == "blocks":
            assert part.chunk is not None
            low, high = bounds[part.chunk], bounds[part.chunk + 1]
            assert np.all((low <= part.rows) & (part.rows < high))


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 512, 513, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_cover_a_part_once_in_order(count: int, dtype: type) -> None:
    slices = block_slices(count, 7, np.dtype(dtype))
    covered = [i for block in slices for i in range(block.start, block.stop)]
    assert covered == list(range(count)) and all(block.stop > block.start for block in slices)


# Samples -----------------------------------------------------------------------------------------


@every_layout
@every_sampling
def test_samples_of_one_seed_nest_and_pieces_add_up(bounds: list[int], sampling: str, window: int) -> None:
    layout, n = Layout(bounds, sampling, window), bounds[-1]
    before: set[int] = set()
    reached = 0
    for count in (1, n // 8 or 1, n // 4 or 1, n // 2 or 1, n):
        sample = layout.sample(count, seed=5)
        within = set(numbers(layout, sample).tolist())
        last = n if sample is None else sample.last
        assert before <= within and len(within) == last >= min(count, n)
        assert sample is None or 2 * len(within) <= n
        if last > reached:
            piece = numbers(layout, Sample(5, reached, last))
            assert len(set(piece.tolist())) == len(piece) == last - reached
            assert set(piece.tolist()) == within - before
        before, reached = within, last


def test_samples_of_other_seeds_have_other_rows() -> None:
    layout = Layout([0, 1000])
    one, other = (numbers(layout, layout.sample(100, seed)) for seed in (7, 8))
    assert not np.array_equal(one, other)
    assert layout.sample(500, 7) is not None and layout.sample(501, 7) is None, "half of all at most"


# Mini-batches ------------------------------------------------------------------------------------


@every_layout
@every_sampling
@pytest.mark.parametrize("sampled", [False, True])
def test_draws_are_sorted_unique_of_their_size_and_within_the_sample(
    bounds: list[int], sampling: str, window: int, sampled: bool
) -> None:
    layout, n = Layout(bounds, sampling, window), bounds[-1]
    sample = layout.sample(n // 4 or 1, seed=2) if sampled else None
    among = numbers(layout, sample)
    for size in {1, len(among) // 3 or 1, len(among) - 1 or 1, len(among)}:
        for step in range(7):
            rows = layout.draw(size, 3, step, sample=sample).rows
            assert len(rows) == size and np.all(np.diff(rows) > 0) and np.all(np.isin(rows, among))
            again = Layout(bounds, sampling, window).draw(size, 3, step, sample=sample).rows
            np.testing.assert_array_equal(rows, again)


@every_layout
@every_window
@pytest.mark.parametrize("size", [1, 9])
def test_over_a_pass_each_chunk_gives_as_many_rows_as_it_has(
    bounds: list[int], window: int, size: int
) -> None:
    layout, n = Layout(bounds, "blocks", window), bounds[-1]
    steps = range(n // size)  # what is left of a pass belongs to a step that the next pass begins with
    drawn = Counter[int]()
    for step in steps if size <= n else []:
        drawn.update((np.searchsorted(bounds, layout.draw(size, 1, step).rows, side="right") - 1).tolist())
    missed = sum(abs(drawn[chunk] - count) for chunk, count in enumerate(np.diff(bounds)))
    assert missed == n % size if size <= n else not drawn


@pytest.mark.parametrize("bounds", [BOUNDS["a short last one"], BOUNDS["unequal"]])
@pytest.mark.parametrize(("sampling", "window"), [("rows", 1), ("blocks", 2), ("blocks", 3)])
def test_no_row_is_favoured(bounds: list[int], sampling: str, window: int) -> None:
    layout, n, size = Layout(bounds, sampling, window), bounds[-1], 7
    steps = 10 * n
    counts = np.zeros(n)
    for step in range(steps):
        counts[layout.draw(size, 4, step).rows] += 1
    expected = steps * size / n
    # Pearson's statistic is below that of independent draws, whose law is χ² with n − 1 degrees.
    assert np.sum((counts - expected) ** 2) / expected < n - 1 + 5 * math.sqrt(2 * n)


@pytest.mark.parametrize("bounds", [BOUNDS["one chunk"], BOUNDS["equal"], list(range(0, 1201, 60))])
@every_window
def test_a_chunk_is_active_in_one_run_of_a_pass(bounds: list[int], window: int) -> None:
    layout, size = Layout(bounds, "blocks", window), min(2 * window, bounds[-1])
    steps = range(bounds[-1] // size)
    active = [chunks_of(layout.draw(size, 1, step)) for step in steps]
    begun = Counter(
        chunk for old, new in zip([set(), *active], active, strict=False) for chunk in new - old
    )
    assert set(begun) == set(range(layout.n_chunks))
    # Tracks but the first begin inside of a chunk, to which they return at the end.
    assert sum(begun.values()) <= layout.n_chunks + min(window, layout.n_chunks) - 1


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_mini_batch_comes_from_the_window_and_announces_the_next_chunk(window: int) -> None:
    layout = Layout(range(0, 2001, 50), "blocks", window)
    announced: set[int] = set()
    surprises = 0
    for step in range(200):
        batch = layout.draw(10, 1, step)
        chunks = chunks_of(batch)
        assert set(np.unique(batch.rows // 50).tolist()) == chunks
        assert len(chunks) <= window + 1
        assert batch.next_chunk is not None
        surprises += len(chunks - announced)
        announced = {*chunks, batch.next_chunk}
    assert surprises <= window  # those at the start


def test_small_mini_batches_come_from_fewer_chunks_but_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    layout = Layout(np.arange(0, 20_001, 1000), "blocks", 8)
    for size, chunks in ((2, 2), (2 * LEAST_ROWS, 2), (5 * LEAST_ROWS, 5), (50 * LEAST_ROWS, 8)):
        found = [len(layout.parts(layout.draw(size, 0, step))) for step in range(3)]
        assert chunks <= min(found) and max(found) <= 2 * chunks


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_variance_of_a_mean_by_blocks(window: int, share: float) -> None:
    rng, n_chunks, rows, size = generator("variance"), 200, 400, 20
    layout = Layout(np.arange(0, n_chunks * rows + 1, rows), "blocks", window)
    chunk = rng.normal(size=n_chunks)
    chunk = (chunk - chunk.mean()) / chunk.std()
    within = rng.normal(size=(n_chunks, rows))
    within = (within - within.mean(axis=1, keepdims=True)) / within.std(axis=1, keepdims=True)
    values = (math.sqrt(share) * chunk[:, None] + math.sqrt(1 - share) * within).ravel()
    means = [values[layout.draw(size, seed, 37).rows].mean() for seed in range(800)]
    predicted = (1 + (size / window - 1) * share) / size
    assert np.var(means) == pytest.approx(predicted, rel=0.25)


def test_a_mini_batch_of_more_rows_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mini-batch has 11 rows\. Use at most 10"):
        Layout([0, 5, 10], "blocks").draw(11, 0, 0)


# First looks -------------------------------------------------------------------------------------


@every_layout
@every_sampling
@pytest.mark.parametrize("count", [1, 5, 20, 1000])
def test_rows_of_a_first_look_are_sorted_and_unique(
    bounds: list[int], sampling: str, window: int, count: int
) -> None:
    layout, n = Layout(bounds, sampling, window), bounds[-1]
    chosen = layout.choose(generator("choose"), count)
    assert len(chosen) == min(count, n)
    for rows in (chosen, layout.spread(count)):
        assert np.all(np.diff(rows) > 0) and 0 <= rows[0] and rows[-1] < n
    assert min(count, n) <= len(layout.spread(count)) <= n


def test_a_first_look_takes_few_chunks() -> None:
    layout = Layout(range(0, 10_001, 10), "blocks")
    for rows in (layout.spread(100), layout.choose(generator("few"), 100)):
        assert len(np.unique(rows // 10)) <= 16


@pytest.mark.parametrize(("option", "value"), [("sampling", "chunks"), ("window", 0), ("window", 1.5)])
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"`{option}` is {value!r}\. Use"):
        Layout([0, 5], **{option: value})  # type: ignore[arg-type]
