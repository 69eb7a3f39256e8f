"""The source of rows that estimators make of X, and the checks of X."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.sources import AbstractSource, RowCheck, as_source
from vrmf.sources.base import check_sizes
from vrmf.sources.conversion import as_table
from vrmf.sources.frames import REMEDY
from vrmf.sources.lazy import lazy_part
from vrmf.sources.tables import FLATTENED, AbstractTable, is_mapped, not_numbers, without_mask

#: Names of features that an error shows at most.
MOST_NAMES = 5


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
    """Return the source of rows for the data that a user gave, checked.

    What lies in memory as an array is checked at once, as scikit-learn does; what is read in pieces
    is checked piece by piece, and never copied as a whole. ``reset`` says that the number of features
    is learned, not compared. Rows come in ``dtype``, if given.
    """
    check = RowCheck(type(estimator).__name__, nonnegative)
    if isinstance(X, AbstractSource) or read_in_pieces(X):
        source = X if isinstance(X, AbstractSource) else _source_of_pieces(X, n_jobs)
        _check_shape(estimator, source, reset)
        source = source.read_as(check=replace(check, feature_names=source.feature_names))
    else:
        _check_columns(X)
        _check_dimensions(estimator, X)
        X = validate_data(
            estimator,
            without_mask(X),
            reset=reset,
            dtype=[np.float64, np.float32],
            accept_sparse="csr",
            ensure_all_finite=False,
        )
        _check_entries(X, check, X.dtype if dtype is None else dtype)
        source = as_source(X, n_jobs)
    return source if dtype is None else source.read_as(dtype=np.dtype(dtype))


def _check_columns(X: Any) -> None:
    """Raise if there are dates, which scikit-learn would count, or a column without numbers, to name it."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"The data are of dtype {X.dtype}. Use real numbers.")
    if type(X).__module__.partition(".")[0] != "pandas" or X.ndim != 2:
        return
    for place, (name, kind) in enumerate(X.dtypes.items()):
        try:
            np.asarray(X.iloc[:, place], dtype=np.float64)
            is_number = getattr(kind, "kind", "O") not in "mM"
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            raise ValueError(not_numbers(name, kind, REMEDY))


def _check_dimensions(estimator: Any, X: Any) -> None:
    """Raise if an array has more than two dimensions, in the words of scikit-learn, with the remedy."""
    dimensions = getattr(X, "ndim", 2)
    if dimensions > 2:
        raise ValueError(
            f"Found array with dim {dimensions}, while dim <= 2 is required by {type(estimator).__name__}. "
            f"Use rows and features: {FLATTENED}."
        )


def _source_of_pieces(X: Any, n_jobs: int | None) -> AbstractSource:
    """Return the source of what is read in pieces; a lazy array stays one, for a cluster."""
    if lazy_part(X) is None:
        return as_source(as_table(X), n_jobs)
    return as_source(X, n_jobs).named(as_table(X).feature_names)


def check_names(estimator: Any, names: tuple[str, ...] | None, reset: bool) -> None:
    """Store the names of features, or raise if they are not those of the fit, as scikit-learn does."""
    known = getattr(estimator, "feature_names_in_", None)
    if reset:
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        elif known is not None:
            del estimator.feature_names_in_
        return
    who = type(estimator).__name__
    if known is None and names is not None:
        warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=4)
    elif known is not None and names is None:
        warnings.warn(
            f"X does not have valid feature names, but {who} was fitted with feature names", stacklevel=4
        )
    elif known is not None and names != tuple(known):
        raise ValueError(_difference(tuple(known), names or ()))


def _difference(known: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Say in which way names of features are not those of the fit, in the words of scikit-learn."""
    lines = ["The feature names should match those that were passed during fit."]
    unseen, missing = (sorted(set(a) - set(b)) for a, b in ((names, known), (known, names)))
    for what, which in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if which:
            shown = [f"- {name}" for name in which[:MOST_NAMES]] + ["- ..."] * (len(which) > MOST_NAMES)
            lines += [f"Feature names {what}:", *shown]
    if not unseen and not missing:
        lines += ["Feature names must be in the same order as they were in fit."]
    return "\n".join(lines) + "\n"


def read_in_pieces(X: Any) -> bool:
    """Whether X is a file, mapped, lazy, or a frame of numbers, of which no array is made."""
    if isinstance(X, AbstractTable | str) or hasattr(X, "__fspath__") or is_mapped(X):
        return True
    library = type(X).__module__.partition(".")[0]
    if library == "pandas":
        return X.ndim == 2 and all(getattr(kind, "kind", "O") in "fiub" for kind in X.dtypes)
    return library in ("zarr", "h5py", "dask", "xarray", "polars", "pyarrow")


def centred(source: AbstractSource) -> AbstractSource:
    """Return the source with the mean of its rows subtracted."""
    total = source.reduce(_column_sums)
    return source.read_as(mean=(total / source.n_samples).astype(source.dtype))


def _column_sums(block: Block) -> Array:
    return np.asarray(np.sum(block.dense, axis=0, dtype=np.float64))


def _check_shape(estimator: Any, source: AbstractSource, reset: bool) -> None:
    """Store the number and the names of features, or raise if they are not those of the fit."""
    if source.n_samples < 1 or source.n_features < 1:
        raise ValueError(
            f"The data have {source.n_samples} rows and {source.n_features} features. Use at least one "
            "of each."
        )
    check_names(estimator, source.feature_names, reset)
    if reset:
        estimator.n_features_in_ = source.n_features
    else:
        check_width(estimator, source.n_features)


def check_width(estimator: Any, n_features: int) -> None:
    """Raise if the data do not have the features of the fit."""
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def _first_not_finite(X: Any) -> tuple[int, int, float]:
    """Return the row, the column and the value of an entry that is not finite."""
    if not scipy.sparse.issparse(X):
        row, column = np.argwhere(~np.isfinite(X))[0].tolist()
        return row, column, X[row, column]
    place = int(np.argmin(np.isfinite(X.data)))
    row = int(np.searchsorted(X.indptr, place, side="right")) - 1
    return row, int(X.indices[place]), X.data[place]


def _check_entries(X: Any, check: RowCheck, dtype: Any) -> None:
    """Raise if an array or a sparse matrix has entries that no fit takes."""
    entries = X.data if scipy.sparse.issparse(X) else X
    low, high = float(np.min(entries, initial=0)), float(np.max(entries, initial=0))
    if not (math.isfinite(low) and math.isfinite(high)):
        row, column, value = _first_not_finite(X)
        raise ValueError(check.not_finite(row, column, value))
    if check.nonnegative and low < 0:
        raise ValueError(
            f"Negative values in data passed to {check.name}: the smallest entry is {low:g}. Use data "
            "without negative entries, or RobustNMF, whose outliers absorb them."
        )
    check_sizes(X, max(-low, high), dtype)
