"""Patches of images, and dictionaries with more atoms than features for them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_olivetti_faces, load_sample_images

from benchmarks.common import Array, moved
from vrmf import DictionaryLearning
from vrmf.coding import Atoms, Coder
from vrmf.terms import L1, Absent

#: Pixels of a patch and atoms.
SIZES = ((64, 100), (64, 256), (144, 256), (144, 512), (256, 1024))


@cache
def images(name: str) -> tuple[Array, ...]:
    """Return the Olivetti faces, from VRMF_DATA or the internet, or scikit-learn's sample images."""
    if name == "samples":
        return tuple(image.mean(axis=2) / 255 for image in load_sample_images().images)
    path = Path(os.environ.get("VRMF_DATA", "")) / "olivetti_64x64.npz"
    if path.exists():
        with np.load(path) as file:
            return tuple(file["faces"].reshape(-1, 64, 64) / 255)
    return tuple(fetch_olivetti_faces().images)


def patches(name: str, d: int, n: int, seed: int = 0) -> Array:
    """Return about n centred patches of d pixels, scaled to deviation 1, without nearly constant ones."""
    rng, side, shown = np.random.default_rng(seed), round(d**0.5), images(name)
    which = rng.integers(len(shown), size=n)
    cut = np.empty((n, d))
    for row, image in enumerate(which):
        i, j = (rng.integers(size - side + 1) for size in shown[image].shape)
        cut[row] = shown[image][i : i + side, j : j + side].ravel()
    cut -= cut.mean(axis=1, keepdims=True)
    cut = cut[np.linalg.norm(cut, axis=1) > 1e-3 * side]
    return cut / cut.std()


def learned(X: Array, k: int) -> Array:
    """Return a dictionary after two epochs, with a weight for about ten nonzeros of a code."""
    start = X[np.random.default_rng(0).choice(len(X), k, replace=False)]
    start = start / np.linalg.norm(start, axis=1)[:, None]
    weight = weight_for(X[:300], start, 10)
    fit = DictionaryLearning(k, alpha=weight, init=start, tol=0, max_iter=2, random_state=0).fit(X)
    return np.asarray(fit.components_)


def weight_for(X: Array, D: Array, nonzeros: float) -> float:
    """Return the ℓ₁ weight for which codes have the given number of nonzeros on average."""
    low, high, atoms = 1e-4, float(np.max(np.abs(X @ D.T))), Atoms(D)
    for _ in range(20):
        weight = (low * high) ** 0.5
        found = np.count_nonzero(Coder(tol=1e-5).encode(X, atoms, L1(weight), Absent()).H) / len(X)
        low, high = (weight, high) if found > nonzeros else (low, weight)
    return weight


def nearby(D: Array, relative: float = 0.01, seed: int = 3) -> Array:
    """Return D moved by the given part of its norm, with atoms in the unit ball."""
    far = moved(D, relative, seed)
    return far / np.maximum(np.linalg.norm(far, axis=1), 1)[:, None]
