"""The estimators with outliers: (P5) to (P8)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.checks import real_number
from vrmf.estimators.base import Weights
from vrmf.estimators.recovering import RankFinding, Recovering
from vrmf.formulations import Formulation
from vrmf.problem import atoms_from_rows
from vrmf.recovery import PROGRESS
from vrmf.seen import kept_rows
from vrmf.sources import AbstractSource
from vrmf.terms.base import Array, row_norms
from vrmf.weights import DataSummary, chosen_weight

#: The strength of a penalty on the rank where that is bounded by a basis that the user gives.
BOUNDED = 0.5


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _balanced_rows(rows: Array, n_samples: int) -> Array:
    """Return rows as atoms of (P5), n^¼ times as long as the root of their size: ‖D‖ is to be ‖H‖."""
    size = row_norms(rows)
    return rows * (n_samples**0.25 / np.sqrt(np.where(size > 0, size, 1)))[:, None]


def _matrix(name: str, value: Any) -> Array:
    """Return an array of finite numbers in double precision."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is {value!r}. Use an array of numbers.") from error
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"`{name}` has NaN or infinite entries. Use finite ones.")
    return matrix


@dataclass(eq=False, repr=False, kw_only=True)
class RobustPCA(RankFinding):
    """A low-rank part plus sparse outliers, without a rank to give (P5, online robust PCA).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus (alpha/2n)‖D‖².
    Over all rows this is ½‖X − L − S‖² + alpha · ‖L‖_* + outlier_alpha · ‖S‖₁ for L of rank at most k:
    stable principal component pursuit.

    By default both weights fall from stage to stage, down to the level of the noise, and atoms come and go
    as they call for. So data without noise are recovered to rounding wherever principal component pursuit
    recovers them. With noise, a last stage removes the shrinkage: its alpha is next to nothing. Components
    are ordered by an SVD.

    Parameters
    ----------
    n_components : int or None
        The largest rank. None allows for half of the smaller side of the data. If weights are given as
        well, a number is the number of atoms.
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is √max(n, d) · outlier_alpha, the classical ratio of robust PCA.
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

    def _growth(self, ratio: float) -> float:
        # Singular values grow as √n, and ‖D‖ = ‖H‖.
        return ratio**0.25 if self._follows_noise else 1.0

    def _check_components(self) -> None:
        count = self.n_components
        if count is not None and (not isinstance(count, Integral) or isinstance(count, bool) or count < 1):
            raise ValueError(
                f"`n_components` is {count!r}. Use a whole number of at least 1, or None for as many as "
                "the data call for."
            )

    @property
    def _follows_noise(self) -> bool:
        return _is_auto(self.alpha) and _is_auto(self.outlier_alpha)

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        n, d = source.n_samples, summary.n_features
        if _is_auto(self.outlier_alpha) and not _is_auto(self.alpha):
            alpha = chosen_weight("alpha", self.alpha, auto=1.0, paper=d**-0.5)
            outlier_alpha = alpha / max(n, d) ** 0.5
        else:
            outlier_alpha = self._outlier_weight(self.outlier_alpha, summary)
            alpha = chosen_weight("alpha", self.alpha, auto=outlier_alpha, paper=d**-0.5)
        return {
            "alpha": alpha,
            "outlier_alpha": outlier_alpha,
            "features": d if _is_auto(self.alpha) else None,
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
        return _balanced_rows(rows, n_samples)


@dataclass(eq=False, repr=False, kw_only=True)
class MaxNormDecomposition(Recovering):
    """A part of small max-norm plus sparse outliers (P6, max-norm regularised decomposition).

    Minimises the mean of ½‖x − hD − r‖² + outlier_alpha · ‖r‖₁ over ‖h‖₂ ≤ 1, plus (alpha/2n) times
    the largest squared norm of a column of D (there is a column for each feature).

    Parameters
    ----------
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
        The weights in use, for the number of rows seen.
    noise_ : float
        The standard deviation of what the fit leaves of entries that are no outliers.

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

    @property
    def _follows_noise(self) -> bool:
        return _is_auto(self.outlier_alpha) and _is_auto(self.alpha)

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d, outlier_alpha = summary.n_features, self._outlier_weight(self.outlier_alpha, summary)
        clean = float(np.sqrt(np.mean(np.square(summary.clipped(summary.sample), dtype=np.float64)))) or 1.0
        auto = 0.1 * outlier_alpha / (clean * self.n_components**0.5)
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=auto, paper=d**-0.5),
            "outlier_alpha": outlier_alpha,
            "ridge": real_number("ridge", self.ridge, low=0),
            "features": d if _is_auto(self.alpha) else None,
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        n, d = n_samples, weights["features"]
        return weights | {"alpha": weights["alpha"] * (1.0 if d is None else (max(n, d) * n * d) ** 0.5)}

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.max_norm_decomposition(
            alpha, weights["outlier_alpha"], n_samples, weights["ridge"]
        )

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return 2 * rows  # codes in the unit ball must be able to reach the data


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankRepresentation(RankFinding):
    """A low-rank combination of a basis plus sparse outliers (P7, online low-rank representation).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus
    (1/2n²) tr(D Q Dᵀ) with Q = (I/λ₃ + YᵀY)⁻¹ for a basis Y of rows: atoms are cheap along the basis.

    Parameters
    ----------
    n_components : int
        The largest rank. If weights are given, it is the number of atoms.
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` makes the penalty as strong as that of RobustPCA along the basis, or half as strong
        along a basis that is given, since the rank is bounded as well.
    outlier_alpha : float, "auto" or "paper"
        λ₂. ``"auto"`` is σ(√n + √d)/√max(n, d) for noise of the standard deviation σ, to which both weights
        fall from stage to stage, as in RobustPCA, or follows from alpha if that is given. With a basis that
        is given it is 0.3 times the spread of the data, without a path. ``"paper"`` is 1/√d for both.
    basis : array of shape (p, d), or None
        Y. None takes 10 · n_components rows of the data at random (all, if there are fewer): enough
        to span a subspace of k dimensions with room for outlying rows, and cheap to factorise.
    dictionary_alpha : float, "auto" or "paper"
        λ₃. ``"auto"`` is 10 over the mean squared norm of the basis's rows, times min(p, d) / p.
    basis_map, residual_map : arrays of shape (d, d), or None
        For experts, A and B of the paper: then Q = A YᵀY Aᵀ + λ₃ BᵀB. A singular Q leaves D unbounded.

    Attributes
    ----------
    alpha_, outlier_alpha_, dictionary_alpha_ : float
        The weights of the last stage, for the number of rows seen.
    rank_, noise_, dual_norm_
        As in RobustPCA, which leads to the last stage.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> LowRankRepresentation(4, random_state=0, tol=1e-4).fit(X).components_.shape
    (4, 64)
    """

    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    basis: Any = None
    dictionary_alpha: Any = "auto"
    basis_map: Any = None
    residual_map: Any = None
    _size_power: ClassVar[float] = 2.0
    _alpha_power: ClassVar[float] = 2.0
    _unshrinks: ClassVar[bool] = False
    _weight_rises: ClassVar[bool] = False

    @property
    def _follows_noise(self) -> bool:
        return self.basis is None and _is_auto(self.outlier_alpha) and _is_auto(self.alpha)

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        basis = self._rows(source, seed)
        energy = float(np.sum(np.square(basis, dtype=np.float64))) or 1.0
        dictionary_alpha = chosen_weight(
            "dictionary_alpha",
            self.dictionary_alpha,
            auto=10 * min(basis.shape) / energy,
            paper=d**-0.5,
        )
        typical = 1 / (1 / dictionary_alpha + energy / min(basis.shape))
        if _is_auto(self.outlier_alpha) and not _is_auto(self.alpha):
            alpha = chosen_weight("alpha", self.alpha, auto=1.0, paper=d**-0.5)
            outlier_alpha = (alpha * typical / _pairs(source.n_samples, d)) ** 0.5
        else:
            outlier_alpha = self._outlier_weight(self.outlier_alpha, summary)
            auto = outlier_alpha**2 / typical * (1.0 if self.basis is None else BOUNDED**2)
            alpha = chosen_weight("alpha", self.alpha, auto=auto, paper=d**-0.5)
        weights = {
            "alpha": alpha,
            "per_sample": _is_auto(self.alpha),
            "outlier_alpha": outlier_alpha,
            "basis": basis,
            "dictionary_alpha": dictionary_alpha,
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }
        if self.basis_map is not None or self.residual_map is not None:
            self._penalty(source.n_samples, weights)  # which raises before any work if they will not do
        return weights

    def _rows(self, source: AbstractSource, seed: int) -> Array:
        d = source.n_features
        if self.basis is None:
            rng = np.random.default_rng([seed, 0, 3])
            return source.rows(source.layout.choose(rng, self._basis_rows))
        basis = _matrix("basis", self.basis)
        if basis.ndim != 2 or basis.shape[1] != d or len(basis) == 0:
            raise ValueError(f"`basis` has shape {basis.shape}. Use (p, {d}): rows like the data's.")
        return basis

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        progress = weights.get(PROGRESS)  # models of earlier versions have none
        if self._follows_noise and progress is not None and not progress.is_last:
            d = weights["basis"].shape[1]
            return formulations.robust_pca(*_classical(weights, n_samples, d), n_samples)
        penalty = self._penalty(n_samples, weights)
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.low_rank_representation(alpha, weights["outlier_alpha"], penalty)

    def _penalty(self, n_samples: float, weights: Weights) -> Any:
        """Return ψ, or say what is wrong with the maps that were given."""
        basis, strength = weights["basis"], weights["dictionary_alpha"]
        penalty: Any
        if (self.basis_map is None) != (self.residual_map is None):
            raise ValueError("Only one of `basis_map` and `residual_map` is given. Use both or none.")
        if self.basis_map is None:
            penalty = formulations.basis_penalty(basis, strength, n_samples)
        else:
            d = basis.shape[1]
            maps = [
                _matrix(name, given)
                for name, given in (("basis_map", self.basis_map), ("residual_map", self.residual_map))
            ]
            for name, given in zip(("basis_map", "residual_map"), maps, strict=True):
                if given.shape != (d, d):
                    raise ValueError(f"`{name}` has shape {given.shape}. Use ({d}, {d}).")
            penalty = formulations.mapped_penalty(basis, maps[0], maps[1], strength, n_samples)
            eigenvalues = np.linalg.eigvalsh(penalty.matrix)
            if eigenvalues[0] <= 1e-12 * eigenvalues[-1]:
                warnings.warn(
                    "`basis_map` and `residual_map` make Q singular: atoms can grow for ever where "
                    "it vanishes. Use maps for which A YᵀY Aᵀ + λ₃ BᵀB is positive definite.",
                    UserWarning,
                    stacklevel=5,
                )
        return penalty

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        growth = _pairs(n_samples, weights["basis"].shape[1]) if weights["per_sample"] else 1
        return weights | {"alpha": weights["alpha"] * growth}

    def _remembered_rows(self, n_features: int) -> int:
        # The basis comes from these rows, of which there may be half as many as there can be.
        return max(kept_rows(n_features), 2 * self._basis_rows if self.basis is None else 0)

    @property
    def _basis_rows(self) -> int:
        return 10 * self.n_components

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        if self._follows_noise:
            return _balanced_rows(rows, n_samples)
        # The size at which the penalties of the atoms and of codes of size 1/size are in balance.
        cost = 2 * formulation.dictionary.value(rows)
        return rows * (self._weights_for(n_samples, weights)["alpha"] / cost if cost > 0 else 1.0) ** 0.25


def _classical(weights: Weights, n: float, d: int) -> tuple[float, float]:
    """Return alpha and outlier_alpha of (P5) at their classical ratio."""
    return weights["outlier_alpha"] * max(n, d) ** 0.5, weights["outlier_alpha"]


def _pairs(n: float, d: int) -> float:
    """Return n · max(n, d): alpha of (P7) is in proportion to it."""
    return n * max(n, d)


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
        return _is_auto(self.outlier_alpha)

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
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
