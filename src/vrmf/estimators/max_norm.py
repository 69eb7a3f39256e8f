"""Max-norm regularised decomposition, (P6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.arrays import Array, row_norms
from vrmf.auto_weights import DataSummary, chosen_weight
from vrmf.block import Block
from vrmf.checks import is_auto, real_number
from vrmf.coding import Atoms
from vrmf.estimators.modelling import Weights
from vrmf.estimators.rank_finding import RankFinding, balanced_rows
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.recovery.family import NEGLIGIBLE
from vrmf.recovery.fitted_noise import LOOK
from vrmf.recovery.progress import PROGRESS
from vrmf.sources import AbstractSource

#: Factor by which the first atoms exceed the size at which all codes are in the ball.
ROOM = 1.1


@dataclass(eq=False, repr=False, kw_only=True)
class MaxNormDecomposition(RankFinding):
    """A part of small max-norm plus sparse outliers (P6, max-norm regularised decomposition).

    Minimises the mean of ½‖x − hD − r‖² + outlier_alpha · ‖r‖₁ over ‖h‖₂ ≤ 1, plus (alpha/2n) times
    the largest squared norm of a column of D (there is a column for each feature).

    By default the first stages are those of RobustPCA, with weights that fall to the level of the noise.
    Their result is the start of the last stage, in which alpha is negligible.

    Parameters
    ----------
    n_components : int
        The largest rank. If weights are given, it is the number of atoms.
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is 0.1 · outlier_alpha · √(max(n, d) · n · d / k) / m, m being the root mean square
        of entries that are no outliers. For data of rank k, whose singular values are equal and whose
        singular vectors are spread evenly, that is a tenth of the strength of the penalty of RobustPCA:
        most data are less even, and the rank is bounded as well. ``"paper"`` is 1/√d.
    outlier_alpha : float, "auto" or "paper"
        λ₂. ``"auto"`` is σ(√n + √d)/√max(n, d) for noise of the standard deviation σ, to which both weights
        fall from stage to stage. ``"paper"`` is 1/√d.
    ridge : float
        As in DictionaryLearning.

    Attributes
    ----------
    alpha_, outlier_alpha_, ridge_ : float
        The weights of the last stage, for the number of rows seen.
    rank_, noise_, dual_norm_
        As in RobustPCA, which leads to the last stage.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> MaxNormDecomposition(4, random_state=0, tol=1e-4).fit(X).components_.shape
    (4, 64)
    """

    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    ridge: float = 0.0
    _size_power: ClassVar[float] = 1.0
    _weight_rises: ClassVar[bool] = False
    _unshrunk_share: ClassVar[float] = NEGLIGIBLE  # codes are in a ball

    @property
    def _follows_noise(self) -> bool:
        return is_auto(self.outlier_alpha) and is_auto(self.alpha)

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d, outlier_alpha = summary.n_features, self._outlier_weight(self.outlier_alpha, summary)
        clean = float(np.sqrt(np.mean(np.square(summary.clipped(summary.sample), dtype=np.float64)))) or 1.0
        auto = 0.1 * outlier_alpha / (clean * self.n_components**0.5)
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=auto, paper=d**-0.5),
            "outlier_alpha": outlier_alpha,
            "ridge": real_number("ridge", self.ridge, low=0),
            "features": d if is_auto(self.alpha) else None,
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        n, d = n_samples, weights["features"]
        return weights | {"alpha": weights["alpha"] * (1.0 if d is None else (max(n, d) * n * d) ** 0.5)}

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        if self._leads_to_last(weights):
            alpha = self._classical(n_samples, weights)
            return formulations.robust_pca(alpha, weights["outlier_alpha"], n_samples)
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.max_norm_decomposition(
            alpha, weights["outlier_alpha"], n_samples, weights["ridge"]
        )

    def _classical(self, n_samples: float, weights: Weights) -> float:
        """Return alpha of (P5) at the classical ratio."""
        return float(weights["outlier_alpha"] * max(n_samples, weights["features"]) ** 0.5)

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        if self._follows_noise:
            return balanced_rows(rows, n_samples)
        return 2 * rows  # codes in the unit ball must be able to reach the data

    def _last_stage(self, weights: Weights, D: Array, problem: Problem) -> tuple[Weights, Array]:
        # Singular values of the data go into the atoms, and codes have the same size in all directions.
        sizes, alpha = row_norms(D) / problem.n_samples**0.5, self._classical(problem.n_samples, weights)
        fit = formulations.robust_pca(NEGLIGIBLE * alpha, weights["outlier_alpha"], problem.n_samples)
        atoms = Atoms(D.astype(problem.source.dtype))
        largest = problem.source.reduce(partial(_LargestCode.of, fit, atoms, np.where(sizes > 0, sizes, 1)))
        return weights, ROOM * (largest.norm or 1.0) * sizes[:, None] * D


@dataclass(frozen=True)
class _LargestCode:
    """The largest norm of a row's code, in units of given sizes."""

    norm: float

    def __add__(self, other: _LargestCode) -> _LargestCode:
        return max(self, other, key=lambda each: each.norm)

    @classmethod
    def of(cls, formulation: Formulation, atoms: Atoms, units: Array, block: Block) -> _LargestCode:
        H = formulation.encode(block, atoms, LOOK).H
        return cls(float(np.max(row_norms(H / units), initial=0.0)))
