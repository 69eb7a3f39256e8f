"""Low-rank representation, (P7)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.arrays import Array, row_norms
from vrmf.auto_weights import DataSummary, chosen_weight
from vrmf.callers import level_of_caller
from vrmf.checks import check_range, is_auto
from vrmf.coding import Atoms
from vrmf.estimators.modelling import Weights
from vrmf.estimators.rank_finding import RankFinding, balanced_rows
from vrmf.formulations import Formulation
from vrmf.recovery.family import NEGLIGIBLE
from vrmf.recovery.fitted_noise import LOOK
from vrmf.recovery.progress import PROGRESS
from vrmf.seen import remembered_rows
from vrmf.sources import AbstractSource

#: The strength of the penalty on the rank, relative to that of RobustPCA, along a basis that is given.
BOUNDED = 0.5

#: The largest power of the data in any computation, which must stay in the range of double precision (and
#: of the dtype for small entries): alpha is in proportion to the fourth.
POWER = 6


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
    _weight_rises: ClassVar[bool] = False

    @property
    def _follows_noise(self) -> bool:
        return self.basis is None and is_auto(self.outlier_alpha) and is_auto(self.alpha)

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        check_range(summary.largest_row, summary.largest_row, np.float64, power=POWER)
        check_range(0.0, summary.largest_entry, source.dtype, power=POWER)
        basis = self._rows(source, seed)
        dictionary_alpha, typical, _ = self._basis_weights(basis)
        if is_auto(self.outlier_alpha) and not is_auto(self.alpha):
            alpha = chosen_weight("alpha", self.alpha, auto=1.0, paper=d**-0.5)
            outlier_alpha = (alpha * typical / _pairs(source.n_samples, d)) ** 0.5
        else:
            outlier_alpha = self._outlier_weight(self.outlier_alpha, summary)
            auto = outlier_alpha**2 / typical * (1.0 if self.basis is None else BOUNDED**2)
            alpha = chosen_weight("alpha", self.alpha, auto=auto, paper=d**-0.5)
        weights = {
            "alpha": alpha,
            "per_sample": is_auto(self.alpha),
            "outlier_alpha": outlier_alpha,
            "basis": basis,
            "dictionary_alpha": dictionary_alpha,
            PROGRESS: self._progress(source, summary, outlier_alpha),
        }
        if self.basis_map is not None or self.residual_map is not None:
            self._penalty(source.n_samples, weights)  # raises before any work if the maps do not fit
        return weights

    def _basis_weights(self, basis: Array) -> tuple[float, float, float]:
        """Return λ₃, and the eigenvalue of Q along the basis: that of its mean energy, and the largest."""
        sizes = np.linalg.svd(basis.astype(np.float64), compute_uv=False)
        energies = np.square(sizes[sizes > np.finfo(basis.dtype).eps ** 0.5 * sizes[0]])
        energies = energies if len(energies) else np.ones(1)
        mean, least = float(np.mean(energies)), float(energies[-1])
        strength = chosen_weight(
            "dictionary_alpha",
            self.dictionary_alpha,
            auto=10 / mean,
            paper=basis.shape[1] ** -0.5,
        )
        return strength, 1 / (1 / strength + mean), 1 / (1 / strength + least)

    def _last_weights(self, weights: Weights, D: Array) -> Weights:
        """Return the weights with a basis from which outliers are removed, by atoms D that fit the data."""
        if not np.any(D) or not np.any(weights["basis"]):
            return weights
        rows, outlier_alpha = weights["basis"], weights["outlier_alpha"]
        # Codes are about ‖x‖/‖d‖, and the pull of outliers on them is bounded by outlier_alpha.
        ridge = (
            NEGLIGIBLE * outlier_alpha * float(np.mean(np.square(row_norms(D))) / np.max(row_norms(rows)))
        )
        fit = formulations.robust_pca(ridge, outlier_alpha, 1.0)
        basis = (fit.encode(rows, Atoms(D.astype(rows.dtype)), LOOK).H @ D).astype(rows.dtype)
        if not np.any(basis):
            return weights
        before = self._basis_weights(rows)[1]
        strength, _, largest = self._basis_weights(basis)
        changed = {"basis": basis, "dictionary_alpha": strength}
        return weights | changed | {"alpha": weights["alpha"] * before / largest}

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
        if self._leads_to_last(weights):
            d = weights["basis"].shape[1]
            return formulations.robust_pca(*_classical(weights, n_samples, d), n_samples)
        penalty = self._penalty(n_samples, weights)
        alpha = self._weights_for(n_samples, weights)["alpha"]
        return formulations.low_rank_representation(alpha, weights["outlier_alpha"], penalty)

    def _penalty(self, n_samples: float, weights: Weights) -> Any:
        """Return ψ; raise if the maps that were given do not fit."""
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
                    stacklevel=level_of_caller(),
                )
        return penalty

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        growth = _pairs(n_samples, weights["basis"].shape[1]) if weights["per_sample"] else 1
        return weights | {"alpha": weights["alpha"] * growth}

    def _remembered_rows(self, n_features: int) -> int:
        # The basis comes from these rows, of which there may be half as many as there can be.
        return max(remembered_rows(n_features), 2 * self._basis_rows if self.basis is None else 0)

    @property
    def _basis_rows(self) -> int:
        return 10 * self.n_components

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        if self._follows_noise:
            return balanced_rows(rows, n_samples)
        # The size at which the penalties of the atoms and of codes of size 1/size are in balance.
        cost = 2 * formulation.dictionary.value(rows)
        return rows * (self._weights_for(n_samples, weights)["alpha"] / cost if cost > 0 else 1.0) ** 0.25


def _classical(weights: Weights, n: float, d: int) -> tuple[float, float]:
    """Return alpha and outlier_alpha of (P5) at their classical ratio."""
    return weights["outlier_alpha"] * max(n, d) ** 0.5, weights["outlier_alpha"]


def _pairs(n: float, d: int) -> float:
    """Return n · max(n, d): alpha of (P7) is in proportion to it."""
    return n * max(n, d)
