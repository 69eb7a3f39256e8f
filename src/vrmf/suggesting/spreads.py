"""How much features differ in scale, and scaling that makes them equal.

>>> spread_ratio(np.array([1.0, 2.0, 4.0])).__round__(1)
3.0
"""

from __future__ import annotations

import math

import numpy as np

from vrmf.arrays import Array
from vrmf.suggesting.outliers import RobustFit

#: Noise is of the same size in all features if it differs by less.
SAME_NOISE = 3.0


def quartile_distances(rows: Array) -> Array:
    """Return the distance between the quartiles of each feature, where it is not 0."""
    low, high = np.quantile(rows, (0.25, 0.75), axis=0)
    return np.asarray((high - low)[high > low])


def spread_ratio(spreads: Array) -> float:
    """Return the ratio of large spreads to small ones, without the extremes."""
    if not len(spreads):
        return 1.0
    low, high = np.quantile(spreads, (0.1, 0.9))
    return float(high / low) if low > 0 else math.inf


def with_equal_spreads(block: Array) -> Array:
    """Return a block whose features have the same standard deviation."""
    spreads = np.std(block, axis=0)
    return np.asarray(block / np.where(spreads > 0, spreads, 1))


def of_even_noise(block: Array, rng: np.random.Generator) -> Array:
    """Return a block with its features divided by their standard deviations, or unchanged.

    It is unchanged if its noise is of about the same size in all features, and would not be after scaling.
    Then spreads differ because components differ, not because features have different units.
    """
    equal = with_equal_spreads(block)
    if min(block.shape) < 4:
        return equal
    here, there = (spread_ratio(RobustFit.of(each, rng).feature_noise) for each in (block, equal))
    return block if here < SAME_NOISE and here * SAME_NOISE < there else equal


def mean_share(rows: Array) -> float:
    """Return the share of the sum of squares that the mean row explains."""
    squares = float(np.sum(rows**2))
    return float(len(rows) * np.sum(np.mean(rows, axis=0) ** 2) / squares) if squares else 0.0
