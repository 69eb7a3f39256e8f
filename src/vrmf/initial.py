"""Where a fit starts: the initial dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from vrmf.formulations import Formulation
from vrmf.problem import feasible
from vrmf.sources import AbstractSource
from vrmf.terms.base import Array
from vrmf.weights import SAMPLE_ROWS, DataSummary

#: Names that ``init`` accepts.
NAMES = ("data", "random", "svd", "ones")


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

    ``"data"`` takes nonzero rows of the data, with outlying entries clipped if there is an outlier
    term, and rescales them by ``to_atoms``; ``"random"`` and ``"svd"`` rescale random directions and
    right singular vectors of a sample; ``"ones"`` is the start of the paper's experiments.
    """
    if not isinstance(init, str):
        return given_dictionary("init", init, formulation, n_components, source)
    if init not in NAMES:
        raise ValueError(
            f"`init` is {init!r}. Use one of {', '.join(map(repr, NAMES))}, or an array of shape "
            f"({n_components}, {source.n_features})."
        )
    rng = np.random.default_rng([seed, 0, 2])  # (seed, step) belongs to the mini-batches
    if init == "ones":
        warnings.warn(
            "With init='ones' all atoms are equal, and they stay equal wherever equal atoms get "
            "equal codes: D then keeps rank one. It is meant for reproduction; use init='data'.",
            UserWarning,
            stacklevel=4,
        )
        rows = np.ones((n_components, source.n_features))
    elif init == "random":
        rows = _random_rows(rng, n_components, summary)
    else:
        sample = source.rows(source.layout.choose(rng, max(SAMPLE_ROWS, 2 * n_components)))
        sample = summary.clipped(sample) if formulation.has_outliers else sample
        if init == "data":
            rows = _data_rows(rng, sample, n_components, summary)
        else:
            rows = _singular_rows(rng, sample, n_components, summary)
    return feasible(formulation, to_atoms(rows.astype(source.dtype)))


def given_dictionary(
    name: str, D: Any, formulation: Formulation, n_components: int, source: AbstractSource
) -> Array:
    """Return a dictionary that the user gave, as a new array, or say why it will not do."""
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
            f"{type(formulation.dictionary).__name__}. Use a dictionary inside, such as "
            "formulation.dictionary.prox(D, 1e-12)."
        )
    # What is feasible to single precision may need a last touch in double.
    return feasible(formulation, D.astype(source.dtype))


def _chosen(rng: np.random.Generator, n: int, size: int) -> Array:
    return rng.choice(n, min(n, size), replace=False)


def _data_rows(rng: np.random.Generator, sample: Array, n_components: int, summary: DataSummary) -> Array:
    """Pick distinct nonzero rows at random; if they are too few, random directions fill up."""
    distinct = np.unique(sample[np.any(sample != 0, axis=1)], axis=0)
    rows = distinct[_chosen(rng, len(distinct), n_components)] if len(distinct) else distinct
    return np.concatenate([rows, _random_rows(rng, n_components - len(rows), summary)])


def _singular_rows(
    rng: np.random.Generator, sample: Array, n_components: int, summary: DataSummary
) -> Array:
    vectors = np.linalg.svd(sample.astype(np.float64), full_matrices=False)[2][:n_components]
    signs = np.where(np.sum(vectors, axis=1) < 0, -1.0, 1.0)
    rows = vectors * signs[:, None] * summary.entry * summary.n_features**0.5
    return np.concatenate([rows, _random_rows(rng, n_components - len(rows), summary)])


def _random_rows(rng: np.random.Generator, count: int, summary: DataSummary) -> Array:
    """Draw rows of the size of the data: nonnegative if its center is."""
    rows = summary.entry * rng.standard_normal((count, summary.n_features))
    return np.abs(rows) if np.all(summary.center >= 0) else rows
