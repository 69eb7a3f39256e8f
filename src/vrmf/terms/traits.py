"""What a term tells of itself: how it may be combined with others, and its numbers for kernels."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Trait(enum.Enum):
    """A property of a term that decides how it may be combined with others."""

    ENTRYWISE = "a sum over entries of one function of one variable"
    INTERVAL = "the indicator of an interval for each entry"
    HOMOGENEOUS = "f(c z) = c f(z) for every c > 0"
    RADIAL = "an increasing function of the norm of the row"
    GROUP_RADIAL = "a sum of increasing functions of the norms of disjoint parts of the row"
    RIDGE = "(weight / 2)‖Z‖², which may be 0: the prox divides by 1 + step · weight"
    QUADRATIC = "½ tr(Z Q Zᵀ): the prox is linear and commutes with rotations of the rows"
    ROTATABLE = "unchanged when an orthogonal matrix mixes the rows"


class GroupPenalty(Protocol):
    """What compiled kernels need to know of a group penalty Σ_g weight_g · ‖z_g‖₂."""

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        """The column indices of each group."""

    @property
    def weights(self) -> Sequence[float] | None:
        """One weight for each group."""

    @property
    def width(self) -> int:
        """The number of columns."""

    @property
    def disjoint(self) -> bool:
        """Whether no two groups share a column."""


@dataclass(frozen=True)
class Canonical:
    """A row term in numbers, as compiled kernels take it.

    f(z) = slope·‖z‖₁ + (ridge/2)‖z‖² + groups(z) for low ≤ zⱼ ≤ high, and ‖z‖ ≤ 1 if ``in_ball``.

    >>> Canonical(slope=0.5) + Canonical(low=0.0) + Canonical(ridge=0.1)
    Canonical(slope=0.5, ridge=0.1, low=0.0, high=inf, in_ball=False, groups=None)
    """

    slope: float = 0.0
    ridge: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    in_ball: bool = False
    groups: GroupPenalty | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.slope < math.inf and 0 <= self.ridge < math.inf and self.low <= self.high):
            raise ValueError(f"{self!r} is no convex term. Use slope ≥ 0, ridge ≥ 0 and low ≤ high.")

    def __add__(self, other: Canonical) -> Canonical | None:
        """Return the form of the sum, or None if both have groups."""
        if self.groups is not None and other.groups is not None:
            return None
        return Canonical(
            self.slope + other.slope,
            self.ridge + other.ridge,
            max(self.low, other.low),
            min(self.high, other.high),
            self.in_ball or other.in_ball,
            self.groups or other.groups,
        )

    @property
    def is_entrywise(self) -> bool:
        """Whether the term acts on each entry alone."""
        return not self.in_ball and self.groups is None

    @property
    def is_radial(self) -> bool:
        """Whether the term depends on the norm of the row alone."""
        return self.slope == 0 and self.groups is None and self.low == -math.inf and self.high == math.inf

    @property
    def is_only_ridge(self) -> bool:
        """Whether the term is a ridge, or nothing."""
        return self.is_radial and not self.in_ball
