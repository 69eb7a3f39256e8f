"""vrmf: stochastic matrix factorization by variance reduction, with scikit-learn's interface.

>>> import numpy as np, vrmf
>>> X = np.random.default_rng(0).random((100, 20))
>>> model = vrmf.RobustPCA(n_components=3, random_state=0).fit(X)
>>> low_rank, outliers = model.decompose(X)
>>> low_rank.shape, outliers.shape
((100, 20), (100, 20))
"""

from vrmf import plots, solvers, terms, theory
from vrmf._version import __version__
from vrmf.estimators import (
    NMF,
    DictionaryLearning,
    GroupDictionaryLearning,
    LowRankRepresentation,
    MatrixFactorization,
    MaxNormDecomposition,
    RobustNMF,
    RobustPCA,
    SmoothDictionaryLearning,
)
from vrmf.persistence.storage import load, save
from vrmf.suggesting import Suggestion, suggest

__all__ = [
    "NMF",
    "DictionaryLearning",
    "GroupDictionaryLearning",
    "LowRankRepresentation",
    "MatrixFactorization",
    "MaxNormDecomposition",
    "RobustNMF",
    "RobustPCA",
    "SmoothDictionaryLearning",
    "Suggestion",
    "__version__",
    "load",
    "plots",
    "save",
    "solvers",
    "suggest",
    "terms",
    "theory",
]
