"""Our default solver against those of SPAMS, scikit-learn, dictlearn and hyperspy; parts of solvers.py.

All get the same rows and threads, and the same start where a peer takes one. Runs only keep their
dictionaries; these are measured afterwards, off the clock, by exact codes. Our times are of steps.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks import solver_problems
from benchmarks.common import THREADS, Array, cbcl, mnist, rows_as_atoms, synth, yaleb
from benchmarks.patches import patches, weight_for
from benchmarks.solver_problems import ATOMS, Case
from vrmf import formulations
from vrmf.coding import Coder
from vrmf.formulations import Formulation
from vrmf.problem import Problem, feasible
from vrmf.running.loop import iterate
from vrmf.solvers import VR
from vrmf.sources import as_source, single_threaded_blas
from vrmf.stats import Stats
from vrmf.weights import harmless_ridge

SEEDS = (0, 1, 2)
WEIGHT = 1 / 28
EXACT = Coder(tol=1e-9)
#: For robust codes, some of which take for ever on the nearly singular dictionaries of hyperspy; the
#: objective is right to six digits.
NEARLY_EXACT = Coder(tol=1e-4)

Result = dict[str, Any]


class Snapshot(NamedTuple):
    """A dictionary of our run, and when it was there."""

    seconds: float
    passes: float
    D: Array


class Yardstick:
    """Measures dictionaries by exact codes, each pass starting from the codes of the one before."""

    def __init__(self, problem: Problem, coder: Coder = EXACT) -> None:
        self.problem, self.coder = problem, coder
        self.codes: Array | None = None

    def stats(self, D: Array) -> tuple[Stats, Array]:
        """Return the sums at D, or at the nearest feasible dictionary, with that dictionary."""
        D = feasible(self.problem.formulation, np.ascontiguousarray(D))
        codes = np.empty((self.problem.n_samples, len(D)))
        with single_threaded_blas():
            stats = self.problem.stats(D, self.coder, start=self.codes, keep=codes)
        self.codes = codes
        return stats, D

    def objective(self, D: Array) -> float:
        """Return f."""
        return float(self.problem.measure(*self.stats(D)).objective)

    def frobenius(self, D: Array) -> float:
        """Return ‖X − HD‖, for a formulation whose only penalty is a ridge on codes."""
        stats, _ = self.stats(D)
        assert self.codes is not None
        penalty = float(np.sum(self.problem.formulation.code.row_values(self.codes)))
        return math.sqrt(2 * (stats.loss - penalty))


class Run:
    """Our run: a trace of dictionaries, 5 ms apart at first and 2 % later, measured on demand.

    It goes on as long as it has to, but not beyond the limit.
    """

    def __init__(
        self, problem: Problem, start: Array, seed: int, limit: float, measure: Callable[[Array], float]
    ) -> None:
        self.limit, self.measure, self.known = limit, measure, dict[int, float]()
        self.iterates = iterate(VR(), problem, start, seed)
        self.snapshots = [Snapshot(0.0, 0.0, start)]

    def extend(self, seconds: float) -> None:
        """Go on until so many seconds are over."""
        for it in self.iterates:
            if it.seconds >= min(1.02 * self.snapshots[-1].seconds + 0.005, seconds):
                self.snapshots.append(Snapshot(it.seconds, it.passes, it.D))
            if it.seconds >= seconds:
                return

    def value(self, index: int) -> float:
        """Return the value of a snapshot, measured at most once."""
        if index not in self.known:
            self.known[index] = self.measure(self.snapshots[index].D)
        return self.known[index]

    def at(self, seconds: float) -> float:
        """Return the value of the last snapshot by then."""
        return self.value(max(i for i, s in enumerate(self.snapshots) if s.seconds <= seconds))

    def reach(self, target: float) -> float | None:
        """Return the seconds to the target, by bisection since values fall; None if it is not reached."""
        while self.at(math.inf) > target:
            now = self.snapshots[-1].seconds
            if now >= self.limit:
                return None
            self.extend(min(max(2 * now, 0.5), self.limit))
        low, high = 0, len(self.snapshots) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.value(middle) <= target else (middle, high)
        return self.snapshots[high].seconds

    def curve(self) -> list[list[float]]:
        """Return (seconds, passes, value) wherever the value is known."""
        return [[*self.snapshots[i][:2], value] for i, value in sorted(self.known.items())]


def problem_of(model: Formulation, X: Array, start: Array) -> Problem:
    """Return the problem on two threads, after a short run on few rows has compiled all it needs."""
    few = Problem(model, as_source(X[:500], n_jobs=THREADS))
    next(it for it in iterate(VR(), few, start, 0) if it.passes > 3)
    return Problem(model, as_source(X, n_jobs=THREADS))


def timed(work: Callable[[], Any], blas: int = THREADS) -> tuple[float, Any]:
    """Return the seconds that a peer takes, and what it returns; its chatter is dropped."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(threadpool_limits({"blas": blas, "openmp": THREADS}))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))  # bars of progress
        warnings.simplefilter("ignore")
        begin = time.perf_counter()
        value = work()
        return time.perf_counter() - begin, value


