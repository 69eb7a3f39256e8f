"""The nine estimators: eight formulations of the paper, and any composition of terms."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.checks import real_number, whole_number
from vrmf.estimators.base import AbstractFactorizer
from vrmf.formulations import Formulation
from vrmf.problem import atoms_from_rows
from vrmf.sources import AbstractSource
from vrmf.terms import L1, Absent, UnitBall, chain_laplacian, grid_laplacian
from vrmf.terms.base import Array, row_norms
from vrmf.weights import DataSummary, sample_rows

Weights = dict[str, Any]


def _weight(name: str, value: Any, *, auto: float, paper: float) -> float:
    """Return a positive weight, from a number or one of the words "auto" and "paper"."""
    if isinstance(value, str):
        if value not in ("auto", "paper"):
            raise ValueError(f'`{name}` is {value!r}. Use a positive number, "auto" or "paper".')
        return auto if value == "auto" else paper
    return real_number(name, value, low=0, strict=True)


@dataclass(eq=False, repr=False)
class _AtomsOfFixedSize(AbstractFactorizer):
    """Estimators whose dictionary term fixes the size of atoms."""

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return atoms_from_rows(formulation, rows)


@dataclass(eq=False, repr=False, kw_only=True)
class DictionaryLearning(_AtomsOfFixedSize):
    """Sparse codes over atoms in the unit ball (P1, online dictionary learning).

    Minimises the mean of ½‖x − hD‖² + alpha · ‖h‖₁ over codes and over atoms with ‖d‖₂ ≤ 1.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ. ``"auto"`` is the root mean square of the data's entries, which for rows of norm 1 is the
        paper's 1/√d; ``"paper"`` is 1/√d whatever the scale of the data.
    ridge : float
        Adds (ridge/2)‖h‖² to the codes' penalty. A small one makes codes unique where atoms are
        nearly dependent, which the theory assumes (A4).

    The other parameters are those of every estimator: n_components, solver, init, max_iter,
    max_time, tol, random_state, n_jobs, verbose, warm_start, center, record_every.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:200]
    >>> model = DictionaryLearning(n_components=8, random_state=0, tol=1e-2).fit(X)
    >>> model.components_.shape, model.transform(X).shape
    ((8, 64), (200, 8))
    """

    alpha: Any = "auto"
    ridge: float = 0.0

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        paper = summary.n_features**-0.5
        return {
            "alpha": _weight("alpha", self.alpha, auto=summary.entry, paper=paper),
            "ridge": real_number("ridge", self.ridge, low=0),
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.dictionary_learning(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDictionaryLearning(_AtomsOfFixedSize):
    """Codes whose groups of atoms switch on and off together (P2, structured sparse learning).

    Minimises the mean of ½‖x − hD‖² + Σ_g alpha · w_g · ‖h_g‖₂ over codes and over atoms with
    ‖d‖₂ ≤ 1. The paper leaves the dictionary free and unpenalised; then there is no minimiser,
    since scaling D up and h down makes the penalty vanish. ``bounded=False`` gives that form.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ, as in DictionaryLearning.
    groups : sequence of sequences of int, or None
        The atoms of each group; groups may overlap and must together name every atom. None makes
        consecutive groups of about √k atoms.
    group_weights : sequence of float, or None
        w_g; None takes the square root of each group's size.
    bounded : bool
        Whether atoms are kept in the unit ball.
    ridge : float
        As in DictionaryLearning.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:200]
    >>> model = GroupDictionaryLearning(4, groups=[[0, 1], [1, 2, 3]], random_state=0, tol=1e-2)
    >>> model.fit_transform(X).shape
    (200, 4)
    """

    alpha: Any = "auto"
    groups: Any = None
    group_weights: Any = None
    bounded: bool = True
    ridge: float = 0.0

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        paper = summary.n_features**-0.5
        alpha = _weight("alpha", self.alpha, auto=summary.entry, paper=paper)
        groups = self._checked_groups()
        sizes = self.group_weights
        if sizes is None:
            sizes = [len(group) ** 0.5 for group in groups]
        if len(sizes) != len(groups):
            raise ValueError(
                f"`group_weights` has {len(sizes)} entries for {len(groups)} groups. Use one for each."
            )
        if not self.bounded:
            warnings.warn(
                "With bounded=False the objective has no minimiser: atoms grow and codes shrink "
                "for ever. It is the paper's form; use bounded=True.",
                UserWarning,
                stacklevel=5,
            )
        return {
            "groups": groups,
            "weights": [alpha * real_number("group_weights", w, low=0) for w in sizes],
            "ridge": real_number("ridge", self.ridge, low=0),
            "bounded": self.bounded,
        }

    def _checked_groups(self) -> list[list[int]]:
        k = self.n_components
        if self.groups is None:
            size = math.ceil(k**0.5)
            return [list(range(i, min(i + size, k))) for i in range(0, k, size)]
        groups = [[int(atom) for atom in group] for group in self.groups]
        named = {atom for group in groups for atom in group}
        if named != set(range(k)):
            strange, missing = sorted(named - set(range(k))), sorted(set(range(k)) - named)
            wrong = f"names the atoms {strange}" if strange else f"leaves out the atoms {missing}"
            raise ValueError(
                f"`groups` {wrong}. Name each atom from 0 to {k - 1} (n_components={k}) at least "
                "once, and no other."
            )
        return groups

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.group_dictionary_learning(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class NMF(_AtomsOfFixedSize):
    """Nonnegative codes with a ridge over atoms in the simplex (P3, online NMF).

    Not the NMF of scikit-learn: atoms are nonnegative *and sum to 1*, which fixes the scale that
    plain NMF leaves open. Minimises the mean of ½‖x − hD‖² + (alpha/2)‖h‖² over h ≥ 0 and D.
    The data must not have negative entries.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ. ``"auto"`` is 1/d, ``"paper"`` 1/√d; neither depends on the scale of the data, since
        codes scale with it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:200]
    >>> model = NMF(n_components=8, random_state=0, tol=1e-2).fit(X)
    >>> bool(np.allclose(model.components_.sum(axis=1), 1))
    True
    """

    alpha: Any = "auto"
    _nonnegative: ClassVar[bool] = True

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        return {"alpha": _weight("alpha", self.alpha, auto=1 / d, paper=d**-0.5)}

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.nonnegative(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class SmoothDictionaryLearning(_AtomsOfFixedSize):
    """Smooth atoms in the simplex, nonnegative codes (P4, smooth sparse dictionary learning).

    Minimises the mean of ½‖x − hD‖² + (alpha/2)‖h‖², plus (smoothness/2) tr(D L Dᵀ), over h ≥ 0 and
    atoms d ≥ 0 of sum 1. The data must not have negative entries.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ₂, as in NMF.
    smoothness : float, "auto" or "paper"
        λ₁. ``"auto"`` is a tenth of the mean squared sum of a row, over k.
    laplacian : "chain", "grid", (height, width) or matrix of shape (d, d)
        L, symmetric and positive semidefinite: neighbouring features in a row, pixels of a square
        image, pixels of an image of that shape, or your own graph (dense or scipy.sparse).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:200]
    >>> model = SmoothDictionaryLearning(4, laplacian=(8, 8), random_state=0, tol=1e-1).fit(X)
    >>> model.components_.shape
    (4, 64)
    """

    alpha: Any = "auto"
    smoothness: Any = "auto"
    laplacian: Any = "chain"
    _nonnegative: ClassVar[bool] = True

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        auto = 0.1 * summary.row_sum**2 / self.n_components
        return {
            "alpha": _weight("alpha", self.alpha, auto=1 / d, paper=d**-0.5),
            "smoothness": _weight("smoothness", self.smoothness, auto=auto, paper=d**-0.5),
            "laplacian": self._matrix(d),
        }

    def _matrix(self, n_features: int) -> Any:
        given = self.laplacian
        if isinstance(given, str) and given == "chain":
            return chain_laplacian(n_features)
        if isinstance(given, str) and given == "grid":
            given = (math.isqrt(n_features), math.isqrt(n_features))
        if isinstance(given, tuple):
            height, width = (whole_number("laplacian", side, low=1) for side in given)
            if height * width != n_features:
                raise ValueError(
                    f"`laplacian` describes an image of {height} × {width} pixels, but there are "
                    f"{n_features} features. Use (height, width) with that product."
                )
            return grid_laplacian(height, width)
        if isinstance(given, str):
            raise ValueError(f'`laplacian` is {given!r}. Use "chain", "grid", (height, width) or a matrix.')
        shape = np.shape(given)
        if shape != (n_features, n_features):
            raise ValueError(
                f"`laplacian` has shape {shape}. Use ({n_features}, {n_features}), the number of features."
            )
        return given

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.smooth_dictionary_learning(**weights)


def _outlier_weight(value: Any, summary: DataSummary) -> float:
    """Return λ of the outliers: "auto" is a fraction of the median distance from the median."""
    return _weight(
        "outlier_alpha", value, auto=OUTLIER_SHARE * summary.spread, paper=summary.n_features**-0.5
    )


#: A residual counts as an outlier from this share of the data's spread on.
OUTLIER_SHARE = 0.3


@dataclass(eq=False, repr=False, kw_only=True)
class RobustPCA(AbstractFactorizer):
    """A low-rank part plus sparse outliers (P5, online robust PCA).

    Minimises the mean of ½‖x − hD − r‖² + (alpha/2)‖h‖² + outlier_alpha · ‖r‖₁, plus (alpha/2n)‖D‖².
    Over all rows this is ½‖X − L − R‖² + alpha · ‖L‖_* + outlier_alpha · ‖R‖₁ for L of rank at most
    k. Components are ordered by an SVD; one that vanishes means that the rank is lower than k.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ₁. ``"auto"`` is √max(n, d) · outlier_alpha, the classical ratio of robust PCA.
    outlier_alpha : float, "auto" or "paper"
        λ₂. ``"auto"`` is 0.3 times the median distance of entries from their feature's median.
        ``"paper"`` is 1/√d for both.

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

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        n, d = summary.n_samples, summary.n_features
        outlier_alpha = _outlier_weight(self.outlier_alpha, summary)
        auto = max(n, d) ** 0.5 * outlier_alpha
        return {
            "alpha": _weight("alpha", self.alpha, auto=auto, paper=d**-0.5),
            "outlier_alpha": outlier_alpha,
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.robust_pca(n_samples=n_samples, **weights)

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

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> MaxNormDecomposition(4, random_state=0, tol=1e-2).fit(X).components_.shape
    (4, 64)
    """

    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    ridge: float = 0.0

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        n, d = summary.n_samples, summary.n_features
        return {
            "alpha": _weight("alpha", self.alpha, auto=0.01 * n * d**0.5, paper=d**-0.5),
            "outlier_alpha": _outlier_weight(self.outlier_alpha, summary),
            "ridge": real_number("ridge", self.ridge, low=0),
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.max_norm_decomposition(n_samples=n_samples, **weights)

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
        λ₃. ``"auto"`` is 10 over the mean squared norm of the basis's rows, times p / min(p, d).
    basis_map, residual_map : arrays of shape (d, d), or None
        For experts, A and B of the paper: then Q = A YᵀY Aᵀ + λ₃ BᵀB. A singular Q leaves D unbounded.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> LowRankRepresentation(4, random_state=0, tol=1e-2).fit(X).components_.shape
    (4, 64)
    """

    alpha: Any = "auto"
    outlier_alpha: Any = "auto"
    basis: Any = None
    dictionary_alpha: Any = "auto"
    basis_map: Any = None
    residual_map: Any = None

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        n, d = summary.n_samples, summary.n_features
        basis = self._rows(source, seed)
        energy = float(np.sum(np.square(basis, dtype=np.float64))) or 1.0
        dictionary_alpha = _weight(
            "dictionary_alpha",
            self.dictionary_alpha,
            auto=10 * min(basis.shape) / energy,
            paper=d**-0.5,
        )
        outlier_alpha = _outlier_weight(self.outlier_alpha, summary)
        typical = 1 / (1 / dictionary_alpha + energy / min(basis.shape))
        auto = n**2 * outlier_alpha**2 * max(1.0, d / n) / typical
        return {
            "alpha": _weight("alpha", self.alpha, auto=auto, paper=d**-0.5),
            "outlier_alpha": outlier_alpha,
            "basis": basis,
            "dictionary_alpha": dictionary_alpha,
        }

    def _rows(self, source: AbstractSource, seed: int) -> Array:
        d = source.n_features
        if self.basis is None:
            p = min(source.n_samples, 10 * self.n_components)
            chosen = np.random.default_rng([seed, 7]).choice(source.n_samples, p, replace=False)
            return sample_rows(source, np.sort(chosen))
        basis = np.asarray(self.basis, dtype=np.float64)
        if basis.ndim != 2 or basis.shape[1] != d or len(basis) == 0:
            raise ValueError(f"`basis` has shape {basis.shape}. Use (p, {d}): rows like the data's.")
        if not np.all(np.isfinite(basis)):
            raise ValueError("`basis` has NaN or infinite entries. Use finite ones.")
        return basis

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        basis, strength = weights["basis"], weights["dictionary_alpha"]
        penalty: Any
        if self.basis_map is None and self.residual_map is None:
            penalty = formulations.basis_penalty(basis, strength, n_samples)
        else:
            d = basis.shape[1]
            maps = [
                np.eye(d) if given is None else np.asarray(given, dtype=np.float64)
                for given in (self.basis_map, self.residual_map)
            ]
            for name, given in zip(("basis_map", "residual_map"), maps, strict=True):
                if given.shape != (d, d):
                    raise ValueError(f"`{name}` has shape {given.shape}. Use ({d}, {d}).")
            penalty = formulations.mapped_penalty(basis, *maps, strength, n_samples)
            eigenvalues = np.linalg.eigvalsh(penalty.matrix)
            if eigenvalues[0] <= 1e-12 * eigenvalues[-1]:
                warnings.warn(
                    "`basis_map` and `residual_map` make Q singular: atoms can grow for ever where "
                    "it vanishes. Use maps for which A YᵀY Aᵀ + λ₃ BᵀB is positive definite.",
                    UserWarning,
                    stacklevel=5,
                )
        return formulations.low_rank_representation(weights["alpha"], weights["outlier_alpha"], penalty)

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        # The size at which the penalties of the atoms and of codes of size 1/size are in balance.
        cost = 2 * formulation.dictionary.value(rows)
        return rows * (weights["alpha"] / cost if cost > 0 else 1.0) ** 0.25


@dataclass(eq=False, repr=False, kw_only=True)
class RobustNMF(_AtomsOfFixedSize):
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

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data[:100]
    >>> model = RobustNMF(n_components=4, random_state=0, tol=1e-1).fit(X)
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
            "max_code": _weight("max_code", self.max_code, auto=row, paper=row),
            "max_outlier": _weight("max_outlier", self.max_outlier, auto=entry, paper=entry),
            "ridge": real_number("ridge", self.ridge, low=0),
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return formulations.robust_nmf(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class MatrixFactorization(_AtomsOfFixedSize):
    """Any three terms: a dictionary term, a code term and, if wanted, an outlier term.

    Minimises the mean of ½‖x − hD − r‖² + code(h) + outliers(r), plus dictionary(D). Terms come from
    vrmf.terms or are your own.

    Parameters
    ----------
    code : AbstractRowTerm or None
        None is ``L1`` with the automatic weight of DictionaryLearning.
    dictionary : AbstractTerm or None
        None is ``UnitBall()``.
    outliers : AbstractRowTerm or None
        None is ``Absent()``: no outliers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from vrmf.terms import L1, NonNegative, UnitBall
    >>> X = load_digits().data[:200]
    >>> model = MatrixFactorization(
    ...     6, code=L1(5.0) + NonNegative(), dictionary=NonNegative() + UnitBall(), random_state=0
    ... )
    >>> H = model.fit_transform(X)
    >>> bool(H.min() >= 0 and model.components_.min() >= 0)
    True
    """

    code: Any = None
    dictionary: Any = None
    outliers: Any = None

    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        return {
            "dictionary": UnitBall() if self.dictionary is None else self.dictionary,
            "code": L1(summary.entry) if self.code is None else self.code,
            "outliers": Absent() if self.outliers is None else self.outliers,
        }

    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        return Formulation(**weights)
