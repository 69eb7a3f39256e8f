"""How well RobustPCA without a rank and weights recovers low-rank data, against convex programs.

    python -m benchmarks.recovery                   # all parts; goes on where it was interrupted
    python -m benchmarks.recovery exact phase       # some parts
    python -m benchmarks.recovery exact --again     # measures them anew
    python -m benchmarks.recovery check             # the convex programs against CVXPY

Parts: ``exact``, data without noise; ``phase``, at which ranks and shares of errors recovery succeeds;
``noise``, against stable principal component pursuit that knows the noise; ``synth``, the paper's data;
``time``, seconds to a relative error of 10⁻⁵, and data in a file; ``video``, objects that move over a
background. Videos come from the folder that the environment variable VRMF_DATA names.

Makes results/recovery.json, a table recovery.md and three figures. Every case is saved once it is measured.
PCP is principal component pursuit by an inexact augmented Lagrangian method, see ``recovery_data.py``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks import recovery_data as data
from benchmarks import recovery_report
from benchmarks.common import RESULTS, THREADS, Array, machine, read, synth, write
from benchmarks.memory import PeakMemory
from benchmarks.recovery_data import Mixture, mixture
from experiments.paper.figures import expressed_variance
from vrmf.coding import Atoms, Coder

Found = dict[str, Any]
Cases = dict[str, Callable[[], Found]]

SEEDS = (0, 1, 2)

#: Part "phase": the size, shares of it that are the rank, shares of errors, and seconds of a fit.
PHASE_SIZE = 400
PHASE_RANKS = np.linspace(0.02, 0.3, 8)
PHASE_ERRORS = np.linspace(0.02, 0.4, 8)
PHASE_SECONDS = 60

#: Part "time": a relative error, problems with their ranks and shares of errors, and the one in a file.
ACCURACY = 1e-5
PROBLEMS = {(1000, 1000): (50, 0.05), (20_000, 500): (10, 0.1)}
LARGE = (200_000, 500)
LARGE_RANK, LARGE_ERRORS = 10, 0.1
SAMPLE = 1000

#: Part "video": residuals above which PCP may take a pixel for an object.
THRESHOLDS = (5, 8, 10, 12, 15, 20, 25, 30, 40)
VIDEO_SEEDS = range(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join([*PARTS, 'check'])}")
    parser.add_argument("--again", action="store_true", help="measure these parts anew")
    parser.add_argument("--file", help=argparse.SUPPRESS)  # a process of its own: what to fit
    chosen = parser.parse_args()
    unknown = set(chosen.parts) - {*PARTS, "check"}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not a part. Use {', '.join([*PARTS, 'check'])}.")
    warnings.simplefilter("ignore")
    if chosen.file:
        print(json.dumps(fit_file(Path(chosen.file))))
        return
    if "check" in chosen.parts:
        data.check()
    parts = [part for part in chosen.parts or PARTS if part != "check"]
    with threadpool_limits(THREADS):
        warm_up()
        for part in parts:
            survey(part, chosen.again)
    if parts:
        write("recovery", read("recovery") | {"machine": machine()})
        recovery_report.report(read("recovery"), RESULTS)


def warm_up() -> None:
    """Compile what fits need."""
    vrmf.RobustPCA(random_state=0).fit(mixture(60, 40, 2, 0.05, seed=0).X)


def survey(part: str, again: bool) -> None:
    """Measure the cases of a part that are not known yet, and save each at once."""
    known = {} if again else read("recovery").get(part, {})
    write("recovery", read("recovery") | {part: known})
    missing = {key: case for key, case in PARTS[part]().items() if key not in known}
    measured = pooled(missing) if part == "phase" else ((key, case()) for key, case in missing.items())
    for key, found in measured:
        results = read("recovery")
        results.setdefault(part, {})[key] = found
        write("recovery", results)
        told = "  ".join(f"{name} {value:.4g}" for name, value in found.items() if isinstance(value, float))
        print(f"{part}: {key:45s} {told}", flush=True)


def pooled(cases: Cases) -> Iterator[tuple[str, Found]]:
    """Yield the results of cases from processes of one thread each."""
    with multiprocessing.get_context("spawn").Pool(THREADS) as pool:
        yield from pool.imap_unordered(_alone, cases.items())


def _alone(item: tuple[str, Callable[[], Found]]) -> tuple[str, Found]:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        return item[0], item[1]()


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its seconds."""
    began = time.perf_counter()
    return run(), time.perf_counter() - began


# ------------------------------------------------------------------ without noise


