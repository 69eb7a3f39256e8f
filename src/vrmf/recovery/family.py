"""The formulations of a model with outliers, one for each weight, and what its stages have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.formulations import Formulation
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.recovery.progress import PROGRESS, Progress
from vrmf.running.rules import MaxEpochs, Rule, Settled, StageEpochs
from vrmf.running.stage import Stage
from vrmf.sources import AbstractSource

#: Data of at most so many entries are treated as hard in any case, since that costs little.
FEW_ENTRIES = 10**4

#: The largest number of epochs of a stage, with solvers that measure dictionaries as they go.
MOST_EPOCHS = 20

#: The same where a fit is hard, and where data have few entries.
MOST_IF_HARD, MOST_IF_FEW = 60, 150

#: The same with solvers that do not measure.
UNMEASURED_EPOCHS = 10

#: What is left of the penalty on the rank when the shrinkage is removed at the end. The rest holds codes of
#: rows in which outliers are many; without it they would grow to fit them.
UNSHRUNK = 0.1

#: A share that is nothing.
NEGLIGIBLE = 1e-6

#: Weights fall by at most this factor from stage to stage.
FALL = 10.0

#: Weights have arrived when those of the noise are above this share of them.
ARRIVED = 0.8


@dataclass(frozen=True, eq=False)
class Family:
    """The formulations of a model, one for each weight of outliers."""

    #: the formulation of n rows with given weights
    formulation: Callable[[float, dict[str, Any]], Formulation]
    #: weights and atoms of the last stage, for those with which the stages before end
    last: Callable[[dict[str, Any], Array, Problem], tuple[dict[str, Any], Array]]
    alpha_power: float  #: alpha is in proportion to this power of outlier_alpha
    unshrunk_share: float  #: the share of the penalty on the rank that the last stage leaves
    measures: bool  #: whether the solver measures dictionaries as it goes

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


def next_factor(factor: float, weights: dict[str, Any]) -> float:
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
