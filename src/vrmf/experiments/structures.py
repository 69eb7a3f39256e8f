"""The four formulations that the paper defines but does not test: what each structure buys."""

from __future__ import annotations

from vrmf.experiments import structure_groups, structure_low_rank, structure_max_norm, structure_smooth
from vrmf.experiments.base import Experiment

#: In the order of the formulations: (P2), (P4), (P6), (P7).
STRUCTURES: tuple[Experiment, ...] = (
    structure_groups.EXPERIMENT,
    structure_smooth.EXPERIMENT,
    structure_max_norm.EXPERIMENT,
    structure_low_rank.EXPERIMENT,
)
