"""The group penalty Σ_g weight_g · ‖z_g‖₂, whose groups may overlap."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf.arrays import Array, row_norms, within
from vrmf.checks import real_number
from vrmf.lazily import computed_once
from vrmf.terms._overlap import overlapping_prox
from vrmf.terms.base import AbstractRowTerm
from vrmf.terms.traits import Canonical, Trait

#: Bound on the iterations for overlapping groups.
MAX_ITERATIONS = 50_000


@dataclass(frozen=True)
class GroupL2(AbstractRowTerm):
    """The group lasso penalty f(z) = Σ_g weight_g · ‖z_g‖₂: groups of entries vanish together.

    Disjoint groups have the closed-form prox z_g · max(1 − step · weight_g / ‖z_g‖, 0). Overlapping
    groups are solved in the dual, p = z − Σ_g u_g with ‖u_g‖ ≤ step · weight_g, until the dual
    variables stand still to rounding.

    Parameters
    ----------
    groups : sequence of sequences of int
        Column indices of each group. Together they must name every column from 0 to the largest.
    weights : sequence of float, or None
        One weight of at least 0 for each group; the default is the square root of the group's size.

    Examples
    --------
    >>> GroupL2([[0, 1], [2]], [1.0, 1.0]).prox(np.array([[3.0, 4.0, 0.5]]), step=1.0)
    array([[2.4, 3.2, 0. ]])
    """

    groups: Sequence[Sequence[int]]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Iterable):
            raise ValueError(f"`groups` is {self.groups!r}. Use a sequence of sequences of column indices.")
        groups = tuple(_checked_group(number, group) for number, group in enumerate(self.groups))
        named = sorted({column for group in groups for column in group})
        if named != list(range(len(named))) or not named:
            missing = next((i for i, column in enumerate(named) if i != column), 0)
            raise ValueError(f"`groups` leaves out the column {missing}. Put each in a group.")
        weights = [len(group) ** 0.5 for group in groups] if self.weights is None else self.weights
        if not isinstance(weights, Sequence | np.ndarray) or np.shape(weights) != (len(groups),):
            raise ValueError(
                f"`weights` has shape {np.shape(weights)} for {len(groups)} groups. Use one for each."
            )
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "weights", tuple(real_number("weights", w, low=0) for w in weights))

    @property
    def width(self) -> int:  # type: ignore[override]
        return 1 + max(column for group in self.groups for column in group)

    @property
    def canonical(self) -> Canonical:  # type: ignore[override]
        return Canonical(groups=self)

    @computed_once
    def disjoint(self) -> bool:
        """Whether no two groups share a column."""
        return sum(map(len, self.groups)) == self.width

    @property
    def traits(self) -> frozenset[Trait]:  # type: ignore[override]
        if not self.disjoint:
            return frozenset({Trait.HOMOGENEOUS})
        if len(self.groups) == 1:
            return frozenset({Trait.HOMOGENEOUS, Trait.GROUP_RADIAL, Trait.RADIAL})
        return frozenset({Trait.HOMOGENEOUS, Trait.GROUP_RADIAL})

    def row_values(self, Z: Array) -> Array:
        norms = [row_norms(Z[:, group]) for group in self._columns]
        return np.array(self.weights, dtype=np.float64) @ np.array(norms)

    def prox(self, Z: Array, step: float) -> Array:
        if self.disjoint:
            return self._disjoint_prox(Z, step)
        return self._overlapping_prox(Z, step)

    def envelope_gradient(self, Z: Array) -> Array:
        if not self.disjoint:
            return super().envelope_gradient(Z)
        G = np.empty_like(Z)
        for columns, weight in zip(self._columns, self.weights or (), strict=True):
            norms = row_norms(Z[:, columns])
            with np.errstate(over="ignore"):
                shorten = np.minimum(within(weight, Z.dtype) / np.where(norms > 0, norms, 1), 1)
            G[:, columns] = Z[:, columns] * shorten[:, None]
        return G

    @computed_once
    def _columns(self) -> list[Array]:
        return [np.array(group) for group in self.groups]

    def _disjoint_prox(self, Z: Array, step: float) -> Array:
        P = np.empty_like(Z)
        for columns, weight in zip(self._columns, self.weights or (), strict=True):
            norms = row_norms(Z[:, columns])
            with np.errstate(over="ignore"):  # a threshold that is infinitely many times the norm
                threshold = within(float(step) * weight, Z.dtype) / np.where(norms > 0, norms, 1)
            shrink = np.maximum(1 - threshold, 0)
            P[:, columns] = Z[:, columns] * shrink[:, None]
        return P

    def _overlapping_prox(self, Z: Array, step: float) -> Array:
        members = np.concatenate(self._columns)
        ends = np.cumsum([0, *map(len, self.groups)])
        radii = step * np.array(self.weights)
        rows = np.ascontiguousarray(Z, dtype=np.float64)
        P, unfinished = overlapping_prox(rows, members, ends, radii, MAX_ITERATIONS)
        if unfinished:
            warnings.warn(
                f"The prox of overlapping groups stopped short on {unfinished} of {len(Z)} rows "
                f"after {MAX_ITERATIONS} iterations.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return np.asarray(P, dtype=Z.dtype)


def _checked_group(number: int, group: Iterable[int]) -> tuple[int, ...]:
    columns = tuple(group) if isinstance(group, Iterable) else (group,)
    whole = all(isinstance(column, Integral) for column in columns)
    if not columns or not whole or min(columns) < 0 or len(set(columns)) < len(columns):
        raise ValueError(
            f"`groups[{number}]` is {columns}. Use at least one column index, each ≥ 0 and once."
        )
    return tuple(int(column) for column in columns)
