"""Lazy arrays: a dask array whose chunks are read from a file where they are computed.

>>> import tempfile, pathlib
>>> import numpy as np
>>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
>>> np.save(path, np.arange(10.0).reshape(5, 2))
>>> dask_array(path, chunk_rows=2).chunks
((2, 2, 1), (2,))
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import whole_number
from vrmf.sources.base import Reading
from vrmf.sources.conversion import as_table
from vrmf.sources.layout import block_slices
from vrmf.sources.threads import single_threaded_blas


def dask_array(path: str | os.PathLike[str], chunk_rows: int | None = None) -> Any:
    """Return the dask array of the rows in a file, with one task for each chunk, which opens the file.

    ``path`` is any that :func:`~vrmf.sources.as_source` takes; workers must see the file under it.
    """
    try:
        array = importlib.import_module("dask.array")
    except ImportError as error:
        raise ImportError('Lazy arrays need dask. Install it with pip: "vrmf[dask]".') from error
    if chunk_rows is not None:
        whole_number("chunk_rows", chunk_rows, low=1)
    table = as_table(path)
    sizes = tuple(np.diff(table.bounds(chunk_rows)).tolist())
    return array.map_blocks(
        _read,
        path=os.path.abspath(path),
        chunks=(sizes, (table.shape[1],)),
        dtype=table.dtype,
        meta=np.empty((0, 0), dtype=table.dtype),
    )


def lazy_part(X: Any) -> Any:
    """Return the dask array in X, with all features in one chunk, or None."""
    X = getattr(X, "data", X) if type(X).__module__.partition(".")[0] == "xarray" else X
    return X.rechunk({1: -1}) if type(X).__module__.startswith("dask.array") and X.ndim == 2 else None


def lazy_blocks(
    X: Any, function: Callable[[Iterable[Block]], Array], reading: Reading, width: int, dtype: Any
) -> Any:
    """Return the lazy array of a function of blocks of rows that gives ``width`` numbers for each row.

    The function gets all blocks of a chunk, in order, and returns what it gives for the chunk.
    """
    options = {"dtype": dtype, "chunks": (X.chunks[0], (width,)), "meta": np.empty((0, 0), dtype)}
    return X.map_blocks(_over_blocks, function=function, reading=reading, **options)


def _over_blocks(
    X: Array, function: Callable[[Iterable[Block]], Array], reading: Reading, block_info: Any = None
) -> Array:
    """Return what a function gives for the blocks of a chunk."""
    first = block_info[0]["array-location"][0][0] if block_info else 0
    blocks = block_slices(len(X), X.shape[1], reading.dtype) or [slice(0, 0)]
    with single_threaded_blas():
        return function(
            Block(reading(X[where], slice(first + where.start, first + where.stop))) for where in blocks
        )


def current_client() -> Any:
    """Return the client of a Dask cluster that this process made last, or None."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].default_client()
    except ValueError:  # none was made, so dask is to use threads
        return None


def _read(path: str, block_info: Any = None) -> Array:
    """Return the rows of a chunk; dask says in ``block_info`` which they are."""
    start, stop = block_info[None]["array-location"][0]
    table = as_table(path)
    return np.ascontiguousarray(table.read(start, stop), dtype=table.dtype)
