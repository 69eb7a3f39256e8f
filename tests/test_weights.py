"""Automatic weights hardly change the reconstruction error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.decomposition
from sklearn.datasets import load_digits, load_sample_image
from sklearn.exceptions import ConvergenceWarning

import vrmf
from vrmf import (
    NMF,
    DictionaryLearning,
    GroupDictionaryLearning,
    MatrixFactorization,
    SmoothDictionaryLearning,
)
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.terms import Absent, NonNegative

BUDGET: dict[str, Any] = {"n_jobs": 1}

may_end_early = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")


def patches() -> Array:
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    windows = np.lib.stride_tricks.sliding_window_view(grey, (6, 6))[::45, ::45]
    return windows.reshape(-1, 36)


def counts() -> Array:
    rng = np.random.default_rng(0)
    topics, mixtures = rng.dirichlet(np.full(40, 0.1), size=8), rng.dirichlet(np.full(8, 0.2), size=300)
    return rng.poisson(100 * mixtures @ topics).astype(float)


DATA: dict[str, Callable[[], Array]] = {
    "digits": lambda: load_digits().data[:400],
    "patches": patches,
    "counts": counts,
}


def relative_error(model: Any, X: Array) -> float:
    return float(np.linalg.norm(X - model.transform(X) @ model.components_) / np.linalg.norm(X))


@functools.cache
def error(data: str, k: int, alpha: float | str = "auto", seed: int = 0) -> float:
    X = DATA[data]()
    alpha = alpha if isinstance(alpha, str) else alpha / X.shape[1]
    return relative_error(NMF(k, alpha=alpha, random_state=seed, **BUDGET).fit(X), X)


CASES = [(data, k) for data in DATA for k in (1, 5, 12)]


@may_end_early
@pytest.mark.parametrize(("data", "k"), CASES)
def test_the_automatic_weight_of_nmf_hardly_changes_the_error(data: str, k: int) -> None:
    assert error(data, k) == pytest.approx(error(data, k, alpha=1e-9), rel=5e-3)


@pytest.mark.slow
@may_end_early
@pytest.mark.parametrize(("data", "k"), CASES)
def test_the_error_of_nmf_is_not_above_that_of_scikit_learn(data: str, k: int) -> None:
    X = DATA[data]()
    peer = sklearn.decomposition.NMF(k, max_iter=400, random_state=0).fit(X)
    # Each seed has its own local minimum, and so has scikit-learn's start.
    ours = np.median([error(data, k, seed=seed) for seed in range(3)])
    assert ours <= 1.01 * relative_error(peer, X)


def test_the_automatic_weight_of_smooth_atoms_is_that_of_nmf() -> None:
    X = load_digits().data[:50]
    smooth, plain = (
        model(3, tol=0, max_iter=1, random_state=0).fit(X).formulation_.code
        for model in (SmoothDictionaryLearning, NMF)
    )
    assert smooth == plain


@pytest.mark.parametrize("model", [DictionaryLearning, GroupDictionaryLearning, MatrixFactorization])
@pytest.mark.parametrize("d", [1, 2, 4, 30, 400])
def test_the_automatic_sparsity_shrinks_one_atom_by_a_tenth_at_most(model: Any, d: int) -> None:
    rng = np.random.default_rng(d)
    direction = rng.standard_normal(d)
    X = rng.choice([-3.0, 3.0], size=(50, 1)) * direction
    fitted = model(1, random_state=0, **BUDGET).fit(X)
    assert fitted.reconstruction_error_ == pytest.approx(min(d**-0.5, 0.1), rel=0.02)


@pytest.mark.parametrize("model", [DictionaryLearning, GroupDictionaryLearning, MatrixFactorization])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1000.0])
def test_an_offset_of_the_data_does_not_hide_them(model: Any, offset: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 20)) + offset
    fitted = model(4, random_state=0, **BUDGET).fit(X)
    assert fitted.explained_variance_ratio(X) > 0.9


# alpha = 0 ------------------------------------------------------------------------------------------

WITHOUT = [NMF, SmoothDictionaryLearning]


@pytest.mark.parametrize("estimator", WITHOUT)
def test_alpha_may_be_zero(estimator: Any, tmp_path: Path) -> None:
    X = load_digits().data[:150]
    model = estimator(4, alpha=0, tol=0, max_iter=5, random_state=0, n_jobs=1).fit(X)
    assert model.formulation_.code == NonNegative()
    codes = model.transform(X)
    assert codes.min() >= 0
    vrmf.save(model, tmp_path / "model.vrmf")
    loaded = vrmf.load(tmp_path / "model.vrmf")
    assert np.array_equal(loaded.transform(X), codes)
    assert np.array_equal(loaded.partial_fit(X).components_, model.partial_fit(X).components_)
    stream = estimator(4, alpha=0, random_state=0)
    for batch in np.array_split(X, 5):
        stream.partial_fit(batch)
    assert stream.components_.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [3, 6, 20])
def test_codes_without_a_ridge_are_optimal_even_with_more_atoms_than_features(k: int, dtype: Any) -> None:
    rng = np.random.default_rng(k)
    D = rng.dirichlet(np.full(6, 0.5), size=k).astype(dtype)
    X = rng.gamma(1.0, size=(200, 6)).astype(dtype)
    codes = Coder(tol=1e-7).encode(X, Atoms(D), NonNegative(), Absent())
    assert np.all(codes.finished)
    H, slope = codes.H, (codes.H @ D - X) @ D.T
    scale = np.linalg.norm(X, axis=1, keepdims=True) * np.linalg.norm(D, 2)
    rounding = 1e-6 if dtype == np.float64 else 1e-4
    assert H.min() >= 0
    assert np.all(slope >= -rounding * scale), "no atom would help if it were used more"
    assert np.all(np.abs(np.where(H > 0, slope, 0)) <= rounding * scale), "nor less"


@pytest.mark.slow
@may_end_early
@pytest.mark.parametrize("alpha", [0, "auto"])
def test_more_atoms_than_features_fit_exactly(alpha: Any) -> None:
    X = np.random.default_rng(0).gamma(1.0, size=(200, 5))
    model = NMF(9, alpha=alpha, tol=1e-9, max_iter=100, random_state=0, n_jobs=1).fit(X)
    assert relative_error(model, X) < 0.02


@pytest.mark.parametrize("value", [-1e-9, float("nan"), "small", None])
@pytest.mark.parametrize("estimator", WITHOUT)
def test_alpha_may_not_be_negative(estimator: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"`alpha` is .*\. Use a .*of at least 0"):
        estimator(2, alpha=value).fit(np.ones((4, 3)))
