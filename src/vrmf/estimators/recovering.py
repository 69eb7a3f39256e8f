"""What the estimators with outliers share: weights that follow the noise, a rank, a mask of outliers."""

from __future__ import annotations

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from vrmf.checks import real_number
from vrmf.estimators.base import AbstractFactorizer, Weights
from vrmf.estimators.data import is_stream
from vrmf.estimators.outcome import Report
from vrmf.estimators.streaming import SEEN
from vrmf.loop import Outcome, until_stopped
from vrmf.noise import quantum
from vrmf.path import AbstractPath, SingleStage, Stage
from vrmf.problem import Problem
from vrmf.recovery import (
    PROGRESS,
    ROUNDING,
    UNSHRUNK,
    VANISHED,
    Family,
    NoisePath,
    Progress,
    RankPath,
    least_noise,
    noise_of_fit,
    noise_of_low_rank_fit,
    weight_of_noise,
)
from vrmf.solvers import AbstractSolver
from vrmf.solvers.base import State
from vrmf.sources import AbstractSource, as_source
from vrmf.spectrum import spectrum_of_fit
from vrmf.terms import Ridge
from vrmf.weights import DataSummary, chosen_weight

#: The first weight of outliers, as a share of the data's spread, or of a quantile of distances from the
#: median: where most entries are nearly equal, the others tell the scale.
OUTLIER_SHARE, OUTLIER_QUANTILE = 0.3, 0.8

#: Rows of the first batch of a stream below which it tells neither the noise nor a rank.
FEW_ROWS = 10

#: The smallest spread of clean entries, as a share of the first weight.
SMALLEST_SPREAD = 1e-4

#: Atoms with which a search for the rank begins.
FIRST_COMPONENTS = 10

#: Entries in which the step of quantised data is looked for.
QUANTUM_ENTRIES = 2**18


