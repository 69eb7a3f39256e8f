"""Functions of a fitted model and a block of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.block import Block
from vrmf.coding import Atoms, Coder
from vrmf.estimators.explained import Explained, Moments
from vrmf.estimators.quality import CodeQuality, with_warning
from vrmf.formulations import Formulation


@dataclass(frozen=True, eq=False)
class RowFunctions:
    """Functions of rows and a fitted model: each gives an array of as many rows, and how good codes are."""

    formulation: Formulation
    atoms: Atoms
    mean: Array | None
    coder: Coder

    def codes(self, X: Block) -> tuple[Array, CodeQuality]:
        codes = self.formulation.encode(X, self.atoms, self.coder)
        return codes.H, CodeQuality.of(codes)

    def parts(self, X: Block) -> tuple[Array, CodeQuality]:
        """Return the low-rank part and the outliers, side by side."""
        H, quality = self.codes(X)
        return np.hstack([self.reconstructions(H), self._outliers(X, H)]), quality

    def codes_and_parts(self, X: Block) -> tuple[Array, CodeQuality]:
        """Return the codes, the low-rank part and the outliers, side by side."""
        H, quality = self.codes(X)
        return np.hstack([H, self.reconstructions(H), self._outliers(X, H)]), quality

    def low_rank(self, X: Block) -> tuple[Array, CodeQuality]:
        H, quality = self.codes(X)
        return self.reconstructions(H), quality

    def outliers(self, X: Block) -> tuple[Array, CodeQuality]:
        H, quality = self.codes(X)
        return self._outliers(X, H), quality

    def _outliers(self, X: Block, H: Array) -> Array:
        R = self.formulation.residual(X, self.atoms.D, H)[1]
        return np.zeros_like(X.dense) if R is None else R

    def distances(self, X: Block) -> tuple[Array, CodeQuality]:
        """Return how far entries are from the low-rank part."""
        H, quality = self.codes(X)
        return np.abs(X.dense - H @ self.atoms.D.astype(H.dtype, copy=False)), quality

    def scores(self, X: Block) -> tuple[Array, CodeQuality]:
        H, quality = self.codes(X)
        return -self.formulation.losses(X, self.atoms.D, H)[:, None], quality

    def explained(self, X: Block) -> Explained:
        H, quality = self.codes(X)
        residual = self.formulation.residual(X, self.atoms.D, H)[0]
        return Explained(float(np.sum(row_squares(residual))), Moments.of(X.dense), quality)

    def reconstructions(self, H: Array) -> Array:
        L = H @ self.atoms.D.astype(H.dtype, copy=False)
        return L if self.mean is None else L + self.mean.astype(H.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class OfChunk:
    """A function of all blocks of a chunk of a lazy array, which warns where it is computed."""

    function: Callable[[Block], tuple[Array, CodeQuality]]
    coder: Coder
    dtype: np.dtype[Any]

    def __call__(self, blocks: Iterable[Block]) -> Array:
        return np.concatenate(list(with_warning(map(self.function, blocks), self.coder, self.dtype)))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The reconstruction from the codes in a chunk of a lazy array."""

    model: RowFunctions

    def __call__(self, blocks: Iterable[Block]) -> Array:
        return np.concatenate([self.model.reconstructions(block.dense) for block in blocks])