def exact_cases() -> Cases:
    """Return fits at three sizes; PCP has one seed at the largest."""
    cases: Cases = {}
    for n in (500, 1000, 2000):
        for share in (0.05, 0.1):
            for seed in SEEDS:
                key, place = f"n={n}, errors {share:.0%}, seed {seed}", (n, share, seed)
                cases[f"{key}, ours"] = partial(exact_ours, *place)
                if n < 2000 or seed == 0:
                    cases[f"{key}, PCP"] = partial(exact_pcp, *place)
    return cases


def exact_ours(n: int, share: float, seed: int) -> Found:
    """Return how our fit did."""
    made = mixture(n, n, n // 20, share, seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(made.X))
    return {
        "n": n,
        "errors": share,
        "method": "ours",
        "error": made.error(model.decompose(made.X)[0]),
        "rank": model.rank_,
        "mask": made.right(model.outlier_mask(made.X)),
        "passes": model.n_passes_,
        "seconds": seconds,
        "reason": model.stop_reason_,
    }


def exact_pcp(n: int, share: float, seed: int) -> Found:
    """Return how PCP did, on one thread, since a second one hardly helps the decomposition."""
    made = mixture(n, n, n // 20, share, seed)
    with threadpool_limits(1):
        (L, rank), seconds = timed(lambda: data.pcp(made.X))
    error = made.error(L)
    return {"n": n, "errors": share, "method": "PCP", "error": error, "rank": rank, "seconds": seconds}


# ------------------------------------------------------------------ where recovery succeeds


def phase_cases() -> Cases:
    """Return three trials of each cell."""
    return {
        f"rank {rank:.2f}, errors {share:.3f}, seed {seed}": partial(phase_trial, rank, share, seed)
        for rank in PHASE_RANKS.tolist()
        for share in PHASE_ERRORS.tolist()
        for seed in SEEDS
    }


def phase_trial(rank_share: float, share: float, seed: int) -> Found:
    """Return the errors of our fit and of PCP."""
    n, rank = PHASE_SIZE, round(rank_share * PHASE_SIZE)
    made = mixture(n, n, rank, share, seed)
    model = vrmf.RobustPCA(random_state=seed, n_jobs=1, max_time=PHASE_SECONDS)
    _, seconds = timed(lambda: model.fit(made.X))
    (L, pcp_rank), pcp_seconds = timed(lambda: data.pcp(made.X, growth=data.SLOW_GROWTH))
    return {
        "rank share": rank_share,
        "errors": share,
        "rank": rank,
        "ours": made.error(model.decompose(made.X)[0]),
        "PCP": made.error(L),
        "ours, rank": model.rank_,
        "PCP, rank": pcp_rank,
        "ours, seconds": seconds,
        "PCP, seconds": pcp_seconds,
        "reason": model.stop_reason_,
    }


# ------------------------------------------------------------------ noise


def noise_cases() -> Cases:
    """Return two problems with little and more noise."""
    return {
        f"n={n}, rank {rank}, noise {noise:.0%}, seed {seed}": partial(noisy, n, rank, noise, seed)
        for n, rank in ((500, 25), (400, 10))
        for noise in (0.01, 0.05)
        for seed in SEEDS
    }


def noisy(n: int, rank: int, noise: float, seed: int) -> Found:
    """Return our error and that of stable PCP with the true level of noise."""
    made = mixture(n, n, rank, 0.1, seed, noise)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(made.X))
    L, stable_seconds = timed(lambda: data.stable_pcp(made.X, *data.stable_weights((n, n), made.noise)))
    ours, stable = made.error(model.decompose(made.X)[0]), made.error(L)
    return {
        "n": n,
        "rank": rank,
        "noise": noise,
        "error": ours,
        "stable PCP, error": stable,
        "ratio": ours / stable,
        "found rank": model.rank_,
        "noise, found over true": model.noise_ / made.noise,
        "seconds": seconds,
        "stable PCP, seconds": stable_seconds,
    }


# ------------------------------------------------------------------ the paper's data


def synth_cases() -> Cases:
    """Return the paper's data with fewer and more outliers."""
    return {
        f"outliers {share:.0%}, seed {seed}": partial(recovered_synth, share, seed)
        for share in (0.1, 0.3)
        for seed in SEEDS
    }


def recovered_synth(share: float, seed: int) -> Found:
    """Return the variance that the leading ten directions express."""
    X, dictionary = synth(10_000, share, seed=seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(X))
    leading = np.linalg.svd(model.components_, full_matrices=False)[2][: len(dictionary)]
    expressed = expressed_variance(leading.T, scipy.linalg.orth(dictionary.T))
    return {
        "outliers": share,
        "expressed": expressed,
        "rank": model.rank_,
        "passes": model.n_passes_,
        "seconds": seconds,
    }


# ------------------------------------------------------------------ seconds


def time_cases() -> Cases:
    """Return the contests, each repeated, and the data in a file."""
    contests: Cases = {
        f"{n} × {d}, repeat {repeat}": partial(contest, n, d, repeat)
        for n, d in PROBLEMS
        for repeat in range(3)
    }
    return contests | {"{} × {}, from a file".format(*LARGE): large}


def contest(n: int, d: int, repeat: int) -> Found:
    """Return the seconds of all contestants to the wanted accuracy, None where they do not get there."""
    rank, share = PROBLEMS[n, d]
    made = mixture(n, d, rank, share, seed=repeat)
    return {
        "n": n,
        "d": d,
        "rank": rank,
        "errors": share,
        "ours": seconds_of_ours(made, repeat),
        "PCP": seconds_of_pcp(made, data.soft_spectrum),
        "PCP by TᵀT": seconds_of_pcp(made, data.soft_spectrum_by_gram),
        "load": os.getloadavg()[0],  # above the number of threads others were at work
    }


def seconds_of_ours(made: Mixture, seed: int) -> float | None:
    """Return the seconds until an iterate is accurate, with those that the start takes."""
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


def seconds_of_pcp(made: Mixture, shrink: data.Shrink) -> float | None:
    """Return the seconds until an iterate of PCP is accurate."""
    seconds, iterates = 0.0, data.pcp_iterates(made.X, shrink)
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
        command = [sys.executable, "-m", "benchmarks.recovery", "--file", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


def make_file(path: Path, chunk: int = 10_000) -> None:
    """Write rows as ``mixture`` draws them into a file, chunk by chunk, and the first of L beside it."""
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
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with PeakMemory() as memory:
        model, seconds = timed(lambda: vrmf.RobustPCA(random_state=0).fit(X))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    low_rank = model.decompose(np.array(X[: len(L)]))[0]
    return {
        "n": X.shape[0],
        "d": X.shape[1],
        "error": float(np.linalg.norm(low_rank - L) / np.linalg.norm(L)),
        "rank": model.rank_,
        "passes": model.n_passes_,
        "seconds": seconds,
        "peak with mapped pages, MB": (after - before) * 1024 / 1e6,
        "peak, MB": memory.peak / 1e6,
        "data, MB": X.nbytes / 1e6,
        "reason": model.stop_reason_,
    }


# ------------------------------------------------------------------ videos


def video_cases() -> Cases:
    """Return scenes of both videos, if these are there."""
    folder = data.video_folder()
    if folder is None:
        print("video: left out, since the environment variable VRMF_DATA names no folder with the videos")
        return {}
    return {
        f"{name}, seed {seed}": partial(film, folder, name, seed)
        for name in data.VIDEOS
        for seed in VIDEO_SEEDS
    }


def film(folder: Path, name: str, seed: int) -> Found:
    """Return F-measures of our mask and of PCP's best one; the first seed also draws a frame."""
    X, covered, shape = data.scene(folder, name, seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=0).fit(X))
    mask = model.outlier_mask(X)
    (L, rank), pcp_seconds = timed(lambda: data.pcp(X, tol=1e-5, shrink=data.soft_spectrum_by_gram))
    best, threshold = max((data.f_measure(np.abs(X - L) > level, covered), level) for level in THRESHOLDS)
    if seed == VIDEO_SEEDS[0]:
        keep_frame(name, [X, model.decompose(X)[0], mask, covered], shape)
    return {
        "video": name,
        "F": data.f_measure(mask, covered),
        "PCP, F": best,
        "PCP, threshold": threshold,
        "rank": model.rank_,
        "PCP, rank": rank,
        "noise": model.noise_,
        "passes": model.n_passes_,
        "seconds": seconds,
        "PCP, seconds": pcp_seconds,
        "reason": model.stop_reason_,
    }


def keep_frame(name: str, rows: list[Array], shape: tuple[int, int]) -> None:
    """Draw the frame in the middle: as it is, its background, the mask and the truth."""
    frames = [part[data.FRAMES // 2].reshape(shape) for part in rows]
    recovery_report.draw_frame(name, frames, RESULTS / f"recovery_{name}.svg")


PARTS: dict[str, Callable[[], Cases]] = {
    "exact": exact_cases,
    "phase": phase_cases,
    "noise": noise_cases,
    "synth": synth_cases,
    "time": time_cases,
    "video": video_cases,
}


if __name__ == "__main__":
    main()
