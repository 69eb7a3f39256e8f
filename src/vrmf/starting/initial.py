"""Where a fit starts: the initial dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary
from vrmf.callers import level_of_caller
from vrmf.dictionaries import feasible
from vrmf.formulations import Formulation
from vrmf.sources import AbstractSource, single_threaded_blas
from vrmf.starting.multistart import STARTS, best_start, has_costly_codes, rows_for_multistart
from vrmf.starting.starts import (
    Sample,
    nonnegative_singular_rows,
    random_rows,
    singular_rows,
    spread_rows,
)
from vrmf.terms import NonNegative, Simplex, UnitBall
from vrmf.terms.sums import parts_of

#: Rules that start from a sample of the rows, by the name that ``init`` has for them.
RULES: dict[str, Callable[[Sample, np.random.Generator], Array]] = {
    "spread": spread_rows,
    "data": random_rows,
    "svd": singular_rows,
    "nndsvd": nonnegative_singular_rows,
}

#: Rows from which a start is chosen. With fewer, the best start would overfit the sample.
START_ROWS = 2000

#: Names that ``init`` accepts.
NAMES = ("auto", *RULES, "random", "ones")


def initial_dictionary(
    init: Any,
    source: AbstractSource,
    formulation: Formulation,
    n_components: int,
    summary: DataSummary,
    to_atoms: Callable[[Array], Array],
    seed: int,
) -> Array:
    """Return a feasible dictionary (k, d), from a name or a given array.

    The names of ``RULES`` choose directions from a sample of the rows, with outlying entries clipped if
    there is an outlier term; random directions fill up where these are fewer than k, and ``to_atoms``
    rescales them. ``"random"`` takes random directions alone, ``"ones"`` is the start of the paper's
    experiments. ``"auto"`` is the best of several ``"spread"`` starts after a few steps on the
    sample, a single ``"spread"`` start where that would be too expensive, and ``"data"`` with outliers.
    """
    if not isinstance(init, str):
        return given_dictionary("init", init, formulation, n_components, source)
    if init not in NAMES:
        raise ValueError(
            f"`init` is {init!r}. Use one of {', '.join(map(repr, NAMES))}, or an array of shape "
            f"({n_components}, {source.n_features})."
        )
    rng = np.random.default_rng([seed, 0, 2])  # (seed, step) belongs to the mini-batches

    def atoms_of(rows: Array) -> Array:
        missing = _random_rows(rng, n_components - len(rows), summary)
        return feasible(formulation, to_atoms(np.concatenate([rows, missing]).astype(source.dtype)))

    if init == "ones":
        _warn_of_ones()
        return atoms_of(np.ones((n_components, source.n_features)))
    if init == "random":
        return atoms_of(np.empty((0, source.n_features)))
    with single_threaded_blas():
        sample = _sample(source, formulation, n_components, summary, rng)
        if init != "auto":
            return atoms_of(RULES[init](sample, rng))
        if formulation.has_outliers:  # rows that are explained worst may be those with outliers
            return atoms_of(random_rows(sample, rng))
        count = rows_for_multistart(len(sample.X), n_components, source.n_features)
        if count == 0 or has_costly_codes(formulation):
            return atoms_of(spread_rows(sample, rng))
        starts = [atoms_of(spread_rows(sample, rng)) for _ in range(STARTS)]
        some = np.sort(rng.choice(len(sample.X), count, replace=False))
        return best_start(formulation, sample.X[some].astype(source.dtype), starts)


def _sample(
    source: AbstractSource,
    formulation: Formulation,
    n_components: int,
    summary: DataSummary,
    rng: np.random.Generator,
) -> Sample:
    """Return rows for a start, and whether codes may be negative."""
    rows = source.rows(source.layout.choose(rng, max(START_ROWS, 2 * n_components)))
    rows = summary.clipped(rows) if formulation.has_outliers else rows
    below = np.full((1, n_components), -1e-3 / n_components)  # inside of a ball of codes, too
    return Sample(
        rows[np.any(rows != 0, axis=1)].astype(np.float64, copy=False),
        n_components,
        signed=bool(np.isfinite(formulation.code.value(below))),
    )


def _warn_of_ones() -> None:
    warnings.warn(
        "With init='ones' all atoms are equal, and they stay equal wherever equal atoms get "
        "equal codes: D then keeps rank one. It is meant for reproduction; use init='auto'.",
        UserWarning,
        stacklevel=level_of_caller(),
    )


def given_dictionary(
    name: str, D: Any, formulation: Formulation, n_components: int, source: AbstractSource
) -> Array:
    """Return a copy of a dictionary that the user gave; raise if it is not feasible."""
    try:
        D = np.asarray(D)
        D = D if D.dtype == np.float32 else D.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` is not an array of numbers. Use one of shape ({n_components}, {source.n_features})."
        ) from error
    if D.shape != (n_components, source.n_features):
        raise ValueError(
            f"`{name}` has shape {D.shape}. Use ({n_components}, {source.n_features}), "
            "which is (n_components, n_features)."
        )
    if not np.all(np.isfinite(D)):
        raise ValueError(f"`{name}` has NaN or infinite entries. Use finite ones.")
    if not np.isfinite(formulation.dictionary.value(D)):
        raise ValueError(
            f"`{name}` is infeasible: it lies outside of the set of the dictionary term "
            f"{type(formulation.dictionary).__name__}. {_remedy(formulation)}"
        )
    # Feasible in single precision may be slightly infeasible in double.
    return feasible(formulation, D.astype(source.dtype))


def _remedy(formulation: Formulation) -> str:
    """Return the advice on how to make a dictionary feasible."""
    kinds = {type(part) for part in parts_of(formulation.dictionary)}
    if Simplex in kinds:
        return "Use nonnegative rows of sum 1, such as D / D.sum(axis=1, keepdims=True)."
    if UnitBall in kinds:
        sign = "nonnegative rows" if NonNegative in kinds else "rows"
        return f"Use {sign} of norm at most 1, such as D / np.linalg.norm(D, axis=1, keepdims=True)."
    return "Use the nearest one inside, prox(D, 1e-12) of that term."


def _random_rows(rng: np.random.Generator, count: int, summary: DataSummary) -> Array:
    """Draw rows of the size of the data: nonnegative if its center is."""
    rows = summary.entry * rng.standard_normal((count, summary.n_features))
    return np.abs(rows) if np.all(summary.center >= 0) else rows
