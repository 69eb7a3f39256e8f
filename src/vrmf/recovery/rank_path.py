"""The path of a low-rank model with outliers: weights that fall down to the noise, and the number of atoms.

(P5) with alpha = outlier_alpha · √max(n, d) is stable principal component pursuit in factored form, and
principal component pursuit itself as both weights go to 0. The error of a stage is in proportion to its
weights, while small weights from a cold start fail. So weights fall from stage to stage, down to

    outlier_alpha = σ(√n + √d) / √max(n, d),

for which alpha is the norm of a matrix of noise with the standard deviation σ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.problem import Problem
from vrmf.recovery.family import FALL, Family, next_factor
from vrmf.recovery.fitted_noise import LOOK, noise_of_low_rank_fit, weight_of_noise
from vrmf.recovery.noise import TRIM
from vrmf.recovery.progress import MISSING, PROGRESS, Progress
from vrmf.recovery.runaway import RunAway, has_run_away
from vrmf.recovery.spectrum import Spectra, balanced_atoms, spectra, spectrum_of_fit
from vrmf.running.path import AbstractPath
from vrmf.running.rules import Rule
from vrmf.running.stage import Stage

#: A low-rank stage has settled when for each feature the gradient in its column of D is at most this share
#: of the gradient of the penalty. (Steps move a column by about the weight of outliers at most. So what is
#: far off when weights fall stays behind.)
SETTLED = 0.3

#: The same once a fit has turned out to be hard. Near the limits of recovery small gradients mean large
#: errors.
SETTLED_IF_HARD = 0.03

#: A fit is hard if ‖X − L − S‖₂, or the norm of noise of that energy, was above so many times alpha when
#: weights fell. At the global minimum ‖X − L − S‖₂ is at most alpha.
HARD = 1.08

#: The value of MISSING before the last stage, if there are strong components: what is left of structured
#: outliers may be as large.
SIGNIFICANT = 1.5

#: The same if there are no strong components.
SIGNIFICANT_ALONE = 1.2

#: If the noise rises by more than this factor when weak components are dropped, they were no outliers.
RISE = 1.03

#: Atoms that may be added at once, however few there are.
FEWEST_NEW = 10

#: Atoms are added so often at the same weights, at most: what comes after is in doubt.
MOST_GROWTHS = 20

#: Singular values of the fit below this share of alpha are dropped where atoms are added.
VANISHED = 0.05

#: The same where weights fall. What was dropped wrongly comes back at smaller weights.
DOUBTFUL = 0.5

#: Singular values below this multiple of alpha are looked at again before the last stage. Structured
#: outliers, such as an object that moves slowly, are fitted by weak components, which would fit all of it
#: without shrinkage. Components come back if entries call for them that are within TRIM times the noise.
WEAK = 4.0


@dataclass(frozen=True, eq=False)
class RankPath(AbstractPath):
    """Weights that fall down to the noise, if they follow it, and as many atoms as they call for.

    After each stage atoms are added along singular directions of the residual that exceed both alpha and
    what noise would have. Where weights fall, directions that have nearly vanished are dropped. With noise,
    the last stage removes the shrinkage; the number of atoms then is all that bounds the rank.
    """

    family: Family
    most_components: int
    follows_noise: bool
    ends_if_full: bool  #: whether to go no further where there is no room for the atoms that are called for

    def rules(self, stage: Stage, problem: Problem, final: Sequence[Rule]) -> Sequence[Rule]:
        progress: Progress = stage.weights[PROGRESS]
        if progress.is_last and progress.is_unshrunk and progress.sizes is not None:
            return [RunAway(problem, progress.sizes), *final]
        if progress.is_last:
            return final
        level = SETTLED_IF_HARD if progress.is_hard else SETTLED
        return self.family.rules(stage, problem, final, lambda measured: measured.worst_feature <= level)

    def after(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        weights, source = stage.weights, problem.source
        progress: Progress = weights[PROGRESS]
        if progress.is_last:
            return self._without_atoms(stage, problem, D) or self._shrunk_again(stage, problem, D)
        is_trimmed = progress.is_checked and not progress.keeps_weak
        trim = TRIM * progress.noise if is_trimmed and progress.noise is not None else math.inf
        most = max(1, min(self.most_components, max(len(D), FEWEST_NEW)))
        found = spectra(problem, D, LOOK, progress.level, most, trim)
        if math.isinf(trim):
            progress = replace(progress, dual_norm=found.norm / found.alpha)
        room = self._room(found)
        if len(found.missing.values) and room > 0 and progress.growths < MOST_GROWTHS:
            new = found.missing.first(room).less(found.alpha)
            atoms = balanced_atoms(found.fitted.above(VANISHED * found.alpha), new)
            grown = weights | {PROGRESS: replace(progress, growths=progress.growths + 1)}
            return self.family.following(stage, source, atoms, grown, found.passes)
        scaled, dropped = self._next_weights(weights, progress, problem, D, found)
        retained = found.fitted.above(dropped * found.alpha)
        atoms = balanced_atoms(retained) if len(retained.values) else np.zeros_like(D[:1])
        if scaled[PROGRESS].is_last:
            scaled[PROGRESS] = replace(scaled[PROGRESS], rank=len(retained.values))
            scaled, atoms = self.family.last(scaled, atoms, problem)
        return self.family.following(stage, source, atoms, scaled, found.passes)

    def _room(self, found: Spectra) -> int:
        """Return how many atoms there may be besides those that have not vanished."""
        return self.most_components - len(found.fitted.above(VANISHED * found.alpha).values)

    def _without_atoms(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        """Return a last stage of rank 0 if there was no room for more atoms, but those there vanish."""
        progress: Progress = stage.weights[PROGRESS]
        if not progress.is_full or not self.follows_noise:
            return None
        alpha = stage.weights["outlier_alpha"] * max(problem.n_samples, problem.source.n_features) ** 0.5
        if len(spectrum_of_fit(problem.stats(D, LOOK), D).above(VANISHED * alpha).values):
            return None
        weights = stage.weights | {PROGRESS: replace(progress, is_full=False, rank=0)}
        return self.family.following(stage, problem.source, np.zeros_like(D[:1]), weights, passes=1.0)

    def _shrunk_again(self, stage: Stage, problem: Problem, D: Array) -> Stage | None:
        """Return a last stage with shrinkage if the fit has run away without, else None.

        That happens where outliers are too many to be told from the rest: atoms fit them.
        """
        progress: Progress = stage.weights[PROGRESS]
        if not progress.is_unshrunk or progress.sizes is None:
            return None
        if not has_run_away(problem, D, progress.sizes):
            return None
        weights = self.family.shrunk(stage.weights)
        weights = weights | {PROGRESS: replace(weights[PROGRESS], has_run_away=True)}
        return self.family.following(stage, problem.source, stage.D, weights, passes=1.0)

    def _next_weights(
        self, weights: dict[str, Any], progress: Progress, problem: Problem, D: Array, found: Spectra
    ) -> tuple[dict[str, Any], float]:
        """Return the weights of the next stage, and the share of alpha below which atoms are dropped."""
        n, d = problem.n_samples, problem.source.n_features
        lacks_room = (
            len(found.missing.values) > 0 and not self._room(found) and self.most_components < min(n, d)
        )
        is_full = self.ends_if_full and lacks_room
        if is_full or not self.follows_noise:
            return weights | {PROGRESS: replace(progress, is_last=True, is_full=is_full)}, VANISHED
        unit = weight_of_noise(1.0, n, d) / weights["outlier_alpha"]
        noise = noise_of_low_rank_fit(problem, D, progress.least, enough=1 / (FALL * unit))
        before = progress.noise
        if progress.is_checked and not progress.keeps_weak and before is not None and noise > RISE * before:
            progress = replace(progress, keeps_weak=True, level=MISSING, growths=0)
            return weights | {PROGRESS: progress}, VANISHED
        factor, progress = next_factor(noise * unit, weights), replace(progress, noise=noise)
        if factor != 1:
            is_hard = progress.is_hard or max(found.norm, found.edge) > HARD * found.alpha
            progress = replace(
                progress, is_hard=is_hard, is_checked=False, keeps_weak=False, level=MISSING, growths=0
            )
            return self.family.scaled(weights, factor, progress), DOUBTFUL
        # A component of the data with the singular value t is fitted with t − alpha.
        fitted, least = found.fitted.values / found.alpha, progress.level * found.edge / found.alpha - 1
        if not progress.is_checked and np.any(fitted <= WEAK):
            level = SIGNIFICANT if np.any(fitted > WEAK) else SIGNIFICANT_ALONE
            progress = replace(progress, is_checked=True, level=level, growths=0)
            return weights | {PROGRESS: progress}, WEAK
        rank = int(np.sum(fitted > least))
        is_unshrunk = 0 < rank < min(n, d)
        sizes = [float(size) for size in found.fitted.values[:rank] + found.alpha]
        last = weights | {PROGRESS: replace(progress, is_last=True, sizes=sizes)}
        return self.family.unshrunk(last) if is_unshrunk else last, least
