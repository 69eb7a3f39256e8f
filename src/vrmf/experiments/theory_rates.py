"""Experiments on the paper's rates: what SMM's steps are, Theorems 1 and 2, Corollary 1."""

from __future__ import annotations

from vrmf.experiments.base import Experiment
from vrmf.experiments.theory_corollary1 import COROLLARY1
from vrmf.experiments.theory_smm import SMM_AS_SGD
from vrmf.experiments.theory_theorem1 import THEOREM1
from vrmf.experiments.theory_theorem2 import THEOREM2

#: In the order in which they run.
RATES: tuple[Experiment, ...] = (SMM_AS_SGD, THEOREM1, THEOREM2, COROLLARY1)
