"""Robust PCA and robust NMF against hyperspy; a part of solvers.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import solver_problems
from benchmarks.common import THREADS, Array, synth, yaleb
from benchmarks.solver_problems import Case
from benchmarks.solver_races import Result, fair_objective, problem_of, quickest, timed
from vrmf.coding import Coder
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import VR
from vrmf.sources import as_source

#: Robust codes are less exact, since some take very long on the nearly singular dictionaries of hyperspy.
#: The objective is right to six digits.
ROBUST_CODER = Coder(tol=1e-4)


class Setting(NamedTuple):
    """Rows for the robust models, and the true dictionary if there is one."""

    name: str
    X: Array
    W: Array | None
    reach: float  #: the size of entries without outliers


NOTE = (
    "hyperspy sees the first rows only, as most of its methods need hours for all; ours: a pass over all "
    "of them, and ours_same_rows: a pass over those that hyperspy saw. Objectives: on a sample of all "
    "rows. ORPCA has our start; ORNMF takes none"
)


def hyperspy_online(
    rows: int = 100_000, most: int = 300, patience: float = 10.0, sample: int = 2000
) -> list[Result]:
    """Robust PCA and NMF: rows per second, and objectives after the same rows."""
    from hyperspy.learn._ornmf import ORNMF
    from hyperspy.learn._rpca import ORPCA

    def orpca(method: str, D: Array) -> Any:
        weight = D.shape[1] ** -0.5
        init = np.ascontiguousarray(D.T)
        return ORPCA(len(D), lambda1=weight, lambda2=weight, method=method, init=init, random_state=0)

    def ornmf(method: str, D: Array) -> Any:
        return ORNMF(len(D), lambda1=D.shape[1] ** -0.5, method=method, random_state=0)

    results = []
    for make in (
        lambda: Setting("Synth, 10 % outliers", *synth(rows, 0.1), 5.0),
        lambda: Setting("Synth, 30 % outliers", *synth(rows, 0.3), 5.0),
        lambda: Setting("Yale B", yaleb(), None, 1.0),
    ):
        setting = make()
        for kind, case, peer, methods in (
            ("RobustPCA", solver_problems.orpca, orpca, ("CF", "BCD", "SGD", "MomentumSGD")),
            ("RobustNMF", solver_problems.ornmf, ornmf, ("PGD", "RobustPGD", "MomentumSGD")),
        ):
            makers = {f"hyperspy {peer.__name__.upper()} {name}": partial(peer, name) for name in methods}
            online = partial(_online, most=most, patience=patience)
            results.append(_robust(f"{setting.name}, {kind}", setting, case, makers, online, sample))
    return results


def _robust(
    name: str,
    setting: Setting,
    case: Callable[[Array, float], Case],
    peers: Mapping[str, Callable[[Array], Any]],
    online: Callable[[Any, Array, int], tuple[Result, Array]],
    sample: int,
) -> Result:
    """Compare all methods of a peer with ours on one problem."""
    X, reach = setting.X, setting.reach
    whole = case(X, reach)
    model, start = whole.problem.formulation, whole.start(0)
    some = X[np.random.default_rng(0).permutation(len(X))[:sample]]
    judge = partial(_judged, Problem(model, as_source(some, n_jobs=THREADS)), setting.W)
    ours = judge(*_one_pass(problem_of(model, X, start), start))
    # By its first method only, since some of the others take ten seconds for a row.
    _, blas = quickest(lambda _: next(iter(peers.values()))(start).partial_fit(X[:3]))
    results = {}
    for method, make in peers.items():
        theirs = judge(*online(make(start), X, blas))
        few = X[: theirs["rows"]]
        same = _one_pass(
            Problem(case(few, reach).problem.formulation, as_source(few, n_jobs=THREADS)), start
        )
        theirs["ratio"] = ours["rows_per_second"] / theirs["rows_per_second"]
        results[method] = theirs | {"ours_same_rows": judge(*same)}
        print(
            f"{name:33s} {theirs['ratio']:8.0f}× the rows per second of {method} ({theirs['rows']} rows); "
            f"f {ours['objective']:.6g}, {theirs['objective'] or math.inf:.6g}",
            flush=True,
        )
    return {"name": name, "ours": ours, "peers": results, "note": NOTE}


def _one_pass(problem: Problem, start: Array) -> tuple[Result, Array]:
    """Return the facts and the dictionary of our run after one pass."""
    moved = (it for it in iterate(VR(), problem, start, 0) if it.passes >= 1 and np.any(it.D != start))
    it = next(moved)
    coded = it.passes * problem.n_samples
    return {
        "rows": problem.n_samples, "passes": it.passes, "seconds": it.seconds,
        "rows_per_second": coded / it.seconds,
    }, it.D  # fmt: skip


def _online(peer: Any, X: Array, blas: int, most: int, patience: float) -> tuple[Result, Array]:
    """Return the facts and the dictionary of a peer after ``most`` rows, or fewer if it is too slow."""
    done, spent = 0, 0.0
    while done < min(most, len(X)) and spent < patience:
        some = X[done : min(done + 5, most)]
        spent += timed(lambda: peer.partial_fit(some), blas)[0]
        done += len(some)
    facts = {"rows": done, "seconds": spent, "rows_per_second": done / spent, "blas_threads": blas}
    return facts, np.array(peer.components_)


def _judged(problem: Problem, W: Array | None, facts: Result, D: Array) -> Result:
    """Add the objective, and the share of the true dictionary in the subspace that was found."""
    if not np.all(np.isfinite(D)):
        return facts | {"objective": None, "expressed": None}
    objective = fair_objective(problem, ROBUST_CODER)(D)
    return facts | {"objective": objective, "expressed": _expressed(D, W)}


def _expressed(D: Array, W: Array | None) -> Result | None:
    """Return the shares of ‖W‖² in the leading directions of D and in its whole span."""
    if W is None:
        return None
    _, sizes, directions = np.linalg.svd(D, full_matrices=False)
    shares = np.sum((W @ directions[sizes > 1e-9 * sizes[0]].T) ** 2, axis=0) / np.sum(W**2)
    return {"leading": float(np.sum(shares[: len(W)])), "span": float(np.sum(shares))}
