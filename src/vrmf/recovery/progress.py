"""How far the path of a model with outliers has come."""

from __future__ import annotations

from dataclasses import dataclass

#: The key under which weights carry how far their path has come.
PROGRESS = "progress"

#: A singular value of the residual above so many times the edge of noise calls for a new atom.
MISSING = 1.05


@dataclass(frozen=True)
class Progress:
    """How far a path has come."""

    first: float  #: the weight of outliers with which it began
    least: float  #: the level of noise that rounding, also that of the data, causes
    quantum: float = 0.0  #: the step of data that are whole multiples of one
    is_last: bool = False  #: whether this is the last stage
    is_hard: bool = False  #: whether stages must settle more closely
    growths: int = 0  #: how often atoms have been added at these weights
    level: float = MISSING  #: how many times the edge of noise a singular value must be
    is_checked: bool = False  #: whether weak components have been dropped at these weights
    keeps_weak: bool = False  #: whether that was wrong, so that they may come back
    is_unshrunk: bool = False  #: whether the penalty on the rank has been removed
    is_full: bool = False  #: whether there was no room for the atoms that are called for
    has_run_away: bool = False  #: whether it had to come back, since components fitted outliers without it
    noise: float | None = None  #: as estimated after the stage before
    rank: int | None = None  #: as found before the last stage
    dual_norm: float | None = None  #: ‖X − L − S‖₂ / alpha after the stage before
    sizes: list[float] | None = None  #: the singular values of L as expected without shrinkage
