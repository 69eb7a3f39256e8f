"""The figures of the paper's section 5 and supplement, its start, and its remark on k."""

from __future__ import annotations

from experiments.base import Experiment
from experiments.paper.components import COMPONENTS
from experiments.paper.figures import FIGURES
from experiments.paper.long_run import LONG_RUN
from experiments.paper.start import START

#: In the order in which they run.
PAPER: tuple[Experiment, ...] = (*FIGURES, LONG_RUN, START, COMPONENTS)
