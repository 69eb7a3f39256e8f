"""The structure of rows beyond their rank: smooth along the features, images, or sums of few atoms.

>>> rng = np.random.default_rng(0)
>>> curves = np.sin(np.linspace(0, 3, 50) * rng.uniform(1, 4, (30, 1)))
>>> smoothness(curves) > 0.9, smoothness(curves[:, rng.permutation(50)]) < 0.5
(True, True)
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array

#: With fewer features their order tells nothing.
LEAST_FEATURES = 20

#: The least correlation of neighbouring features, less that of any two, for which their order means
#: something. Noise lowers it.
NEIGHBOURS = 0.3

#: The least height and width of an image.
LEAST_SIDE = 5

#: By how much a pixel must correlate more with the one below it than with that one's neighbours.
BELOW = 0.05

#: The largest number of codes that are rotated.
MOST_CODES = 30

#: Searches for the best rotation, each from a random one.
ROTATIONS = 3

#: Rounds of each search.
ROTATION_ROUNDS = 60

#: Draws of normal data with which codes are compared.
NORMAL_DRAWS = 2


# ------------------------------------------------------------------ the order of features


def autocovariances(rows: Array) -> Array:
    """Return the mean covariance of features at each distance, less that of any two, over the variance.

    The first one is 1. What all features have in common, such as the size of a row, does not count.
    """
    Z = rows - np.mean(rows, axis=0)
    n, d = Z.shape
    width = 2 * d
    power = np.sum(np.abs(np.fft.rfft(Z, width, axis=1)) ** 2, axis=0)
    sums = np.fft.irfft(power, width)[:d] / n
    means = sums / np.arange(d, 0, -1)
    common = (np.mean(np.sum(Z, axis=1) ** 2) - sums[0]) / (d * (d - 1)) if d > 1 else 0.0
    own = means[0] - common
    return np.asarray((means - common) / own) if own > 1e-12 * max(means[0], 1e-300) else np.zeros(d)


def smoothness(rows: Array) -> float:
    """Return how smooth rows are along the features, noise aside: 1 for curves, about 0 without order.

    Independent noise adds to the variance of features, but to no covariance. So the covariance of features
    at distance 2 is compared with that of neighbours.
    """
    if rows.shape[1] < LEAST_FEATURES or len(rows) < 2:
        return 0.0
    near = autocovariances(rows)[:3]
    return float(np.clip(near[2] / near[1], 0, 1)) if near[1] > NEIGHBOURS else 0.0


def likely_image_shape(rows: Array) -> tuple[int, int] | None:
    """Return height and width if rows look like images: pixels are like the ones below them.

    >>> y, x = np.mgrid[:12, :10]
    >>> centers = np.random.default_rng(0).uniform(0, 10, (200, 2, 1, 1))
    >>> spots = np.exp(-((y - centers[:, 0]) ** 2 + (x - centers[:, 1]) ** 2) / 8)
    >>> likely_image_shape(spots.reshape(200, -1))
    (12, 10)
    """
    d = rows.shape[1]
    if len(rows) < 2 or d < LEAST_SIDE**2:
        return None
    likeness = autocovariances(rows)
    widths = [w for w in range(LEAST_SIDE, d // LEAST_SIDE + 1) if d % w == 0]
    peaks = [w for w in widths if _is_peak(likeness, w)]
    if not peaks:
        return None
    width = max(peaks, key=lambda w: float(likeness[w]))
    return d // width, width


def _is_peak(likeness: Array, width: int) -> bool:
    """Whether features a width apart are more alike than those at distances a little smaller or larger."""
    beside = max(likeness[width - 2], likeness[width + 2])
    return bool(
        likeness[width] > max(likeness[width - 1], likeness[width + 1], beside + BELOW, NEIGHBOURS / 2)
    )


# ------------------------------------------------------------------ sums of few atoms


def sparseness(codes: Array, rng: np.random.Generator) -> float:
    """Return how sparse codes are after the best rotation, from 0 for normal ones to 1.

    A rotation is sought that makes codes sparse (as independent component analysis does). The mean absolute
    code is compared with that of normal rows of the same norms, for which a rotation is sought as well: few
    rows can always be rotated a little towards sparse codes, and rows of different sizes are not sparse.

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.standard_normal((1000, 6)) * (rng.random((1000, 6)) < 0.2)
    >>> sparseness(codes @ rng.standard_normal((6, 6)), rng) > 0.3
    True
    >>> abs(sparseness(rng.standard_normal((1000, 6)), rng)) < 0.05
    True
    """
    Z = _uncorrelated(codes)
    if Z.shape[1] < 2 or len(Z) < 5 * Z.shape[1]:
        return 0.0
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    normal = []
    for _ in range(NORMAL_DRAWS):
        G = rng.standard_normal(Z.shape)
        G *= norms / np.linalg.norm(G, axis=1, keepdims=True)
        normal.append(_mean_rotated(_uncorrelated(G), rng))
    return 1 - _mean_rotated(Z, rng) / float(np.mean(normal))


def _uncorrelated(codes: Array) -> Array:
    """Return uncorrelated codes of variance 1 that span the same, at most MOST_CODES of them."""
    U, values, _ = np.linalg.svd(codes - np.mean(codes, axis=0), full_matrices=False)
    large = values > 1e-7 * max(float(np.max(values, initial=0)), 1e-300)
    return np.asarray(U[:, large][:, :MOST_CODES] * len(codes) ** 0.5)


def _mean_rotated(Z: Array, rng: np.random.Generator) -> float:
    """Return the mean absolute code after a rotation that makes codes sparse, the best of a few."""
    k = Z.shape[1]
    means = []
    for _ in range(ROTATIONS):
        Q = np.linalg.qr(rng.standard_normal((k, k)))[0]
        for _ in range(ROTATION_ROUNDS):
            T = np.tanh(Z @ Q)
            # The fixed-point step of FastICA for the contrast log cosh, then the nearest rotation.
            U, _, V = np.linalg.svd(Z.T @ T / len(Z) - Q * np.mean(1 - T**2, axis=0))
            Q = U @ V
        means.append(float(np.mean(np.abs(Z @ Q))))
    return min(means)
