"""What estimators take for X, and the source of rows that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from vrmf.sources import AbstractSource, RowCheck, as_source
from vrmf.sources.base import check_sizes
from vrmf.sources.lazy import lazy_part
from vrmf.sources.tables import AbstractTable, as_table, is_mapped
from vrmf.terms.base import Array


def is_stream(X: Any) -> bool:
    """Whether X gives one batch of rows after another and can be read only once."""
    return isinstance(X, Iterator) and not isinstance(X, AbstractSource)


def shape_of(X: Any) -> tuple[int, int] | None:
    """Return the numbers of rows and features of a batch, or None if it does not have both."""
    if isinstance(X, AbstractSource):
        return X.n_samples, X.n_features
    shape = as_table(X).shape if read_in_pieces(X) else getattr(X, "shape", None)
    return shape if shape is not None and len(shape) == 2 else None


def batches_with_rows(batches: Iterable[Any], check: Callable[[int], None]) -> Iterator[Any]:
    """Yield the batches that have rows, and check the number of features of the others."""
    full = empty = 0
    for batch in batches:
        shape = shape_of(batch)
        if shape is not None and shape[0] == 0:
            check(shape[1])
            empty += 1
        else:
            full += 1
            yield batch
    if not full:
        lack = f"rows: all of its {empty} batches are empty" if empty else "batches"
        raise ValueError(f"The stream has no {lack}. Use one with rows.")


def rows_for(
    estimator: Any, X: Any, *, reset: bool, nonnegative: bool, n_jobs: int | None, dtype: Any = None
) -> AbstractSource:
    """Return the source of rows for what a user gave, checked.

    What lies in memory as an array is checked at once, as scikit-learn does; what is read in pieces
    is checked piece by piece, and never copied as a whole. ``reset`` says that the number of features
    is learned, not compared. Rows come in ``dtype``, if given.
    """
    check = RowCheck(type(estimator).__name__, nonnegative)
    if isinstance(X, AbstractSource):
        _check_shape(estimator, X.n_samples, X.n_features, reset)
        source = X.read_as(check=check)
        return source if dtype is None else source.read_as(dtype=np.dtype(dtype))
    if read_in_pieces(X):
        table, named = as_table(X), hasattr(X, "columns")
        if named:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        _check_shape(estimator, *table.shape, reset, named)
        source = as_source(X if lazy_part(X) is not None else table, n_jobs, check=check)
    else:
        X = validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], accept_sparse="csr")
        _check_entries(X, check, X.dtype if dtype is None else dtype)
        source = as_source(X, n_jobs)
    return source if dtype is None else source.read_as(dtype=np.dtype(dtype))


def read_in_pieces(X: Any) -> bool:
    """Whether X is a file, mapped, lazy, or a frame of numbers, of which no array is made."""
    if isinstance(X, AbstractTable | str) or hasattr(X, "__fspath__") or is_mapped(X):
        return True
    library = type(X).__module__.partition(".")[0]
    if library == "pandas":
        return X.ndim == 2 and all(getattr(kind, "kind", "O") in "fiub" for kind in X.dtypes)
    return library in ("zarr", "h5py", "dask", "xarray", "pyarrow")


def centred(source: AbstractSource) -> AbstractSource:
    """Return the source with the mean of its rows subtracted."""
    total = source.reduce(_column_sums)
    return source.read_as(mean=(total / source.n_samples).astype(source.dtype))


def _column_sums(X: Array) -> Array:
    return np.asarray(np.sum(X, axis=0, dtype=np.float64))


def _check_shape(estimator: Any, n_samples: int, n_features: int, reset: bool, named: bool = False) -> None:
    if n_samples < 1 or n_features < 1:
        raise ValueError(
            f"The data have {n_samples} rows and {n_features} features. Use at least one of each."
        )
    if reset:
        estimator.n_features_in_ = n_features
        if not named and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    else:
        check_width(estimator, n_features)


def check_width(estimator: Any, n_features: int) -> None:
    """Raise if the data do not have the features of the fit."""
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def _check_entries(X: Any, check: RowCheck, dtype: Any) -> None:
    """Raise if an array or a sparse matrix of finite numbers has negative entries or rows too long."""
    entries = X.data if scipy.sparse.issparse(X) else X
    low, high = float(np.min(entries, initial=0)), float(np.max(entries, initial=0))
    if check.nonnegative and low < 0:
        raise ValueError(
            f"Negative values in data passed to {check.name}: the smallest entry is {low:g}. Use data "
            "without negative entries, or RobustNMF, whose outliers absorb them."
        )
    check_sizes(X, max(-low, high), dtype)
