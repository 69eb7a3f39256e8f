"""Nonnegative codes and codes in groups, against SciPy, scikit-learn and SPAMS."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from benchmarks.coding_runs import Result, codes_model, compare, encode
from benchmarks.common import THREADS, Array, cbcl, mnist, rows_as_atoms
from vrmf.coding import Coder
from vrmf.terms import GroupL2, NonNegative, Ridge


def nonnegative() -> list[Result]:
    """CBCL, atoms from rows of sum 1, a small ridge: against NNLS of SciPy and NMF of scikit-learn."""
    from sklearn.decomposition import non_negative_factorization
    from sklearn.exceptions import ConvergenceWarning

    X, results = cbcl(), list[Result]()
    for k in (49, 100):
        D = rows_as_atoms(X, k, by_sum=True)
        ridge = 1e-3 * float(np.mean(np.sum(D**2, axis=1)))
        model = codes_model(NonNegative() + Ridge(ridge))
        tall = np.vstack([D.T, np.sqrt(ridge) * np.eye(k)])

        def nnls() -> Array:
            return np.array([scipy.optimize.nnls(tall, np.append(x, np.zeros(k)))[0] for x in X])

        def nmf(max_iter: int = 200) -> Array:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                W, *_ = non_negative_factorization(
                    X, H=D, update_H=False, solver="cd",
                    alpha_W=ridge / X.shape[1], l1_ratio=0.0, tol=1e-6, max_iter=max_iter,
                )  # fmt: skip
            return np.asarray(W)

        best = encode(model, X, D)
        difference = float(np.max(np.abs(best - nnls())) / np.max(best))
        ours: dict[str, Callable[[], Any]] = {"vrmf": lambda: encode(model, X, D)}
        name = f"nonnegative ridge k={k}"
        results.append(compare(name, 50, ours | {"SciPy nnls": nnls}, difference=difference))
        excess = model.losses(X, D, nmf()) - model.losses(X, D, best)
        relative = float(np.mean(excess) / np.mean(model.losses(X, D, best)))
        facts = {"relative_excess_loss_of_peer": relative}
        results.append(compare(name, 5, ours | {"scikit-learn NMF": nmf}, **facts))
    return results


def group() -> list[Result]:
    """MNIST, 49 atoms in groups of 7, against FISTA of SPAMS, at a duality gap no larger than its own."""
    import spams

    data, results = mnist(20_000), list[Result]()
    X, D = data[:256], rows_as_atoms(data, 49)
    blocks = [list(range(i, i + 7)) for i in range(0, 49, 7)]
    rows, columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
    zeros, labels = np.zeros((49, len(X)), order="F"), np.repeat(np.arange(1, 8), 7).astype(np.int32)
    for weight in (7**0.5 / 28, 0.3 * 7**0.5):
        model, coder = codes_model(GroupL2(blocks, [weight] * 7)), Coder(tol=1e-6)

        def peer() -> Array:
            W = spams.fistaFlat(
                rows, columns, zeros, numThreads=THREADS, loss="square", regul="group-lasso-l2",
                groups=labels, lambda1=weight, max_it=1000, tol=1e-6, it0=10,
            )  # fmt: skip
            return np.ascontiguousarray(W.T)

        facts = {
            "gap": _group_gap(X, D, encode(model, X, D, coder=coder), blocks, weight),
            "gap_of_peer": _group_gap(X, D, peer(), blocks, weight),
        }
        contestants = {"vrmf": lambda: encode(model, X, D, coder=coder), "SPAMS fistaFlat": peer}
        results.append(compare(f"group lasso λ={weight:.3f}, 256 rows", 5, contestants, **facts))
    return results


def _group_gap(X: Array, D: Array, H: Array, blocks: list[list[int]], weight: float) -> float:
    """Return the mean relative duality gap of group lasso codes."""
    E = X - H @ D
    primal = 0.5 * np.sum(E**2, axis=1) + weight * sum(np.linalg.norm(H[:, g], axis=1) for g in blocks)
    pull = np.max([np.linalg.norm((E @ D.T)[:, g], axis=1) for g in blocks], axis=0) / weight
    dual = E / np.maximum(pull, 1)[:, None]
    gap = primal - (np.sum(dual * X, axis=1) - 0.5 * np.sum(dual**2, axis=1))
    return float(np.mean(gap / primal))
