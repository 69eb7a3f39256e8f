"""The number of atoms of an overcomplete dictionary, by errors of new rows."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np

from vrmf.arrays import Array
from vrmf.estimators import DictionaryLearning

#: Such dictionaries are tried up to this number of features.
MOST_FEATURES = 40

#: Rows that are used at most.
MOST_ROWS = 2000

#: Rows that are needed for each feature.
ROWS_PER_FEATURE = 20

#: Epochs of each fit.
EPOCHS = 8

#: The factor between two numbers of atoms that are tried.
FACTOR = 1.25

#: How often the number of atoms grows by this factor.
STEPS = 6

#: There are enough atoms if the next step lowers the objective by less than this share of it.
SMALL_GAIN = 0.04

#: The next step must also lower it by less than this share of what the step before did.
DROP = 0.4


def atom_count(rows: Array, rng: np.random.Generator) -> int | None:
    """Return the number of atoms beyond which the objective of new rows hardly falls, or None if none is.

    Dictionaries with more and more atoms are fitted to three quarters of the rows. Up to the true
    number of atoms each step lowers the objective of the other rows by much, beyond it by little.

    >>> rng = np.random.default_rng(0)
    >>> D, H = rng.standard_normal((15, 10)), rng.standard_normal((800, 15))
    >>> H[np.argsort(rng.random(H.shape), axis=1) >= 2] = 0
    >>> 13 <= atom_count(H @ D, rng) <= 17
    True
    """
    n, d = rows.shape
    if d > MOST_FEATURES or n < ROWS_PER_FEATURE * d:
        return None
    rows = rows[rng.permutation(n)[:MOST_ROWS]]
    cut = 3 * len(rows) // 4
    counts = [round(d * FACTOR**step) for step in range(STEPS)]
    before, last_gain = _objective(rows[:cut], rows[cut:], counts[0]), 0.0
    for count, following in pairwise(counts):
        after = _objective(rows[:cut], rows[cut:], following)
        gain = 1 - after / before
        if gain < SMALL_GAIN:
            return count if gain < DROP * last_gain else None
        before, last_gain = after, gain
    return None


def _objective(rows: Array, new_rows: Array, count: int) -> float:
    """Return the objective of new rows over a dictionary of so many atoms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short fit does not converge, and need not
        model = DictionaryLearning(count, max_iter=EPOCHS, tol=1e-4, random_state=0, n_jobs=1).fit(rows)
        return float(model.objective(new_rows))
