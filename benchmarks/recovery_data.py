"""Low-rank data with errors, whose low-rank part is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.common import Array


@dataclass(frozen=True, eq=False)
class Mixture:
    """Data X: a low-rank part, errors, and noise of a known level."""

    X: Array
    low_rank: Array
    errors: Array  #: which entries have errors
    noise: float = 0.0

    def error(self, L: Array) -> float:
        """Return the relative error of an estimate of the low-rank part."""
        return float(np.linalg.norm(L - self.low_rank) / np.linalg.norm(self.low_rank))

    def right(self, mask: Array) -> float:
        """Return the share of entries for which a mask of errors is right."""
        return float(np.mean(mask == self.errors))


def mixture(n: int, d: int, rank: int, share: float, seed: int, noise: float = 0.0) -> Mixture:
    """Draw L = A B with entries of A and B from N(0, 1/n), errors ±1 in a share of entries, and noise.

    The level of the noise is relative to the standard deviation of L's entries. (After Candès,
    Li, Ma and Wright, "Robust principal component analysis?", 2011.)
    """
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) / n
    errors = rng.random((n, d)) < share
    X = L + np.where(errors, rng.choice([-1.0, 1.0], (n, d)), 0.0)
    level = noise * float(np.std(L))
    return Mixture(X + level * rng.standard_normal((n, d)) if noise else X, L, errors, level)
