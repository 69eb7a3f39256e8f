"""Fits of data larger than memory: their memory and time, compared with arrays in memory.

    python -m benchmarks.out_of_core                      all of it: results/out_of_core.json and .md
    python -m benchmarks.out_of_core memory formats       only these parts; the other results stay
    python -m benchmarks.out_of_core --folder /data       where the file of 8 GB is made (it stays there)

The file has 10⁷ rows of 200 features in single precision; smaller n are its first rows. Every measurement
is a process of its own. Memory is RssAnon, sampled every 5 ms, above that after a fit of 2 000 rows in
memory. Pages of a mapped file are the system's cache and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, Array, machine, read, write
from benchmarks.memory import PeakMemory
from benchmarks.out_of_core_tables import markdown
from vrmf import DictionaryLearning
from vrmf.coding import Coder
from vrmf.problem import Problem
from vrmf.solvers import VR
from vrmf.sources import as_source
from vrmf.sources.tables import CHUNK_BYTES

ROWS, FEATURES, ATOMS, ALPHA = 10**7, 200, 20, 0.1
SIZES = (10**5, 10**6, 10**7)
REPEATS = 3

#: Seconds after which a peer is given up.
PEER_SECONDS = 60


# ------------------------------------------------------------------ the file


def dictionary() -> Array:
    """Return the atoms that made the data."""
    D = np.random.default_rng(0).normal(size=(ATOMS, FEATURES)).astype(np.float32)
    return D / np.linalg.norm(D, axis=1)[:, None]


def rows(first: int, count: int) -> Array:
    """Return rows of the data: sparse codes over the atoms, and noise."""
    rng = np.random.default_rng([1, first])
    codes = rng.exponential(size=(count, ATOMS)) * (rng.random((count, ATOMS)) < 0.2)
    noise = rng.standard_normal((count, FEATURES), dtype=np.float32)
    return codes.astype(np.float32) @ dictionary() + np.float32(0.05) * noise


def make_file(folder: Path, n: int) -> Path:
    """Write the first n rows of the data into a file, unless it is there."""
    path = folder / f"rows-{n}.npy"
    if not path.exists():
        partial = path.with_suffix(".partial")
        X = np.lib.format.open_memmap(partial, "w+", np.float32, (n, FEATURES))
        for first in range(0, n, 10**5):
            X[first : first + 10**5] = rows(first, min(10**5, n - first))
        X.flush()
        partial.rename(path)
    return path


def forget_pages(path: Path) -> None:
    """Drop the pages of a file, or of all files in a folder, from the cache of the system."""
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


# ------------------------------------------------------------------ what a child process measures


def model(**options: Any) -> DictionaryLearning:
    return DictionaryLearning(ATOMS, alpha=ALPHA, random_state=0, tol=0, **options)


def fit(path: str, cold: bool) -> dict[str, float]:
    """Fit one epoch of VR without a cache of codes: the opening, a full anchor and its steps."""
    solver = VR(cache_megabytes=0)
    model(solver=solver, max_iter=1).fit(rows(0, 2000))
    if cold:
        forget_pages(Path(path))
    fitted, began = model(solver=solver, max_iter=1), time.perf_counter()
    with PeakMemory() as memory:
        fitted.fit(path)
    return {
        "seconds": time.perf_counter() - began,
        "passes": fitted.n_passes_,
        "peak bytes": memory.peak,
        "objective": fitted.objective_,
    }


def one_pass(path: str, where: str) -> dict[str, float]:
    """Sum over all rows at the true dictionary: from memory, or from the file with a cold or warm cache."""
    X: Any = np.load(path) if where == "memory" and path.endswith(".npy") else path
    D, coder = dictionary(), Coder(tol=1e-4)
    problem = Problem(model().fit(rows(0, 2000)).formulation_, as_source(X))
    Problem(problem.formulation, as_source(rows(0, 2000))).stats(D, coder)
    if where == "cold":
        forget_pages(Path(path))
    began = time.perf_counter()
    with PeakMemory() as memory:
        stats = problem.stats(D, coder)
    return {"seconds": time.perf_counter() - began, "peak bytes": memory.peak, "loss": stats.mean_loss}


def reading(path: str) -> dict[str, float]:
    """Read a file from end to end, its pages not in the cache."""
    forget_pages(Path(path))
    began, buffer = time.perf_counter(), bytearray(2**24)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return {"seconds": time.perf_counter() - began, "bytes": os.path.getsize(path)}


def peer(path: str, name: str) -> dict[str, Any]:
    """Fit a peer to the mapped file, for one pass; if it takes too long, ``finished`` is False."""
    from sklearn.decomposition import IncrementalPCA, MiniBatchDictionaryLearning

    X = np.load(path, mmap_mode="r")
    peers: dict[str, Callable[[], Any]] = {
        "IncrementalPCA": lambda: IncrementalPCA(ATOMS),
        "MiniBatchDictionaryLearning": lambda: MiniBatchDictionaryLearning(
            ATOMS, alpha=ALPHA, max_iter=1, batch_size=256, fit_algorithm="cd", random_state=0,
            max_no_improvement=None, tol=0.0,
        ),
    }  # fmt: skip
    peers[name]().fit(rows(0, 2000))
    began = time.perf_counter()
    with PeakMemory() as memory:
        work = threading.Thread(target=lambda: peers[name]().fit(X), daemon=True)
        work.start()
        work.join(PEER_SECONDS)
        seconds, finished = time.perf_counter() - began, not work.is_alive()
    return {"seconds": seconds, "peak bytes": memory.peak, "finished": finished}


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "fit": fit,
    "one_pass": one_pass,
    "reading": reading,
    "peer": peer,
}


def child(name: str, *arguments: Any) -> dict[str, Any]:
    """Return what a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--child", json.dumps([name, *arguments])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    print(name, *arguments[1:], {key: round(value, 4) for key, value in result.items()}, flush=True)
    return dict(result)


