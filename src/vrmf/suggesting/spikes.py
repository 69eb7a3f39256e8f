"""Entries so large that they hide all components. They are found and filled before any decomposition.

A component stands out of rows only if it is larger than what is left with random signs. A few entries that
are a hundred times too large have larger singular values than any component, so they are taken out first.

>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 50)) + 0.1 * rng.standard_normal((200, 50))
>>> is_spike = rng.random(X.shape) < 0.03
>>> bool(np.all(with_spikes_clipped(X + 1000 * is_spike, rng)[1] == is_spike))
True
>>> bool(np.any(with_spikes_clipped(X, rng)[1]))
False
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from vrmf.arrays import Array
from vrmf.recovery.noise import noise_level
from vrmf.suggesting.outliers import CLEAR, FAR, LEAST_SHARE, MOST_SHARE, NEAR, RobustFit, fitted_part
from vrmf.suggesting.rank import Decomposition, rank_of_counts

#: Spikes are beyond so many times the spread of their feature.
LARGE = 10.0

#: Between spikes and other entries is a valley, an interval with few entries: the ratio of its ends.
VALLEY = 2.0

#: There are so many times fewer entries in the valley than spikes.
FEWER = 10.0

#: Large entries form a block if an entry of it is large with nearly this probability, by the shares of
#: large entries in its row and in its column.
MOST_EXPECTED = 0.5

#: Roots of Poisson counts have noise of about 1. Below this level noise counts as such, and entries beyond
#: NEAR may be spikes.
POISSON = 1.2

#: They are spikes if so many times as many components stand out with them as without.
MORE = 1.3

#: Places where a valley is sought.
PLACES = 40

#: Rounds in which missing entries are filled by a fit of a rank.
COMPLETION_ROUNDS = 10

#: The rank grows by one part in so many, but at least by one.
STEPS = 8


def without_spikes(block: Array, are_counts: bool, rng: np.random.Generator) -> tuple[Array, float]:
    """Return a block whose spikes are replaced by a fit to the other entries, and their share.

    For counts with spikes it is a part of the block.
    """
    clipped, found = with_spikes_clipped(block, rng)
    if are_counts:
        more = spikes_of_counts(fitted_part(block), rng)
        if np.any(found) and not np.any(more):  # which may be too large for a fit
            more = spikes_of_counts(fitted_part(clipped), rng)
        if np.any(more):
            block, found = fitted_part(block), fitted_part(found) | more
    if not np.any(found):
        return block, 0.0
    filled = completed(np.where(found, np.median(block, axis=0), block), found, rng)
    return np.maximum(filled, 0) if are_counts else filled, float(np.mean(found))


def with_spikes_clipped(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return X with entries far beyond all others, if they are scattered, moved closer, and which they are.

    Heavy tails have ever fewer entries further out, but no valley. Large entries that a few components
    explain, such as those of a part that few rows have, are not scattered.
    """
    none = np.zeros(X.shape, dtype=bool)
    if min(X.shape) < 4:
        return X, none
    medians = np.median(X, axis=0)
    spreads = np.array([noise_level(feature) for feature in (X - medians).T])
    spreads = np.maximum(spreads, np.median(spreads))  # features that are mostly 0 have a spread of 0
    if not np.all(spreads > 0):
        return X, none
    sizes = (X - medians) / spreads
    end = _valley_end(np.sort(np.abs(sizes), axis=None))
    found = np.abs(sizes) > end
    if not (np.any(found) and _are_scattered(found, rng)):
        return X, none
    closer = medians + np.sign(sizes) * spreads * end
    return np.where(found, closer, X), found


