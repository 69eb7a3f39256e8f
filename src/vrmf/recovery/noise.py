"""The level of noise in rows some of whose entries are outliers.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> noise = 2.0 * rng.standard_normal(10_000)
>>> noise[:2000] += 100
>>> round(noise_level(noise), 1)
2.0
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from vrmf.arrays import Array

#: Entries beyond so many times the level of noise are left out when it is estimated.
TRIM = 3.0

#: Rounds of trimming; each leaves out more of the outliers.
TRIMMING_ROUNDS = 20

#: Entries that are looked at, from rows evenly spread: enough for the level to half a per cent.
MOST_ENTRIES = 2**16

#: Values that more than this share of the entries have, at an end of the range, are taken for cut off.
CLIPPED = 1e-3

#: A row or a column of which at most this share differs from its median is constant, up to outliers.
NEARLY = 0.05

#: So few equal entries say nothing.
FEW = 3

#: The share of entries that must be left without those that are cut off: else these values are the data.
LEAST_LEFT = 0.25

#: Degrees of freedom of a fit for each inlier beyond which it could explain half of them exactly.
MOST_FREEDOM = 0.6

#: Rounds in which a low-rank fit and its outliers are estimated anew, at most, and the fall of the noise
#: below which they end.
FIT_ROUNDS, SLOW = 20, 0.98


def noise_level(residuals: Array) -> float:
    """Return the standard deviation of noise, from entries some of which may be outliers.

    The median absolute value, in units of that of normal noise, over those entries that are within TRIM
    times of it: repeated, so that outliers are left out rather than counted on the wrong side, as long as
    they are not the majority.
    """
    sizes = np.sort(np.abs(residuals[:: -(-residuals.size // MOST_ENTRIES) or 1]), axis=None)
    if not len(sizes):
        return 0.0
    level = float(sizes[len(sizes) // 2]) / float(norm.ppf(0.75))
    inside = float(norm.cdf(TRIM) - norm.cdf(-TRIM))
    unit = float(norm.ppf(0.5 + inside / 4))
    for _ in range(TRIMMING_ROUNDS):
        count = int(np.searchsorted(sizes, TRIM * level, side="right"))
        if count <= len(sizes) // 2:
            return level
        level = float(sizes[count // 2]) / unit
    return level


def telling(X: Array) -> Array:
    """Return which entries show the noise.

    Rows and columns that are constant do not, such as the black border of an image, nor those with a few
    other entries. Nor do entries at a bound of the range, such as black pixels, if many are there.

    >>> X = np.clip(np.arange(100.0), 10, 200).reshape(5, 20)
    >>> int(np.sum(telling(X)))
    89
    """
    inside = varying(X)
    left = inside & ~np.isin(X, bounds_of(X[inside]))
    return left if np.sum(left) >= LEAST_LEFT * np.sum(inside) else inside


def varying(X: Array) -> Array:
    """Return which entries are in rows and columns that are not constant, up to a few other entries."""
    inside = np.ones(X.shape, dtype=bool)
    for axis, width in ((0, len(X)), (1, X.shape[1])):
        if width > 1 and X.size:
            middle = np.median(X, axis=axis, keepdims=True)
            inside &= np.mean(X != middle, axis=axis, keepdims=True) > NEARLY
    return inside


def bounds_of(entries: Array) -> Array:
    """Return the values at the ends of the range that many entries have: they may be cut off there."""
    if not entries.size:
        return entries
    # A few entries may be beyond the bound, such as outliers.
    bounds = np.unique(np.quantile(entries, [CLIPPED, 1 - CLIPPED], method="nearest"))
    many = max(FEW, CLIPPED * entries.size)
    return np.array([bound for bound in bounds if np.sum(entries == bound) > many], dtype=entries.dtype)


def low_rank_noise(X: Array, H: Array, D: Array, enough: float = 0.0) -> float:
    """Return the standard deviation of the noise in X, of which HD is a rough fit of the right rank.

    A fit whose weights shrink it leaves errors in proportion to the weights, which are no noise. So in
    rounds entries beyond TRIM times the noise are set to what is fitted, and both factors are fitted anew
    by least squares, until the noise falls no further, or below ``enough``. A fit of rank k takes k of the
    degrees of freedom of each row and of each column, for which the level is corrected.

    >>> rng = np.random.default_rng(0)
    >>> H, D = rng.standard_normal((100, 3)), rng.standard_normal((3, 80))
    >>> X = H @ D + 0.01 * rng.standard_normal((100, 80))
    >>> X[rng.random(X.shape) < 0.1] += 5
    >>> round(low_rank_noise(X, 0.9 * H, D), 2)
    0.01
    """
    used = np.any(D, axis=1)
    H, D = H[:, used], D[used]
    (n, d), k = X.shape, len(D)
    shown, fitted = telling(X), H @ D
    level = noise_level((X - fitted)[shown])
    if not 0 < k < min(n, d):
        return level
    for _ in range(FIT_ROUNDS):
        is_inlier = np.abs(X - fitted) <= TRIM * level
        if k * (n + d - k) > MOST_FREEDOM * np.sum(is_inlier):
            break
        inliers = np.where(is_inlier, X, fitted)
        columns = np.linalg.qr(inliers @ np.linalg.qr(D.T)[0])[0]
        D = columns.T @ inliers
        fitted = columns @ D
        before, level = level, min(level, noise_level((X - fitted)[shown]))
        if level > SLOW * before or level < enough:
            break
    return level * math.sqrt(n * d / ((n - k) * (d - k)))


def quantum(rows: Array) -> float:
    """Return the step of data that are whole multiples of one, such as grey levels; 0 if they are not.

    >>> quantum(np.array([[0.0, 0.5, 3.0, 0.5], [1.5, 0.0, 0.5, 3.0], [0.5, 0.5, 0.0, 1.5]]))
    0.5
    """
    values = np.unique(rows).astype(np.float64)
    if len(values) < 2 or len(values) > rows.size / 2:
        return 0.0
    step = float(np.min(np.diff(values)))
    multiples = (values - values[0]) / step
    return step if np.all(np.abs(multiples - np.round(multiples)) < 1e-3) else 0.0
