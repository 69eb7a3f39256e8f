"""What the experiments on rates share: their problems, means over iterates, and slopes of curves.

>>> fitted_slope([1, 10, 100], [5.0, 0.5, 0.05])
-1.0
>>> running_means([0, 2, 4], [4.0, 2.0, 0.0], at=[1, 2, 4])
array([4. , 3.5, 2.5])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from experiments.base import Results
from vrmf.arrays import Array
from vrmf.comparing.measuring import Yardstick
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import as_source


def digits_problem(formulation: Formulation, rows: int, atoms: int) -> tuple[Problem, Array]:
    """Return a problem on the first of scikit-learn's digits, and a start along other digits."""
    X = load_digits().data / 16
    # On so few rows a second thread would cost more time than it saves.
    source = as_source(X[:rows], n_jobs=1)
    return Problem(formulation, source), atoms_from_rows(formulation, X[-atoms:])


def fitted_slope(x: Any, y: Any) -> float:
    """Return the exponent p of the power law y ∝ xᵖ that fits best in logarithms."""
    return round(float(np.polyfit(np.log(x), np.log(y), 1)[0]), 10) + 0.0  # 0 rather than −0


def moments(last: int, count: int) -> list[int]:
    """Return about so many whole numbers from 0 to ``last``, closer together at the beginning.

    >>> moments(100, 6)
    [0, 2, 5, 15, 39, 100]
    """
    return sorted({0, *(round(t) for t in np.geomspace(1, last + 1, count) - 1)})


def running_means(steps: Sequence[int], values: Sequence[float], at: Sequence[int]) -> Array:
    """Return the means over the iterates 0 … T − 1 for each T, by interpolation between those known."""
    between = np.interp(np.arange(max(at)), steps, values)
    return np.cumsum(between)[np.asarray(at) - 1] / np.asarray(at)


def running_means_of(runs: Sequence[Any], first: int) -> tuple[list[int], Array]:
    """Return the totals of steps first, 2 first, …, and for each the mean of ‖Γ‖², a row for each run."""
    totals = doublings(first, runs[0]["step"][-1])
    return totals, np.array([running_means(run["step"], run["stationarity"], totals) for run in runs])


def mappings_along(run: Iterator[Array], problem: Problem, steps: Sequence[int], eta: float) -> list[float]:
    """Return ‖Γ‖² at the step η with exact codes, for the iterates of a run at the rising ``steps``."""
    yardstick = Yardstick.of(problem)
    found: list[float] = []
    for step, D in zip(range(steps[-1] + 1), run, strict=False):
        if step == steps[len(found)]:
            found.append(problem.stationarity(yardstick.stats(D), D, eta))
    return found


def under(results: Results, prefix: str) -> list[Any]:
    """Return the results whose key continues the prefix by a slash."""
    return [value for key, value in results.items() if key.startswith(prefix + "/")]


def doublings(first: int, last: int) -> list[int]:
    """Return first, 2 first, 4 first, … up to last.

    >>> doublings(3, 24)
    [3, 6, 12, 24]
    """
    return [first * 2**j for j in range(int(math.log2(last / first)) + 1)]