def spikes_of_counts(X: Array, rng: np.random.Generator) -> Array:
    """Return which of the counts are far from a robust low-rank fit to the roots of all.

    The noise of counts grows with their mean. That of 2√(x + ⅜) does not, and is about 1. Rates of a low
    rank have roots of nearly a low rank.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(1, 4, size=(120, 3)) @ rng.gamma(0.4, 1, size=(3, 30)))
    >>> is_spike = rng.random(X.shape) < 0.02
    >>> int(np.sum(spikes_of_counts(X + 60 * is_spike, rng) != is_spike)) < 5
    True
    """
    none = np.zeros(X.shape, dtype=bool)
    if min(X.shape) < 4:
        return none
    roots = 2 * np.sqrt(X + 3 / 8)
    fit = RobustFit.of(roots, rng)
    above, level = roots - fit.low_rank, max(fit.noise, 1.0)
    found = above > FAR * level
    far, between = np.mean(found), np.mean(np.abs(above) > NEAR * level) - np.mean(found)
    if not (LEAST_SHARE <= far <= MOST_SHARE and far > CLEAR * between):
        found = above > NEAR * level
        is_enough = LEAST_SHARE <= np.mean(found) <= MOST_SHARE and fit.noise < POISSON
        if not (is_enough and _makes_components(found, X, fit)):
            return none
    is_sound = 4 * fit.rank <= min(X.shape)
    return found if is_sound and _are_scattered(found, rng) else none


def _makes_components(found: Array, X: Array, fit: RobustFit) -> bool:
    """Whether far fewer components stand out of counts once those found are replaced by the fit."""
    fitted = np.round(np.maximum(fit.low_rank, 0) ** 2 / 4)
    rank = rank_of_counts(np.where(found, fitted, X))
    return rank_of_counts(X) > max(MORE * rank, rank + 1)


def _valley_end(sizes: Array) -> float:
    """Return the upper end of the first valley in sorted sizes, infinity if there is none."""
    ends = np.geomspace(LARGE, max(sizes[-1], LARGE), PLACES)
    beyond = len(sizes) - np.searchsorted(sizes, ends, side="right")
    inside = len(sizes) - np.searchsorted(sizes, ends / VALLEY, side="right") - beyond
    is_valley = (beyond >= LEAST_SHARE * len(sizes)) & (beyond <= MOST_SHARE * len(sizes))
    is_valley &= FEWER * inside <= beyond
    return float(ends[np.argmax(is_valley)]) if np.any(is_valley) else np.inf


def _are_scattered(found: Array, rng: np.random.Generator) -> bool:
    """Whether the places of found entries are random, given their shares of rows and of columns."""
    rows, columns = np.mean(found, axis=1, keepdims=True), np.mean(found, axis=0, keepdims=True)
    expected = rows * columns / np.mean(found)
    if np.max(expected) > MOST_EXPECTED:
        return False
    return not Decomposition.of(found - expected).stands_out(0, rng)


def completed(block: Array, is_missing: Array, rng: np.random.Generator) -> Array:
    """Return a block whose missing entries, which are medians at first, are those of a low-rank fit.

    Medians would look like outliers, and make components that then fit them. So the rank starts at 0 and
    grows while a further component stands out of a part of the block. Each time the entries are fitted
    anew, starting from the fit of the smaller rank.
    """
    if not np.any(is_missing):
        return block
    part, missing, rank = fitted_part(block), fitted_part(is_missing), 0
    while Decomposition.of(part).stands_out(rank, rng):
        rank += max(1, rank // STEPS)
        part = _refilled(part, missing, rank)
        block = part if part.shape == block.shape else _refilled(block, is_missing, rank)
    return block


def _refilled(block: Array, is_missing: Array, rank: int) -> Array:
    for _ in range(COMPLETION_ROUNDS):
        block = np.where(is_missing, _projected(block, rank), block)
    return block


def _projected(X: Array, rank: int) -> Array:
    """Return the best approximation of a rank, to half of the digits, in a short time."""
    if len(X) < X.shape[1]:
        return _projected(X.T, rank).T
    d = X.shape[1]
    V = scipy.linalg.eigh(X.T @ X, subset_by_index=[max(0, d - rank), d - 1])[1]
    return np.asarray((X @ V) @ V.T)
