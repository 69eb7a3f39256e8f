"""Paths: a fit as a sequence of problems, each started from the answer of the one before.

A stage is one of them: a formulation, a dictionary to start from, and what was done before. A path says
when a stage ends and which comes next. The number of atoms changes between stages only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vrmf.arrays import Array
from vrmf.formulations import Formulation
from vrmf.problem import Problem

if TYPE_CHECKING:
    from vrmf.running.rules import Rule


@dataclass(frozen=True, eq=False)
class Stage:
    """What is decided before the first step of a stage."""

    formulation: Formulation
    D: Array  #: the initial dictionary
    seed: int
    weights: dict[str, Any] = field(default_factory=dict)  #: all that the formulation was made from
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


class AbstractPath(ABC):
    """Says when a stage ends, and what comes next."""

    @abstractmethod
    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        """Return the rules by which a stage ends; ``final`` are those of the last one."""

    @abstractmethod
    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        """Return what follows a stage that ended with the dictionary D, or None if it was the last.

        The stage counts all that was done so far.
        """


class SingleStage(AbstractPath):
    """No path: one problem."""

    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        return final

    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        return None
