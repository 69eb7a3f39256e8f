"""Rules that choose atoms to start from, each a function of a sample of rows and a random generator.

A rule returns at most k rows, fewer where the sample has not so many directions. Atoms are rescaled
afterwards, so only directions matter, and c · X gives the directions of X.

>>> sample = Sample(np.repeat(np.eye(3), 4, axis=0), n_components=3, signed=True)
>>> int(np.linalg.matrix_rank(spread_rows(sample, np.random.default_rng(0))))
3
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array, row_norms, row_squares

#: Directions whose angle has a squared sine below this are the same up to rounding.
SAME = 1e-12

#: NNDSVD leaves zeros; they become this part of the mean row, beside a singular vector of norm 1.
FILLING = 0.01


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of the data that are not zero, and what is wanted of them."""

    X: Array  #: in double precision
    n_components: int
    signed: bool  #: whether codes may be negative: then an atom and its negative are the same

    @property
    def row_size(self) -> float:
        """The root mean square of the norms of rows."""
        return float(np.sqrt(np.mean(row_squares(self.X)))) if len(self.X) else 1.0


def random_rows(sample: Sample, rng: np.random.Generator) -> Array:
    """Pick distinct rows, all with the same probability."""
    distinct = np.unique(sample.X, axis=0)
    return distinct[rng.choice(len(distinct), min(len(distinct), sample.n_components), replace=False)]


def spread_rows(sample: Sample, rng: np.random.Generator) -> Array:
    """Pick rows of different directions: greedy k-means++ for lines through the origin, or rays.

    With codes of one entry, the atoms so far leave ‖x‖² − max over atoms a of ⟨x, a⟩²/‖a‖² of a row
    (where codes are not negative, a negative ⟨x, a⟩ counts as 0). A few candidates are drawn with
    probabilities in proportion to what is left, and the one after which least is left is taken [1]_.

    References
    ----------
    .. [1] D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", Symposium on
       Discrete Algorithms (2007).
    """
    X, squares = sample.X, row_squares(sample.X)
    left, chosen = squares.copy(), list[int]()
    n_candidates = 2 + int(math.log(sample.n_components))
    for _ in range(sample.n_components):
        open_rows = np.flatnonzero(left > SAME * squares)
        if len(open_rows) == 0:
            break
        total = np.cumsum(left[open_rows])
        places = np.searchsorted(total, rng.random(n_candidates) * total[-1], side="right")
        drawn = open_rows[np.unique(np.minimum(places, len(total) - 1))]
        fits = X @ (X[drawn] / np.sqrt(squares[drawn])[:, None]).T
        fits = fits if sample.signed else np.maximum(fits, 0)
        after = np.minimum(left[:, None], squares[:, None] - fits**2)
        best = int(np.argmin(np.sum(after, axis=0)))
        left = after[:, best]
        left[drawn[best]] = 0
        chosen.append(int(drawn[best]))
    return X[chosen]


def singular_rows(sample: Sample, rng: np.random.Generator) -> Array:
    """Return the leading right singular vectors, each with a sum that is not negative."""
    V = _singular_pairs(sample)[1]
    return sample.row_size * V * np.where(np.sum(V, axis=1) < 0, -1.0, 1.0)[:, None]


def nonnegative_singular_rows(sample: Sample, rng: np.random.Generator) -> Array:
    """Return nonnegative parts of right singular vectors (NNDSVD), zeros filled by a little of the mean.

    Of a pair (u, v) of singular vectors the positive or the negative parts are taken, whichever have
    the larger product of norms [1]_.

    References
    ----------
    .. [1] C. Boutsidis, E. Gallopoulos, "SVD based initialization: a head start for nonnegative matrix
       factorization", Pattern Recognition 41 (2008).
    """
    U, V = _singular_pairs(sample)
    positive = row_norms(np.maximum(U, 0)) * row_norms(np.maximum(V, 0))
    negative = row_norms(np.minimum(U, 0)) * row_norms(np.minimum(V, 0))
    parts = np.maximum(np.where(positive >= negative, 1.0, -1.0)[:, None] * V, 0)
    size = row_norms(parts)[:, None]
    parts = sample.row_size * parts / np.where(size > 0, size, 1)
    mean = np.maximum(np.sum(sample.X, axis=0) / max(1, len(sample.X)), 0)
    return np.where(parts > 0, parts, FILLING * mean)


def _singular_pairs(sample: Sample) -> tuple[Array, Array]:
    """Return left and right singular vectors as rows, at most k, without those of singular value 0."""
    U, values, V = np.linalg.svd(sample.X, full_matrices=False)
    rank = int(np.sum(values > 1e-12 * np.max(values, initial=0.0)))
    count = min(rank, sample.n_components)
    return U.T[:count], V[:count]
