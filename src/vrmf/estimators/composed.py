"""The estimator for any composition of terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vrmf.auto_weights import DataSummary
from vrmf.estimators.base import AtomsOfFixedSize
from vrmf.estimators.modelling import Weights
from vrmf.formulations import Formulation
from vrmf.sources import AbstractSource
from vrmf.terms import L1, Absent, UnitBall


@dataclass(eq=False, repr=False, kw_only=True)
class MatrixFactorization(AtomsOfFixedSize):
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

    Attributes
    ----------
    code_, dictionary_, outliers_ : AbstractTerm
        The terms in use.

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

    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        return {
            "dictionary": UnitBall() if self.dictionary is None else self.dictionary,
            "code": L1(summary.sparsity_weight) if self.code is None else self.code,
            "outliers": Absent() if self.outliers is None else self.outliers,
        }

    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        return Formulation(**weights)
