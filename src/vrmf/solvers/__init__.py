"""Solvers: each is a frozen value of options with a pure step from state to state.

>>> from vrmf.solvers import SOLVERS, VR
>>> sorted(SOLVERS)
['algorithm1', 'batch', 'sgd', 'smm', 'vr']
>>> VR(batch_size=256, step_size=0.1).batch_size
256
"""

from typing import Any

from vrmf.coding import Coder
from vrmf.solvers.algorithm1 import Algorithm1
from vrmf.solvers.base import AbstractSolver, AbstractStreamSolver, State
from vrmf.solvers.batch import Batch
from vrmf.solvers.sgd import SGD
from vrmf.solvers.smm import SMM
from vrmf.solvers.vr import VR

#: The solvers by the names that estimators and the command line accept.
SOLVERS: dict[str, type[AbstractSolver[Any]]] = {
    "vr": VR,
    "smm": SMM,
    "sgd": SGD,
    "batch": Batch,
    "algorithm1": Algorithm1,
}

__all__ = [
    "SGD",
    "SMM",
    "SOLVERS",
    "VR",
    "AbstractSolver",
    "AbstractStreamSolver",
    "Algorithm1",
    "Batch",
    "Coder",
    "State",
]
