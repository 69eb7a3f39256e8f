"""Conversion: the table for whatever a user has.

>>> import numpy as np, scipy.sparse
>>> as_table(scipy.sparse.csr_array(np.eye(4))).read(1, 3)
array([[0., 1., 0., 0.],
       [0., 0., 1., 0.]])
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from vrmf.sources.arrow import arrow_table
from vrmf.sources.frames import frame_table, polars_table, with_labels
from vrmf.sources.tables import (
    AbstractTable,
    ArrayTable,
    DaskTable,
    SlicedTable,
    SparseTable,
    two_dimensional,
    without_mask,
)


def as_table(X: Any) -> AbstractTable:
    """Return the table for an array, a sparse matrix, a data frame, a data set, or the path of a file."""
    if isinstance(X, AbstractTable):
        return X
    X = without_mask(X)
    if isinstance(X, str | os.PathLike):
        from vrmf.sources.files import open_table  # which imports the readers of SciPy

        return open_table(Path(X))
    if scipy.sparse.issparse(X):
        return SparseTable(two_dimensional(X).tocsr())
    library = type(X).__module__.partition(".")[0]
    if library == "xarray":
        return with_labels(as_table(two_dimensional(X).data), X)
    if library == "pandas" and X.ndim == 2:
        return frame_table(X)
    if library == "polars":
        return polars_table(X)
    if library == "pyarrow":
        return arrow_table(X)
    if library == "dask" and hasattr(X, "to_dask_array"):
        raise ValueError("The data are a data frame of dask. Use X.to_dask_array(lengths=True).")
    if library == "dask":
        return DaskTable(two_dimensional(X))
    if library in ("zarr", "h5py"):
        return SlicedTable(two_dimensional(X))
    return ArrayTable(two_dimensional(np.asanyarray(X)))
