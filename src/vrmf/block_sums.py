"""Sums over a block of rows at one dictionary, or at two, with the codes that belong to them.

Each is a function of a block that can be pickled. It starts from the codes that the block carries, and
returns the new ones under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.code_matrix import DenseCodes, code_matrix
from vrmf.coding import Atoms, Coder, Codes
from vrmf.formulations import Formulation
from vrmf.stats import Stats

#: The name under which blocks carry codes.
CODES = "codes"


@dataclass(frozen=True, eq=False)
class PairedStats:
    """Sums over the same rows at the current dictionary and at the anchor."""

    current: Stats
    anchor: Stats

    def __add__(self, other: PairedStats) -> PairedStats:
        return PairedStats(self.current + other.current, self.anchor + other.anchor)


@dataclass(frozen=True, eq=False)
class SlopeChange:
    """Sums over rows of the slope at the current dictionary minus that at the anchor."""

    slope: Array  #: shape (k, d), but for gram · D − old_gram · anchor
    gram: Array | None  #: Σ hᵀh at the current dictionary over the rows whose slope needs it, if any
    old_gram: Array | None  #: the same at the anchor
    count: int  #: number of rows
    used: Array  #: in how many codes each atom takes part, shape (k,)

    def __add__(self, other: SlopeChange) -> SlopeChange:
        return SlopeChange(
            slope=self.slope + other.slope,
            gram=_sum_of_known(self.gram, other.gram),
            old_gram=_sum_of_known(self.old_gram, other.old_gram),
            count=self.count + other.count,
            used=self.used + other.used,
        )

    @property
    def gradient(self) -> Array:
        """The change of the gradient of the mean loss over these rows."""
        return self.slope / self.count


def _sum_of_known(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(first + second)


@dataclass(frozen=True, eq=False)
class SumsAtOne:
    """The sums over a block of rows, and its codes, which start from those that are known."""

    formulation: Formulation
    atoms: Atoms
    coder: Coder

    def __call__(self, block: Block) -> tuple[Stats, dict[str, Array]]:
        codes = self.formulation.encode(block, self.atoms, self.coder, block.companion(CODES))
        return self.formulation.stats(block, self.atoms, codes), {CODES: codes.H}


@dataclass(frozen=True, eq=False)
class _AtTwo:
    """A function of a block of rows and two dictionaries."""

    formulation: Formulation
    atoms: Atoms
    before: Atoms
    coder: Coder


class SumsAtTwo(_AtTwo):
    """The sums over a block of rows at two dictionaries, and its codes at the first."""

    def __call__(self, block: Block) -> tuple[PairedStats, dict[str, Array]]:
        formulation, known = self.formulation, block.companion(CODES)
        codes = formulation.encode(block, self.atoms, self.coder, known)
        old = formulation.encode(block, self.before, self.coder) if known is None else Codes.given(known)
        at_both = formulation.stats(block, self.atoms, codes), formulation.stats(block, self.before, old)
        return PairedStats(*at_both), {CODES: codes.H}


class ChangeOfSlope(_AtTwo):
    """The change of the slope over a block of rows, but for products with Gram matrices; and its codes."""

    def __call__(self, block: Block) -> tuple[SlopeChange, dict[str, Array]]:
        formulation, known = self.formulation, block.companion(CODES)
        H = formulation.encode(block, self.atoms, self.coder, known).H
        old = known if known is not None else formulation.encode(block, self.before, self.coder).H
        new_codes, old_codes = code_matrix(H), code_matrix(old)
        if isinstance(new_codes, DenseCodes) and not formulation.has_outliers:
            slope = block.times_codes(DenseCodes(old - H))
            return SlopeChange(slope, H.T @ H, old.T @ old, len(block), new_codes.used), {CODES: H}
        slope = formulation.slope(block, self.atoms.D, new_codes)
        slope -= formulation.slope(block, self.before.D, old_codes)
        return SlopeChange(slope, None, None, len(block), new_codes.used), {CODES: H}
