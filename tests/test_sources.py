"""Laws of sources: blocks in order, the same bits for any number of threads, no copies."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tables import generator
from vrmf.sources import LocalSource, as_source, single_threaded_blas, thread_count
from vrmf.sources.layout import BLOCK_BYTES, BLOCK_ROWS

X = generator("sources").normal(size=(3 * BLOCK_ROWS + 5, 4))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_blocks_come_in_order_and_cover_every_row_once(n_jobs: int) -> None:
    source = LocalSource(X, n_jobs=n_jobs)
    blocks = list(source.map(lambda block: block.dense))
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    chosen = np.array([5, 1, 700, 3, *range(1000, 1540)])
    np.testing.assert_array_equal(source.rows(chosen), X[chosen])


def test_sums_have_the_same_bits_for_any_number_of_threads() -> None:
    sums = [LocalSource(X, n_jobs=n).reduce(lambda block: block.dense.T @ block.dense) for n in (1, 2, 7)]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    np.testing.assert_allclose(sums[0], X.T @ X)


def test_long_rows_make_small_blocks() -> None:
    wide = np.zeros((100, BLOCK_BYTES // 8 // 50))
    sizes = list(LocalSource(wide).map(lambda rows: len(rows)))
    assert sizes == [50, 50]


def test_centring_makes_no_copy_of_the_data() -> None:
    mean = X.mean(axis=0)
    source = LocalSource(X, mean=mean)
    assert source.table.X is X  # type: ignore[attr-defined]
    np.testing.assert_allclose(source.reduce(lambda block: block.dense.sum(axis=0)), 0, atol=1e-9)


def test_rows_that_are_read_in_another_way_leave_the_source_as_it_was() -> None:
    source, rows = LocalSource(X), np.arange(5)
    shifted = source.read_as(mean=X.mean(axis=0), dtype=np.dtype(np.float32))
    named = source.named(tuple("abcd"))
    assert shifted.dtype == np.float32 and named.feature_names == tuple("abcd")
    np.testing.assert_allclose(shifted.rows(rows), X[:5] - X.mean(axis=0), atol=1e-6)
    assert source.dtype == np.float64 and source.mean is None and source.feature_names is None
    np.testing.assert_array_equal(source.rows(rows), X[:5])


def test_an_error_in_a_block_comes_through() -> None:
    def fail(rows: object) -> int:
        raise RuntimeError("in a block")

    with pytest.raises(RuntimeError, match="in a block"):
        LocalSource(X, n_jobs=2).reduce(fail)


def test_a_source_is_its_own_source_and_threads_are_counted() -> None:
    source = as_source(X)
    assert as_source(source) is source
    assert thread_count(None) == thread_count(-1) >= 1
    assert thread_count(3) == 3
    assert thread_count(-2) == max(1, thread_count(None) - 1)
    with pytest.raises(ValueError, match=r"`n_jobs` is 0\. Use a number of threads, or None"):
        thread_count(0)


def test_the_limit_on_blas_holds_until_the_last_holder_leaves() -> None:
    def threads() -> list[int]:
        ours = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        return [pool["num_threads"] for pool in ours if "numpy.libs" in pool["filepath"]]

    def work() -> None:
        for _ in range(20):
            with single_threaded_blas():
                pass

    before = threads()
    with single_threaded_blas():
        limited = threads()
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert threads() == limited and set(limited) <= {1}
    assert threads() == before
