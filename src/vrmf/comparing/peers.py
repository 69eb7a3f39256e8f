"""Other libraries that solve the same problems, if they are installed.

Each is a function from a :class:`Setting` to a contestant. They get the same rows, weights and threads,
and the same dictionary to start from where they take one, whose computation is not on their clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.comparing.contestants import Contestant, learner_of_batches, learner_of_steps
from vrmf.comparing.measuring import Snapshot, Yardstick
from vrmf.problem import Problem

#: Mini-batch size of other libraries, which suits data of a few thousand rows.
BATCH = 256

#: Rows that hyperspy learns from between two readings of the clock; it takes them one by one.
FEW_ROWS = 5


@dataclass(frozen=True, eq=False)
class Setting:
    """What all contestants get."""

    X: Array
    problem: Problem
    start: Array
    weights: dict[str, Any]  #: of the formulation, by their names among the parameters of our estimator
    seed: int
    threads: int

    @property
    def n_components(self) -> int:
        return len(self.start)

    def start_codes(self) -> Array:
        """Return the codes of all rows for the dictionary to start from."""
        yardstick = Yardstick.of(self.problem)
        yardstick.stats(self.start)
        return yardstick.codes

    def batches(self, size: int) -> Iterator[Array]:
        """Yield mini-batches of all rows in random order."""
        order = np.random.default_rng(self.seed).permutation(len(self.X))
        return (self.X[order[i : i + size]] for i in range(0, len(order), size))


# Dictionary learning --------------------------------------------------------------------------------------


def sklearn_dictionary(setting: Setting) -> Contestant:
    from sklearn.decomposition import MiniBatchDictionaryLearning

    def make() -> Any:
        return MiniBatchDictionaryLearning(
            setting.n_components,
            alpha=setting.weights["alpha"],
            fit_algorithm="cd",
            batch_size=BATCH,
            dict_init=setting.start,
            random_state=setting.seed,
        )

    return learner_of_batches(
        "scikit-learn MiniBatchDictionaryLearning",
        f'fit_algorithm="cd", batch_size={BATCH}, by partial_fit',
        make,
        lambda model, batch: model.partial_fit(batch),
        lambda model: model.components_,
        lambda: setting.batches(BATCH),
        setting.threads,
    )


def spams_dictionary(setting: Setting) -> Contestant:
    import spams

    columns, start = np.asfortranarray(setting.X.T), np.asfortranarray(setting.start.T)

    def fit(steps: int) -> Array:
        learned = spams.trainDL(
            columns,
            D=start,
            lambda1=setting.weights["alpha"],
            mode=2,
            iter=steps,
            numThreads=setting.threads,
            batchsize=BATCH,
            verbose=False,
        )
        return np.ascontiguousarray(learned.T)

    note = f"trainDL, mode=2, batchsize={BATCH}, anew for each number of iterations"
    return learner_of_steps("SPAMS trainDL", note, fit, setting.threads)


# NMF ------------------------------------------------------------------------------------------------------


def sklearn_nmf(setting: Setting) -> Contestant:
    from sklearn.decomposition import NMF

    codes = setting.start_codes()

    def fit(steps: int) -> Array:
        model = NMF(setting.n_components, init="custom", max_iter=steps, tol=0, random_state=setting.seed)
        model.fit_transform(setting.X, W=codes.copy(), H=setting.start.copy())
        return np.asarray(model.components_)

    note = 'solver="cd", anew for each number of iterations'
    return learner_of_steps("scikit-learn NMF", note, fit, setting.threads)


def sklearn_online_nmf(setting: Setting) -> Contestant:
    from sklearn.decomposition import MiniBatchNMF

    def make() -> Any:
        return MiniBatchNMF(
            setting.n_components, init="custom", batch_size=4 * BATCH, random_state=setting.seed
        )

    def learn(model: Any, batch: Array) -> Any:
        if hasattr(model, "components_"):
            return model.partial_fit(batch)
        few = np.full((len(batch), setting.n_components), batch.mean())
        return model.partial_fit(batch, W=few, H=setting.start.copy())

    return learner_of_batches(
        "scikit-learn MiniBatchNMF",
        f"batch_size={4 * BATCH}, by partial_fit",
        make,
        learn,
        lambda model: model.components_,
        lambda: setting.batches(4 * BATCH),
        setting.threads,
    )


def spams_nmf(setting: Setting) -> Contestant:
    import spams

    columns = np.asfortranarray(setting.X.T)

    def fit(steps: int) -> Array:
        learned = spams.nmf(
            columns,
            K=setting.n_components,
            iter=steps,
            batchsize=BATCH,
            numThreads=setting.threads,
        )
        return np.ascontiguousarray(learned.T)

    note = f"nmf, batchsize={BATCH}, from a start of its own, anew for each number of iterations"
    return learner_of_steps("SPAMS nmf", note, fit, setting.threads)


def gensim_nmf(setting: Setting) -> Contestant:
    from gensim.matutils import Dense2Corpus
    from gensim.models.nmf import Nmf

    size = 2000
    corpora = [list(Dense2Corpus(rows, documents_columns=False)) for rows in setting.batches(size)]
    names = {i: str(i) for i in range(setting.X.shape[1])}

    def make() -> Any:
        return Nmf(
            num_topics=setting.n_components,
            id2word=names,
            chunksize=size,
            random_state=setting.seed,
            eval_every=None,
        )

    def learn(model: Any, chunk: Any) -> None:
        model.update(chunk, chunksize=size, passes=1)

    return learner_of_batches(
        "gensim Nmf",
        f"chunks of {size} rows, from a start of its own; rows are documents made off the clock",
        make,
        learn,
        lambda model: model.get_topics(normalize=True),
        lambda: iter(corpora),
        setting.threads,
    )


# Models with outliers -------------------------------------------------------------------------------------


def hyperspy_pca(setting: Setting) -> Contestant:
    from hyperspy.learn._rpca import ORPCA

    def make() -> Any:
        return ORPCA(
            setting.n_components,
            lambda1=setting.weights["alpha"],
            lambda2=setting.weights["outlier_alpha"],
            method="CF",
            init=np.ascontiguousarray(setting.start.T),
            random_state=setting.seed,
        )

    return _hyperspy("hyperspy ORPCA", 'method="CF", one row after the other', make, setting)


def hyperspy_nmf(setting: Setting) -> Contestant:
    from hyperspy.learn._ornmf import ORNMF

    def make() -> Any:
        return ORNMF(
            setting.n_components,
            lambda1=setting.weights["outlier_alpha"],
            method="RobustPGD",
            random_state=setting.seed,
        )

    note = 'method="RobustPGD", from a start of its own, one row after the other'
    return _hyperspy("hyperspy ORNMF", note, make, setting)


def _hyperspy(name: str, note: str, make: Callable[[], Any], setting: Setting) -> Contestant:
    return learner_of_batches(
        name,
        note,
        make,
        lambda model, batch: model.partial_fit(batch),
        lambda model: model.components_,
        lambda: setting.batches(FEW_ROWS),
        setting.threads,
    )


#: The libraries that solve the problem of a model: the package to install, a name, and the function.
PEERS: dict[str, list[tuple[str, str, Callable[[Setting], Contestant]]]] = {
    "dictionary-learning": [
        ("sklearn", "scikit-learn MiniBatchDictionaryLearning", sklearn_dictionary),
        ("spams", "SPAMS trainDL", spams_dictionary),
    ],
    "nmf": [
        ("sklearn", "scikit-learn NMF", sklearn_nmf),
        ("sklearn", "scikit-learn MiniBatchNMF", sklearn_online_nmf),
        ("spams", "SPAMS nmf", spams_nmf),
        ("gensim", "gensim Nmf", gensim_nmf),
    ],
    "robust-pca": [("hyperspy", "hyperspy ORPCA", hyperspy_pca)],
    "robust-nmf": [("hyperspy", "hyperspy ORNMF", hyperspy_nmf)],
}


def peers_of(model: str, setting: Setting) -> tuple[list[Contestant], list[str]]:
    """Return the contestants that are installed, and the packages of the others."""
    known = PEERS.get(model, [])
    missing = {package for package, _, _ in known if find_spec(package) is None}
    return [_made(name, make, setting) for package, name, make in known if package not in missing], sorted(
        missing
    )


def _made(name: str, make: Callable[[Setting], Contestant], setting: Setting) -> Contestant:
    """Return a contestant; if it cannot be made, one that raises the error when it runs."""
    try:
        return make(setting)
    except Exception as error:  # whatever a version of another library may raise
        failure = error

    def fail(budget: float) -> Iterator[Snapshot]:
        raise failure

    return Contestant(name, "", fail)
