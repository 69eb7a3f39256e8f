"""Generators of data whose structure is known, for suggest_data.py.

Each function that is called with k generates k components.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets

from benchmarks.common import Array
from vrmf.scenes import moving_scene

Generator = np.random.Generator


def normal_factors(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Normal codes and atoms, and normal noise relative to the size of entries."""
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
    return X + noise * np.std(X) * rng.standard_normal((n, d))


def falling_factors(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Orthonormal atoms, uniform codes of falling size, and a common mean."""
    atoms = np.linalg.qr(rng.standard_normal((d, k)))[0].T
    X = rng.uniform(-1, 1, (n, k)) * np.geomspace(1, 0.4, k) @ atoms + rng.standard_normal(d) / d**0.5
    return X + noise * np.std(X) * rng.standard_normal((n, d))


def uneven_noise(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Normal factors; the noise of each feature has a size of its own, over a factor of five."""
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
    return X + noise * np.std(X) * rng.uniform(0.4, 2, d) * rng.standard_normal((n, d))


def heavy_noise(rng: Generator, k: int, n: int, d: int, noise: float, freedom: float) -> Array:
    """Normal factors and noise with tails of Student's t."""
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
    return X + noise * np.std(X) * rng.standard_t(freedom, (n, d))


def positive_factors(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Gamma codes and atoms, and uniform noise."""
    X = rng.gamma(0.7, size=(n, k)) @ rng.gamma(0.7, size=(k, d))
    return X + noise * np.mean(X) * rng.random((n, d))


def parts(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Atoms on a third of the features, exponential codes half of which are 0, and clipped noise."""
    atoms = rng.random((k, d)) * (rng.random((k, d)) < 0.33)
    X = (rng.exponential(size=(n, k)) * (rng.random((n, k)) < 0.5)) @ atoms
    return np.maximum(X + noise * np.mean(X) * rng.standard_normal((n, d)), 0)


def uneven_parts(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Atoms of a few strong features each beside weak ones, gamma codes, the same noise in all features."""
    atoms = rng.gamma(0.3, size=(k, d))
    atoms[:, : 4 * k] += 6 * np.kron(np.eye(k), np.ones(4))
    return rng.gamma(0.6, size=(n, k)) @ atoms + noise * np.abs(rng.standard_normal((n, d)))


def hit(rng: Generator, X: Array, share: float, size: float, kind: str) -> Array:
    """Return X with outliers: uniform of both signs, or added with one size and sign."""
    is_hit = rng.random(X.shape) < share
    outliers = rng.uniform(-size, size, X.shape) if kind == "uniform" else np.full(X.shape, size)
    return X + np.std(X) * np.where(is_hit, outliers, 0)


def with_outliers(
    rng: Generator, k: int, clean: Callable[..., Array], *args: Any, share: float, size: float, kind: str
) -> Array:
    return hit(rng, clean(rng, k, *args), share, size, kind)


def spiked_counts(
    rng: Generator, k: int, clean: Callable[..., Array], *args: Any, share: float, low: int, high: int
) -> Array:
    """Counts, to some of which whole numbers from low to high are added."""
    X = clean(rng, k, *args)
    return X + np.where(rng.random(X.shape) < share, rng.integers(low, high, X.shape), 0)


def documents(rng: Generator, k: int, n: int, d: int, total: float) -> Array:
    """Words of documents that mix topics."""
    topics = rng.dirichlet(np.full(d, 0.1), size=k)
    return rng.poisson(total * rng.dirichlet(np.full(k, 0.2), size=n) @ topics).astype(float)


def events(rng: Generator, k: int, n: int, d: int, mean: float) -> Array:
    """Poisson counts whose rates are a product of gamma factors."""
    rates = rng.gamma(0.5, size=(n, k)) @ rng.gamma(0.5, size=(k, d))
    return rng.poisson(mean * rates / np.mean(rates)).astype(float)


def peaks(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Mixtures of curves with three Gaussian peaks each, and positive noise."""
    grid, centers = np.linspace(0, 1, d), rng.random((k, 3, 1))
    widths, heights = rng.uniform(0.02, 0.08, (k, 3, 1)), rng.random((k, 3, 1))
    curves = np.sum(heights * np.exp(-0.5 * ((grid - centers) / widths) ** 2), axis=1)
    return rng.gamma(0.6, size=(n, k)) @ curves + noise * rng.random((n, d))


def lines(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    """Mixtures of Lorentz lines, two for each substance, and noise that is clipped at 0."""
    grid, centers = np.linspace(0, 1, d), rng.random((k, 2, 1))
    widths = rng.uniform(0.015, 0.05, (k, 2, 1))
    curves = np.sum(1 / (1 + ((grid - centers) / widths) ** 2), axis=1)
    return np.maximum(rng.dirichlet(np.full(k, 0.7), n) @ curves + noise * rng.standard_normal((n, d)), 0)


def sparse_normal(rng: Generator, k: int, n: int, d: int, active: int, noise: float) -> Array:
    """A few of k normal atoms for each row, with normal codes."""
    return _few_atoms(rng, k, n, d, active) + noise * rng.standard_normal((n, d))


def sparse_even(rng: Generator, k: int, n: int, d: int, share: float, noise: float) -> Array:
    """Each atom is used with the same probability, with a code of either sign between 0.5 and 1.5."""
    D = rng.standard_normal((k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    H = rng.choice((-1, 1), (n, k)) * rng.uniform(0.5, 1.5, (n, k)) * (rng.random((n, k)) < share)
    return H @ D + noise * rng.standard_normal((n, d))


def _few_atoms(rng: Generator, k: int, n: int, d: int, active: int) -> Array:
    D = rng.standard_normal((k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    H = rng.standard_normal((n, k))
    H[np.argsort(rng.random((n, k)), axis=1) >= active] = 0
    return H @ D


def faces(rng: Generator, k: int, n: int, side: int) -> Array:
    """Generated faces in grey: an ellipse, and k soft spots whose darkness varies from face to face."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    head = 0.8 * (x**2 / 0.6 + y**2 / 0.9 < 1)
    centers, widths = rng.uniform(-0.6, 0.6, (k, 2, 1, 1)), rng.uniform(0.08, 0.25, (k, 1, 1))
    spots = np.exp(-0.5 * ((x - centers[:, 0]) ** 2 + (y - centers[:, 1]) ** 2) / widths**2) * (head > 0)
    images = head.ravel() + rng.exponential(0.3, (n, k)) @ spots.reshape(k, -1)
    return np.clip(images + 0.02 * rng.standard_normal(images.shape), 0, None)


def video(n: int, seed: int, **options: float) -> Array:
    return moving_scene(n, seed, **options).frames


def table(name: str) -> Array:
    return np.asarray(getattr(sklearn.datasets, f"load_{name}")().data)


def standardised(name: str) -> Array:
    X = table(name)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def with_gaps(rng: Generator, k: int, make: Callable[..., Array], *args: Any) -> Array:
    X = make(rng, k, *args)
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def scaled_features(rng: Generator, k: int, n: int, d: int, noise: float) -> Array:
    return normal_factors(rng, k, n, d, noise) * np.geomspace(1, 1000, d)
