"""Sparse codes of overcomplete dictionaries: parts of coding.py."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.common import THREADS, Array, cbcl, interleaved, mnist, moved, rows_as_atoms
from benchmarks.patches import SIZES, learned, nearby, patches, weight_for
from vrmf.coding import METHODS, Atoms
from vrmf.coding.active_set import ActiveSet
from vrmf.coding.base import Task
from vrmf.coding.splitting import Splitting
from vrmf.sources import single_threaded_blas
from vrmf.terms import L1, Absent, AbstractRowTerm, NonNegative, Ridge

#: Nonzeros of a code, on the average, and how many times SPAMS from cold was wanted for them.
NONZEROS = {5: 1.5, 10: 1.5, 20: 1.5, 40: 1.2}

#: How many times SPAMS was wanted from codes of a dictionary 1 % away.
WANTED_WARM = 6.0

ROWS, REPEATS = 4000, 5

Encode = Callable[..., Array]


def overcomplete(encode: Encode, result: Callable[..., dict[str, Any]], model: Any) -> list[dict[str, Any]]:
    """Lasso codes of patches, cold and warm, against LARS of SPAMS."""
    results = []
    for images in ("faces", "samples"):
        for d, k in SIZES:
            X = patches(images, d, 20_000)
            D, rows = learned(X, k), X[:ROWS]
            for nonzeros, wanted in NONZEROS.items():
                weight = weight_for(rows[:400], D, nonzeros)
                name = f"{images} {d}, k={k}, {nonzeros} nonzeros"
                code = model(L1(weight))
                results += _against_spams(encode, result, name, rows, D, code, wanted, {"lambda1": weight})
    return results


def overcomplete_others(
    encode: Encode, result: Callable[..., dict[str, Any]], model: Any
) -> list[dict[str, Any]]:
    """Nonnegative and elastic net codes of patches of faces, cold, against SPAMS."""
    results = []
    for d, k in SIZES:
        X = patches("faces", d, 20_000)
        D, rows = learned(X, k), X[:ROWS]
        for nonzeros in NONZEROS:
            weight = weight_for(rows[:400], D, nonzeros)
            cases: dict[str, tuple[AbstractRowTerm, dict[str, Any]]] = {
                "nonnegative": (L1(weight) + NonNegative(), {"lambda1": weight, "pos": True}),
                "elastic net": (L1(weight) + Ridge(0.1), {"lambda1": weight, "lambda2": 0.1}),
            }
            for kind, (code, options) in cases.items():
                name = f"{kind}, faces {d}, k={k}, {nonzeros} nonzeros of lasso"
                found = _against_spams(encode, result, name, rows, D, model(code), 1.5, options)
                results.append(found[0])
    return results


def _against_spams(
    encode: Encode,
    result: Callable[..., dict[str, Any]],
    name: str,
    X: Array,
    D: Array,
    model: Any,
    wanted: float,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    import spams

    far = nearby(D)
    start, rows, columns = encode(model, X, D), np.asfortranarray(X.T), np.asfortranarray(far.T)
    peer = lambda: spams.lasso(rows, D=columns, mode=2, numThreads=THREADS, **options)
    exact, ours = peer().toarray().T, encode(model, X, far)
    # SPAMS stops at k nonzeros at most, and codes of nearly dependent atoms differ: losses tell.
    gap = np.mean(model.losses(X, far, ours)) / np.mean(model.losses(X, far, exact)) - 1
    facts = {"nonzeros": float(np.mean(np.count_nonzero(ours, axis=1))), "loss_over_theirs": float(gap)}
    runs = {
        "cold": lambda: encode(model, X, far),
        "warm": lambda: encode(model, X, far, start),
        "SPAMS lasso": peer,
    }
    times = interleaved(runs, REPEATS, ready=("SPAMS lasso",))
    return [
        result(f"{name}, {kind}", bar, {"vrmf": times[kind], "SPAMS lasso": times["SPAMS lasso"]}, **facts)
        for kind, bar in (("cold", wanted), ("warm", WANTED_WARM))
    ]


# ------------------------------------------------------------------ which method is taken


def choice() -> list[dict[str, Any]]:
    """The method that is taken for a block, against the better of both: how far from it."""
    results = []
    for name, X, D, code in _problems():
        far = nearby(D) if len(D) > D.shape[1] else moved(D, 1e-2)
        start = ActiveSet().encode(Task(X, Atoms(D), code, Absent(), 1e-7, 500)).H
        for kind, known in (("cold", None), ("warm", start)):
            task = lambda: Task(X, Atoms(far), code, Absent(), 1e-7, 500, known)
            taken = next(method for method in METHODS if method.applies_to(task()))
            with single_threaded_blas(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = {
                    type(method).__name__: _least(lambda: method.encode(task()))
                    for method in (ActiveSet(), Splitting())
                }
            share = min(seconds.values()) / seconds[type(taken).__name__]
            density = float(np.mean(start != 0))
            print(
                f"{name:34s} {kind} density {density:.2f} {type(taken).__name__:10s} {share:.2f}",
                flush=True,
            )
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
    """Return the least time of three runs after the first, or of one if that took long."""
    work()
    times: list[float] = []
    while len(times) < 3 and sum(times) < 1.0:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
