"""vrmf: stochastic matrix factorization by variance reduction, with scikit-learn's interface.

>>> import numpy as np, vrmf
>>> X = np.random.default_rng(0).random((100, 20))
>>> model = vrmf.RobustPCA(n_components=3, random_state=0).fit(X)
>>> low_rank, outliers = model.decompose(X)
>>> low_rank.shape, outliers.shape
((100, 20), (100, 20))
"""

from vrmf._version import __version__

TYPE_CHECKING = False  # which is another one than that of typing, whose import takes time
if TYPE_CHECKING:
    from vrmf import plots, solvers, terms, theory
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

#: The modules of public names that are neither estimators nor modules.
_HOMES = {
    "load": "persistence.storage",
    "save": "persistence.storage",
    "Suggestion": "suggesting",
    "suggest": "suggesting",
}

if not TYPE_CHECKING:
    # Modules are imported when they are first asked for. Libraries of numbers take a second, in which the
    # command would not yet know what to do if it is interrupted.

    from threading import RLock as _Lock

    # Modules that import each other must not be imported by several threads at a time.
    _importing = _Lock()

    def __getattr__(name):
        from importlib import import_module
        from importlib.util import find_spec

        is_estimator = name in __all__ and name[0].isupper()
        home = _HOMES.get(name, "estimators" if is_estimator else name)
        is_possible = name.isidentifier() and not name.startswith("_")
        if not is_possible or find_spec(f"vrmf.{home}") is None:
            raise AttributeError(f"module 'vrmf' has no attribute {name!r}")
        with _importing:
            module = import_module(f"vrmf.{home}")
        return globals().setdefault(name, module if home == name else getattr(module, name))

    def __dir__():
        return sorted({*globals(), *__all__})
