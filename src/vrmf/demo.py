"""The demonstration: corrupted digits, two models, three solvers, a table and three pictures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from vrmf import plots
from vrmf.estimators import AbstractFactorizer, DictionaryLearning, RobustPCA
from vrmf.terms.base import Array

SHAPE = (8, 8)
SOLVERS = ("vr", "smm", "sgd")
MODELS: dict[str, Callable[..., AbstractFactorizer]] = {
    "robust PCA": RobustPCA,
    "dictionary learning": DictionaryLearning,
}


@dataclass(frozen=True)
class Fit:
    """One model, fitted by one solver."""

    problem: str
    solver: str
    model: AbstractFactorizer


def corrupted_digits(share: float, seed: int) -> tuple[Array, Array]:
    """Return digits with a share of pixels replaced by noise of twice their range, and the clean ones."""
    clean = load_digits().data / 16
    rng = np.random.default_rng(seed)
    noise = rng.uniform(-0.5, 1.5, clean.shape)
    return np.where(rng.random(clean.shape) < share, noise, clean), clean


def compile_kernels(X: Array, n_components: int) -> None:
    """Take a few steps of every fit, so that no kernel is compiled while they are compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in fits(X[: 4 * n_components], 2, n_components, 0):
            pass


def fits(X: Array, passes: int, n_components: int, seed: int) -> Iterator[Fit]:
    """Fit each model with each solver, from the same start and for about the same passes."""
    for problem, kind in MODELS.items():
        for solver in SOLVERS:
            # VR opens with two passes; an epoch is two more, the anchor and the inner steps.
            epochs = max(1, passes // 2 - 1) if solver == "vr" else passes
            model = kind(
                n_components,
                solver=solver,
                max_iter=epochs,
                tol=0,
                record_every=1,
                init="data",
                random_state=seed,
            )
            yield Fit(problem, solver, model.fit(X))


def write_pictures(done: list[Fit], X: Array, clean: Array, folder: Path) -> list[Path]:
    """Write the pictures of the demonstration and return their paths."""
    robust, sparse = (next(f.model for f in done if f.problem == problem) for problem in MODELS)
    low_rank, outliers = robust.decompose(X)
    parts = {"original": clean, "corrupted": X, "low rank": low_rank, "outliers": outliers}
    runs = {p: {f.solver: f.model.history_ for f in done if f.problem == p} for p in MODELS}
    figures = {
        "atoms.png": plots.atoms_figure(sparse.components_, SHAPE, "Atoms of dictionary learning"),
        "decomposition.png": plots.decomposition_figure(
            parts, SHAPE, signed=["outliers"], title="Robust PCA of corrupted digits"
        ),
        "convergence.png": plots.convergence_figure(runs, "Objective above the best found"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=110)
    return [folder / name for name in figures]
