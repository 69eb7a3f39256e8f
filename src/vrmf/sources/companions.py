"""Companions: arrays with one row for each row of data, stored by a source where its rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vrmf.arrays import Array


@dataclass(frozen=True, eq=False)
class Companion:
    """An array by row, such as codes of all rows.

    It is as old as the value that names it: where the rows are in this process it holds the array itself;
    where they are on workers, these drop it when a newer one of the same kind is written.
    """

    kind: str  #: what it is, for example the codes of an anchor
    name: str  #: tells companions of a kind apart
    values: Array | None = None  #: for all rows, in memory or in a file; None if workers have them


@dataclass(frozen=True, eq=False)
class Carry:
    """The companions that a function reads and writes, by the names under which it knows them."""

    reads: Mapping[str, Companion] = field(default_factory=dict)
    writes: Mapping[str, Companion] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, read: Companion | None, write: Companion | None) -> Carry:
        """Return what a function carries that knows one companion, before and after; None is nothing."""
        return cls({} if read is None else {name: read}, {} if write is None else {name: write})
