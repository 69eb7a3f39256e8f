"""Which rows a function is applied to: all, some numbers, a sample, or a mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vrmf.arrays import Array


@dataclass(frozen=True)
class Sample:
    """The rows at some places of a random order of all rows, which the seed decides."""

    seed: int
    first: int  #: the place where the sample begins
    last: int  #: the place before which it ends


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of a mini-batch, the chunks that they come from, and the chunk that is needed next."""

    rows: Array  #: sorted row numbers
    chunks: Array | None = None  #: sorted, or None where rows may come from anywhere
    next_chunk: int | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows whose sum is formed first: a whole chunk, or chosen rows."""

    rows: Any  #: a slice, or sorted row numbers
    chunk: int | None  #: in which all of them lie, or None if they may lie anywhere

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)


#: All rows, those with the given sorted numbers, a sample, or a mini-batch.
Rows = Array | Sample | Batch | None
