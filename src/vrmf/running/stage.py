"""Stages: the problems that a fit solves one after the other, each with a dictionary to start from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from vrmf.arrays import Array
from vrmf.formulations import Formulation


@dataclass(frozen=True, eq=False)
class Stage:
    """A problem of a path, and all that is fixed before its first step."""

    formulation: Formulation
    D: Array  #: the initial dictionary
    seed: int
    weights: dict[str, Any] = field(default_factory=dict)  #: from which the formulation was made
    index: int = 0  #: the number of stages before
    steps: int = 0  #: steps in the stages before, as are epochs, passes and seconds
    epochs: int = 0
    passes: float = 0.0
    seconds: float = 0.0

    def followed_by(
        self, formulation: Formulation, D: Array, weights: dict[str, Any], passes: float = 0.0
    ) -> Stage:
        """Return the next stage; ``passes`` were spent on choosing it."""
        return replace(
            self,
            formulation=formulation,
            D=D,
            seed=(self.seed + 1) % (2**31 - 1),
            weights=weights,
            index=self.index + 1,
            passes=self.passes + passes,
        )

    def after(self, steps: int, epochs: int, passes: float, seconds: float) -> Stage:
        """Return the stage after this much work in all."""
        return replace(self, steps=steps, epochs=epochs, passes=passes, seconds=seconds)
