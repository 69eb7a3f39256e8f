"""Fits in read-only folders, forked processes, threads, and running event loops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import dask
import joblib
import numpy as np
import pytest

import vrmf
from estimator_cases import make, rows
from vrmf.arrays import Array

SOURCE = Path(vrmf.__file__).parents[1]

posix = pytest.mark.skipif(os.name != "posix", reason="fork and permissions of POSIX")


def python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    words = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)


@pytest.mark.slow
@posix
def test_kernels_compile_in_memory_where_nothing_can_be_written(tmp_path: Path) -> None:
    # Numba tests a folder by making a temporary file, which fails here, also for root.
    result = python(
        """
        import tempfile

        def refuse(*args, **options):
            raise OSError("read-only file system")

        tempfile.TemporaryFile = refuse
        import numpy as np, vrmf
        X = np.random.default_rng(0).random((30, 4))
        print(vrmf.NMF(2, max_iter=1, tol=0, random_state=0, n_jobs=1).fit(X).components_.shape)
        """,
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(SOURCE)),
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["(2,", "4)"]
    (line,) = [line for line in result.stderr.splitlines() if line]
    assert "in each process" in line and "NUMBA_CACHE_DIR" in line


@pytest.mark.slow
@posix
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_while_another_thread_fits_is_not_stuck() -> None:
    result = python(
        """
        import os, signal, threading, time, warnings
        import numpy as np, vrmf
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).random((400, 6))

        def fit():
            return vrmf.NMF(2, max_iter=3, tol=0, random_state=0, n_jobs=2).fit(X)

        fit()
        done = threading.Event()

        def keep_fitting():
            while not done.is_set():
                fit()

        thread = threading.Thread(target=keep_fitting)
        thread.start()
        stuck = 0
        for _ in range(40):
            time.sleep(0.003)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                vrmf.NMF(2, max_iter=1, tol=0, random_state=0, n_jobs=1).fit(X[:50])
                os._exit(0)
            stuck += os.waitpid(child, 0)[1] != 0
        done.set()
        thread.join()
        print(stuck)
        """,
        env=dict(os.environ, PYTHONPATH=str(SOURCE)),
    )
    assert result.returncode == 0 and result.stdout.split() == ["0"], result.stderr


def components(seed: int) -> Array:
    return make("nmf", random_state=seed, max_iter=3, n_jobs=2).fit(rows(200)).components_


SEEDS = range(6)


@pytest.fixture(scope="module")
def alone() -> list[Array]:
    """What fits give one after another."""
    return [components(seed) for seed in SEEDS]


def test_fits_in_threads_of_joblib_have_the_same_bits(alone: list[Array]) -> None:
    together = joblib.Parallel(n_jobs=3, prefer="threads")(joblib.delayed(components)(s) for s in SEEDS)
    np.testing.assert_array_equal(together, alone)


def test_fits_in_threads_of_dask_have_the_same_bits(alone: list[Array]) -> None:
    together = dask.compute(*map(dask.delayed(components), SEEDS), scheduler="threads")
    np.testing.assert_array_equal(together, alone)


def test_fits_inside_a_running_event_loop_have_the_same_bits(alone: list[Array]) -> None:
    async def notebook() -> list[Array]:
        here = components(0)
        return [here, *await asyncio.gather(*(asyncio.to_thread(components, seed) for seed in SEEDS[1:]))]

    np.testing.assert_array_equal(asyncio.run(notebook()), alone)


def test_threads_of_blas_are_as_before_when_fits_end() -> None:
    from threadpoolctl import threadpool_info

    def counts() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = counts()
    threads = [threading.Thread(target=components, args=(seed,)) for seed in SEEDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts() == before
