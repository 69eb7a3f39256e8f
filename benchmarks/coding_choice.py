"""Which method for sparse codes is taken, and how far from the faster one it is."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.coding_overcomplete import NONZEROS
from benchmarks.coding_runs import Result
from benchmarks.common import Array, cbcl, mnist, moved, rows_as_atoms
from benchmarks.patches import SIZES, learned, nearby, patches, weight_for
from vrmf.block import as_block
from vrmf.coding import METHODS, Atoms
from vrmf.coding.active_set import ActiveSet
from vrmf.coding.base import Task
from vrmf.coding.splitting import Splitting
from vrmf.sources import single_threaded_blas
from vrmf.terms import L1, Absent, AbstractRowTerm, NonNegative, Ridge


def choice() -> list[Result]:
    """Return the time of the faster of two methods over that of the method that is taken."""
    results = list[Result]()
    for name, X, D, code in _problems():
        far = nearby(D) if len(D) > D.shape[1] else moved(D, 1e-2)
        rows = as_block(X)
        start = ActiveSet().encode(Task(rows, Atoms(D), code, Absent(), 1e-7, 500)).H
        for kind, known in (("cold", None), ("warm", start)):
            task = lambda: Task(rows, Atoms(far), code, Absent(), 1e-7, 500, known)
            taken = next(method for method in METHODS if method.applies_to(task()))
            with single_threaded_blas(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = {
                    type(method).__name__: _least(lambda: method.encode(task()))
                    for method in (ActiveSet(), Splitting())
                }
            share = min(seconds.values()) / seconds[type(taken).__name__]
            density = float(np.mean(start != 0))
            told = f"density {density:.2f} {type(taken).__name__:10s} {share:.2f}"
            print(f"{name:34s} {kind} {told}", flush=True)
            results.append(
                {
                    "name": f"{name}, {kind}",
                    "density": density,
                    "taken": type(taken).__name__,
                    "share": share,
                    "seconds": seconds,
                }
            )
    return results


def _problems() -> Iterator[tuple[str, Array, Array, AbstractRowTerm]]:
    """Yield blocks of 512 rows with a dictionary and a code term."""
    for images in ("faces", "samples"):
        for d, k in SIZES[:4]:
            X = patches(images, d, 10_000)
            D = learned(X, k)
            for nonzeros in NONZEROS:
                weight = weight_for(X[:200], D, nonzeros)
                yield f"{images} {d}, k={k}, {nonzeros} nonzeros", X[:512], D, L1(weight)
    digits = mnist(5000)
    for k in (49, 100, 256, 512):
        D = rows_as_atoms(digits, k)
        for weight in (1 / 28, 0.1, 0.3, 1.0, 3.0):
            yield f"MNIST k={k} λ={weight:.2f}", digits[:512], D, L1(weight)
    faces = cbcl()
    for k in (25, 49, 100, 200):
        D = rows_as_atoms(faces, k, by_sum=True)
        ridge = 1e-3 * float(np.mean(np.sum(D**2, axis=1)))
        yield f"CBCL nonnegative k={k}", faces[:512], D, NonNegative() + Ridge(ridge)
    rng = np.random.default_rng(0)
    for d, k in ((64, 80), (64, 128), (200, 100), (30, 300)):
        D = rng.normal(size=(k, d))
        D /= np.linalg.norm(D, axis=1)[:, None]
        for weight in (0.03, 0.5):
            yield f"random {d}, k={k} λ={weight}", rng.normal(size=(512, d)), D, L1(weight)


def _least(work: Callable[[], Any]) -> float:
    """Return the least time of up to three runs after a first one; they end after a second in all."""
    work()
    times: list[float] = []
    while len(times) < 3 and sum(times) < 1.0:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
