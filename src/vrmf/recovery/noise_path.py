"""The path of a model with outliers and a fixed number of atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vrmf.arrays import Array
from vrmf.problem import Problem
from vrmf.recovery.family import Family, next_factor
from vrmf.recovery.fitted_noise import noise_of_fit, noise_of_low_rank_fit, weight_of_noise
from vrmf.recovery.progress import PROGRESS, Progress
from vrmf.running.path import AbstractPath
from vrmf.running.rules import Rule
from vrmf.running.stage import Stage

#: Other stages have settled at this relative stationarity.
SETTLED_TOL = 1e-4

#: Degrees of freedom for each entry beyond which a fit of low rank could explain all inliers, if atoms are
#: too many.
MOST_FREEDOM = 0.3


@dataclass(frozen=True, eq=False)
class NoisePath(AbstractPath):
    """Weights that fall down to the noise, for a fixed number of atoms."""

    family: Family
    has_low_rank: bool  #: whether the noise is what no matrix of that rank explains

    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        if stage.weights[PROGRESS].is_last:
            return final
        return self.family.rules(stage, problem, final, lambda measured: measured.satisfies(SETTLED_TOL))

    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        weights, source = stage.weights, problem.source
        progress: Progress = weights[PROGRESS]
        if progress.is_last:
            return None
        n, d, k = source.n_samples, source.n_features, len(D)
        is_refined = self.has_low_rank and k * (n + d - k) <= MOST_FREEDOM * n * d
        noise = (noise_of_low_rank_fit if is_refined else noise_of_fit)(problem, D, progress.least)
        factor = weight_of_noise(noise, source.n_samples, source.n_features) / weights["outlier_alpha"]
        factor = next_factor(factor, weights)
        scaled = self.family.scaled(weights, factor, replace(progress, noise=noise, is_last=factor == 1))
        return self.family.following(stage, source, D, scaled)
