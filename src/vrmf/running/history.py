"""The record of a run: its iterates and their measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from vrmf.arrays import Array
from vrmf.measurement import Measurement
from vrmf.running.stage import Stage
from vrmf.solvers.base import State


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a run has reached after one of its steps."""

    D: Array  #: the dictionary to report if the run ended now
    step: int  #: steps done
    epoch: int  #: epochs done
    passes: float  #: code problems solved, over the number of rows
    seconds: float  #: time spent inside steps
    state: State  #: from which the stage can go on
    stage: Stage  #: of which it is; all counts are over all stages


#: The columns of a history.
COLUMNS = (
    "step",
    "passes",
    "seconds",
    "stage",
    "n_components",
    "objective",
    "stationarity",
    "relative_stationarity",
    "own_stationarity",
)

#: Those of them that a measurement fills.
MEASURED = COLUMNS[5:]


@dataclass
class History:
    """Measurements by iterate: one row for each, NaN where it was not measured."""

    step: list[int] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stage: list[int] = field(default_factory=list)  #: of a path, from 0
    n_components: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    stationarity: list[float] = field(default_factory=list)
    relative_stationarity: list[float] = field(default_factory=list)
    own_stationarity: list[float] = field(default_factory=list)  #: at the step of Algorithm 1
    last: Measurement | None = None  #: the newest measurement of this stage
    best: Measurement | None = None  #: the one with the lowest objective, the newest of equals
    doubt: float = 1.0  #: by what factor the relative stationarity was too small when confirmed last

    def add(self, iterate: Iterate, own: Measurement | None = None) -> None:
        """Add an iterate, and what its step measured of the one before; ``own`` is its own measurement.

        A step may measure with loose codes, so it does not overwrite what is recorded already.
        """
        index = iterate.stage.index
        is_new = not self.stage or self.stage[-1] != index
        if is_new:  # objectives of two stages do not compare
            self.last, self.best, self.doubt = None, None, 1.0
        elif iterate.state.measured is not None and math.isnan(self.objective[-1]):
            self.note(iterate.state.measured)
        self.stage.append(index)
        self.n_components.append(len(iterate.D))
        self.step.append(iterate.step)
        self.passes.append(iterate.passes)
        self.seconds.append(iterate.seconds)
        for name in MEASURED:
            getattr(self, name).append(math.nan)
        if own is not None:
            self.note(own)

    def note(self, measured: Measurement, row: int = -1) -> None:
        """Record the measurement of an iterate, by default of the newest."""
        for name in MEASURED:
            getattr(self, name)[row] = getattr(measured, name)
        self.last = measured
        if self.best is None or measured.objective <= self.best.objective:
            self.best = measured

    def correct(self, measured: Measurement) -> None:
        """Record a measurement with exact codes of the dictionary that was measured last."""
        if self.last is not None and self.last.relative_stationarity > 0:
            self.doubt = max(measured.relative_stationarity / self.last.relative_stationarity, 1.0)
        if self.best is self.last:
            self.best = None
        self.note(measured, -2 if math.isnan(self.objective[-1]) else -1)

    @property
    def recent_gain(self) -> float:
        """The share by which the objective fell over the last pass or more; 0 if nothing older is known."""
        rows = (i for i in reversed(range(len(self.step))) if self.stage[i] == self.stage[-1])
        known = (i for i in rows if not math.isnan(self.objective[i]))
        newest = next(known, None)
        if newest is None:
            return 0.0
        older = next((i for i in known if self.passes[i] <= self.passes[newest] - 1), newest)
        return (self.objective[older] - self.objective[newest]) / (abs(self.objective[newest]) or 1.0)

    def mark(self) -> Mark:
        """Return the mark by which :meth:`upto` restores the record as it is now."""
        newest = tuple(getattr(self, name)[-1] for name in MEASURED)
        return Mark(len(self.step), newest, self.last, self.best, self.doubt)

    def upto(self, mark: Mark) -> History:
        """Return the record as it was at the mark: the next step may have measured its newest row."""
        columns = {name: getattr(self, name)[: mark.rows] for name in COLUMNS}
        past = History(**columns, last=mark.last, best=mark.best, doubt=mark.doubt)
        for name, value in zip(MEASURED, mark.newest, strict=True):
            getattr(past, name)[-1] = value
        return past

    def as_columns(self) -> dict[str, list[float]]:
        """Return the record by column name, ready for a data frame; the last one is of Algorithm 1."""
        has_own = not all(map(math.isnan, self.own_stationarity))
        return {name: list(getattr(self, name)) for name in (COLUMNS if has_own else COLUMNS[:-1])}


@dataclass(frozen=True)
class Mark:
    """A place in a history."""

    rows: int  #: how many there were
    newest: tuple[float, ...]  #: what was measured of the last, by column
    last: Measurement | None  #: the newest measurement
    best: Measurement | None  #: the one with the lowest objective
    doubt: float  #: of the relative stationarity
