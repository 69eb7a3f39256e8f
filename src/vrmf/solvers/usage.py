"""Which atoms were used since when, and which rows could replace the others."""

from __future__ import annotations

from dataclasses import dataclass

from vrmf.arrays import Array
from vrmf.stats import Stats, WorstRows


@dataclass(frozen=True, eq=False)
class Usage:
    """How often each atom took part in a code, and the rows that were explained worst."""

    counts: Array
    worst: WorstRows

    @classmethod
    def after(cls, before: Usage | None, stats: Stats) -> Usage:
        """Return the usage before, if any, joined by what the sums over some more rows tell."""
        if before is None:
            return cls(stats.used, stats.worst)
        return cls(before.counts + stats.used, before.worst + stats.worst)

    @property
    def dead(self) -> Array:
        """The mask of the atoms that no code used."""
        return self.counts == 0
