"""Threads: how many a number of jobs means, and a limit on those of BLAS."""

from __future__ import annotations

import functools
import os
import threading
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController

from vrmf.checks import whole_number


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` means: None and -1 are all cores, -2 all but one, and so on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    n_jobs = whole_number("n_jobs", n_jobs, low=-(10**9))
    if n_jobs == 0:
        raise ValueError("`n_jobs` is 0. Use a number of threads, or None or -1 for all cores.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class _SingleThreadedBLAS:
    """A limit on the threads of BLAS that several threads may ask for: the last one to finish lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: Any = None
        self._inherited: Any = None  # a limit that threads of another process held

    def forget_threads(self) -> None:
        """Reset in a forked process, which has none of the threads that held the lock and the limit."""
        self._lock = threading.Lock()
        if self._holders:
            self._holders, self._inherited = 0, self._limit

    def __enter__(self) -> None:
        with self._lock:
            if self._inherited is not None:
                self._inherited.restore_original_limits()
                self._inherited = None
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
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SINGLE_THREADED_BLAS.forget_threads)


def single_threaded_blas() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread, so that bits repeat and threads don't fight."""
    return _SINGLE_THREADED_BLAS
