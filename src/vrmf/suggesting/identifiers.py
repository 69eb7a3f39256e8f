"""Columns that seem to identify rows rather than to measure anything.

>>> rng = np.random.default_rng(0)
>>> X = np.column_stack([rng.permutation(1000)[:60], rng.random((60, 3))])
>>> likely_identifiers(X, ("patient", "a", "b", "c"))
(('patient',), 0.99...)
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array
from vrmf.sources.headers import UNNAMED, names_rows

#: With fewer rows, whole numbers may be distinct by chance.
LEAST_ROWS = 10

#: The least share of distinct numbers in a column whose name says that it identifies rows.
MOSTLY = 0.3

#: A single column with more than this share of the variance of all columns dominates.
DOMINANT = 0.5


def likely_identifiers(rows: Array, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], float]:
    """Return the names of columns that look like identifiers of rows, and their share of the variance.

    Their numbers are whole. Either the name says that they identify rows, or a single column is of
    distinct whole numbers, and these only rise, or dominate the variance.
    """
    n, d = rows.shape
    called = names or tuple(map(str, range(d)))
    if n < LEAST_ROWS or d < 2:
        return (), 0.0
    columns = np.nonzero(np.all(rows == np.round(rows), axis=0))[0]
    distinct = {int(j): len(np.unique(rows[:, j])) for j in columns}
    shares = np.var(rows, axis=0)
    shares = shares / max(float(np.sum(shares)), 1e-300)
    found = {j for j, count in distinct.items() if names and _says_so(called[j]) and count > MOSTLY * n}
    alone = [j for j, count in distinct.items() if count == n]
    if len(alone) == 1 and (np.all(np.diff(rows[:, alone[0]]) > 0) or shares[alone[0]] > DOMINANT):
        found.add(alone[0])
    chosen = sorted(found)
    return tuple(called[j] for j in chosen), float(np.sum(shares[chosen]))


def _says_so(name: str) -> bool:
    return name.lower() not in UNNAMED and names_rows(name)