def quickest(work: Callable[[int], Any], jobs: Sequence[int] = (1,)) -> tuple[int, int]:
    """Return the number of jobs and of threads of BLAS with which a second run is the quickest.

    On small products two threads may be many times slower than one, for which no peer is to blame.
    """
    seconds = {}
    for choice in itertools.product(jobs, (1, THREADS)):
        seconds[choice] = [timed(lambda: work(choice[0]), choice[1])[0] for _ in range(2)][1]
    return min(seconds, key=lambda choice: seconds[choice])


def median(values: Iterable[float | None]) -> float | None:
    """Return the median, where None is later than all; None if that is what it is."""
    middle = statistics.median(math.inf if value is None else value for value in values)
    return float(middle) if math.isfinite(middle) else None


def compare(name: str, peer: str, wanted: float, runs: list[Result], note: str = "") -> Result:
    """Say how many times sooner we are where the peer ends, by medians over seeds."""
    ours, theirs = median(run["reached"] for run in runs), median(run["seconds"] for run in runs)
    ratio = None if ours is None or theirs is None else theirs / ours
    met = ratio is not None and ratio >= wanted
    told = "never" if ratio is None else f"{ratio:.1f}× sooner, {ours:.3f} s"
    print(f"{name:28s} {told} (wanted {wanted:g}×), {peer} {theirs:.3f} s", flush=True)
    seconds = {"vrmf": ours, peer: theirs}
    return {
        "name": name, "peer": peer, "wanted": wanted, "ratio": ratio, "met": met, "seconds": seconds,
        "value": median(run["value"] for run in runs), "runs": runs, "note": note,
    }  # fmt: skip


# ------------------------------------------------------------------ SPAMS


def spams(
    rows: Sequence[int] = (10_000, 60_000),
    atoms: Sequence[int] = (ATOMS, 100),
    times: Sequence[int] = (1, 2, 5, 10, 20),
    batches: Sequence[int] = (92, 256, 512),
    seeds: Sequence[int] = SEEDS,
) -> list[Result]:
    """Dictionary learning on MNIST: objectives after equal times, SPAMS at its best batch size."""
    results = []
    for n in rows:
        X = mnist(n)
        for k in atoms:
            start, trial = rows_as_atoms(X, k, seeds[0]), min(5, times[-1])
            problem = problem_of(formulations.dictionary_learning(WEIGHT), X, start)
            _, blas = quickest(lambda _: _train_dl(X, start, 256, 10))
            tried = {}
            for size in batches:
                _, D = timed(lambda: _train_dl(X, start, size, -trial), blas)
                tried[size] = Yardstick(problem).objective(D)
            best = min(tried, key=lambda size: tried[size])
            train = partial(_train_dl, X, batch=best)
            runs = [_against_spams(problem, rows_as_atoms(X, k, s), train, blas, times, s) for s in seeds]
            facts = {"rows": n, "atoms": k, "batch": best, "tried": tried, "blas_threads": blas}
            results.append(_after_equal_times(f"MNIST {n}, k={k}", times, runs, facts))
    return results


def spams_patches(
    rows: Sequence[int] = (30_000, 200_000),
    sizes: Sequence[tuple[int, int]] = ((64, 256), (144, 512)),
    times: Sequence[int] = (1, 2, 5, 10, 20),
    batches: Sequence[int] = (256, 512, 1024),
    seed: int = 0,
) -> list[Result]:
    """Dictionary learning on patches of faces, k > d and about ten nonzeros, against SPAMS.

    Its runs of one batch size differ widely, so it gets the best of all batch sizes after each time.
    """
    results = []
    for n in rows:
        for d, k in sizes:
            X = patches("faces", d, n)
            start = rows_as_atoms(X, k, seed)
            weight = weight_for(X[:400], start, 10)
            problem = problem_of(formulations.dictionary_learning(weight), X, start)
            ours = Run(problem, start, seed, times[-1], Yardstick(problem).objective)
            ours.extend(times[-1])
            yardstick = Yardstick(problem)
            theirs = [
                min(yardstick.objective(_train_dl(X, start, b, -t, weight)) for b in batches) for t in times
            ]
            run = {
                "seed": seed,
                "ours": [ours.at(seconds) for seconds in times],
                "theirs": theirs,
                "reached": ours.reach(min(theirs)),
                "curve": ours.curve(),
            }
            facts = {"rows": n, "atoms": k, "weight": weight, "batch": "best"}
            results.append(_after_equal_times(f"faces {d} × {n}, k={k}", times, [run], facts))
    return results


