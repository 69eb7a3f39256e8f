"""Dictionary learning and NMF against scikit-learn and dictlearn; parts of solvers.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import vrmf
from benchmarks.common import THREADS, Array, cbcl, mnist, rows_as_atoms
from benchmarks.solver_problems import ATOMS
from benchmarks.solver_races import (
    MNIST_WEIGHT,
    RACE_CODER,
    SEEDS,
    Result,
    Run,
    compare,
    fair_objective,
    problem_of,
    quickest,
    timed,
)
from vrmf import formulations
from vrmf.auto_weights import harmless_ridge
from vrmf.comparing.measuring import Yardstick
from vrmf.dictionaries import feasible
from vrmf.problem import Problem


def sklearn_dictionary(
    rows: int = 10_000, limit: float = 20.0, seeds: Sequence[int] = SEEDS
) -> list[Result]:
    """Dictionary learning on MNIST: the time to the objective at which scikit-learn and dictlearn end."""
    X = mnist(rows)
    problem = problem_of(formulations.dictionary_learning(MNIST_WEIGHT), X, rows_as_atoms(X, ATOMS))
    peers = _dictionary_peers(X)
    runs: dict[str, list[Result]] = {name: [] for name in peers}
    for seed in seeds:
        start = rows_as_atoms(X, ATOMS, seed)
        ours = Run(problem, start, seed, limit, fair_objective(problem))
        for name, peer in peers.items():
            spent, model = timed(lambda: peer.fit(X, start, seed), peer.blas)
            value = fair_objective(problem)(model.components_)
            reached = ours.reach(value)
            runs[name].append({"seed": seed, "seconds": spent, "value": value, "reached": reached})
    return [
        compare(
            f"MNIST {rows}, k={ATOMS}", name, 15 if "scikit" in name else 20, runs[name], peers[name].note
        )
        for name in peers
    ]


class Peer(NamedTuple):
    """How a peer is fitted to rows from a start by a seed."""

    fit: Callable[[Array, Array, int], Any]
    blas: int  #: threads
    note: str


def _dictionary_peers(X: Array) -> dict[str, Peer]:
    """Return the peers, each with the number of threads that is quickest on few rows."""
    few, start = X[:1000], rows_as_atoms(X, ATOMS)
    epoch = partial(_sklearn_epochs, 1)
    jobs, blas = quickest(lambda jobs: epoch(jobs, few, start, 0), (1, THREADS))
    chosen = f"n_jobs={jobs}, {blas} threads of BLAS, the quickest; batches of 256"
    peers = {
        "scikit-learn, 1 epoch": Peer(partial(epoch, jobs), blas, chosen),
        "scikit-learn, 5 epochs": Peer(partial(_sklearn_epochs, 5, jobs), blas, chosen),
    }
    for name, fit, note in (
        (
            "dictlearn mini-batches, 1 epoch",
            _dictlearn_epoch,
            "the same problem: Mairal's update on lasso codes by its own FISTA; batches of 256, and "
            "partial_fit, which spares it the pass that its fit adds to measure the error",
        ),
        ("dictlearn L1, 1 iteration", _dictlearn_pass, "the same problem, by full passes"),
    ):
        blas = quickest(lambda _: fit(few, start, 0))[1]
        peers[name] = Peer(fit, blas, f"{note}; {blas} threads of BLAS, the quickest")
    return peers


def _sklearn_epochs(epochs: int, jobs: int, X: Array, D: Array, seed: int) -> Any:
    from sklearn.decomposition import MiniBatchDictionaryLearning

    return MiniBatchDictionaryLearning(
        len(D), alpha=MNIST_WEIGHT, fit_algorithm="cd", batch_size=256, max_iter=epochs, n_jobs=jobs,
        max_no_improvement=None, tol=0, dict_init=D, random_state=seed,
    ).fit(X)  # fmt: skip


def _dictlearn_epoch(X: Array, D: Array, seed: int) -> Any:
    import dictlearn

    def codes(batch: Array, D: Array, **_: Any) -> Array:
        # Its loss has no ½, hence twice the weight.
        return np.asarray(dictlearn.sparse_encode(batch, D, algorithm="fista", alpha=2 * MNIST_WEIGHT))

    model = dictlearn.MiniBatchDictionaryLearning(
        len(D), transform_algorithm=codes, n_nonzero_coefs=len(D), batch_size=256, dict_init=D
    )
    return model.partial_fit(X[np.random.default_rng(seed).permutation(len(X))])


def _dictlearn_pass(X: Array, D: Array, seed: int) -> Any:
    import dictlearn

    # These are the options of its L1DictionaryLearning, which raises an error where k < d/10.
    return dictlearn.DictionaryLearning(
        len(D), fit_algorithm="apru", transform_algorithm="fista", transform_alpha=2 * MNIST_WEIGHT,
        n_nonzero_coefs=len(D), max_iter=1, dict_init=D, random_state=seed,
    ).fit(X)  # fmt: skip


def sklearn_nmf(rows: int = 10_000, iterations: int = 200, seeds: Sequence[int] = SEEDS) -> list[Result]:
    """NMF: the time to the Frobenius error at which scikit-learn's two solvers end."""
    results = []
    for name, X in (("CBCL", cbcl()), (f"MNIST {rows}", mnist(rows))):
        runs: dict[str, list[Result]] = {}
        for seed in seeds:
            for peer, run in _nmf_runs(X, iterations, seed).items():
                runs.setdefault(peer, []).append(run)
        for (peer, found), wanted in zip(runs.items(), (10, 2), strict=True):
            note = "value: ‖X − HD‖ by exact codes for the dictionary; own_error: by the peer's own codes"
            results.append(compare(f"{name}, k={ATOMS}", peer, wanted, found, note))
    return results


