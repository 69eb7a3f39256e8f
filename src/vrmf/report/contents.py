"""What a report says: values, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array


@dataclass(frozen=True)
class Tile:
    """A number that is shown large, with what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Setting:
    """A parameter of the model: as it was given, and what it became."""

    name: str
    given: str
    found: str | None  #: None if it is as it was given
    is_default: bool  #: and nothing was found for it


@dataclass(frozen=True, eq=False)
class Features:
    """How the features of a row lie."""

    count: int
    names: Sequence[str] | None
    image_shape: tuple[int, ...] | None
    places: Array | None  #: along an axis, where neighbours belong together; None if they are by themselves

    @property
    def kind(self) -> str:
        """How rows and atoms are shown: "image", "curve" or "names"."""
        if self.image_shape is not None:
            return "image"
        return "names" if self.places is None else "curve"


@dataclass(frozen=True, eq=False)
class RowParts:
    """Some rows of the data, and the parts of which they are the sum."""

    numbers: Array  #: which rows of the data
    names: Sequence[str] | None
    total: int  #: rows of the data
    codes: Array
    original: Array
    low_rank: Array
    outliers: Array | None  #: None if the model has none
    mask: Array | None  #: which entries are outliers

    @property
    def rest(self) -> Array:
        """What the low-rank part leaves: the outliers, or the residual if there are none."""
        return self.original - self.low_rank if self.outliers is None else self.outliers

    @property
    def residual(self) -> Array:
        """What no part explains."""
        left = self.original - self.low_rank
        return left if self.outliers is None else left - self.outliers

    @property
    def rest_energy(self) -> Array:
        """The squared norm of the rest of each row, in double precision."""
        return np.asarray(np.sum(np.square(self.rest, dtype=np.float64), axis=1))

    @property
    def unusual(self) -> Array:
        """How unusual each row is: the energy of its outliers, or the share of it that no atom explains."""
        if self.outliers is not None:
            return self.rest_energy
        sizes = np.sum(np.square(self.original, dtype=np.float64), axis=1)
        return np.asarray(self.rest_energy / np.where(sizes > 0, sizes, 1.0))

    @property
    def is_sample(self) -> bool:
        """Whether there are more rows in the data."""
        return len(self.numbers) < self.total

    def label(self, place: int) -> str:
        """Return what the row at a place is called."""
        number = f"row {self.numbers[place]}"
        return number if self.names is None else f"{self.names[place]} ({number})"


@dataclass(frozen=True, eq=False)
class Contents:
    """All that a report says."""

    model: str
    size: str  #: atoms, features and rows, in words
    about: str  #: what the model is, in words
    formula: Sequence[tuple[str, str]]  #: parts of the objective, each with what it does
    tiles: Sequence[Tile]  #: how good the model is
    figures: Sequence[tuple[str, str]]  #: more of the fit: names and values
    answer: Mapping[str, float]  #: passes, seconds, objective and relative stationarity of the answer
    stopped: str
    warnings: Sequence[str]
    settings: Sequence[Setting]
    history: Mapping[str, Sequence[float]]
    tol: float | None
    features: Features
    components: Array
    rows: RowParts
    made_with: str
