"""Laws of blocks and companions: a function gets the arrays by row that belong to its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tables import generator
from vrmf.arrays import Array
from vrmf.block import Block, as_block
from vrmf.code_matrix import code_matrix
from vrmf.sources import LocalSource, Sample
from vrmf.sources.companions import Carry

X = generator("companions").normal(size=(1300, 5))

SOURCES: dict[str, dict[str, Any]] = {
    "rows": {},
    "chunks": {"chunk_rows": 70, "sampling": "blocks", "window": 3},
    "threads": {"n_jobs": 3},
}


def sums_and_shares(block: Block) -> tuple[Array, dict[str, Array]]:
    """Return the sum of the rows, and for each row its own sum plus the companion that is known."""
    known = block.companion("known")
    own = block.dense.sum(axis=1, keepdims=True)
    return block.dense.sum(axis=0), {"own": own if known is None else own + known}


@pytest.mark.parametrize("options", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("in_file", [False, True])
def test_what_was_written_for_a_row_is_read_with_it(
    options: dict[str, Any], in_file: bool, tmp_path: Path
) -> None:
    source = LocalSource(X, **options, companion_folder=tmp_path if in_file else None)
    first, second = (source.companion("sums", number, 1) for number in (0, 1))
    source.reduce(sums_and_shares, carry=Carry(writes={"own": first}))
    assert first.values is not None
    np.testing.assert_allclose(first.values, X.sum(axis=1, keepdims=True))
    batch = source.draw(200, 0, 0)
    for rows, chosen in ((batch, batch.rows), (np.arange(7, 40), slice(7, 40)), (None, slice(None))):
        carry = Carry(reads={"known": first}, writes={"own": second})
        total = source.reduce(sums_and_shares, rows, carry)
        np.testing.assert_allclose(total, X[chosen].sum(axis=0))
        assert second.values is not None
        np.testing.assert_allclose(second.values[chosen], 2 * X[chosen].sum(axis=1, keepdims=True))
    assert not list(tmp_path.iterdir()), "a file of companions has no name, so that nothing is left behind"


def test_a_sample_writes_for_its_rows_alone() -> None:
    source = LocalSource(X)
    companion = source.companion("sums", 0, 1)
    assert companion.values is not None
    companion.values[:] = np.nan
    source.reduce(sums_and_shares, Sample(3, 0, 100), Carry(writes={"own": companion}))
    assert np.count_nonzero(np.isfinite(companion.values)) == 100


def test_a_draw_does_not_depend_on_those_before() -> None:
    for options in SOURCES.values():
        first, second = LocalSource(X, **options), LocalSource(X, **options)
        forwards = [first.draw(50, 1, step).rows for step in range(9)]
        backwards = [second.draw(50, 1, step).rows for step in reversed(range(9))]
        for one, other in zip(forwards, reversed(backwards), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_companion_that_is_not_carried_is_not_in_the_block() -> None:
    """Codes are then solved from zero."""
    source = LocalSource(X)
    written = source.companion("sums", 0, 1)
    source.reduce(sums_and_shares, carry=Carry.of("known", None, None))
    source.reduce(sums_and_shares, carry=Carry(writes={"own": written}))
    np.testing.assert_allclose(written.values, X.sum(axis=1, keepdims=True))  # type: ignore[arg-type]


def test_nothing_is_carried_for_a_companion_that_is_none() -> None:
    companion = LocalSource(X).companion("sums", 0, 1)
    for read, write in ((None, None), (companion, None), (None, companion), (companion, companion)):
        carry = Carry.of("known", read, write)
        assert carry.reads == ({} if read is None else {"known": read})
        assert carry.writes == ({} if write is None else {"known": write})


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_companion_has_a_row_for_each_row_in_the_precision_of_the_source(
    in_file: bool, dtype: type, tmp_path: Path
) -> None:
    source = LocalSource(X.astype(dtype), companion_folder=tmp_path if in_file else None)
    one, other = (source.companion("sums", number, 3) for number in (0, 1))
    assert one.values is not None and other.values is not None
    assert one.values.shape == (len(X), 3) and one.values.dtype == dtype
    assert one.kind == other.kind and one.name != other.name
    assert not np.shares_memory(one.values, other.values)


def test_the_products_of_a_block_are_those_of_its_rows() -> None:
    rng = generator("products")
    D, H = rng.normal(size=(3, 5)), rng.normal(size=(len(X), 3))
    block = as_block(X)
    assert as_block(block) is block and block.shape == X.shape and len(block) == len(X)
    np.testing.assert_allclose(block.times_atoms(D), X @ D.T)
    np.testing.assert_allclose(block.times_codes(code_matrix(H)), H.T @ X)
    np.testing.assert_allclose(block.squares, np.sum(X**2, axis=1))
    E = H @ D
    assert block.residual(E) is E
    np.testing.assert_allclose(E, H @ D - X)
    some = Block(X, {"known": X[:, :1]}).take(np.array([5, 2]))
    np.testing.assert_array_equal(some.dense, X[[5, 2]])
    assert some.companion("known") is None