def _nmf_runs(X: Array, iterations: int, seed: int) -> dict[str, Result]:
    """Return the comparisons of one seed with each peer; our limit is the time of the slowest of them."""
    from sklearn.base import clone
    from sklearn.decomposition import NMF, MiniBatchNMF

    models = {
        "scikit-learn MiniBatchNMF": MiniBatchNMF(ATOMS, random_state=seed),
        f"scikit-learn NMF, {iterations} iterations": NMF(
            ATOMS, solver="cd", max_iter=iterations, tol=0, random_state=seed
        ),
    }
    spent = {}
    for name, model in models.items():
        _, blas = quickest(lambda _: clone(model).set_params(max_iter=3).fit(X))
        spent[name], _ = timed(lambda: model.fit(X), blas)
    # Our default weight and start. The time of the start is included.
    default = vrmf.NMF(ATOMS, random_state=seed, n_jobs=THREADS)
    next(default.iterate(X))  # which compiles what a start needs
    start_seconds, moment = timed(lambda: next(default.iterate(X)))
    problem = problem_of(formulations.nonnegative(harmless_ridge("alpha", "auto", X.shape[1])), X, moment.D)
    ours = Run(problem, moment.D, seed, max(5.0, *spent.values()), frobenius_by(problem))
    results = {}
    for name, model in models.items():
        size = model.components_.sum(axis=1, keepdims=True)
        value = frobenius_by(problem)(model.components_ / np.where(size > 0, size, 1))
        reached = ours.reach(value)
        results[name] = {
            "seed": seed, "seconds": spent[name], "value": value,
            "reached": None if reached is None else reached + start_seconds, "start": start_seconds,
            "own_error": float(model.reconstruction_err_), "steps": int(model.n_iter_),
        }  # fmt: skip
    return results


def frobenius_by(problem: Problem) -> Callable[[Array], float]:
    """Return a function that measures ‖X − HD‖, where the only penalty is a ridge on codes."""
    yardstick = Yardstick.of(problem, RACE_CODER)

    def error(D: Array) -> float:
        stats = yardstick.stats(feasible(problem.formulation, np.ascontiguousarray(D)))
        penalty = float(np.sum(problem.formulation.code.row_values(yardstick.codes)))
        return math.sqrt(2 * (stats.loss - penalty))

    return error
