"""Models with outliers that learn from streams: weights that follow the noise of each batch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from vrmf.estimators.modelling import Weights
from vrmf.estimators.recovering import FIRST_COMPONENTS, AbstractRecovering
from vrmf.problem import Problem
from vrmf.recovery.family import NEGLIGIBLE
from vrmf.recovery.fitted_noise import noise_of_fit, weight_of_noise
from vrmf.recovery.progress import PROGRESS
from vrmf.running.loop import until_stopped
from vrmf.running.stage import Stage
from vrmf.running.stream import Stream
from vrmf.seen import FEWEST_ROWS
from vrmf.solvers.base import State
from vrmf.sources import AbstractSource, as_source

#: With fewer rows neither the noise nor the rank can be estimated.
FEW_ROWS = 10

#: A batch of fewer rows counts with at most this multiple of the known noise, since a row may be corrupt.
WILD = 30.0

#: A stream is learned anew from the rows that it remembers when it reaches one of these numbers of rows:
#: the first rows do not determine the weights.
BEGINNINGS = (FEW_ROWS, 20, 40, 80, FEWEST_ROWS)


class Recovering(AbstractRecovering):
    """Estimators with outliers, whose automatic weights follow the noise, also in streams."""

    #: Whether in streams the weight of outliers may rise above its first value: not where errors of atoms
    #: that shrink with it would be taken for noise.
    _weight_rises: ClassVar[bool] = True

    def _first_stage(self, source: AbstractSource) -> Stage:
        """Follow the path on the first batch, up to its last stage, whose shrinkage stays.

        A batch of a few rows, or without a low-rank part, leaves the number of atoms as it is given.
        """
        stage = self._start(source, whole=False)
        if not self._follows_noise:
            return stage
        problem, path = Problem(stage.formulation, source), self._path(source)
        found, D, weights = stage, stage.D, stage.weights
        if source.n_samples >= FEW_ROWS:
            rules = self._stopping_rules(None).rules
            for current, _, _ in until_stopped(self._solver(), problem, stage, path, rules):
                found, D, weights = current.stage, current.D, current.stage.weights
                if found.weights[PROGRESS].is_last:
                    break
        is_found = source.n_samples >= FEW_ROWS and bool(np.any(D))
        if not is_found:  # atoms of zeros would stay zeros
            stage = self._start(source, whole=False, n_components=self._components_of_stream(source))
            found, D = stage, stage.D
        weights = self._family.unshrunk(weights)
        progress = replace(weights[PROGRESS], is_last=True, rank=None if is_found else 0)
        weights = weights | {PROGRESS: progress}
        return self._family.following(found, source, D, weights)

    def _begins_anew(self, stream: Stream, before: int, now: int) -> bool:
        if not self._follows_noise:
            return False
        progress = stream.weights.get(PROGRESS)
        if progress is not None and progress.rank == 0 and now >= FEWEST_ROWS:  # nothing was found so far
            return math.log2(now) // 1 > math.log2(max(before, 1)) // 1
        return any(before < rows <= now for rows in BEGINNINGS)

    def _components_of_stream(self, source: AbstractSource) -> int:
        """Return the number of atoms of a stream whose first batch does not determine it."""
        return min(FIRST_COMPONENTS, source.n_features) if self.n_components is None else self.n_components

    def _after_batch(
        self, weights: Weights, derived: Weights, state: State, source: AbstractSource
    ) -> Weights:
        if not self._follows_noise or PROGRESS not in weights:
            return derived
        family, rows, solver = self._family, source.n_samples, self._stream_solver()
        n = solver.remembered(state, rows)
        before, is_new, derived = weights[PROGRESS], derived is not weights, self._family.unshrunk(derived)
        now = replace(derived[PROGRESS], is_last=True, rank=before.rank)
        if is_new:  # of the first weights of a path
            factor = weights["outlier_alpha"] / before.first * now.first / derived["outlier_alpha"]
            derived = self._last_weights(family.scaled(derived, factor, now), state.D)
        # The noise is estimated without shrinkage of codes, whose error would count as noise, as where the
        # scale of the rows has grown. (Solvers without sums over codes cannot rescale atoms; these follow
        # such a scale by larger weights only.)
        shown = family.with_alpha(derived, NEGLIGIBLE) if solver.has_code_sums else derived
        problem = Problem(self._formulation(n, shown), source)
        noise = noise_of_fit(problem, state.D, now.least)
        if before.noise is not None:
            known = before.noise * now.first / before.first  # as the scale of the data has changed
            if rows < FEW_ROWS:
                noise = min(noise, WILD * max(known, now.least))
            mean = known + (noise - known) * rows / n
            # A background that changes is no outlier, so larger noise counts at once, and smaller slowly.
            noise = mean if rows < FEW_ROWS else max(noise, mean)
        weight = weight_of_noise(noise, n, source.n_features)
        if rows < FEW_ROWS or not self._weight_rises:
            weight = min(weight, now.first)
        return family.scaled(derived, weight / derived["outlier_alpha"], replace(now, noise=noise))

    def _absorb(self, X: Any) -> None:
        super()._absorb(X)
        self._set_stream_recovery()

    def _set_stream_recovery(self) -> None:
        """Set the attributes that only models with outliers have, after a batch."""
        progress, stream = self._progress_so_far(), self.stream_
        if progress is not None and progress.noise is not None:
            self.noise_ = progress.noise
        elif not hasattr(self, "noise_") and stream is not None and stream.seen is not None:
            rows = as_source(stream.seen.rows)
            self.noise_ = noise_of_fit(Problem(self.formulation_, rows), self.components_, 0.0)
