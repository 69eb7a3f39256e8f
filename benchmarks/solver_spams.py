"""Dictionary learning against SPAMS; parts of solvers.py."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks.common import THREADS, Array, mnist, rows_as_atoms
from benchmarks.patches import patches, weight_for
from benchmarks.solver_problems import ATOMS
from benchmarks.solver_races import (
    MNIST_WEIGHT,
    SEEDS,
    Result,
    Run,
    fair_objective,
    median,
    problem_of,
    quickest,
    timed,
)
from vrmf import formulations
from vrmf.problem import Problem


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
            problem = problem_of(formulations.dictionary_learning(MNIST_WEIGHT), X, start)
            _, blas = quickest(lambda _: _train_dl(X, start, 256, 10))
            tried = {}
            for size in batches:
                _, D = timed(lambda: _train_dl(X, start, size, -trial), blas)
                tried[size] = fair_objective(problem)(D)
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

    The best batch size of SPAMS varies from run to run, so it gets the best of all after each time.
    """
    results = []
    for n in rows:
        for d, k in sizes:
            X = patches("faces", d, n)
            start = rows_as_atoms(X, k, seed)
            weight = weight_for(X[:400], start, 10)
            problem = problem_of(formulations.dictionary_learning(weight), X, start)
            ours = Run(problem, start, seed, times[-1], fair_objective(problem))
            ours.extend(times[-1])
            _, blas = quickest(lambda _: _train_dl(X, start, batches[0], 10, weight))
            objective, train = fair_objective(problem), partial(_train_dl, X, start, weight=weight)
            theirs = [min(objective(timed(partial(train, b, -t), blas)[1]) for b in batches) for t in times]
            run = {
                "seed": seed,
                "ours": [ours.at(seconds) for seconds in times],
                "theirs": theirs,
                "reached": ours.reach(min(theirs)),
                "curve": ours.curve(),
            }
            facts = {"rows": n, "atoms": k, "weight": weight, "batch": "best", "blas_threads": blas}
            results.append(_after_equal_times(f"faces {d} × {n}, k={k}", times, [run], facts))
    return results


def _train_dl(X: Array, D: Array, batch: int, iterations: int, weight: float = MNIST_WEIGHT) -> Array:
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
    ours = Run(problem, start, seed, times[-1], fair_objective(problem))
    ours.extend(times[-1])
    peers = [timed(lambda: train(start, iterations=-seconds), blas) for seconds in times]
    objective = fair_objective(problem)
    for seconds in (0.0, 0.25, 0.5, 3.0):  # for the curve
        ours.at(seconds)
    theirs = [objective(D) for _, D in peers]
    return {
        "seed": seed,
        "ours": [ours.at(seconds) for seconds in times],
        "theirs": theirs,
        "their_seconds": [seconds for seconds, _ in peers],
        "reached": ours.reach(theirs[-1]),
        "curve": ours.curve(),
    }


def _after_equal_times(name: str, times: Sequence[int], runs: list[Result], facts: Result) -> Result:
    """Return medians over seeds of both objectives, and when ours is that at which SPAMS ends."""
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
