"""The figures of the paper's section 5 and supplement, its start, and its remark on k."""

from __future__ import annotations

from vrmf.experiments.base import Experiment
from vrmf.experiments.paper.components import COMPONENTS
from vrmf.experiments.paper.figures import FIGURES
from vrmf.experiments.paper.long_run import LONG_RUN
from vrmf.experiments.paper.start import START

#: In the order in which they run.
PAPER: tuple[Experiment, ...] = (*FIGURES, LONG_RUN, START, COMPONENTS)
