"""Sixty-six small data sets of many kinds, on which starts are compared.

Half of them, ``TUNING``, may be looked at while a rule is chosen. The other half, ``HELD_OUT``, is for
judging alone. The halves alternate through the list, so that both have data of every kind. Most data are
generated or come with scikit-learn. Four sets of faces and digits are read from the folder VRMF_DATA or the
internet, and are left out where they are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import sklearn.datasets

from benchmarks.common import Array, cbcl, mnist, yaleb

Generator = np.random.Generator


@dataclass(frozen=True)
class Case:
    """Rows, and how many atoms are to be learned from them."""

    name: str
    n_components: int
    make: Callable[[], Array]

    @cache  # noqa: B019 - cases live as long as the process
    def rows(self) -> Array:
        """Return the rows, the same ones at every call."""
        return np.ascontiguousarray(self.make(), dtype=np.float64)

    @property
    def is_nonnegative(self) -> bool:
        """Whether NMF applies."""
        return bool(np.min(self.rows()) >= 0)


# ------------------------------------------------------------------ generated


def clusters(seed: int, n: int, d: int, k: int, noise: float, positive: bool = False) -> Array:
    """Rows near k centers, of uneven sizes."""
    rng = np.random.default_rng(seed)
    centers = rng.gamma(0.5, size=(k, d)) if positive else rng.standard_normal((k, d))
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 2.0)))
    X = centers[labels] + noise * rng.standard_normal((n, d))
    return np.maximum(X, 0) if positive else X


def rays(seed: int, n: int, d: int, k: int, noise: float) -> Array:
    """Nonnegative multiples of k nonnegative directions."""
    rng = np.random.default_rng(seed)
    directions, labels = rng.gamma(0.4, size=(k, d)), rng.integers(k, size=n)
    return np.maximum(rng.gamma(2.0, size=(n, 1)) * directions[labels] + noise * rng.random((n, d)), 0)


def low_rank(seed: int, n: int, d: int, rank: int, noise: float, positive: bool = False) -> Array:
    """A product of two factors plus noise."""
    rng = np.random.default_rng(seed)
    if positive:
        return rng.gamma(0.7, size=(n, rank)) @ rng.gamma(0.7, size=(rank, d)) + noise * rng.random((n, d))
    decay = 0.8 ** np.arange(rank)
    X = (rng.standard_normal((n, rank)) * decay) @ rng.standard_normal((rank, d))
    return X + noise * rng.standard_normal((n, d))


def sparse_codes(
    seed: int, n: int, d: int, k: int, active: int, noise: float, positive: bool = False
) -> Array:
    """A few of k atoms for each row."""
    rng = np.random.default_rng(seed)
    D = rng.gamma(0.5, size=(k, d)) if positive else rng.standard_normal((k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    H = rng.gamma(2.0, size=(n, k)) if positive else rng.standard_normal((n, k))
    for row in H:
        row[rng.permutation(k)[active:]] = 0
    return H @ D + noise * (rng.random((n, d)) if positive else rng.standard_normal((n, d)))


def heavy_tailed(seed: int, n: int, d: int, rank: int, freedom: float) -> Array:
    """Factors and noise with tails of Student's t."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(freedom, size=(n, rank)) @ rng.standard_normal((rank, d))
    return X + 0.3 * rng.standard_t(freedom, size=(n, d))


def blocks(seed: int, n: int, d: int, k: int, noise: float) -> Array:
    """Groups of rows that use their own groups of features, some of them shared."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(k, size=n), rng.integers(k, size=d)
    X = np.where(rows[:, None] == columns, rng.gamma(3.0, size=(n, d)), 0.0)
    X += np.where((rows[:, None] + 1) % k == columns, rng.random((n, d)), 0.0)
    return X + noise * rng.random((n, d))


def counts(seed: int, n: int, d: int, k: int, total: float) -> Array:
    """Words of documents that mix a few topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(d, 0.1), size=k)
    mixtures = rng.dirichlet(np.full(k, 0.2), size=n)
    return rng.poisson(total * rng.gamma(3.0, size=(n, 1)) / 3 * (mixtures @ topics)).astype(float)


