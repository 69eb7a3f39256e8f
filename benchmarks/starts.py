"""How often a fit ends in a poor local minimum, by the rule that chooses its start.

    python -m benchmarks.starts            # resumes an interrupted run, then makes tables and a figure
    python -m benchmarks.starts --report   # only tables and figure, from the results on file

Every rule of ``init`` starts a fit on every data set of ``start_data.py`` with three seeds. A fit is *poor*
if its objective is more than 2 % above the best known one. That is the lowest of all these fits, and of
fits that start from the dictionaries of ten runs of scikit-learn. Objectives below 10⁻⁴ of that of zero
codes count as that much: there the residual is less than a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn.decomposition as peers
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks import start_data
from benchmarks.common import RESULTS, Array, machine, read, write
from benchmarks.start_data import Case
from benchmarks.start_scores import RULES, above
from vrmf.auto_weights import DataSummary
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.solvers import VR
from vrmf.sources import as_source

SEEDS = (0, 1, 2)

#: Budgets of the fits that are judged, the defaults, and of runs that improve a peer's dictionary.
BUDGET: dict[str, Any] = {}
LONG: dict[str, Any] = {"tol": 1e-8}

Fit = Callable[..., Any]


@dataclass(frozen=True)
class Model:
    """An estimator, and the runs of scikit-learn for the same problem."""

    make: Fit
    peer_runs: Callable[[Array, int, Formulation], Iterator[Array]]
    nonnegative: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of ``init`` that are compared."""
        return RULES if self.nonnegative else RULES[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--report", action="store_true", help="only tables and figure, from the results on file"
    )
    parser.add_argument("--models", nargs="*", default=list(MODELS), help="some of the models")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    results = read("starts") or {"seeds": list(SEEDS), "cases": {}}
    if not chosen.report:
        with threadpool_limits(1):
            for name in chosen.models:
                survey(name, results)
        results["seconds"] = start_seconds()
        results["machine"] = machine()
        write("starts", results)
    from benchmarks.start_report import report

    report(results, RESULTS)


def survey(name: str, results: dict[str, Any]) -> None:
    """Run the fits of a model that have no result yet, and write after every data set."""
    model = MODELS[name]
    for case in start_data.CASES:
        key = f"{name} | {case.name}"
        known = results["cases"].get(key, {"fits": {}})
        if all(rule in known["fits"] for rule in model.rules):
            continue
        try:
            X = case.rows()
        except OSError as missing:
            print(f"{case.name}: left out, {missing}")
            continue
        if model.nonnegative and not case.is_nonnegative:
            continue
        results["cases"][key] = found = run_case(model, case, X, known)
        write("starts", results)
        excess = {rule: [100 * value for value in above(found, rule)] for rule in found["fits"]}
        told = "  ".join(
            f"{rule} " + "/".join(f"{v:.1f}" for v in values) for rule, values in excess.items()
        )
        print(f"{key:50s} {found['spent']:5.1f} s  {told}", flush=True)


def run_case(model: Model, case: Case, X: Array, known: dict[str, Any]) -> dict[str, Any]:
    """Return the objectives of all fits on one data set; those on file are not run again."""
    begin, k = time.perf_counter(), case.n_components

    def objective(**options: Any) -> float:
        return float(model.make(X, k, **options).objective_)

    fits = {
        rule: known["fits"].get(rule)
        or [objective(init=rule, random_state=seed, **BUDGET) for seed in SEEDS]
        for rule in model.rules
    }
    theirs = known.get("peers")
    if theirs is None:
        formulation = model.make(X, k, random_state=0, max_iter=1).formulation_
        improve = partial(objective, random_state=0, solver=VR(opening=False), **LONG)
        theirs = [improve(init=atoms_from_rows(formulation, D)) for D in model.peer_runs(X, k, formulation)]
    return {
        "held out": case in start_data.HELD_OUT,
        "shape": [*X.shape, k],
        "zero": float(0.5 * np.mean(np.sum(X**2, axis=1))),
        "fits": fits,
        "peers": theirs,
        "spent": round(time.perf_counter() - begin, 1),
    }


