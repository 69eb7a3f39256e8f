"""The base class of estimators with outliers: weights that follow the noise, and its estimate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary, chosen_weight
from vrmf.estimators.masking import OutlierMasks
from vrmf.estimators.modelling import Weights
from vrmf.estimators.outcome import Answer
from vrmf.problem import Problem
from vrmf.recovery.family import FEW_ENTRIES, UNSHRUNK, Family
from vrmf.recovery.fitted_noise import ROUNDING, least_noise, noise_of_fit, noise_of_low_rank_fit
from vrmf.recovery.noise import quantum
from vrmf.recovery.noise_path import NoisePath
from vrmf.recovery.progress import PROGRESS, Progress
from vrmf.running.loop import Outcome
from vrmf.running.path import AbstractPath, SingleStage
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource

#: The first weight of outliers, as a share of the data's spread, or of the next quantile if that is larger.
OUTLIER_SHARE = 0.3

#: The quantile of distances from the median that sets the scale where most entries are nearly equal.
OUTLIER_QUANTILE = 0.8

#: The smallest spread of clean entries, as a share of the first weight.
SMALLEST_SPREAD = 1e-4

#: Atoms with which a search for the rank begins.
FIRST_COMPONENTS = 10

#: Entries in which the step of quantised data is looked for.
QUANTUM_ENTRIES = 2**18


class AbstractRecovering(OutlierMasks):
    """Estimators with outliers, whose automatic weights follow the noise."""

    #: Whether low rank is the only constraint on HD, the part without outliers.
    _has_low_rank: ClassVar[bool] = True

    #: alpha is in proportion to this power of outlier_alpha.
    _alpha_power: ClassVar[float] = 1.0

    #: The share of the penalty on the rank that remains in the last stage.
    _unshrunk_share: ClassVar[float] = UNSHRUNK

    @property
    @abstractmethod
    def _follows_noise(self) -> bool:
        """Whether weights are automatic."""

    def _outlier_weight(self, value: Any, summary: DataSummary) -> float:
        """Return the weight of outliers, the first one if it follows the noise.

        A first weight that is too large costs a stage or two. One that is too small gives a wrong answer.
        """
        auto = OUTLIER_SHARE * summary.spread
        if self._follows_noise:
            distances = np.abs(summary.sample - summary.center)
            auto = max(auto, OUTLIER_SHARE * float(np.quantile(distances, OUTLIER_QUANTILE)))
        return chosen_weight("outlier_alpha", value, auto=auto, paper=summary.n_features**-0.5)

    def _progress(self, source: AbstractSource, summary: DataSummary, first: float) -> Progress:
        """Return where a path begins."""
        rows = summary.sample[: max(1, QUANTUM_ENTRIES // summary.n_features)]
        # Gross outliers may raise the first weight, and equal entries lower the spread.
        scale = max(OUTLIER_SHARE * summary.spread, SMALLEST_SPREAD * first)
        rounding = ROUNDING[source.dtype.name] * scale
        step, entries = quantum(rows), source.n_samples * source.n_features
        return Progress(first, least_noise(source, rounding, step), step, is_hard=entries <= FEW_ENTRIES)

    @property
    def _family(self) -> Family:
        return Family(
            formulation=self._formulation,
            last=self._last_stage,
            alpha_power=self._alpha_power,
            unshrunk_share=self._unshrunk_share,
            measures=self._solver().reports_best,
        )

    def _last_stage(self, weights: Weights, D: Array, problem: Problem) -> tuple[Weights, Array]:
        """Return weights and atoms of the last stage, for those with which the stages before end."""
        return self._last_weights(weights, D), D

    def _last_weights(self, weights: Weights, D: Array) -> Weights:
        """Return the weights of the last stage, for atoms D that fit the data."""
        return weights

    def _path(self, source: AbstractSource) -> AbstractPath:
        return NoisePath(self._family, self._has_low_rank) if self._follows_noise else SingleStage()

    def _set_fitted(
        self, source: AbstractSource, solver: AbstractSolver, outcome: Outcome, answer: Answer
    ) -> None:
        super()._set_fitted(source, solver, outcome, answer)
        self._set_recovery(source, outcome.iterate.stage.weights, answer)

    def _set_recovery(self, source: AbstractSource, weights: Weights, answer: Answer) -> None:
        """Set the attributes that only models with outliers have."""
        progress: Progress = weights[PROGRESS]
        self.noise_ = known_noise(progress, answer, lambda: self._noise_of_fit(source, progress))

    def _set_interim_attributes(self, source: AbstractSource, weights: Weights) -> None:
        """Set these attributes while a fit is under way, from a sample of rows and without a pass."""
        progress: Progress = weights[PROGRESS]
        known = None if progress.rank == 0 else progress.noise
        self.noise_ = self._noise_of_fit(source, progress) if known is None else known

    def _noise_of_fit(self, source: AbstractSource, progress: Progress) -> float:
        """Return the level of the noise in the residual of the fitted dictionary."""
        find = noise_of_low_rank_fit if self._has_low_rank else noise_of_fit
        return find(Problem(self.formulation_, source), self.components_, progress.least)


def known_noise(progress: Progress, answer: Answer, find: Callable[[], float]) -> float:
    """Return the noise as a path has found it, or as it is found now; NaN if there is no time for it."""
    if progress.noise is not None:
        return progress.noise
    return math.nan if answer.stats is None else find()
