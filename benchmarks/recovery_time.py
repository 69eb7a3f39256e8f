"""The seconds to an accurate recovery, and data in a file; a part of recovery.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks.common import THREADS
from benchmarks.memory import PeakMemory
from benchmarks.recovery_convex import Shrink, pcp_iterates, soft_spectrum, soft_spectrum_by_gram
from benchmarks.recovery_data import Mixture, mixture
from benchmarks.recovery_runs import Cases, Found, timed, warm_up
from vrmf.coding import Atoms, Coder

#: The relative error to reach.
ACCURACY = 1e-5

#: The rank and the share of errors of each shape.
PROBLEMS = {(1000, 1000): (50, 0.05), (20_000, 500): (10, 0.1)}

#: The data in a file, and how many of their rows the error is measured on.
LARGE = (200_000, 500)
LARGE_RANK, LARGE_ERRORS = 10, 0.1
SAMPLE = 1000


def time_cases() -> Cases:
    """Return the contests, each repeated, and the data in a file."""
    contests: Cases = {
        f"{n} × {d}, repeat {repeat}": partial(contest, n, d, repeat)
        for n, d in PROBLEMS
        for repeat in range(3)
    }
    return contests | {"{} × {}, from a file".format(*LARGE): large}


def contest(n: int, d: int, repeat: int) -> Found:
    """Return the seconds of each contestant to the wanted accuracy, None where it is not reached."""
    rank, share = PROBLEMS[n, d]
    made = mixture(n, d, rank, share, seed=repeat)
    return {
        "n": n,
        "d": d,
        "rank": rank,
        "errors": share,
        "ours": seconds_of_ours(made, repeat),
        "PCP": seconds_of_pcp(made, soft_spectrum),
        "PCP by TᵀT": seconds_of_pcp(made, soft_spectrum_by_gram),
        "load": os.getloadavg()[0],  # if above the number of threads, other programs ran as well
    }


def seconds_of_ours(made: Mixture, seed: int) -> float | None:
    """Return the seconds until an iterate is accurate, including those of the start."""
    began, start, place = time.perf_counter(), None, None
    for current in vrmf.RobustPCA(random_state=seed).iterate(made.X):
        start = time.perf_counter() - began if start is None else start
        if place == (current.stage.index, current.epoch):
            continue
        place = (current.stage.index, current.epoch)
        H = current.stage.formulation.encode(made.X, Atoms(current.D), Coder(tol=1e-9)).H
        if made.error(H @ current.D) <= ACCURACY:
            return start + current.seconds
    return None


def seconds_of_pcp(made: Mixture, shrink: Shrink) -> float | None:
    """Return the seconds until an iterate of PCP is accurate."""
    seconds, iterates = 0.0, pcp_iterates(made.X, shrink)
    for _ in range(100):
        (L, _, _), spent = timed(lambda: next(iterates))
        seconds += spent
        if made.error(L) <= ACCURACY:
            return seconds
    return None


def large() -> Found:
    """Fit rows of a file in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        make_file(path)
        command = [sys.executable, "-m", "benchmarks.recovery_time", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


def make_file(path: Path, chunk: int = 10_000) -> None:
    """Write data like those of ``mixture`` into a file by chunks, and the first rows of L into another."""
    n, d = LARGE
    rng = np.random.default_rng(0)
    B = rng.standard_normal((LARGE_RANK, d))
    X = np.lib.format.open_memmap(path, "w+", np.float64, LARGE)
    for first in range(0, n, chunk):
        rows = rng.standard_normal((chunk, LARGE_RANK)) @ B / n
        if first == 0:
            np.save(path.with_name("low_rank.npy"), rows[:SAMPLE])
        hit = rng.random(rows.shape) < LARGE_ERRORS
        X[first : first + chunk] = rows + np.where(hit, rng.choice([-1.0, 1.0], rows.shape), 0.0)
    X.flush()


def fit_file(path: Path) -> Found:
    """Fit the rows of a file; the error is that of its first rows."""
    warm_up()
    X, L = np.load(path, mmap_mode="r"), np.load(path.with_name("low_rank.npy"))
    with PeakMemory() as memory:
        model, seconds = timed(lambda: vrmf.RobustPCA(random_state=0).fit(X))
    low_rank = model.decompose(np.array(X[: len(L)]))[0]
    return {
        "n": X.shape[0],
        "d": X.shape[1],
        "error": float(np.linalg.norm(low_rank - L) / np.linalg.norm(L)),
        "rank": model.rank_,
        "passes": model.n_passes_,
        "seconds": seconds,
        "peak, MB": memory.peak / 1e6,
        "data, MB": X.nbytes / 1e6,
        "reason": model.stop_reason_,
    }


if __name__ == "__main__":
    # In a process of its own, so that its memory is that of this fit.
    warnings.simplefilter("ignore")
    with threadpool_limits(THREADS):
        print(json.dumps(fit_file(Path(sys.argv[1]))))
