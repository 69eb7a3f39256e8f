"""The base class of all estimators, which adds scikit-learn's interface to the loop.

A concrete estimator defines only the formulation that its parameters mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin

from vrmf.arrays import Array
from vrmf.dictionaries import atoms_from_rows
from vrmf.estimators.fitting import Fitting
from vrmf.estimators.html import FittedHTML
from vrmf.estimators.modelling import Weights
from vrmf.formulations import Formulation


@dataclass(eq=False, repr=False)
class AbstractFactorizer(FittedHTML, Fitting, ClassNamePrefixFeaturesOutMixin, BaseEstimator):
    """The common parameters, and ``fit``, ``transform`` and the rest in terms of a formulation."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._nonnegative
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class AtomsOfFixedSize(AbstractFactorizer):
    """Estimators whose dictionary term fixes the size of atoms."""

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return atoms_from_rows(formulation, rows)
