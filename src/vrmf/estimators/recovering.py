"""What the estimators with outliers share: weights that follow the noise, a rank, a mask of outliers."""

from __future__ import annotations

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from vrmf.arrays import Array, row_norms
from vrmf.callers import level_of_caller
from vrmf.checks import real_number
from vrmf.estimators.base import AbstractFactorizer, Weights
from vrmf.estimators.data import is_stream
from vrmf.estimators.outcome import Report
from vrmf.estimators.streaming import SEEN
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.recovery.noise import quantum
from vrmf.recovery.path import (
    FEW_ENTRIES,
    LOOK,
    MISSING,
    NEGLIGIBLE,
    PROGRESS,
    ROUNDING,
    UNSHRUNK,
    VANISHED,
    Family,
    NoisePath,
    Progress,
    RankPath,
    balance,
    least_noise,
    noise_of_fit,
    noise_of_low_rank_fit,
    weight_of_noise,
)
from vrmf.recovery.spectrum import spectra, spectrum_of_fit
from vrmf.running.loop import Outcome, until_stopped
from vrmf.running.path import AbstractPath, SingleStage
from vrmf.running.stage import Stage
from vrmf.seen import FEWEST_ROWS
from vrmf.solvers import AbstractSolver
from vrmf.solvers.base import State
from vrmf.solvers.smm import SMMState
from vrmf.sources import AbstractSource, as_source
from vrmf.terms import Ridge
from vrmf.weights import DataSummary, chosen_weight

#: The first weight of outliers, as a share of the data's spread, or of a quantile of distances from the
#: median: where most entries are nearly equal, the others tell the scale.
OUTLIER_SHARE, OUTLIER_QUANTILE = 0.3, 0.8

#: Rows of a stream below which they tell neither the noise nor a rank.
FEW_ROWS = 10

#: So few rows count as at most so many times the noise that is known: they may be one wild row.
WILD = 30.0

#: A stream is learned anew from the rows that it keeps when there are so many: the first ones tell little.
BEGINNINGS = (FEW_ROWS, 20, 40, 80, FEWEST_ROWS)

#: The smallest spread of clean entries, as a share of the first weight.
SMALLEST_SPREAD = 1e-4

