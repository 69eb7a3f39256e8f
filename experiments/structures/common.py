"""What the experiments on structures share: fits, medians over seeds, matching, and tables.

>>> records = [{"share": 0.1, "error": e} for e in (3.0, 1.0, 2.0)]
>>> medians(records, "share", "error")
{0.1: 2.0}
>>> print(markdown(["share", "error"], [[0.1, 2.0]]))
| share | error |
|---|---|
| 0.1 | 2 |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from experiments.base import Results
from vrmf.arrays import Array
from vrmf.estimators import AbstractFactorizer

#: How steps describe what they measured: parameters and numbers by name.
Record = Mapping[str, Any]


def fit_codes(model: AbstractFactorizer, X: Array) -> Array:
    """Fit a model and return the codes of its rows; that a budget ends a fit is part of the plan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit_transform(X)


def records_with(results: Results, name: str, **wanted: Any) -> list[Record]:
    """Return the results that tell a quantity, of those with the wanted parameters."""
    return [
        record
        for record in results.values()
        if name in record and all(record.get(key) == value for key, value in wanted.items())
    ]


def medians(records: Iterable[Record], by: str, name: str) -> dict[Any, float]:
    """Return the median of a quantity for each value of a parameter, in rising order of these."""
    found: dict[Any, list[float]] = {}
    for record in records:
        found.setdefault(record[by], []).append(record[name])
    return {value: float(np.median(found[value])) for value in sorted(found)}


def assigned(similarity: Array) -> Array:
    """Return for each row the column that a best assignment of rows to columns gives it."""
    return np.asarray(linear_sum_assignment(-similarity)[1])


def distance(A: Array, truth: Array) -> float:
    """Return ‖A − truth‖ / ‖truth‖."""
    return float(np.linalg.norm(A - truth) / np.linalg.norm(truth))


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; numbers are told to three digits."""
    lines = [header, ["---"] * len(header), *rows]
    cells = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in line] for line in lines]
    texts = [f"| {' | '.join(line)} |" for line in cells]
    texts[1] = "|" + "---|" * len(header)
    return "\n".join(texts)
