"""The estimators without outliers: (P1) to (P4)."""

from __future__ import annotations

import math
import operator
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vrmf import formulations
from vrmf.auto_weights import DataSummary, chosen_weight, harmless_ridge
from vrmf.callers import level_of_caller
from vrmf.checks import real_number, whole_number
from vrmf.estimators.base import AtomsOfFixedSize
from vrmf.estimators.modelling import Weights
from vrmf.formulations import Formulation
from vrmf.sources import AbstractSource
from vrmf.terms import chain_laplacian, grid_laplacian


@dataclass(eq=False, repr=False, kw_only=True)
class DictionaryLearning(AtomsOfFixedSize):
    """Each row is a combination of a few of the atoms: sparse codes (P1, online dictionary learning).

    Minimises the mean of ½‖x − hD‖² + alpha · ‖h‖₁ over codes and over atoms with ‖d‖₂ ≤ 1.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ. ``"auto"`` is the standard deviation of the data's entries, which for rows of mean 0 and norm 1
        is the paper's 1/√d, but at most a tenth of the norm of a row about the mean (root mean square), so
        that data of few features are not shrunk by more; ``"paper"`` is 1/√d whatever the scale.
    ridge : float
        Adds (ridge/2)‖h‖² to the codes' penalty. A small one makes codes unique where atoms are
        nearly dependent, which the theory assumes (A4).

    Attributes
    ----------
    alpha_, ridge_ : float
        The weights in use.

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

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        paper = summary.n_features**-0.5
        return {
            "alpha": chosen_weight("alpha", self.alpha, auto=summary.sparsity_weight, paper=paper),
            "ridge": real_number("ridge", self.ridge, low=0),
        }

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        return formulations.dictionary_learning(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDictionaryLearning(AtomsOfFixedSize):
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

    Attributes
    ----------
    alpha_, ridge_ : float
        The weights in use; the weight of a group g is alpha_ · w_g.

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

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        paper = summary.n_features**-0.5
        alpha = chosen_weight("alpha", self.alpha, auto=summary.sparsity_weight, paper=paper)
        groups = self._checked_groups()
        sizes = self.group_weights
        if sizes is None:
            sizes = [len(group) ** 0.5 for group in groups]
        if np.shape(sizes) != (len(groups),):
            raise ValueError(
                f"`group_weights` has shape {np.shape(sizes)} for {len(groups)} groups. Use one for each."
            )
        if not self.bounded:
            warnings.warn(
                "With bounded=False the objective has no minimiser: atoms grow and codes shrink "
                "for ever. It is the paper's form; use bounded=True.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        return {
            "alpha": alpha,
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
        try:
            groups = [[operator.index(atom) for atom in group] for group in self.groups]
        except TypeError as error:
            raise ValueError(
                f"`groups` is {self.groups!r}. Use a sequence of sequences of atom numbers."
            ) from error
        named = {atom for group in groups for atom in group}
        if named != set(range(k)):
            strange, missing = sorted(named - set(range(k))), sorted(set(range(k)) - named)
            wrong = f"names the atoms {strange}" if strange else f"leaves out the atoms {missing}"
            raise ValueError(
                f"`groups` {wrong}. Name each atom from 0 to {k - 1} (n_components={k}) at least "
                "once, and no other."
            )
        return groups

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        parts = {name: value for name, value in weights.items() if name != "alpha"}  # is in the weights
        return formulations.group_dictionary_learning(**parts)


@dataclass(eq=False, repr=False, kw_only=True)
class NMF(AtomsOfFixedSize):
    """Parts that add up: nonnegative codes over nonnegative atoms (P3, online NMF).

    Not the NMF of scikit-learn: atoms are nonnegative *and sum to 1*, which fixes the scale that
    plain NMF leaves open. Minimises the mean of ½‖x − hD‖² + (alpha/2)‖h‖² over h ≥ 0 and D.
    The data must not have negative entries.

    Parameters
    ----------
    alpha : float, "auto" or "paper"
        λ, at least 0. ``"auto"`` is 10⁻⁷/d, which leaves the reconstruction alone, since atoms have
        ‖d‖² ≥ 1/d; ``"paper"`` is 1/√d, which shrinks codes. Neither depends on the scale of the data,
        since codes scale with it. A larger one makes codes unique where atoms are dependent.

    Attributes
    ----------
    alpha_ : float
        The weight in use.

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

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        return {"alpha": harmless_ridge("alpha", self.alpha, summary.n_features)}

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        return formulations.nonnegative(**weights)


@dataclass(eq=False, repr=False, kw_only=True)
class SmoothDictionaryLearning(AtomsOfFixedSize):
    """Smooth parts that add up: nonnegative codes over smooth atoms (P4, smooth dictionary learning).

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

    Attributes
    ----------
    alpha_, smoothness_ : float
        The weights in use.

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

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        d = summary.n_features
        auto = 0.1 * summary.row_sum**2 / self.n_components
        return {
            "alpha": harmless_ridge("alpha", self.alpha, d),
            "smoothness": chosen_weight("smoothness", self.smoothness, auto=auto, paper=d**-0.5),
            "laplacian": self._matrix(d),
        }

    def _matrix(self, n_features: int) -> Any:
        given = self.laplacian
        if isinstance(given, str) and given == "chain":
            return chain_laplacian(n_features)
        if isinstance(given, str) and given == "grid":
            given = (math.isqrt(n_features), math.isqrt(n_features))
        if isinstance(given, tuple) and len(given) == 2:
            height, width = (whole_number("laplacian", side, low=1) for side in given)
            if height * width != n_features:
                raise ValueError(
                    f"`laplacian` describes an image of {height} × {width} pixels, but there are "
                    f"{n_features} features. Use (height, width) with that product."
                )
            return grid_laplacian(height, width)
        if isinstance(given, str | tuple):
            raise ValueError(f'`laplacian` is {given!r}. Use "chain", "grid", (height, width) or a matrix.')
        shape = np.shape(given)
        if shape != (n_features, n_features):
            raise ValueError(
                f"`laplacian` has shape {shape}. Use ({n_features}, {n_features}), the number of features."
            )
        return given

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        return formulations.smooth_dictionary_learning(**weights)