def _train_dl(X: Array, D: Array, batch: int, iterations: int, weight: float = WEIGHT) -> Array:
    """Return the dictionary of SPAMS; it takes a negative number of iterations for seconds."""
    import spams as peer

    learned = peer.trainDL(
        X.T, D=np.asfortranarray(D.T), lambda1=weight, mode=2, iter=iterations,
        numThreads=THREADS, batchsize=batch, verbose=False,
    )  # fmt: skip
    return np.ascontiguousarray(learned.T)


def _against_spams(
    problem: Problem,
    start: Array,
    train: Callable[..., Array],
    blas: int,
    times: Sequence[int],
    seed: int,
) -> Result:
    ours = Run(problem, start, seed, times[-1], Yardstick(problem).objective)
    ours.extend(times[-1])
    peers = [timed(lambda: train(start, iterations=-seconds), blas) for seconds in times]
    yardstick = Yardstick(problem)
    for seconds in (0.0, 0.25, 0.5, 3.0):  # for the curve
        ours.at(seconds)
    theirs = [yardstick.objective(D) for _, D in peers]
    return {
        "seed": seed,
        "ours": [ours.at(seconds) for seconds in times],
        "theirs": theirs,
        "their_seconds": [seconds for seconds, _ in peers],
        "reached": ours.reach(theirs[-1]),
        "curve": ours.curve(),
    }


def _after_equal_times(name: str, times: Sequence[int], runs: list[Result], facts: Result) -> Result:
    """Return medians over seeds of both objectives, and when we are where SPAMS ends."""
    ours, theirs = (
        [statistics.median(run[who][i] for run in runs) for i in range(len(times))]
        for who in ("ours", "theirs")
    )
    holds = [f <= 1.001 * g for f, g in zip(ours, theirs, strict=True)]
    reached = median(run["reached"] for run in runs)
    told = "never" if reached is None else f"after {reached:.2f} s"
    pairs = ", ".join(f"{t} s: {f / g:.4f}" for t, f, g in zip(times, ours, theirs, strict=True))
    print(f"{name:20s} our objective over theirs at {pairs}; at their last {told}", flush=True)
    return {
        "name": name, "peer": "SPAMS", **facts, "seconds": list(times), "ours": ours, "theirs": theirs,
        "holds": holds, "reached": reached, "runs": runs,
    }  # fmt: skip


# ------------------------------------------------------------------ scikit-learn and dictlearn


def sklearn_dictionary(
    rows: int = 10_000, limit: float = 20.0, seeds: Sequence[int] = SEEDS
) -> list[Result]:
    """Dictionary learning on MNIST: the time to the objective at which scikit-learn and dictlearn end."""
    X = mnist(rows)
    problem = problem_of(formulations.dictionary_learning(WEIGHT), X, rows_as_atoms(X, ATOMS))
    peers = _dictionary_peers(X)
    runs: dict[str, list[Result]] = {name: [] for name in peers}
    for seed in seeds:
        start = rows_as_atoms(X, ATOMS, seed)
        ours = Run(problem, start, seed, limit, Yardstick(problem).objective)
        for name, peer in peers.items():
            spent, model = timed(lambda: peer.fit(X, start, seed), peer.blas)
            value = Yardstick(problem).objective(model.components_)
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
    """Return the peers, each with the threads that suit it best on few rows."""
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
        len(D), alpha=WEIGHT, fit_algorithm="cd", batch_size=256, max_iter=epochs, n_jobs=jobs,
        max_no_improvement=None, tol=0, dict_init=D, random_state=seed,
    ).fit(X)  # fmt: skip


def _dictlearn_epoch(X: Array, D: Array, seed: int) -> Any:
    import dictlearn

    def codes(batch: Array, D: Array, **_: Any) -> Array:
        # Its loss has no ½, hence twice the weight.
        return np.asarray(dictlearn.sparse_encode(batch, D, algorithm="fista", alpha=2 * WEIGHT))

    model = dictlearn.MiniBatchDictionaryLearning(
        len(D), transform_algorithm=codes, n_nonzero_coefs=len(D), batch_size=256, dict_init=D
    )
    return model.partial_fit(X[np.random.default_rng(seed).permutation(len(X))])


