"""The paper's experiments and the claims of its theory, made again: ``vrmf reproduce``."""

from __future__ import annotations

from vrmf.experiments.base import Experiment

#: All experiments in groups, in the order in which they run.
GROUPS: dict[str, tuple[Experiment, ...]] = {}

__all__ = ["GROUPS", "Experiment"]
