"""Sources: where rows live. A source applies a function to blocks of rows and adds up the results.

>>> import numpy as np
>>> source = as_source(np.arange(6.0).reshape(3, 2))
>>> source.reduce(lambda X, where: X.sum(axis=0))
array([6., 9.])
>>> source.reduce(lambda X, where: X.sum(axis=0), rows=np.array([0, 2]))
array([4., 6.])

Blocks are cut by the shape of the data alone, BLAS runs on one thread inside a block, and results
come back in the order of the blocks: bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from vrmf.checks import whole_number
from vrmf.terms.base import Array

T = TypeVar("T")

#: Rows of a block in double precision, twice as many in single, unless fewer make up BLOCK_BYTES.
BLOCK_ROWS = 512
BLOCK_BYTES = 2**25

#: Few rows make this many blocks, so that threads share them, but of no fewer than LEAST_ROWS on average.
FEW_BLOCKS = 4
LEAST_ROWS = 128


class AbstractSource(ABC):
    """Rows of data, somewhere."""

    n_samples: int
    n_features: int
    dtype: np.dtype[Any]

    @abstractmethod
    def map(self, function: Callable[[Array, Any], T], rows: Array | None = None) -> Iterator[T]:
        """Apply ``function(X, where)`` to blocks of rows, in order.

        ``where`` is the slice or the index array that the block has in the whole data. All rows
        are visited, or those whose indices ``rows`` lists.
        """

    def reduce(self, function: Callable[[Array, Any], T], rows: Array | None = None) -> T:
        """Add up the results of :meth:`map`, in order."""
        return functools.reduce(operator.add, self.map(function, rows))


class ArraySource(AbstractSource):
    """Rows of an array in memory (or mapped into it), optionally shifted by a mean.

    Parameters
    ----------
    X : array of shape (n, d)
    n_jobs : int or None
        Threads; None or -1 takes all cores that this process may use.
    mean : array of shape (d,), or None
        Subtracted from each block when it is read, so that no centred copy is made.
    """

    def __init__(self, X: Array, n_jobs: int | None = None, mean: Array | None = None) -> None:
        self.X = X
        self.mean = mean
        self.n_samples, self.n_features = X.shape
        self.dtype = X.dtype
        self.n_threads = thread_count(n_jobs)
        row_bytes = max(1, X.shape[1] * X.dtype.itemsize)
        most = BLOCK_ROWS * 8 // X.dtype.itemsize
        self._block = int(np.clip(BLOCK_BYTES // row_bytes, 32, most))

    def map(self, function: Callable[[Array, Any], T], rows: Array | None = None) -> Iterator[T]:
        def work(where: Any) -> T:
            X = self.X[where] if self.mean is None else self.X[where] - self.mean
            return function(np.ascontiguousarray(X), where)

        count = self.n_samples if rows is None else len(rows)
        few = min(FEW_BLOCKS, -(-count // LEAST_ROWS)) or 1
        size = min(self._block, -(-count // few)) or 1
        blocks: list[Any] = [slice(i, min(i + size, count)) for i in range(0, count, size)]
        if rows is not None:
            blocks = [rows[block] for block in blocks]
        with single_threaded_blas():
            if self.n_threads == 1 or len(blocks) == 1:
                yield from map(work, blocks)
            else:
                yield from self._pool.map(work, blocks)

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads, thread_name_prefix="vrmf")


def as_source(X: Any, n_jobs: int | None = None, mean: Array | None = None) -> AbstractSource:
    """Return the source that fits the type of ``X``; a source is returned as it is."""
    if isinstance(X, AbstractSource):
        return X
    return ArraySource(X, n_jobs, mean)


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` means: None and -1 are all cores, -2 all but one, and so on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("`n_jobs` is 0. Use a number of threads, or None or -1 for all cores.")
    n_jobs = whole_number("n_jobs", n_jobs, low=-(10**9))
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class _SingleThreadedBLAS:
    """A limit on the threads of BLAS that several threads may hold: the last one to leave lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._holders += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limit.restore_original_limits()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_SINGLE_THREADED_BLAS = _SingleThreadedBLAS()


def single_threaded_blas() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread, so that bits repeat and threads don't fight."""
    return _SINGLE_THREADED_BLAS
