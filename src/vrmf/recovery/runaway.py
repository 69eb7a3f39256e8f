"""Components that fit outliers, or noise, once nothing shrinks them any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.problem import Problem
from vrmf.recovery.fitted_noise import LOOK
from vrmf.recovery.spectrum import spectrum_of_fit
from vrmf.running.history import History, Iterate
from vrmf.running.rules import Reason

#: A component that is so many times larger without shrinkage than expected has fitted outliers.
TOO_LARGE = 1.5

#: Epochs of the stage after which components are looked at for the first time, then after twice as many.
FIRST_LOOK = 8


def has_run_away(problem: Problem, D: Array, sizes: Sequence[float]) -> bool:
    """Whether a singular value of HD is far above the size that is expected without shrinkage."""
    fitted = spectrum_of_fit(problem.stats(D, LOOK), D)
    return bool(np.any(fitted.values > TOO_LARGE * np.array(sizes)))


@dataclass(frozen=True)
class RunAway:
    """End a stage without shrinkage when a component has run away, and do not wait until it settles.

    Where noise differs between features, atoms that fit the noisiest of them grow for hundreds of epochs.
    """

    problem: Problem
    sizes: Sequence[float]

    def __call__(self, iterate: Iterate, history: History) -> Reason | None:
        rounds, rest = divmod(iterate.state.epoch, FIRST_LOOK)
        is_due = rest == 0 and rounds > 0 and rounds & (rounds - 1) == 0 and _begins_epoch(iterate, history)
        if not is_due or not has_run_away(self.problem, iterate.D, self.sizes):
            return None
        return Reason("components have run away: the stage before is the answer", True)


def _begins_epoch(iterate: Iterate, history: History) -> bool:
    """Whether this is the first iterate of its epoch: after a measurement, or a number of whole passes."""
    if iterate.state.measured is not None or len(history.passes) < 2:
        return True
    return history.passes[-2] - iterate.stage.passes < iterate.state.epoch
