"""The estimators with outliers: (P5) to (P8)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.checks import real_number
from vrmf.estimators.base import AbstractFactorizer, AtomsOfFixedSize, Weights
from vrmf.formulations import Formulation
from vrmf.seen import kept_rows
from vrmf.sources import AbstractSource
from vrmf.terms.base import Array, row_norms
from vrmf.weights import DataSummary, chosen_weight

#: A residual counts as an outlier from this share of the data's spread on.
OUTLIER_SHARE = 0.3


def _outlier_weight(value: Any, summary: DataSummary) -> float:
    """Return λ of the outliers: "auto" is a fraction of the median distance from the median."""
    return chosen_weight(
        "outlier_alpha", value, auto=OUTLIER_SHARE * summary.spread, paper=summary.n_features**-0.5
    )


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
class RobustPCA(AbstractFactorizer):
    """A low-rank part plus sparse outliers (P5, online robust PCA).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus (alpha/2n)‖D‖².
    Over all rows this is ½‖X − L − R‖² + alpha · ‖L‖_* + outlier_alpha · ‖R‖₁ for L of rank at most
    k. Components are ordered by an SVD; one that vanishes means that the rank is lower than k.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is ½ √max(n, d) · outlier_alpha, half the classical ratio of robust PCA,
        since the rank is bounded as well.
    outlier_alpha : float, "auto" or "paper"
        λ₂. ``"auto"`` is 0.3 times the median distance of entries from their feature's median.
        ``"paper"`` is 1/√d for both.

    Attributes
    ----------
    alpha_, outlier_alpha_ : float
        The weights in use, for the number of rows seen.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 20))
    >>> corrupted = np.where(rng.random(X.shape) < 0.05, 50.0, X)
    >>> model = RobustPCA(n_components=2, random_state=0).fit(corrupted)
    >>> low_rank, outliers = model.decompose(corrupted)
    >>> bool(np.linalg.norm(low_rank - X) < 0.1 * np.linalg.norm(X))
    True
    """

    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    _size_power: ClassVar[float] = 0.5

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        outlier_alpha = _outlier_weight(self.outlier_alpha, summary)
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=0.5 * outlier_alpha, paper=d**-0.5),
            "outlier_alpha": outlier_alpha,
            "features": d if self.alpha == "auto" else None,
        }

    def _weights_for(self, n_samples: int, weights: Weights) -> Weights:
        d = weights["features"]
        growth = 1.0 if d is None else max(n_samples, d) ** 0.5
        return weights | {"alpha": weights["alpha"] * growth}

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.robust_pca(alpha, weights["outlier_alpha"], n_samples)

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        # At a minimum ‖D‖² = Σ‖h‖², so atoms are about n^¼ times the root of a row's size.
        size = row_norms(rows)
        return rows * (n_samples**0.25 / np.sqrt(np.where(size > 0, size, 1)))[:, None]


@dataclass(eq=False, repr=False, kw_only=True)
class MaxNormDecomposition(AbstractFactorizer):
    """A part of small max-norm plus sparse outliers (P6, max-norm regularised decomposition).

    Minimises the mean of ½‖x − hD − r‖² + outlier_alpha · ‖r‖₁ over ‖h‖₂ ≤ 1, plus (alpha/2n) times
    the largest squared norm of a column of D (there is a column for each feature).

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is n · √d / 100, ``"paper"`` 1/√d; neither depends on the scale of the data.
    outlier_alpha : float, "auto" or "paper"
        λ₂, as in RobustPCA.
    ridge : float
        As in DictionaryLearning.

    Attributes
    ----------
    alpha_, outlier_alpha_, ridge_ : float
        The weights in use, for the number of rows seen.

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

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=0.01 * d**0.5, paper=d**-0.5),
            "outlier_alpha": _outlier_weight(self.outlier_alpha, summary),
            "ridge": real_number("ridge", self.ridge, low=0),
            "per_sample": self.alpha == "auto",
        }

    def _weights_for(self, n_samples: int, weights: Weights) -> Weights:
        return weights | {"alpha": weights["alpha"] * (n_samples if weights["per_sample"] else 1)}

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.max_norm_decomposition(
            alpha, weights["outlier_alpha"], n_samples, weights["ridge"]
        )

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return 2 * rows  # codes in the unit ball must be able to reach the data


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankRepresentation(AbstractFactorizer):
    """A low-rank combination of a basis plus sparse outliers (P7, online low-rank representation).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus
    (1/2n²) tr(D Q Dᵀ) with Q = (I/λ₃ + YᵀY)⁻¹ for a basis Y of rows: atoms are cheap along the basis.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` makes the penalty as strong as that of RobustPCA along the basis.
    outlier_alpha : float, "auto" or "paper"
        λ₂, as in RobustPCA.
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
        The weights in use, for the number of rows seen.

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
        outlier_alpha = _outlier_weight(self.outlier_alpha, summary)
        typical = 1 / (1 / dictionary_alpha + energy / min(basis.shape))
        auto = 0.25 * outlier_alpha**2 / typical
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=auto, paper=d**-0.5),
            "per_sample": self.alpha == "auto",
            "outlier_alpha": outlier_alpha,
            "basis": basis,
            "dictionary_alpha": dictionary_alpha,
        }

    def _rows(self, source: AbstractSource, seed: int) -> Array:
        d = source.n_features
        if self.basis is None:
            rng = np.random.default_rng([seed, 0, 3])
            return source.rows(source.layout.choose(rng, self._basis_rows))
        basis = _matrix("basis", self.basis)
        if basis.ndim != 2 or basis.shape[1] != d or len(basis) == 0:
            raise ValueError(f"`basis` has shape {basis.shape}. Use (p, {d}): rows like the data's.")
        return basis

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
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
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.low_rank_representation(alpha, weights["outlier_alpha"], penalty)

    def _weights_for(self, n_samples: int, weights: Weights) -> Weights:
        growth = n_samples * max(n_samples, weights["basis"].shape[1]) if weights["per_sample"] else 1
        return weights | {"alpha": weights["alpha"] * growth}

    def _remembered_rows(self, n_features: int) -> int:
        # The basis comes from these rows, of which there may be half as many as there can be.
        return max(kept_rows(n_features), 2 * self._basis_rows if self.basis is None else 0)

    @property
    def _basis_rows(self) -> int:
        return 10 * self.n_components

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        # The size at which the penalties of the atoms and of codes of size 1/size are in balance.
        cost = 2 * formulation.dictionary.value(rows)
        return rows * (self._weights_for(n_samples, weights)["alpha"] / cost if cost > 0 else 1.0) ** 0.25


@dataclass(eq=False, repr=False, kw_only=True)
class RobustNMF(AtomsOfFixedSize):
    """Nonnegative factors plus sparse outliers (P8, online robust NMF).

    Minimises the mean of ½‖x − hD − r‖² + outlier_alpha · ‖r‖₁ over 0 ≤ h ≤ max_code, |r| ≤
    max_outlier and atoms d ≥ 0 with ‖d‖₂ ≤ 1. Negative data are allowed: outliers absorb them.

    Parameters
    ----------
    outlier_alpha : float, "auto" or "paper"
        λ, as in RobustPCA.
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

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        row, entry = summary.largest_row, summary.largest_entry
        return {
            "outlier_alpha": _outlier_weight(self.outlier_alpha, summary),
            "max_code": chosen_weight("max_code", self.max_code, auto=row, paper=row),
            "max_outlier": chosen_weight("max_outlier", self.max_outlier, auto=entry, paper=entry),
            "ridge": real_number("ridge", self.ridge, low=0),
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.robust_nmf(**weights)
