"""Gross outliers: entries far from a low-rank matrix that explains all others.

>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 30)) + 0.1 * rng.standard_normal((120, 30))
>>> X += np.where(rng.random(X.shape) < 0.05, rng.choice((-10, 10), X.shape), 0)
>>> fit = RobustFit.of(X, rng)
>>> fit.rank, round(fit.far_share, 2), fit.has_gross_outliers
(3, 0.05, True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.recovery.noise import TRIM, bounds_of, noise_level, quantum, telling, varying
from vrmf.suggesting.rank import ROUNDING, Decomposition

#: Rows of the part that is fitted, at most.
FIT_ROWS = 300

#: Features of this part, at most.
FIT_FEATURES = 150

#: So many times as many entries must be far as are in between: else the noise has long tails.
CLEAR = 2.0

#: Rounds in which outliers are clipped.
CLIPPING_ROUNDS = 60

#: Rounds in which outliers are left out.
SETTLING_ROUNDS = 10

#: Rounds for each component of a strict fit.
CLIMBING_ROUNDS = 3

#: Errors of a fit below this share of the spread of entries are ignored.
SMALL = 3e-3

#: How often the rank may grow once outliers are known.
GROWING_ROUNDS = 4

#: By how much it may grow each time.
MOST_GROWTH = 2

#: A larger rank is taken if it leaves at most this share of the noise.
WORTHWHILE = 0.8

#: The largest rank of a strict fit.
STRICT_RANK = 6

#: Entries are near a fit up to so many standard deviations of the noise.
NEAR = 3.5

#: Entries are far from a fit beyond so many standard deviations of the noise.
FAR = 6.0

#: Gross outliers are at least this share of the entries. More entries are far than in between: heavy tails
#: and poor fits have more in between.
LEAST_SHARE = 2e-3

#: Gross outliers are at most this share of the entries.
MOST_SHARE = 0.35

#: The noise grows with the entries if its ranks correlate with theirs by more than the first number, and
#: it is so many times as large for the largest tenth of them as for the second smallest.
CORRELATED, GROWTH = 0.35, 2.5

#: Replaces outliers by harmless values, given rows, a fit and the level of the noise.
Replacement = Callable[[Array, Array, float], Array]


@dataclass(frozen=True, eq=False)
class RobustFit:
    """A low-rank fit to a part of the rows that outliers hardly move."""

    low_rank: Array
    rank: int
    noise: float
    far_share: float  #: of entries far from the low-rank part
    between_share: float  #: of entries that are neither near nor far
    feature_noise: Array  #: median distances from the low-rank part, by feature
    noise_grows: bool  #: whether distances from the low-rank part grow with it

    @classmethod
    def of(cls, X: Array, rng: np.random.Generator) -> RobustFit:
        """Fit a part of a block of rows.

        Outliers that are scattered hide components, but make none. So the number of those that stand out of
        the rows as they are bounds the rank first, and is exceeded only once outliers are known.
        """
        part = fitted_part(X)
        rank = max(1, Decomposition.of(part).rank(rng))
        fit = cls._measured(part, truncated(part, rank), rank)
        if fit.far_share < LEAST_SHARE:
            return fit
        fit = cls._without_outliers(
            part, _refitted(part, fit.low_rank, rank, CLIPPING_ROUNDS, _clipped), rank
        )
        for _ in range(GROWING_ROUNDS):
            found = Decomposition.of(_trimmed(part, fit.low_rank, fit.noise)).rank(rng)
            if found <= fit.rank:
                break
            rank = min(found, fit.rank + MOST_GROWTH)
            grown = cls._without_outliers(part, fit.low_rank, rank)
            if grown.noise > WORTHWHILE * fit.noise:
                break
            fit = grown
        return fit

    @classmethod
    def strict(cls, X: Array, rng: np.random.Generator) -> RobustFit:
        """Fit as few components as possible: entries far from them are left out from the start.

        So outliers that have a structure, such as moving objects, make no components. But structure in few
        rows is lost as well.
        """
        part = fitted_part(X)
        L, rank = _strict_fit(part, rng)
        return cls._without_outliers(part, L, rank)

    @classmethod
    def _without_outliers(cls, part: Array, L: Array, rank: int) -> RobustFit:
        return cls._measured(part, _refitted(part, L, rank, SETTLING_ROUNDS, _trimmed), rank)

    @classmethod
    def _measured(cls, part: Array, L: Array, rank: int) -> RobustFit:
        level = _level(part, L)
        shown = telling(part) | _beyond_reach(part, L, level)
        sizes = np.abs(part - L)[shown if np.any(shown) else ...] / level
        far, beyond = float(np.mean(sizes > FAR)), float(np.mean(sizes > NEAR))
        distances = np.abs(part - L)
        grows = _grow_together(np.abs(L), distances)
        return cls(L, rank, level, far, beyond - far, np.median(distances, axis=0), grows)

    @property
    def has_gross_outliers(self) -> bool:
        """Whether some entries are far from the low-rank part, and most others near."""
        is_small = 4 * self.rank <= min(self.low_rank.shape)  # else what is left is no noise
        is_clear = (
            LEAST_SHARE <= self.far_share <= MOST_SHARE and self.far_share > CLEAR * self.between_share
        )
        return bool(self.rank > 0 and is_small and is_clear)


def _grow_together(entries: Array, distances: Array) -> bool:
    """Whether distances grow with entries: by rank, and much larger for the largest tenth."""
    order = np.argsort(entries, axis=None)
    tenths = [float(np.median(part)) for part in np.array_split(distances.ravel()[order], 10) if part.size]
    if len(tenths) < 10 or tenths[-1] <= GROWTH * tenths[1]:
        return False
    places = np.empty(order.size)
    places[np.argsort(distances.ravel()[order])] = np.arange(order.size)
    return bool(np.corrcoef(places, np.arange(order.size))[0, 1] > CORRELATED)


def fitted_part(X: Array) -> Array:
    """Return the part of a block that is fitted."""
    features = np.unique(np.linspace(0, X.shape[1] - 1, FIT_FEATURES).astype(np.int64))
    return X[:FIT_ROWS, features]


def _level(X: Array, L: Array) -> float:
    """Return the standard deviation of the noise, at least that of rounding and SMALL of the spread.

    A fit of data without noise is stopped before it is exact. Such small errors are no outliers.
    """
    spread = noise_level(X - np.median(X, axis=0))
    least = max(ROUNDING * float(np.max(np.abs(X))), quantum(X) / 12**0.5, SMALL * spread, 1e-300)
    return max(noise_level((X - L)[telling(X)]), least)


def _beyond_reach(X: Array, L: Array, level: float) -> Array:
    """Return which entries at an end of the range are far from the fit: they were not cut off there.

    Entries are cut off where the fit is near the bound or beyond it. Elsewhere they are outliers that all
    have the same value, such as a dark object before a background.
    """
    inside = varying(X)
    bounds = bounds_of(X[inside])
    upper = X > np.median(X)
    reach = np.where(upper, X - L, L - X)  # from the fit up to the bound
    return np.asarray(inside & np.isin(X, bounds) & (reach > FAR * level))


def _strict_fit(X: Array, rng: np.random.Generator) -> tuple[Array, int]:
    """Return a strict fit and its rank, which grows by one while components stand out."""
    L = np.zeros_like(X) + np.median(X, axis=0)
    for rank in range(STRICT_RANK):
        W = _trimmed(X, L, _level(X, L))
        if not Decomposition.of(W).stands_out(rank, rng):
            return L, rank
        L = _refitted(X, truncated(W, rank + 1), rank + 1, CLIMBING_ROUNDS, _trimmed)
    return L, STRICT_RANK


def _refitted(X: Array, L: Array, rank: int, rounds: int, replaced: Replacement) -> Array:
    """Return the low-rank fit after some rounds without most of the outliers' influence."""
    for _ in range(rounds):
        L = truncated(replaced(X, L, _level(X, L)), rank)
    return L


def _clipped(X: Array, L: Array, level: float) -> Array:
    """Return X with entries far from L moved closer."""
    return np.asarray(L + np.clip(X - L, -TRIM * level, TRIM * level))


def _trimmed(X: Array, L: Array, level: float) -> Array:
    """Return X with entries far from L set to L."""
    return np.where(np.abs(X - L) > TRIM * level, L, X)


def truncated(X: Array, rank: int) -> Array:
    """Return the best approximation of a rank."""
    U, values, V = np.linalg.svd(X, full_matrices=False)
    return np.asarray((U[:, :rank] * values[:rank]) @ V[:rank])
