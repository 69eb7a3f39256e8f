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
from typing import Any

import numpy as np

from vrmf.checks import whole_number
from vrmf.sources.tables import as_table
from vrmf.terms.base import Array


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


def _read(path: str, block_info: Any = None) -> Array:
    """Return the rows of a chunk; dask says in ``block_info`` which they are."""
    start, stop = block_info[None]["array-location"][0]
    table = as_table(path)
    return np.ascontiguousarray(table.read(start, stop), dtype=table.dtype)