# ------------------------------------------------------------------ models and peers


def _sparse(share: float, X: Array, k: int, **options: Any) -> Any:
    alpha = "auto" if share == 1 else share * DataSummary.of(as_source(X, n_jobs=1)).sparsity_weight
    return vrmf.DictionaryLearning(k, alpha=alpha, n_jobs=1, **options).fit(X)


def _nonnegative(X: Array, k: int, **options: Any) -> Any:
    return vrmf.NMF(k, n_jobs=1, **options).fit(X)


def _sparse_peers(X: Array, k: int, formulation: Formulation) -> Iterator[Array]:
    """Yield the dictionaries of ten runs: full passes from an SVD and random rows, and mini-batches."""
    alpha = formulation.code.weight  # type: ignore[attr-defined]
    common = {"n_components": k, "alpha": alpha, "fit_algorithm": "cd", "transform_algorithm": "lasso_cd"}
    passes = 15 if len(X) <= 1000 else 5
    yield peers.DictionaryLearning(max_iter=passes, random_state=0, **common).fit(X).components_
    for seed in range(3):
        rng = np.random.default_rng(seed)
        D = X[rng.choice(len(X), k, replace=len(X) < k)] + 1e-9 * rng.standard_normal((k, X.shape[1]))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        H = X @ np.linalg.pinv(D)
        model = peers.DictionaryLearning(
            max_iter=passes, dict_init=D, code_init=H, random_state=0, **common
        )
        yield model.fit(X).components_
    for seed in range(6):
        model = peers.MiniBatchDictionaryLearning(
            batch_size=min(64, len(X)), max_iter=5, max_no_improvement=None, random_state=seed, **common
        )
        yield model.fit(X).components_


def _nonnegative_peers(X: Array, k: int, formulation: Formulation) -> Iterator[Array]:
    """Yield the dictionaries of ten runs of coordinate descent, from all starts of scikit-learn."""
    singular = ("nndsvd", "nndsvda", "nndsvdar") if k <= min(X.shape) else ()
    starts = [(init, 0) for init in singular] + [("random", seed) for seed in range(10 - len(singular))]
    for init, seed in starts:
        yield peers.NMF(k, init=init, max_iter=200, random_state=seed).fit(X).components_


MODELS = {
    "DictionaryLearning": Model(partial(_sparse, 1.0), _sparse_peers),
    "NMF": Model(_nonnegative, _nonnegative_peers, nonnegative=True),
    "DictionaryLearning, alpha/10": Model(partial(_sparse, 0.1), _sparse_peers),
}


# ------------------------------------------------------------------ cost


def start_seconds(repeats: int = 5) -> dict[str, dict[str, float]]:
    """Return the median seconds to choose a start, without those to summarise the data."""
    seconds: dict[str, dict[str, float]] = {}
    rng = np.random.default_rng(0)
    for n, d, k in ((300, 20, 8), (1000, 64, 10), (5000, 144, 12), (10_000, 784, 15), (10_000, 784, 49)):
        X = rng.gamma(0.5, size=(n, 30)) @ rng.gamma(0.3, size=(30, d)) + 0.1 * rng.random((n, d))
        for make in (vrmf.DictionaryLearning, vrmf.NMF):
            row = seconds.setdefault(f"{make.__name__}, n={n}, d={d}, k={k}", {})
            for rule in RULES:
                row[rule] = _median_start(make(k, init=rule, random_state=0, n_jobs=1), X, repeats)
    return seconds


def _median_start(model: Any, X: Array, repeats: int) -> float:
    source = model._source(X, reset=True)
    spent = []
    for _ in range(repeats + 1):  # the first one compiles
        begin = time.perf_counter()
        DataSummary.of(source)
        summarised = time.perf_counter()
        model._start(source)  # which summarises the data as well
        spent.append(time.perf_counter() - summarised - (summarised - begin))
    return round(float(np.median(spent[1:])), 4)


if __name__ == "__main__":
    main()