#: How much farther outliers are than rounding, where there is no noise.
NO_NOISE = 10.0

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

    #: What is left of the penalty on the rank in the last stage.
    _unshrunk_share: ClassVar[float] = UNSHRUNK

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
        step, entries = quantum(rows), source.n_samples * source.n_features
        return Progress(first, least_noise(source, rounding, step), step, is_hard=entries <= FEW_ENTRIES)

    @property
    def _family(self) -> Family:
        return Family(
            self._formulation,
            self._alpha_power,
            self._solver().reports_best,
            self._unshrunk_share,
            self._last_stage,
        )

    def _last_stage(self, weights: Weights, D: Array, problem: Problem) -> tuple[Weights, Array]:
        """Return weights and atoms of the last stage, for those with which the stages before end."""
        return self._last_weights(weights, D), D

    def _last_weights(self, weights: Weights, D: Array) -> Weights:
        """Return the weights of the last stage, for atoms D that fit the data."""
        return weights

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

    def _look(self, source: AbstractSource, weights: Weights) -> None:
        """Set these attributes while a fit is under way: from a sample of rows, without a pass."""
        self.noise_ = self._noise_so_far(source, weights[PROGRESS])

    def _noise_so_far(self, source: AbstractSource, progress: Progress) -> float:
        problem, find = Problem(self.formulation_, source), noise_of_fit
        if self._has_low_rank:
            find = noise_of_low_rank_fit
        known = None if progress.rank == 0 else progress.noise
        return find(problem, self.components_, progress.least) if known is None else known

    # Streams -----------------------------------------------------------------------------------

    def _first_stage(self, source: AbstractSource) -> Stage:
        """Follow the path on the first batch, up to its last stage, of which the shrinkage is kept.

        A batch of a few rows, or without a low-rank part, leaves the number of atoms as it is given.
        """
        stage = self._start(source, whole=False)
        if not self._follows_noise:
            return stage
        problem, path = Problem(stage.formulation, source), self._path(source)
        found, D, weights = stage, stage.D, stage.weights
        if source.n_samples >= FEW_ROWS:
            rules = self._judge(None).rules
            for current, _, _ in until_stopped(self._solver(), problem, stage, path, rules):
                found, D, weights = current.stage, current.D, current.stage.weights
                if found.weights[PROGRESS].is_last:
                    break
        is_found = source.n_samples >= FEW_ROWS and bool(np.any(D))
        if not is_found:  # and atoms of zeros would stay
            stage = self._start(source, whole=False, n_components=self._components_of_stream(source))
            found, D = stage, stage.D
        weights = self._family.unshrunk(weights)
        progress = replace(weights[PROGRESS], is_last=True, rank=None if is_found else 0)
        weights = weights | {PROGRESS: progress}
        return self._family.following(found, source, D, weights)

    def _begins_anew(self, before: int, now: int) -> bool:
        if not self._follows_noise:
            return False
        progress = self._stream_weights.get(PROGRESS)
        if progress is not None and progress.rank == 0 and now >= FEWEST_ROWS:  # nothing was found so far
            return math.log2(now) // 1 > math.log2(max(before, 1)) // 1
        return any(before < rows <= now for rows in BEGINNINGS)

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
        before, is_new, derived = weights[PROGRESS], derived is not weights, self._family.unshrunk(derived)
        now = replace(derived[PROGRESS], is_last=True, rank=before.rank)
        if is_new:  # of the first weights of a path
            factor = weights["outlier_alpha"] / before.first * now.first / derived["outlier_alpha"]
            derived = self._last_weights(family.scaled(derived, factor, now), state.D)
        # Codes that shrink, as where the scale of the rows has grown, would take their errors for noise.
        # (SGD has no sums that are rescaled: its atoms follow such a scale by larger weights only.)
        shown = family.with_alpha(derived, NEGLIGIBLE) if isinstance(state, SMMState) else derived
        problem = Problem(self._formulation(n, shown), source)
        noise = noise_of_fit(problem, state.D, now.least)
        if before.noise is not None:
            known = before.noise * now.first / before.first  # as the scale of the data has changed
            if rows < FEW_ROWS:
                noise = min(noise, WILD * max(known, now.least))
            mean = known + (noise - known) * rows / n
            # A background that moves is no outlier: what it leaves counts at once, and is forgotten slowly.
            noise = mean if rows < FEW_ROWS else max(noise, mean)
        weight = weight_of_noise(noise, n, source.n_features)
        if rows < FEW_ROWS or not self._weight_rises:
            weight = min(weight, now.first)
        return family.scaled(derived, weight / derived["outlier_alpha"], replace(now, noise=noise))

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
        model, reach = self._for_mask(false_alarms)
        if is_stream(X):
            return self._each(lambda batch: self.outlier_mask(batch, false_alarms), X)
        return model._of_rows(X, "distances", [self.n_features_in_])[0] > reach

    def mask_blocks(self, X: Any, false_alarms: float = 1e-3) -> Iterator[Array]:
        """Yield what :meth:`outlier_mask` returns, block by block, so that it need not be kept."""
        model, reach = self._for_mask(false_alarms)
        return (distances > reach for distances in model._blocks(X, "distances"))

    def _for_mask(self, false_alarms: float) -> tuple[Self, float]:
        """Return a model without shrinkage, and the distance beyond which an entry is an outlier."""
        check_is_fitted(self)
        if math.isnan(getattr(self, "noise_", math.nan)):
            raise ValueError(
                "The noise of this model is not known: there was no time for it, or an earlier version has "
                "saved it. Fit it anew."
            )
        share = real_number("false_alarms", false_alarms, low=0, strict=True)
        if share >= 1:
            raise ValueError(f"`false_alarms` is {share}. Use a share below 1, such as 0.001.")
        model, code = copy.copy(self), self.formulation_.code
        progress = self._stream_weights.get(PROGRESS)
        keeps = progress is not None and (progress.has_run_away or progress.is_unshrunk)
        if isinstance(code, Ridge) and not keeps:
            model.formulation_ = replace(self.formulation_, code=Ridge(UNSHRUNK * code.weight))
        return model, self._reach(float(norm.isf(share / 2)), progress)

    def _reach(self, z: float, progress: Progress | None) -> float:
        """Return the distance that noise exceeds as rarely as a normal variable exceeds z."""
        normal = z * self.noise_
        if progress is None:
            return normal
        if progress.quantum:
            # Rounding is off by half a step at most. The rest is noise, and the error of the fit.
            (k, d), n = self.components_.shape, self.n_samples_seen_
            share = min(1.0, k * (n + d - k) / (n * d)) if k < min(n, d) else 1.0
            rest = self.noise_**2 - progress.quantum**2 / 12 * (1 - share)
            return min(normal, 0.5 * progress.quantum + z * math.sqrt(max(rest, 0.0)))
        # Without noise distances show how exact the fit is.
        return NO_NOISE * normal if self.noise_ <= progress.least else normal


@dataclass(eq=False, repr=False)
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
                stacklevel=level_of_caller(),
            )
        problem = Problem(self.formulation_, source)
        # What a stage with atoms has left is not all of the noise if none of them stays.
        found_before = replace(progress, noise=None) if progress.rank == 0 else progress
        self.noise_ = _known_noise(
            found_before, report, lambda: noise_of_low_rank_fit(problem, self.components_, progress.least)
        )
        self.dual_norm_ = np.nan if progress.dual_norm is None else progress.dual_norm
        if not (self._follows_noise or math.isnan(self.dual_norm_) or report.stats is None):
            # The shrinkage stays, so that it can be measured at the very end.
            found = spectra(problem, report.D, LOOK, MISSING, 1)
            self.dual_norm_ = found.norm / found.alpha
        if progress.rank is not None:
            self.rank_ = progress.rank
        elif report.stats is None:
            self.rank_ = len(self.components_)
        else:
            fitted = spectrum_of_fit(report.stats, report.D)
            level = VANISHED * weights["outlier_alpha"] * max(source.n_samples, source.n_features) ** 0.5
            self.rank_ = len(fitted.above(level).values)

    def _look(self, source: AbstractSource, weights: Weights) -> None:
        super()._look(source, weights)
        progress: Progress = weights[PROGRESS]
        self.rank_ = len(self.components_) if progress.rank is None else progress.rank
        self.dual_norm_ = np.nan if progress.dual_norm is None else progress.dual_norm

    # Streams -----------------------------------------------------------------------------------

    def _size_factors(self, state: State, formulation: Formulation) -> Array | float:
        if not self._follows_noise or not isinstance(state, SMMState) or state.gram is None:
            return 1.0
        return balance(formulation, state.D, state.weight, np.sqrt(np.diag(state.gram)))

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


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def balanced_rows(rows: Array, n_samples: int) -> Array:
    """Return rows as atoms of (P5), n^¼ times as long as the root of their size: ‖D‖ is to be ‖H‖."""
    size = row_norms(rows)
    return rows * (n_samples**0.25 / np.sqrt(np.where(size > 0, size, 1)))[:, None]