def spectra(seed: int, n: int, d: int, k: int, noise: float) -> Array:
    """Mixtures of k smooth positive curves."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0, 1, d)
    peaks = rng.random((k, 3, 1)), 0.02 + 0.08 * rng.random((k, 3, 1)), rng.random((k, 3, 1))
    curves = np.sum(peaks[2] * np.exp(-0.5 * ((grid - peaks[0]) / peaks[1]) ** 2), axis=1)
    return rng.gamma(0.6, size=(n, k)) @ curves + noise * rng.random((n, d))


def waves(seed: int, n: int, d: int, k: int) -> Array:
    """Sums of two shifted waves of one of k frequencies, around zero."""
    rng = np.random.default_rng(seed)
    grid, frequency = np.arange(d) / d, rng.integers(1, k + 1, size=(n, 2, 1))
    phase, size = rng.random((n, 2, 1)), rng.gamma(2.0, size=(n, 2, 1))
    X = np.sum(size * np.sin(2 * np.pi * (frequency * grid + phase)), axis=1)
    return X + 0.1 * rng.standard_normal((n, d))


# ------------------------------------------------------------------ real


def table(name: str, scaling: str) -> Array:
    """A table of scikit-learn, with columns standardised or scaled to [0, 1]."""
    X = getattr(sklearn.datasets, f"load_{name}")().data
    if scaling == "standard":
        return (X - X.mean(axis=0)) / X.std(axis=0)
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def digits(seed: int, n: int) -> Array:
    X = sklearn.datasets.load_digits().data
    return X[np.random.default_rng(seed).permutation(len(X))[:n]]


def patches(seed: int, n: int, side: int, image: str, centered: bool) -> Array:
    """Square patches of one of scikit-learn's photographs, in grey."""
    rng = np.random.default_rng(seed)
    grey = sklearn.datasets.load_sample_image(image).mean(axis=2) / 255
    windows = np.lib.stride_tricks.sliding_window_view(grey, (side, side))
    at = rng.integers(windows.shape[0], size=n), rng.integers(windows.shape[1], size=n)
    X = windows[at].reshape(n, -1)
    return X - X.mean(axis=1, keepdims=True) if centered else X


def crops(seed: int, n: int, images: Callable[[], Array], side: int, crop: int) -> Array:
    """The same square crop of some images."""
    rng = np.random.default_rng(seed)
    X = images().reshape(-1, side, side)
    top, left = rng.integers(side - crop + 1, size=2)
    chosen = rng.permutation(len(X))[:n]
    return X[chosen, top : top + crop, left : left + crop].reshape(n, -1)


