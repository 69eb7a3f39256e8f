"""Rows that are made block by block: held in memory, or in a file without a name if they are many.

>>> import numpy as np
>>> with Spool(2, np.dtype(float)) as spool:
...     spool.add(np.ones((3, 2)))
...     spool.add(np.zeros((1, 2)))
...     spool.rows().shape
(4, 2)
"""

from __future__ import annotations

import tempfile
from typing import IO, Any, Self

import numpy as np

from vrmf.arrays import Array

#: Bytes of rows that are held in memory at most.
MEMORY_BYTES = 2**29


class Spool:
    """Collects blocks of rows of a given width and precision.

    The file lies in the folder for temporary files. It has no name: it is gone when the last view of it
    is.
    """

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self.width, self.dtype, self.n_rows = width, dtype, 0
        self._blocks: list[Array] = []
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, X: Array) -> None:
        """Append rows."""
        X = np.ascontiguousarray(X, dtype=self.dtype)
        self.n_rows += len(X)
        if self._file is None:
            self._blocks.append(X)
            if self.n_rows * self.width * self.dtype.itemsize > MEMORY_BYTES:
                self._to_file()
        else:
            self._file.write(X.data)

    def rows(self) -> Array:
        """Return all rows, in memory or mapped from the file."""
        if self._file is None:
            blocks = self._blocks or [np.empty((0, self.width), dtype=self.dtype)]
            return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        self._file.flush()
        return np.memmap(self._file, dtype=self.dtype, mode="r", shape=(self.n_rows, self.width))

    def _to_file(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="vrmf-rows-")
        for block in self._blocks:
            self._file.write(block.data)
        self._blocks = []
