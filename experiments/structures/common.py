"""What the experiments on structures share: fits, medians over seeds, and matching.

>>> records = [{"share": 0.1, "error": e} for e in (3.0, 1.0, 2.0)]
>>> medians(records, "share", "error")
{0.1: 2.0}
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
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
    """Fit a model and return the codes of its rows, without a warning where the budget ends the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit_transform(X)


def records_with(results: Results, name: str, **wanted: Any) -> list[Record]:
    """Return the results that have a quantity, among those with the wanted parameters."""
    return [
        record
        for record in results.values()
        if name in record and all(record.get(key) == value for key, value in wanted.items())
    ]


def medians(records: Iterable[Record], by: str, name: str) -> dict[Any, float]:
    """Return the median of a quantity for each value of a parameter, in rising order."""
    found: dict[Any, list[float]] = {}
    for record in records:
        found.setdefault(record[by], []).append(record[name])
    return {value: float(np.median(found[value])) for value in sorted(found)}


def assigned(similarity: Array) -> Array:
    """Return the column of each row in the best assignment of rows to columns."""
    return np.asarray(linear_sum_assignment(-similarity)[1])


def distance(A: Array, truth: Array) -> float:
    """Return ‖A − truth‖ / ‖truth‖."""
    return float(np.linalg.norm(A - truth) / np.linalg.norm(truth))