CASES = [
    Case("clusters 10, n=300", 10, partial(clusters, 1, 300, 20, 10, 0.2)),
    Case("clusters 10, n=500", 10, partial(clusters, 2, 500, 15, 10, 0.3)),
    Case("clusters 5, n=100", 5, partial(clusters, 3, 100, 30, 5, 0.1)),
    Case("clusters 6, n=60", 6, partial(clusters, 4, 60, 12, 6, 0.2)),
    Case("clusters 20, n=1000", 20, partial(clusters, 5, 1000, 40, 20, 0.3)),
    Case("clusters 25, n=2000", 25, partial(clusters, 6, 2000, 30, 25, 0.2)),
    Case("clusters 12, k=6", 6, partial(clusters, 7, 400, 16, 12, 0.2)),
    Case("clusters 15, k=8", 8, partial(clusters, 8, 500, 25, 15, 0.3)),
    Case("clusters 5, d=4, k=10", 10, partial(clusters, 9, 200, 4, 5, 0.2)),
    Case("clusters 8, d=5, k=8", 8, partial(clusters, 10, 300, 5, 8, 0.1)),
    Case("positive clusters 10", 10, partial(clusters, 11, 400, 20, 10, 0.1, positive=True)),
    Case("positive clusters 8", 8, partial(clusters, 12, 300, 30, 8, 0.05, positive=True)),
    Case("positive clusters 20", 20, partial(clusters, 13, 1500, 40, 20, 0.1, positive=True)),
    Case("positive clusters 15, k=5", 5, partial(clusters, 14, 600, 25, 15, 0.1, positive=True)),
    Case("rays 8", 8, partial(rays, 15, 300, 20, 8, 0.1)),
    Case("rays 12", 12, partial(rays, 16, 500, 30, 12, 0.05)),
    Case("rays 20, d=10", 20, partial(rays, 17, 800, 10, 20, 0.05)),
    Case("rays 15, d=12", 15, partial(rays, 18, 600, 12, 15, 0.02)),
    Case("rank 5, k=5", 5, partial(low_rank, 19, 200, 30, 5, 0.1)),
    Case("rank 8, k=4", 4, partial(low_rank, 20, 400, 25, 8, 0.2)),
    Case("rank 10, k=15", 15, partial(low_rank, 21, 500, 20, 10, 0.2)),
    Case("rank 3, k=6", 6, partial(low_rank, 22, 150, 10, 3, 0.1)),
    Case("positive rank 6, k=6", 6, partial(low_rank, 23, 300, 25, 6, 0.1, positive=True)),
    Case("positive rank 10, k=10", 10, partial(low_rank, 24, 500, 40, 10, 0.2, positive=True)),
    Case("positive rank 12, k=6", 6, partial(low_rank, 25, 400, 20, 12, 0.1, positive=True)),
    Case("positive rank 4, k=8", 8, partial(low_rank, 26, 120, 15, 4, 0.3, positive=True)),
    Case("sparse 15, d=10", 15, partial(sparse_codes, 27, 600, 10, 15, 2, 0.02)),
    Case("sparse 20, d=12", 20, partial(sparse_codes, 28, 800, 12, 20, 2, 0.05)),
    Case("sparse 10, d=30", 10, partial(sparse_codes, 29, 300, 30, 10, 3, 0.05)),
    Case("sparse 12, d=25", 12, partial(sparse_codes, 30, 400, 25, 12, 2, 0.1)),
    Case("sparse 30, d=20, n=3000", 30, partial(sparse_codes, 31, 3000, 20, 30, 3, 0.05)),
    Case("sparse 25, d=16, n=2500", 25, partial(sparse_codes, 32, 2500, 16, 25, 2, 0.02)),
    Case("positive sparse 10", 10, partial(sparse_codes, 33, 300, 20, 10, 2, 0.05, positive=True)),
    Case("positive sparse 14", 14, partial(sparse_codes, 34, 500, 24, 14, 3, 0.05, positive=True)),
    Case("positive sparse 20, d=10", 20, partial(sparse_codes, 35, 600, 10, 20, 2, 0.02, positive=True)),
    Case("positive sparse 16, d=8", 16, partial(sparse_codes, 36, 500, 8, 16, 2, 0.02, positive=True)),
    Case("heavy tails, t=3", 6, partial(heavy_tailed, 37, 300, 20, 6, 3.0)),
    Case("heavy tails, t=2.5", 8, partial(heavy_tailed, 38, 500, 15, 8, 2.5)),
    Case("blocks 6", 6, partial(blocks, 39, 200, 30, 6, 0.2)),
    Case("blocks 10", 10, partial(blocks, 40, 500, 40, 10, 0.3)),
    Case("counts 8, k=8", 8, partial(counts, 41, 300, 60, 8, 100.0)),
    Case("counts 10, k=10", 10, partial(counts, 42, 500, 100, 10, 50.0)),
    Case("counts 20, k=10", 10, partial(counts, 43, 800, 50, 20, 200.0)),
    Case("counts 12, k=20", 20, partial(counts, 44, 400, 40, 12, 80.0)),
    Case("spectra 4", 4, partial(spectra, 45, 100, 80, 4, 0.02)),
    Case("spectra 8", 8, partial(spectra, 46, 300, 60, 8, 0.02)),
    Case("waves 5", 10, partial(waves, 47, 400, 24, 5)),
    Case("waves 8", 16, partial(waves, 48, 600, 32, 8)),
    Case("iris, k=3", 3, partial(table, "iris", "unit")),
    Case("iris, standard, k=6", 6, partial(table, "iris", "standard")),
    Case("wine, k=5", 5, partial(table, "wine", "standard")),
    Case("wine, unit, k=8", 8, partial(table, "wine", "unit")),
    Case("cancer, k=10", 10, partial(table, "breast_cancer", "standard")),
    Case("cancer, unit, k=5", 5, partial(table, "breast_cancer", "unit")),
    Case("diabetes, k=4", 4, partial(table, "diabetes", "standard")),
    Case("diabetes, unit, k=12", 12, partial(table, "diabetes", "unit")),
    Case("digits 500, k=10", 10, partial(digits, 57, 500)),
    Case("digits 1000, k=20", 20, partial(digits, 58, 1000)),
    Case("patches of china, k=16", 16, partial(patches, 59, 1000, 6, "china.jpg", True)),
    Case("patches of flower, k=30", 30, partial(patches, 60, 1500, 5, "flower.jpg", True)),
    Case("bright patches of flower, k=8", 8, partial(patches, 61, 500, 6, "flower.jpg", False)),
    Case("bright patches of china, k=12", 12, partial(patches, 62, 800, 6, "china.jpg", False)),
    Case("faces of CBCL, k=10", 10, partial(crops, 63, 500, cbcl, 19, 10)),
    Case("faces of Yale B, k=8", 8, partial(crops, 64, 400, yaleb, 32, 10)),
    Case("MNIST, k=15", 15, partial(crops, 65, 800, partial(mnist, 5000), 28, 14)),
    Case("MNIST, n=5000, k=12", 12, partial(crops, 66, 5000, partial(mnist, 5000), 28, 12)),
]  # fmt: skip

#: The data sets that may be looked at while a rule is chosen, and those by which it is judged.
TUNING, HELD_OUT = CASES[::2], CASES[1::2]

__all__ = ["CASES", "HELD_OUT", "TUNING", "Case"]
