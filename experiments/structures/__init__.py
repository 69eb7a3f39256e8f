"""The four formulations that the paper defines but does not test: what each structure gains."""

from __future__ import annotations

from experiments.base import Experiment
from experiments.structures import groups, low_rank, max_norm, smooth

#: In the order of the formulations: (P2), (P4), (P6), (P7).
STRUCTURES: tuple[Experiment, ...] = (
    groups.EXPERIMENT,
    smooth.EXPERIMENT,
    max_norm.EXPERIMENT,
    low_rank.EXPERIMENT,
)
