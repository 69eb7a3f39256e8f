"""The base class of all estimators, which adds scikit-learn's interface to the loop.

A concrete estimator defines only the formulation that its parameters mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from vrmf.arrays import Array
from vrmf.dictionaries import atoms_from_rows
from vrmf.estimators.data import is_stream
from vrmf.estimators.fitting import Fitting
from vrmf.estimators.html import FittedHTML
from vrmf.estimators.modelling import Weights
from vrmf.estimators.reports import report_of
from vrmf.formulations import Formulation
from vrmf.report import Report


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

    def report(self, X: Any, image_shape: tuple[int, ...] | None = None) -> Report:
        """Return a report of the model and of the rows of ``X``: one HTML page that opens offline.

        It says what was fitted and how well, and shows the convergence, the atoms and their usage, rows
        with their parts, and what calls for attention. Of many rows it takes an evenly spaced sample.

        Parameters
        ----------
        X : array, data frame, path of a file or source of shape (n, d)
        image_shape : (height, width), (height, width, 3), or None
            The shape of rows that are images. None is that of the data of the fit, if they had one.

        Returns
        -------
        vrmf.report.Report
            ``save(path)`` writes it to a file; notebooks show it.

        Examples
        --------
        >>> import numpy as np, vrmf
        >>> X = np.random.default_rng(0).random((60, 8))
        >>> model = vrmf.NMF(n_components=3, tol=1e-3, random_state=0).fit(X)
        >>> model.report(X).html.count("<h1>NMF</h1>")
        1
        """
        check_is_fitted(self)
        if is_stream(X):
            raise TypeError("A report reads rows twice. Use an array, a table, a file or a source.")
        source = self._new_rows(X)
        return report_of(self, source, lambda rows: self._codes_and_parts(source, rows), image_shape)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class AtomsOfFixedSize(AbstractFactorizer):
    """Estimators whose dictionary term fixes the size of atoms."""

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return atoms_from_rows(formulation, rows)
