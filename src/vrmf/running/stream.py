"""What a stream has learned so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vrmf.seen import DataSeen
from vrmf.solvers.base import State

#: The key under which weights hold the data from which they were derived.
SEEN = "seen"


@dataclass(frozen=True, eq=False)
class Stream:
    """The state of the solver and the weights after the last batch, or after a fit."""

    state: State
    weights: dict[str, Any]  #: from which the formulation was made

    @property
    def seen(self) -> DataSeen | None:
        """The data from which automatic weights were derived; files of earlier versions have none."""
        return self.weights.get(SEEN)


def without_data(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the weights without the data from which they were derived."""
    return {name: value for name, value in weights.items() if name != SEEN}