@dataclass(eq=False, repr=False)
class Recovering(AbstractFactorizer):
    """Estimators with outliers, whose automatic weights follow the noise."""

    #: Whether the part that is no outliers is just of low rank, without other constraints.
    _has_low_rank: ClassVar[bool] = True

    #: Whether in streams the weight of outliers may rise above its first value: not where errors of atoms
    #: that shrink with it would be taken for noise.
    _weight_rises: ClassVar[bool] = True

    #: alpha is in proportion to this power of outlier_alpha.
    _alpha_power: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def _follows_noise(self) -> bool:
        """Whether weights are automatic."""

    def _outlier_weight(self, value: Any, summary: DataSummary) -> float:
        """Return the weight of outliers, the first one if it follows the noise.

        Too large a first weight costs a stage or two, one that is too small the answer.
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
        return Progress(first, least_noise(source, rounding, quantum(rows)), rounding)

    @property
    def _family(self) -> Family:
        return Family(self._formulation, self._alpha_power, self._solver().reports_best)

    def _path(self, source: AbstractSource) -> AbstractPath:
        return NoisePath(self._family, self._has_low_rank) if self._follows_noise else SingleStage()

    def _keep(
        self, source: AbstractSource, solver: AbstractSolver, outcome: Outcome, report: Report
    ) -> None:
        super()._keep(source, solver, outcome, report)
        self._keep_recovery(source, outcome.iterate.stage.weights, report)

    def _keep_recovery(self, source: AbstractSource, weights: Weights, report: Report) -> None:
        """Set the attributes that outliers bring."""
        problem, progress, D = Problem(self.formulation_, source), weights[PROGRESS], self.components_
        find = noise_of_low_rank_fit if self._has_low_rank else noise_of_fit
        self.noise_ = _known_noise(progress, report, lambda: find(problem, D, progress.least))

    # Streams -----------------------------------------------------------------------------------

    def _first_stage(self, source: AbstractSource) -> Stage:
        """Follow the path on the first batch, up to its last stage, of which the shrinkage is kept.

        A batch of a few rows, or without a low-rank part, leaves the number of atoms as it is given.
        """
        stage = self._start(source, whole=False)
        if not self._follows_noise:
            return stage
        problem, path = Problem(stage.formulation, source), self._path(source)
        found, D = stage, stage.D
        if source.n_samples >= FEW_ROWS:
            rules = self._judge(None).rules
            for current, _, _ in until_stopped(self._solver(), problem, stage, path, rules):
                found, D = current.stage, current.D
                if found.weights[PROGRESS].is_last:
                    break
        if source.n_samples < FEW_ROWS or not np.any(D):  # nothing is found, and atoms of zeros stay
            D = self._start(source, whole=False, n_components=self._components_of_stream(source)).D
        weights = self._family.shrunk(found.weights)
        weights = weights | {PROGRESS: replace(weights[PROGRESS], is_last=True)}
        return self._family.following(found, source, D, weights)

    def _components_of_stream(self, source: AbstractSource) -> int:
        """Return the number of atoms of a stream whose first batch does not tell it."""
        return min(FIRST_COMPONENTS, source.n_features) if self.n_components is None else self.n_components

    def _after_batch(
        self, weights: Weights, derived: Weights, state: State, source: AbstractSource
    ) -> Weights:
        if not self._follows_noise or PROGRESS not in weights:
            return derived
        family, rows = self._family, source.n_samples
        n = self._stream_solver().remembered(state, rows)
        before, derived = weights[PROGRESS], family.shrunk(derived)
        now = derived[PROGRESS]
        # Codes that shrink would take their errors for noise, and shrink the more.
        problem = Problem(self._formulation(n, family.unshrunk(derived)), source)
        noise = noise_of_fit(problem, state.D, now.least)
        if before.noise is not None:
            known = before.noise * now.first / before.first  # as the scale of the data has changed
            mean = known + (noise - known) * rows / n
            # A background that moves is no outlier: what it leaves counts at once, and is forgotten slowly.
            noise = mean if rows < FEW_ROWS else max(noise, mean)
        weight = weight_of_noise(noise, n, source.n_features)
        if rows < FEW_ROWS or not self._weight_rises:
            weight = min(weight, now.first)
        progress = replace(now, noise=noise, is_last=True)
        return family.scaled(derived, weight / derived["outlier_alpha"], progress)

    def _absorb(self, X: Any) -> None:
        super()._absorb(X)
        self._keep_stream()

    def _keep_stream(self) -> None:
        """Set the attributes that outliers bring, after a batch."""
        progress = self._stream_weights.get(PROGRESS)
        if progress is not None and progress.noise is not None:
            self.noise_ = progress.noise
        elif not hasattr(self, "noise_") and SEEN in self._stream_weights:
            rows = as_source(self._stream_weights[SEEN].rows)
            self.noise_ = noise_of_fit(Problem(self.formulation_, rows), self.components_, 0.0)

    # Outliers ----------------------------------------------------------------------------------

    def outlier_mask(self, X: Any, false_alarms: float = 1e-3) -> Any:
        """Return which entries of ``X`` are outliers: those with |x − L| > z · ``noise_``.

        z is such that normal noise exceeds it in the share ``false_alarms`` of entries. L is without
        shrinkage, unless a fit without it had run away. For a dask array the mask is lazy, for an iterator
        of batches there is an iterator of masks.
        """
        check_is_fitted(self)
        if math.isnan(getattr(self, "noise_", math.nan)):
            raise ValueError(
                "The noise of this model is not known: there was no time for it, or an earlier version has "
                "saved it. Fit it anew."
            )
        share = real_number("false_alarms", false_alarms, low=0, strict=True)
        if share >= 1:
            raise ValueError(f"`false_alarms` is {share}. Use a share below 1, such as 0.001.")
        if is_stream(X):
            return self._each(lambda batch: self.outlier_mask(batch, share), X)
        model, code = copy.copy(self), self.formulation_.code
        progress = self._stream_weights.get(PROGRESS)
        if isinstance(code, Ridge) and not (progress is not None and progress.has_run_away):
            model.formulation_ = replace(self.formulation_, code=Ridge(UNSHRUNK * code.weight))
        reach = float(norm.isf(share / 2)) * self.noise_
        return model._of_rows(X, "distances", [self.n_features_in_])[0] > reach


@dataclass(eq=False, repr=False)
class RankFinding(Recovering):
    """Estimators with a low-rank part, for which ``n_components`` is a bound, or None."""

    #: Whether the last stage removes the shrinkage.
    _unshrinks: ClassVar[bool] = True

    def _path(self, source: AbstractSource) -> AbstractPath:
        if not self._follows_noise and self.n_components is not None:
            return SingleStage()
        return RankPath(
            self._family,
            self._most_components(source),
            self._follows_noise,
            unshrinks=self._unshrinks,
            ends_if_full=self.n_components is None,
        )

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
        """Return the largest number of atoms: what the user says, or half of what data can have."""
        smaller = min(source.n_samples, source.n_features)
        return max(1, smaller // 2) if self.n_components is None else int(self.n_components)

    def _keep_recovery(self, source: AbstractSource, weights: Weights, report: Report) -> None:
        progress: Progress = weights[PROGRESS]
        if progress.is_full:
            warnings.warn(
                f"The rank has reached {len(self.components_)}, half of the smaller side of the data, and "
                "the residual calls for more: the data are not of low rank with sparse outliers. Use "
                "`n_components` for a rank of your choice.",
                UserWarning,
                stacklevel=5,
            )
        problem = Problem(self.formulation_, source)
        self.noise_ = _known_noise(
            progress, report, lambda: noise_of_low_rank_fit(problem, self.components_, progress.least)
        )
        self.dual_norm_ = np.nan if progress.dual_norm is None else progress.dual_norm
        if progress.rank is not None:
            self.rank_ = progress.rank
        elif report.stats is None:
            self.rank_ = len(self.components_)
        else:
            fitted = spectrum_of_fit(report.stats, report.D)
            level = VANISHED * weights["outlier_alpha"] * max(source.n_samples, source.n_features) ** 0.5
            self.rank_ = len(fitted.above(level).values)

    # Streams -----------------------------------------------------------------------------------

    def _accepts_components(self, count: int) -> bool:
        return self.n_components is None or count <= self.n_components

    def _keep_stream(self) -> None:
        super()._keep_stream()
        self.rank_, self.dual_norm_ = len(self.components_), np.nan


def _known_noise(progress: Progress, report: Report, find: Callable[[], float]) -> float:
    """Return the noise as a path has found it, or as it is found now; NaN if there is no time for it."""
    if progress.noise is not None:
        return progress.noise
    return math.nan if report.stats is None else find()
