"""Codes with outliers, whose loss is Huber's, against ORPCA of hyperspy."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.coding_runs import Result, codes_model, compare, encode
from benchmarks.common import Array, rows_as_atoms, synth
from vrmf import RobustPCA
from vrmf.coding import Coder
from vrmf.formulations import Formulation
from vrmf.terms import L1, Ridge


def huber() -> list[Result]:
    """The paper's Synth, Huber loss with a ridge, against ORPCA's codes of hyperspy."""
    X, _ = synth(10_000)
    weight, results = 1 / 20, list[Result]()
    model = codes_model(Ridge(weight), L1(weight))
    clipped = np.clip(X, -8, 8)
    for name, D in (("start", rows_as_atoms(clipped, 49)), ("learned", learned(X, weight))):
        some, coder = X[:500], Coder(tol=1e-6)
        peer = _hyperspy_codes(D, weight)
        facts = {
            "error": _huber_error(model, some, D, encode(model, some, D, coder=coder)),
            "error_of_peer": _huber_error(model, some, D, peer(some)),
        }
        contestants = {
            "vrmf": lambda: encode(model, some, D, coder=coder),
            "hyperspy": lambda: peer(some),
        }
        results.append(compare(f"Huber + ridge, D {name}, 500 rows", 100, contestants, **facts))
    return results


def learned(X: Array, weight: float) -> Array:
    """Return the dictionary of robust PCA after at most three epochs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = RobustPCA(49, alpha=weight, outlier_alpha=weight, max_iter=3, random_state=0).fit(X)
    return np.asarray(fitted.components_)


def _hyperspy_codes(D: Array, weight: float) -> Callable[[Array], Array]:
    """Return hyperspy's map from rows to codes for a given dictionary."""
    from hyperspy.learn._rpca import ORPCA

    solver = ORPCA(len(D), lambda1=weight, lambda2=weight, method="CF", init=np.ascontiguousarray(D.T))
    with contextlib.redirect_stderr(io.StringIO()):  # the progress bar
        solver.fit(np.zeros((2, D.shape[1])) + D[:1])
    solver.L = np.ascontiguousarray(D.T)

    def codes(rows: Array) -> Array:
        with contextlib.redirect_stderr(io.StringIO()):
            return np.asarray(solver.transform(rows)).reshape(-1, len(D))

    return codes


def _huber_error(model: Formulation, X: Array, D: Array, H: Array) -> float:
    """Return the largest relative gradient of the Huber problem over all rows."""
    assert isinstance(model.code, Ridge)
    residual, _ = model.residual(X, D, H)
    gradient = residual @ D.T + model.code.weight * H
    scale = np.linalg.norm(X - model.outliers.prox(X, 1.0), axis=1) * np.linalg.norm(D, 2)
    return float(np.max(np.linalg.norm(gradient, axis=1) / scale))
