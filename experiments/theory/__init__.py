"""The claims of the paper's theory, each checked by an experiment.

>>> [experiment.name for experiment in THEORY]
['lemma1', 'lemma2', 'steps', 'bounded', 'cost', 'smm-as-sgd', 'theorem1', 'theorem2', 'corollary1']
"""

from __future__ import annotations

from experiments.base import Experiment
from experiments.theory.corollary1 import COROLLARY1
from experiments.theory.costs import COST
from experiments.theory.lemma1 import LEMMA1
from experiments.theory.lemma2 import LEMMA2
from experiments.theory.smm import SMM_AS_SGD
from experiments.theory.steps import BOUNDED, STEPS
from experiments.theory.theorem1 import THEOREM1
from experiments.theory.theorem2 import THEOREM2

#: In the order in which they run.
THEORY: tuple[Experiment, ...] = (
    LEMMA1,
    LEMMA2,
    STEPS,
    BOUNDED,
    COST,
    SMM_AS_SGD,
    THEOREM1,
    THEOREM2,
    COROLLARY1,
)
