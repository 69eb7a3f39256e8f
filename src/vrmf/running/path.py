"""Paths: a fit as a sequence of problems, each started from the answer of the one before.

A path says when a stage (:mod:`vrmf.running.stage`) ends and which stage comes next. The number of atoms
changes between stages only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from vrmf.arrays import Array
from vrmf.problem import Problem
from vrmf.running.rules import Rule
from vrmf.running.stage import Stage


class AbstractPath(ABC):
    """Says when a stage ends, and what comes next."""

    @abstractmethod
    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        """Return the rules by which a stage ends; ``final`` are those of the last one."""

    @abstractmethod
    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        """Return the stage after one that ended with the dictionary D, or None if it was the last.

        The stage counts all that was done so far.
        """


class SingleStage(AbstractPath):
    """A path of one problem."""

    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        return final

    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        return None
