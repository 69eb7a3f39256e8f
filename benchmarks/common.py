"""What all benchmarks share: data, fair timing, and files of results."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.machine import core_count, installed_version, processor_name
from vrmf.datasets import fetch_cbcl, fetch_mnist, fetch_yaleb, load_synth

Array = NDArray[Any]

RESULTS = Path(__file__).parent / "results"

#: Threads that every contestant gets.
THREADS = 2


def interleaved(
    contestants: dict[str, Callable[[], Any]], repeats: int, ready: tuple[str, ...] = ()
) -> dict[str, float]:
    """Return the median time of each contestant over ``repeats`` runs in turn.

    Each has a first run that is not counted, except those that are ``ready``. Short contests have more
    repeats, up to two seconds in all, since short times are the noisiest.
    """
    for name, run in contestants.items():
        if name not in ready:
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    end, turn = time.perf_counter() + 2, 0
    while turn < repeats or (time.perf_counter() < end and turn < 10 * repeats):
        turn += 1
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}


def parallel_speed(size: int = 2000) -> float:
    """Return the rate of matrix products of two threads over that of one, on this machine now."""
    A, B = np.random.default_rng(0).random((size, 784)), np.random.default_rng(1).random((784, 49))

    def rate(threads: int) -> float:
        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: A @ B, range(100)))
        return 100 / (time.perf_counter() - begin)

    with threadpool_limits(1, user_api="blas"):
        return statistics.median(rate(THREADS) / rate(1) for _ in range(5))


def machine() -> dict[str, Any]:
    """Return the machine and the versions that make the results."""
    packages = ("vrmf", "numpy", "scipy", "scikit-learn", "numba", "spams-bin", "hyperspy")
    return {
        "processor": processor_name(),
        "cores": core_count(),
        "threads": THREADS,
        "products of two threads over those of one": round(parallel_speed(), 2),
        "python": platform.python_version(),
        "versions": {name: installed_version(name) for name in packages},
    }


def write(name: str, results: dict[str, Any]) -> Path:
    """Write results as JSON into the folder of results."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def read(name: str) -> dict[str, Any]:
    """Return results that were written earlier, or none."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


# ------------------------------------------------------------------ data


def mnist(n: int, dtype: type = np.float64) -> Array:
    """Return the first rows of MNIST."""
    return fetch_mnist(n, dtype=dtype).X


def cbcl() -> Array:
    """Return the rows of CBCL."""
    return fetch_cbcl().X


def yaleb() -> Array:
    """Return the rows of Yale B."""
    return fetch_yaleb().X


def synth(n: int, outliers: float = 0.1, size: float = 1000.0, seed: int = 0) -> tuple[Array, Array]:
    """Return the rows of the paper's Synth and the true dictionary."""
    data = load_synth(n, outlier_share=outliers, outlier_size=size, random_state=seed)
    return data.X, data.dictionary


def rows_as_atoms(X: Array, k: int, seed: int = 0, by_sum: bool = False) -> Array:
    """Return k distinct nonzero rows of X, scaled to norm 1, or to sum 1."""
    order = np.random.default_rng(seed).permutation(len(X))
    size = X.sum(axis=1) if by_sum else np.linalg.norm(X, axis=1)
    order = order[size[order] > 0][:k]
    return X[order] / size[order, None]


def moved(D: Array, relative: float = 1e-3, seed: int = 3) -> Array:
    """Return D moved in a random direction by the given part of its norm."""
    step = np.random.default_rng(seed).normal(size=D.shape)
    return (D + relative * np.linalg.norm(D) / np.linalg.norm(step) * step).astype(D.dtype)
