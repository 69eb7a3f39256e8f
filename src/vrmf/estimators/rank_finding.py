"""Estimators with a low-rank part, which find its rank."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.callers import level_of_caller
from vrmf.estimators.modelling import Weights
from vrmf.estimators.outcome import Answer
from vrmf.estimators.recovering import FIRST_COMPONENTS, known_noise
from vrmf.estimators.recovering_streams import Recovering
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.recovery.family import balance
from vrmf.recovery.fitted_noise import LOOK
from vrmf.recovery.progress import MISSING, PROGRESS, Progress
from vrmf.recovery.rank_path import VANISHED, RankPath
from vrmf.recovery.spectrum import spectra, spectrum_of_fit
from vrmf.running.path import AbstractPath, SingleStage
from vrmf.solvers.base import State
from vrmf.sources import AbstractSource


class RankFinding(Recovering):
    """Estimators with a low-rank part, for which ``n_components`` is a bound, or None."""

    def _path(self, source: AbstractSource) -> AbstractPath:
        if not self._follows_noise and self.n_components is not None:
            return SingleStage()
        return RankPath(
            self._family,
            self._most_components(source),
            self._follows_noise,
            ends_if_full=self.n_components is None,
        )

    def _leads_to_last(self, weights: Weights) -> bool:
        """Whether these are the weights of a stage of (P5) before the last."""
        progress = weights.get(PROGRESS)  # models of earlier versions have none
        return self._follows_noise and progress is not None and not progress.is_last

    def _first_components(self, source: AbstractSource) -> int:
        most, is_open = self._most_components(source), self.n_components is None
        if self._goes_on and (is_open or self._follows_noise):
            return len(self.components_) if is_open else min(most, len(self.components_))
        if not isinstance(self.init, str):
            return len(self.init) if is_open else most
        return min(FIRST_COMPONENTS, most) if is_open else most

    @property
    def _why_nothing(self) -> str:
        if not self._follows_noise:
            return super()._why_nothing
        return "No component stands out from the noise. Use weights of your own if you know better."

    def _most_components(self, source: AbstractSource) -> int:
        """Return the largest number of atoms: the given one, or half of the smaller side of the data."""
        smaller = min(source.n_samples, source.n_features)
        return max(1, smaller // 2) if self.n_components is None else int(self.n_components)

    def _set_recovery(self, source: AbstractSource, weights: Weights, answer: Answer) -> None:
        progress: Progress = weights[PROGRESS]
        if progress.is_full:
            warnings.warn(
                f"The rank has reached {len(self.components_)}, half of the smaller side of the data, and "
                "the residual calls for more: the data are not of low rank with sparse outliers. Use "
                "`n_components` for a rank of your choice.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        # If no atom remains, the noise found at a stage with atoms is too small: it is estimated again.
        found_before = replace(progress, noise=None) if progress.rank == 0 else progress
        self.noise_ = known_noise(found_before, answer, lambda: self._noise_of_fit(source, progress))
        self.dual_norm_ = np.nan if progress.dual_norm is None else progress.dual_norm
        if not (self._follows_noise or math.isnan(self.dual_norm_) or answer.stats is None):
            # The shrinkage was not removed, so that the dual norm can be measured at the end.
            found = spectra(Problem(self.formulation_, source), answer.D, LOOK, MISSING, 1)
            self.dual_norm_ = found.norm / found.alpha
        if progress.rank is not None:
            self.rank_ = progress.rank
        elif answer.stats is None:
            self.rank_ = len(self.components_)
        else:
            fitted = spectrum_of_fit(answer.stats, answer.D)
            level = VANISHED * weights["outlier_alpha"] * max(source.n_samples, source.n_features) ** 0.5
            self.rank_ = len(fitted.above(level).values)

    def _set_interim_attributes(self, source: AbstractSource, weights: Weights) -> None:
        super()._set_interim_attributes(source, weights)
        progress: Progress = weights[PROGRESS]
        self.rank_ = len(self.components_) if progress.rank is None else progress.rank
        self.dual_norm_ = np.nan if progress.dual_norm is None else progress.dual_norm

    def _size_factors(self, state: State, formulation: Formulation) -> Array | float:
        sums = state.code_sums
        if not self._follows_noise or sums is None:
            return 1.0
        return balance(formulation, state.D, sums.rows, np.sqrt(np.diag(sums.gram)))

    def _accepts_components(self, count: int) -> bool:
        return self.n_components is None or count <= self.n_components

    def _set_stream_recovery(self) -> None:
        super()._set_stream_recovery()
        self.rank_, self.dual_norm_ = len(self.components_), np.nan


def balanced_rows(rows: Array, n_samples: int) -> Array:
    """Return rows x as atoms n^¼ x/√‖x‖ of (P5), which balance ‖D‖ and ‖H‖."""
    size = row_norms(rows)
    return rows * (n_samples**0.25 / np.sqrt(np.where(size > 0, size, 1)))[:, None]
