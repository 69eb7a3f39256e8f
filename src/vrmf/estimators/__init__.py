"""Estimators with scikit-learn's interface, one for each formulation and one for any."""

from vrmf.estimators.base import AbstractFactorizer
from vrmf.estimators.composed import MatrixFactorization
from vrmf.estimators.max_norm import MaxNormDecomposition
from vrmf.estimators.representation import LowRankRepresentation
from vrmf.estimators.with_outliers import RobustNMF, RobustPCA
from vrmf.estimators.without_outliers import (
    NMF,
    DictionaryLearning,
    GroupDictionaryLearning,
    SmoothDictionaryLearning,
)

#: The estimators by the names that the command line accepts.
ESTIMATORS: dict[str, type[AbstractFactorizer]] = {
    "dictionary-learning": DictionaryLearning,
    "group-dictionary-learning": GroupDictionaryLearning,
    "nmf": NMF,
    "smooth-dictionary-learning": SmoothDictionaryLearning,
    "robust-pca": RobustPCA,
    "max-norm-decomposition": MaxNormDecomposition,
    "low-rank-representation": LowRankRepresentation,
    "robust-nmf": RobustNMF,
    "matrix-factorization": MatrixFactorization,
}

__all__ = [
    "ESTIMATORS",
    "NMF",
    "AbstractFactorizer",
    "DictionaryLearning",
    "GroupDictionaryLearning",
    "LowRankRepresentation",
    "MatrixFactorization",
    "MaxNormDecomposition",
    "RobustNMF",
    "RobustPCA",
    "SmoothDictionaryLearning",
]
