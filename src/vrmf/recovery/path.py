"""Paths of models with outliers: weights that fall down to the noise, and the number of atoms.

(P5) with alpha = outlier_alpha · √max(n, d) is stable principal component pursuit in factored form, and
principal component pursuit itself as both weights go to 0. The error of a stage is in proportion to its
weights, while small weights from a cold start fail. So weights fall from stage to stage, down to

    outlier_alpha = σ(√n + √d) / √max(n, d),

for which alpha is the norm of a matrix of noise with the standard deviation σ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.problem import Measurement, Problem
from vrmf.recovery.noise import TRIM, low_rank_noise, noise_level, telling
from vrmf.recovery.spectrum import Spectra, balanced_atoms, spectra, spectrum_of_fit
from vrmf.running.path import AbstractPath
from vrmf.running.rules import MaxEpochs, Rule, Settled, StageEpochs
from vrmf.running.stage import Stage
from vrmf.sources import AbstractSource

#: The key under which weights carry how far their path has come.
PROGRESS = "progress"

#: A low-rank stage has settled when for each feature the force on its column of D is at most this share of
#: that of the penalty. (Steps move a column by about the weight of outliers at most, so what is far off
#: when weights fall stays behind.)
SETTLED = 0.3

#: The same once a fit has turned out to be hard: when weights fell, ‖X − L − S‖₂, or the norm of noise of
#: that energy, was above so many times alpha, which the former is at the global minimum. Near the limits of
#: recovery small forces mean large errors.
SETTLED_IF_HARD, HARD = 0.03, 1.08

#: Data of so many entries are treated as hard in any case, and may take so many epochs: that costs little.
FEW_ENTRIES, MOST_IF_FEW = 10**4, 150

#: Other stages have settled at this relative stationarity.
SETTLED_TOL = 1e-4

#: Epochs of a stage, at most, with solvers that measure, also if a fit is hard, and with those that do not.
MOST_EPOCHS, MOST_IF_HARD, UNMEASURED_EPOCHS = 20, 60, 10

#: Weights fall by at most this factor from stage to stage.
FALL = 10.0

#: Weights have arrived when those of the noise are above this share of them.
ARRIVED = 0.8

#: The smallest weights, as a share of those of clean entries, by precision: there is only rounding below.
ROUNDING = {"float64": 1e-5, "float32": 1e-3}

#: What is left of the penalty on the rank when the shrinkage is removed at the end. The rest holds codes of
#: rows in which outliers are many; without it they would grow to fit them.
UNSHRUNK = 0.1

#: A share that is nothing.
NEGLIGIBLE = 1e-6

#: A singular value of the residual above so many times the edge of noise calls for a new atom.
MISSING = 1.05

#: The same before the last stage: if there are strong components, since what is left of structured outliers
#: may be as large, and if there are none.
SIGNIFICANT, SIGNIFICANT_ALONE = 1.5, 1.2

#: If the noise rises by more than this factor when weak components are dropped, they were no outliers.
RISE = 1.03

#: Atoms that may be added at once, however few there are.
FEWEST_NEW = 10

#: Atoms are added so often at the same weights, at most: what comes after is in doubt.
MOST_GROWTHS = 20

#: Singular values of the fit below these shares of alpha are dropped: where atoms are added, and where
#: weights fall, since what was dropped wrongly comes back.
VANISHED, DOUBTFUL = 0.05, 0.5

#: Those below this multiple of alpha are looked at again before the last stage, since structured outliers,
#: such as an object that moves slowly, are fitted by weak components. Without shrinkage these would fit all
#: of it. They come back if entries call for them that are within TRIM times the noise.
WEAK = 4.0

#: A component that is so many times larger without shrinkage than expected has fitted outliers.
RUNAWAY = 1.5

#: Degrees of freedom for each entry beyond which a fit of low rank could explain all inliers, if atoms are
#: too many.
MOST_FREEDOM = 0.3

#: How exact codes are where the rank and the noise are looked at.
LOOK = Coder(tol=1e-5)

#: Rows and features from which the noise is estimated, and how many there are for each atom, at least.
NOISE_BLOCK, NOISE_BLOCK_PER_ATOM = 512, 4


@dataclass(frozen=True)
class Progress:
    """How far a path has come."""

    first: float  #: the weight of outliers with which it began
    least: float  #: the level of noise that rounding, also that of the data, causes
    quantum: float = 0.0  #: the step of data that are whole multiples of one
    is_last: bool = False  #: whether this is the last stage
    is_hard: bool = False  #: whether stages must settle more closely
    growths: int = 0  #: how often atoms have been added at these weights
    level: float = MISSING  #: how many times the edge of noise a singular value must be
    is_checked: bool = False  #: whether weak components have been dropped at these weights
    keeps_weak: bool = False  #: whether that was wrong, so that they may come back
    is_unshrunk: bool = False  #: whether the penalty on the rank has been removed
    is_full: bool = False  #: whether there was no room for the atoms that are called for
    has_run_away: bool = False  #: whether it had to come back, since components fitted outliers without it
    noise: float | None = None  #: as estimated after the stage before
    rank: int | None = None  #: as found before the last stage
    dual_norm: float | None = None  #: ‖X − L − S‖₂ / alpha after the stage before
    sizes: list[float] | None = None  #: the singular values of L as expected without shrinkage


@dataclass(frozen=True, eq=False)
class Family:
    """The formulations of a model, one for each weight of outliers."""

    formulation: Callable[[float, dict[str, Any]], Formulation]  #: for n rows and given weights
    alpha_power: float  #: alpha is in proportion to this power of outlier_alpha
    measures: bool  #: whether the solver measures as it goes
    unshrunk_share: float  #: of the penalty on the rank, which is left when the shrinkage is removed
    #: weights and atoms of the last stage, for those with which the stages before end
    last: Callable[[dict[str, Any], Array, Problem], tuple[dict[str, Any], Array]]

    def scaled(self, weights: dict[str, Any], factor: float, progress: Progress) -> dict[str, Any]:
        """Return the weights with that of outliers multiplied by a factor."""
        scaled = weights | {"outlier_alpha": weights["outlier_alpha"] * factor, PROGRESS: progress}
        return self.with_alpha(scaled, factor**self.alpha_power)

    def unshrunk(self, weights: dict[str, Any]) -> dict[str, Any]:
        """Return the weights with hardly any penalty on the rank."""
        progress: Progress = weights[PROGRESS]
        if progress.is_unshrunk:
            return weights
        weights = weights | {PROGRESS: replace(progress, is_unshrunk=True)}
        return self.with_alpha(weights, self.unshrunk_share**self.alpha_power)

    def shrunk(self, weights: dict[str, Any]) -> dict[str, Any]:
        """Return the weights with the penalty on the rank that a last stage has removed, if it did."""
        progress: Progress = weights[PROGRESS]
        if not progress.is_unshrunk:
            return weights
        weights = weights | {PROGRESS: replace(progress, is_unshrunk=False)}
        return self.with_alpha(weights, self.unshrunk_share**-self.alpha_power)

    def with_alpha(self, weights: dict[str, Any], factor: float) -> dict[str, Any]:
        """Return the weights with alpha, if there is one, multiplied by a factor."""
        return weights | ({"alpha": weights["alpha"] * factor} if "alpha" in weights else {})

    def following(
        self, stage: Stage, source: AbstractSource, D: Array, weights: dict[str, Any], passes: float = 0.0
    ) -> Stage:
        """Return the stage with other atoms, of sizes as they are in this one, or other weights."""
        formulation, n = self.formulation(source.n_samples, weights), source.n_samples
        D = D * (balance(formulation, D, n) / balance(stage.formulation, D, n))[:, None]
        return stage.followed_by(formulation, D.astype(source.dtype), weights, passes)

    def rules(
        self, stage: Stage, problem: Problem, final: Sequence[Rule], settled: Callable[[Measurement], bool]
    ) -> list[Rule]:
        """Return the rules of a stage that leads to another: it ends when it has settled."""
        most = MOST_IF_HARD if stage.weights[PROGRESS].is_hard else MOST_EPOCHS
        if problem.n_samples * problem.source.n_features <= FEW_ENTRIES:
            most = MOST_IF_FEW
        epochs = most if self.measures else UNMEASURED_EPOCHS
        budget = [rule for rule in final if isinstance(rule, MaxEpochs)]
        return [Settled(settled), *budget, StageEpochs(stage.epochs + epochs)]


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
        factor = _next_factor(factor, weights)
        scaled = self.family.scaled(weights, factor, replace(progress, noise=noise, is_last=factor == 1))
        return self.family.following(stage, source, D, scaled)


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
        kept = found.fitted.above(dropped * found.alpha)
        atoms = balanced_atoms(kept) if len(kept.values) else np.zeros_like(D[:1])
        if scaled[PROGRESS].is_last:
            scaled[PROGRESS] = replace(scaled[PROGRESS], rank=len(kept.values))
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
        fitted = spectrum_of_fit(problem.stats(D, LOOK), D)
        if np.all(fitted.values <= RUNAWAY * np.array(progress.sizes)):
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
        factor, progress = _next_factor(noise * unit, weights), replace(progress, noise=noise)
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


def _next_factor(factor: float, weights: dict[str, Any]) -> float:
    """Return the factor by which weights change, for that by which they should; 1 if they have arrived.

    They fall step by step. The first may be far too small, if there is nothing but noise.
    """
    if factor < ARRIVED:
        return max(factor, 1 / FALL)
    is_first = weights["outlier_alpha"] == weights[PROGRESS].first
    return factor if is_first and factor > 1 / ARRIVED else 1.0


def balance(formulation: Formulation, D: Array, n_samples: float, codes: Array | None = None) -> Array:
    """Return the factor for each atom by which penalties on it and on its codes are in balance.

    ``codes`` are the norms of all codes of each atom, by default those of the atoms, which is balanced
    in (P5). Codes change by the inverse.
    """
    code, sizes = formulation.code.canonical, row_norms(D)
    if code is None or not code.ridge:
        return np.ones(len(D))
    on_codes = 0.5 * code.ridge * np.square(sizes if codes is None else codes) / n_samples
    on_atoms = np.array([formulation.dictionary.value(atom[None]) for atom in D])
    is_free = (on_atoms > 0) & (on_codes > 0)
    return np.where(is_free, on_codes / np.where(is_free, on_atoms, 1), 1) ** 0.25


def weight_of_noise(noise: float, n: float, d: int) -> float:
    """Return outlier_alpha for which alpha is the norm of a matrix of noise, σ(√n + √d)."""
    return noise * (math.sqrt(n) + math.sqrt(d)) / math.sqrt(max(n, d))


def least_noise(source: AbstractSource, rounding: float, quantum: float) -> float:
    """Return the level of noise below which there is only rounding, of the data or of numbers."""
    unit = weight_of_noise(1.0, source.n_samples, source.n_features)
    return max(rounding / unit, quantum / math.sqrt(12))


def noise_of_fit(problem: Problem, D: Array, least: float) -> float:
    """Return the standard deviation of the noise, at least as given, from residuals of a sample of rows.

    Codes of k atoms take k of the d degrees of freedom of a row.
    """
    X, H, atoms = _fitted_sample(problem, D)
    k, d = D.shape
    return max(noise_level((X - H @ atoms)[telling(X)]) * (d / (d - k) if k < d else 1.0) ** 0.5, least)


def noise_of_low_rank_fit(problem: Problem, D: Array, least: float, enough: float = 0.0) -> float:
    """Return the same for a fit of low rank, which is refined on the sample, and need not be good.

    Below ``enough`` the level is only an upper bound.
    """
    return max(low_rank_noise(*_fitted_sample(problem, D), enough), least)


def _fitted_sample(problem: Problem, D: Array) -> tuple[Array, Array, Array]:
    """Return some entries X of the data, and factors whose product fits them, in double precision."""
    source, count = problem.source, max(NOISE_BLOCK, NOISE_BLOCK_PER_ATOM * len(D))
    X = source.rows(source.layout.spread(count))
    atoms = Atoms(D.astype(X.dtype, copy=False))
    H = problem.formulation.encode(X, atoms, LOOK).H.astype(np.float64, copy=False)
    features = np.arange(0, X.shape[1], -(-X.shape[1] // count))
    return X[:, features].astype(np.float64), H, atoms.D[:, features].astype(np.float64)
