"""Blocks: rows that a function gets together, with the arrays by row that belong to them.

>>> block = Block(np.array([[3.0, 4.0], [0.0, 1.0]]), {"codes": np.array([[1.0], [2.0]])})
>>> block.times_atoms(np.eye(2)), block.squares, block.companion("codes")[1]
(array([[3., 4.],
       [0., 1.]]), array([25.,  1.]), array([2.]))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.code_matrix import AbstractCodeMatrix


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of data, in memory, with their companions.

    A companion is an array with one row for each row of the block, such as codes that are known. The
    products that sums over rows are made of are methods, so that rows in another form are another class.
    """

    dense: Array  #: the rows as a matrix, shape (n, d)
    companions: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of features."""
        return self.dense.shape[0], self.dense.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return self.dense.dtype

    @property
    def squares(self) -> Array:
        """‖x‖² of each row, in double precision."""
        return row_squares(self.dense)

    def companion(self, name: str) -> Array | None:
        """Return the companion of that name, or None if it is not known."""
        return self.companions.get(name)

    def times_atoms(self, D: Array) -> Array:
        """Return XDᵀ."""
        return np.asarray(self.dense @ D.T)

    def times_codes(self, codes: AbstractCodeMatrix) -> Array:
        """Return HᵀX."""
        return codes.transposed_times(self.dense)

    def residual(self, E: Array) -> Array:
        """Return E − X in place of E."""
        return np.subtract(E, self.dense, out=E)

    def take(self, rows: Array) -> Block:
        """Return some of the rows, without companions."""
        return Block(self.dense[rows])


def as_block(X: Block | Array) -> Block:
    """Return rows as a block."""
    return X if isinstance(X, Block) else Block(X)