def _dictlearn_pass(X: Array, D: Array, seed: int) -> Any:
    import dictlearn

    # This is its L1DictionaryLearning, which fails by itself where k < d/10.
    return dictlearn.DictionaryLearning(
        len(D), fit_algorithm="apru", transform_algorithm="fista", transform_alpha=2 * WEIGHT,
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
    """Return the runs of one seed against each peer; ours may take as long as the slowest of them."""
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
    # Our default: its weight, and its start, whose time counts.
    default = vrmf.NMF(ATOMS, random_state=seed, n_jobs=THREADS)
    next(default.iterate(X))  # which compiles what a start needs
    began, moment = timed(lambda: next(default.iterate(X)))
    problem = problem_of(formulations.nonnegative(harmless_ridge("alpha", "auto", X.shape[1])), X, moment.D)
    ours = Run(problem, moment.D, seed, max(5.0, *spent.values()), Yardstick(problem).frobenius)
    results = {}
    for name, model in models.items():
        size = model.components_.sum(axis=1, keepdims=True)
        value = Yardstick(problem).frobenius(model.components_ / np.where(size > 0, size, 1))
        reached = ours.reach(value)
        results[name] = {
            "seed": seed, "seconds": spent[name], "value": value,
            "reached": None if reached is None else reached + began, "start": began,
            "own_error": float(model.reconstruction_err_), "steps": int(model.n_iter_),
        }  # fmt: skip
    return results


# ------------------------------------------------------------------ hyperspy


class Setting(NamedTuple):
    """Rows for the robust models, and the true dictionary if there is one."""

    name: str
    X: Array
    W: Array | None
    reach: float  #: of what is no outlier


NOTE = (
    "hyperspy sees the first rows only, as most of its methods need hours for all; ours: a pass over all "
    "of them, and ours_same_rows: a pass over those that hyperspy saw. Objectives: on a sample of all "
    "rows. ORPCA has our start; ORNMF takes none"
)


def hyperspy_online(
    rows: int = 100_000, most: int = 300, patience: float = 10.0, sample: int = 2000
) -> list[Result]:
    """Robust PCA and NMF, by rows per second, and by what the rows that hyperspy manages teach."""
    from hyperspy.learn._rpca import ORPCA
    from hyperspy.learn.ornmf import ORNMF

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
    # By its first method only, as some of the others take ten seconds for a row.
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
    """Return the facts and the dictionary of our run when it has coded as many rows as there are."""
    moved = (it for it in iterate(VR(), problem, start, 0) if it.passes >= 1 and np.any(it.D != start))
    it = next(moved)
    coded = it.passes * problem.n_samples
    return {
        "rows": problem.n_samples, "passes": it.passes, "seconds": it.seconds,
        "rows_per_second": coded / it.seconds,
    }, it.D  # fmt: skip


def _online(peer: Any, X: Array, blas: int, most: int, patience: float) -> tuple[Result, Array]:
    """Return the facts and the dictionary of a peer after so many rows, or fewer if it is too slow."""
    done, spent = 0, 0.0
    while done < min(most, len(X)) and spent < patience:
        some = X[done : min(done + 5, most)]
        spent += timed(lambda: peer.partial_fit(some), blas)[0]
        done += len(some)
    facts = {"rows": done, "seconds": spent, "rows_per_second": done / spent, "blas_threads": blas}
    return facts, np.array(peer.components_)


def _judged(problem: Problem, W: Array | None, facts: Result, D: Array) -> Result:
    """Add the objective, and how much of the true dictionary lies in the subspace that was found."""
    if not np.all(np.isfinite(D)):
        return facts | {"objective": None, "expressed": None}
    objective = Yardstick(problem, NEARLY_EXACT).objective(D)
    return facts | {"objective": objective, "expressed": _expressed(D, W)}


def _expressed(D: Array, W: Array | None) -> Result | None:
    """Return the shares of ‖W‖² in the leading directions of D and in its whole span."""
    if W is None:
        return None
    _, sizes, directions = np.linalg.svd(D, full_matrices=False)
    shares = np.sum((W @ directions[sizes > 1e-9 * sizes[0]].T) ** 2, axis=0) / np.sum(W**2)
    return {"leading": float(np.sum(shares[: len(W)])), "span": float(np.sum(shares))}


__all__ = ["hyperspy_online", "sklearn_dictionary", "sklearn_nmf", "spams", "spams_patches"]
