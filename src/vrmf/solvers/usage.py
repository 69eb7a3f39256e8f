"""Which atoms were used since when, and which rows could replace the others."""

from __future__ import annotations

from dataclasses import dataclass

from vrmf.stats import Stats, WorstRows
from vrmf.terms.base import Array


@dataclass(frozen=True, eq=False)
class Usage:
    """How often each atom took part in a code, and the rows that were explained worst."""

    counts: Array
    worst: WorstRows

    @classmethod
    def of(cls, stats: Stats) -> Usage:
        """Return the usage that the sums over some rows tell."""
        return cls(stats.used, stats.worst)

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.counts + other.counts, self.worst + other.worst)

    @property
    def dead(self) -> Array:
        """The mask of the atoms that no code used."""
        return self.counts == 0
