"""The estimators with outliers: (P5) and (P8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

from vrmf import formulations
from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary, chosen_weight
from vrmf.checks import is_auto, real_number
from vrmf.dictionaries import atoms_from_rows
from vrmf.estimators.modelling import Weights
from vrmf.estimators.rank_finding import RankFinding, balanced_rows
from vrmf.estimators.recovering_streams import Recovering
from vrmf.formulations import Formulation
from vrmf.recovery.progress import PROGRESS
from vrmf.sources import AbstractSource


@dataclass(eq=False, repr=False, kw_only=True)
class RobustPCA(RankFinding):
    """A low-rank part plus sparse outliers, without a rank to give (P5, online robust PCA).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus (alpha/2n)‖D‖².
    Over all rows this is ½‖X − L − S‖² + alpha · ‖L‖_* + outlier_alpha · ‖S‖₁ for L of rank at most k:
    stable principal component pursuit.

    By default both weights fall from stage to stage, down to the level of the noise, and atoms are added
    and dropped accordingly. So data without noise are recovered to rounding where principal component
    pursuit recovers them. A last stage removes most of the shrinkage: its alpha is a tenth. Components are
    ordered by an SVD.

    Parameters
    ----------
    n_components : int or None
        The largest rank. None allows for half of the smaller side of the data. If weights are given as
        well, a number is the number of atoms.
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is √max(n, d) · outlier_alpha, the classical ratio of robust PCA; in the last stage
        it is a tenth of that.
    outlier_alpha : float, "auto" or "paper"
        λ₂. ``"auto"`` is σ(√n + √d)/√max(n, d) for noise of the standard deviation σ, or follows from alpha
        if that is given. ``"paper"`` is 1/√d for both.

    Attributes
    ----------
    alpha_, outlier_alpha_ : float
        The weights of the last stage.
    rank_ : int
        The rank of the low-rank part. There are max(1, ``rank_``) components.
    noise_ : float
        The standard deviation of the noise.
    dual_norm_ : float
        ‖X − L − S‖₂ / alpha before the shrinkage was removed. Up to about 1, L and S are the global minimum
        over all ranks; above, the rank was bounded from above. NaN if weights and the number of atoms
        were given.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 60))
    >>> corrupted = np.where(rng.random(X.shape) < 0.05, 50.0, X)
    >>> model = RobustPCA(random_state=0).fit(corrupted)
    >>> low_rank, outliers = model.decompose(corrupted)
    >>> model.rank_, bool(np.linalg.norm(low_rank - X) < 1e-5 * np.linalg.norm(X))
    (2, True)
    >>> bool(np.mean(model.outlier_mask(corrupted) == (corrupted == 50)) > 0.99)
    True
    """

    n_components: int | None = field(default=None, kw_only=False)  # type: ignore[assignment]
    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    _size_power: ClassVar[float] = 0.5

    def _check_components(self) -> None:
        count = self.n_components
        if count is not None and (not isinstance(count, Integral) or isinstance(count, bool) or count < 1):
            raise ValueError(
                f"`n_components` is {count!r}. Use a whole number of at least 1, or None for as many as "
                "the data call for."
            )

    @property
    def _follows_noise(self) -> bool:
        return is_auto(self.alpha) and is_auto(self.outlier_alpha)

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        n, d = source.n_samples, summary.n_features
        if is_auto(self.outlier_alpha) and not is_auto(self.alpha):
            alpha = chosen_weight("alpha", self.alpha, auto=1.0, paper=d**-0.5)
            outlier_alpha = alpha / max(n, d) ** 0.5
        else:
            outlier_alpha = self._outlier_weight(self.outlier_alpha, summary)
            alpha = chosen_weight("alpha", self.alpha, auto=outlier_alpha, paper=d**-0.5)
        return {
            "alpha": alpha,
            "outlier_alpha": outlier_alpha,
            "features": d if is_auto(self.alpha) else None,
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        d = weights["features"]
        growth = 1.0 if d is None else max(n_samples, d) ** 0.5
        return weights | {"alpha": weights["alpha"] * growth}

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.robust_pca(alpha, weights["outlier_alpha"], n_samples)

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return balanced_rows(rows, n_samples)


@dataclass(eq=False, repr=False, kw_only=True)
class RobustNMF(Recovering):
    """Nonnegative factors plus sparse outliers (P8, online robust NMF).

    Minimises the mean of ½‖x − hD − r‖² + outlier_alpha · ‖r‖₁ over 0 ≤ h ≤ max_code, |r| ≤
    max_outlier and atoms d ≥ 0 with ‖d‖₂ ≤ 1. Negative data are allowed: outliers absorb them.

    Parameters
    ----------
    outlier_alpha : float, "auto" or "paper"
        λ. ``"auto"`` is σ(√n + √d)/√max(n, d) for noise of the standard deviation σ, to which it falls from
        stage to stage. ``"paper"`` is 1/√d.
    max_code : float or "auto"
        M. ``"auto"`` is the largest norm of a row.
    max_outlier : float or "auto"
        M′. ``"auto"`` is the largest absolute entry.
    ridge : float
        As in DictionaryLearning.

    Attributes
    ----------
    outlier_alpha_, ridge_ : float
        The weights in use.
    max_code_, max_outlier_ : float
        The bounds in use.
    noise_ : float
        The standard deviation of what the fit leaves of entries that are no outliers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> model = RobustNMF(n_components=4, random_state=0, tol=1e-3).fit(X)
    >>> bool(model.components_.min() >= 0)
    True
    """

    outlier_alpha: Any = "auto"
    max_code: Any = "auto"
    max_outlier: Any = "auto"
    ridge: float = 0.0
    _has_low_rank: ClassVar[bool] = False

    @property
    def _follows_noise(self) -> bool:
        return is_auto(self.outlier_alpha)

    @property
    def _why_nothing(self) -> str:
        return "It adds parts that are not negative; for data of both signs use RobustPCA."

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        row, entry = summary.largest_row, summary.largest_entry
        outlier_alpha = self._outlier_weight(self.outlier_alpha, summary)
        return {
            "outlier_alpha": outlier_alpha,
            "max_code": chosen_weight("max_code", self.max_code, auto=row, paper=row),
            "max_outlier": chosen_weight("max_outlier", self.max_outlier, auto=entry, paper=entry),
            "ridge": real_number("ridge", self.ridge, low=0),
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        return formulations.robust_nmf(
            weights["outlier_alpha"], weights["max_code"], weights["max_outlier"], weights["ridge"]
        )

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return atoms_from_rows(formulation, rows)
