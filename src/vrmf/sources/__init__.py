"""Sources: where rows live. A source applies a function to blocks of rows and adds up the results.

>>> import numpy as np
>>> source = as_source(np.arange(6.0).reshape(3, 2))
>>> source.reduce(lambda block: block.dense.sum(axis=0))
array([6., 9.])
>>> source.reduce(lambda block: block.dense.sum(axis=0), rows=np.array([0, 2]))
array([4., 6.])
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vrmf.arrays import Array
from vrmf.sources.base import AbstractSource, RowCheck
from vrmf.sources.layout import Layout
from vrmf.sources.lazy import current_client, lazy_part
from vrmf.sources.local import LocalSource
from vrmf.sources.selection import Batch, Sample
from vrmf.sources.tables import AbstractTable
from vrmf.sources.threads import single_threaded_blas, thread_count

__all__ = [
    "AbstractSource",
    "Batch",
    "Layout",
    "LocalSource",
    "RowCheck",
    "Sample",
    "as_source",
    "open_table",
    "single_threaded_blas",
    "thread_count",
]


def open_table(path: str | os.PathLike[str], **options: Any) -> AbstractTable:
    """Return the rows in a file or folder, with what cannot be found out of how to read them.

    Parameters
    ----------
    path : str or path
        See :func:`vrmf.sources.files.open_table`.
    **options
        ``drop``, columns that are no features; ``index``, the column with the names of rows; and for text
        ``separator``, ``decimal`` and ``header``: see :class:`vrmf.sources.options.FileOptions`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> _ = path.write_text("cell,g1,tissue,g2\\na,1,lung,2\\nb,3,lung,4\\n")
    >>> table = open_table(path, drop=["tissue"])
    >>> table.shape, table.feature_names
    ((2, 2), ('g1', 'g2'))
    """
    from vrmf.sources.files import open_table as opened
    from vrmf.sources.options import FileOptions

    if isinstance(drop := options.get("drop", ()), str):
        raise ValueError(f"`drop` is {drop!r}. Use a list of names of columns.")
    return opened(Path(path), FileOptions(**(options | {"drop": tuple(drop)})))


def as_source(
    X: Any, n_jobs: int | None = None, mean: Array | None = None, **options: Any
) -> AbstractSource:
    """Return the source of rows for what ``X`` is; a source is returned as it is.

    ``X`` may be an array, a memory-mapped array, a scipy.sparse matrix, a pandas data frame, an Arrow
    table, a zarr array, an h5py data set, a dask or xarray array, the path of a file or folder, or what
    :func:`open_table` returns. Options are those of :class:`~vrmf.sources.local.LocalSource`. A dask array
    in a process that has a client of a cluster becomes a :class:`~vrmf.sources.cluster.ClusterSource`,
    with its options.
    """
    if isinstance(X, AbstractSource):
        return X
    lazy = lazy_part(X)
    if lazy is not None and current_client() is not None:
        from vrmf.sources.cluster import ClusterSource

        if options.pop("companion_folder", None) is not None:
            raise ValueError(
                "Leave out `companion_folder` on a cluster: workers store companions in memory."
            )
        return ClusterSource(lazy, mean=mean, **options)
    return LocalSource(X, n_jobs, mean, **options)