# ------------------------------------------------------------------ parts


def memory(folder: Path) -> dict[str, Any]:
    """One epoch of VR without a cache of codes, for growing n: time and peak memory."""
    bound = 3 * CHUNK_BYTES + 20 * ATOMS * FEATURES * 4
    fits = {str(n): child("fit", str(make_file(folder, n)), True) for n in SIZES}
    return {"bound": bound, "fits": fits}


def passes(folder: Path) -> dict[str, Any]:
    """A pass over n rows, from memory and from the file with a warm and with a cold cache, in turn."""
    found = {}
    for n in SIZES:
        path = str(make_file(folder, n))
        runs: dict[str, list[dict[str, Any]]] = {"memory": [], "warm": [], "cold": [], "reading": []}
        for _ in range(REPEATS):
            runs["reading"].append(child("reading", path))
            runs["cold"].append(child("one_pass", path, "cold"))
            runs["warm"].append(child("one_pass", path, "warm"))
            runs["memory"].append(child("one_pass", path, "memory"))
        found[str(n)] = {
            where: {key: statistics.median(run[key] for run in some) for key in some[0]}
            for where, some in runs.items()
        }
    return found


def formats(folder: Path) -> dict[str, Any]:
    """A pass over 10⁶ rows from other kinds of files, with a cold cache."""
    n = 10**6
    X = np.load(make_file(folder, n), mmap_mode="r")
    found = {}
    for name, writer in WRITERS.items():
        path = folder / f"rows-{n}{name}"
        if not path.exists():
            writer(path, X)
        size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.rglob("*")))
        runs = [child("one_pass", str(path), "cold") for _ in range(REPEATS)]
        found[name] = {"bytes": size} | {
            key: statistics.median(run[key] for run in runs) for key in runs[0]
        }
    return found


def peers(folder: Path) -> dict[str, Any]:
    """Estimators of scikit-learn on the same files."""
    return {
        name: {str(n): child("peer", str(make_file(folder, n)), name) for n in SIZES}
        for name in ("IncrementalPCA", "MiniBatchDictionaryLearning")
    }


def write_zarr(path: Path, X: Array) -> None:
    import zarr

    array = zarr.create_array(store=str(path), shape=X.shape, chunks=(10_000, FEATURES), dtype=X.dtype)
    for first in range(0, len(X), 10_000):
        array[first : first + 10_000] = X[first : first + 10_000]


def write_hdf5(path: Path, X: Array) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        rows = file.create_dataset("rows", X.shape, X.dtype, chunks=(10_000, FEATURES))
        for first in range(0, len(X), 10_000):
            rows[first : first + 10_000] = X[first : first + 10_000]


def write_parquet(path: Path, X: Array) -> None:
    import pyarrow
    from pyarrow import parquet

    names = [f"x{j}" for j in range(FEATURES)]
    with parquet.ParquetWriter(path, pyarrow.schema([(name, pyarrow.float32()) for name in names])) as file:
        for first in range(0, len(X), 10_000):
            block = X[first : first + 10_000]
            file.write_table(pyarrow.table(dict(zip(names, np.ascontiguousarray(block.T), strict=True))))


WRITERS = {".zarr": write_zarr, ".h5": write_hdf5, ".parquet": write_parquet}
PARTS = {"memory": memory, "passes": passes, "formats": formats, "peers": peers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "vrmf-out-of-core")
    parser.add_argument("--draw", action="store_true", help="only the tables, from the results on file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        name, *arguments = json.loads(chosen.child)
        print(json.dumps(CHILDREN[name](*arguments)), flush=True)
        os._exit(0)  # a peer that was given up may still run
    results = read("out_of_core")
    for part in [] if chosen.draw else chosen.parts or list(PARTS):
        chosen.folder.mkdir(parents=True, exist_ok=True)
        results["machine"] = machine()
        results[part] = PARTS[part](chosen.folder)
        write("out_of_core", results)
    (RESULTS / "out_of_core.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
