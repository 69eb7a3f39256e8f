"""Lasso codes of MNIST, against LARS of SPAMS and coordinate descent of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.coding_runs import Result, codes_model, cold_and_warm, compare, encode, result
from benchmarks.common import THREADS, Array, mnist, moved, rows_as_atoms
from benchmarks.solver_races import quickest
from vrmf.terms import L1


def lasso() -> list[Result]:
    """MNIST 20 000 × 784, atoms from rows, against LARS of SPAMS."""
    import spams

    X, results = mnist(20_000), list[Result]()
    rows = np.asfortranarray(X.T)
    for k in (49, 100, 256):
        D = rows_as_atoms(X, k)
        D2 = moved(D)
        columns = np.asfortranarray(D2.T)
        for weight in (1 / 28, 0.3):
            model = codes_model(L1(weight))
            start = encode(model, X, D)
            peer = lambda: spams.lasso(rows, D=columns, lambda1=weight, mode=2, numThreads=THREADS)
            exact = peer().toarray().T
            ours = encode(model, X, D2, start)
            facts = {
                "density": float(np.mean(ours != 0)),
                "difference": _difference(ours, exact),
                "difference_cold": _difference(encode(model, X, D2), exact),
            }
            times = cold_and_warm(lambda: encode(model, X, D2), lambda: encode(model, X, D2, start), peer)
            wanted = (1.5, 6.0) if k == 49 and weight < 0.1 else (1.0, 4.0)
            for kind, bar, pair in zip(("cold", "warm"), wanted, times, strict=True):
                results.append(result(f"lasso k={k} λ={weight:.3f} {kind}", bar, pair, **facts))
    return results


def _difference(H: Array, exact: Array) -> float:
    """Return the largest difference of codes over the largest code."""
    return float(np.max(np.abs(H - exact)) / np.max(np.abs(exact)))


def sparse_encode() -> list[Result]:
    """The same problems on 4 000 rows, against coordinate descent of scikit-learn.

    It has one or two jobs, whichever is quicker: on short work the second process costs more than it saves.
    """
    data, results = mnist(20_000), list[Result]()
    X = data[:4000]
    for k in (49, 100, 256):
        D = rows_as_atoms(data, k)
        for weight in (1 / 28, 0.3):
            model = codes_model(L1(weight))
            jobs, _ = quickest(lambda jobs: _coordinate_descent(X, D, weight, jobs), (1, THREADS))
            peer = partial(_coordinate_descent, X, D, weight, jobs)
            gap = model.losses(X, D, peer()) - model.losses(X, D, encode(model, X, D))
            contestants: dict[str, Callable[[], Any]] = {
                "vrmf": lambda: encode(model, X, D),
                "scikit-learn": peer,
            }
            name = f"lasso k={k} λ={weight:.3f}, 4 000 rows"
            facts = {"excess_loss_of_peer": float(np.mean(gap)), "jobs_of_peer": jobs}
            results.append(compare(name, 30, contestants, **facts))
    return results


def _coordinate_descent(X: Array, D: Array, weight: float, jobs: int) -> Array:
    """Return the codes of scikit-learn."""
    from sklearn.decomposition import sparse_encode as encode_by_peer
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(encode_by_peer(X, D, algorithm="lasso_cd", alpha=weight, n_jobs=jobs))
