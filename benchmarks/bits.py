"""Whether a change keeps the bits: hashes of the results of all estimators, solvers and sources.

    python benchmarks/bits.py record before.json     # with the version before
    python benchmarks/bits.py compare before.json    # with this one: prints what differs, and exits with 1

Hashes are of dictionaries, histories without seconds, and codes, on small data. They are not kept with the
results of benchmarks, since products of matrices round differently on another machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import vrmf
from vrmf import solvers
from vrmf.estimators import ESTIMATORS
from vrmf.sources import as_source

N, D, K = 300, 14, 4

#: Options of a fit, unless it has others.
OPTIONS: dict[str, Any] = {"n_components": K, "random_state": 0, "max_iter": 4, "tol": 0}


def rows(dtype: Any = np.float64) -> Any:
    """Return nonnegative rows of low rank with noise and a few outliers."""
    rng = np.random.default_rng(7)
    X = rng.gamma(1.0, size=(N, K)) @ rng.gamma(1.0, size=(K, D)) + 0.1 * rng.random((N, D))
    X[rng.random(X.shape) < 0.03] += 5
    return X.astype(dtype)


def solvers_to_try() -> dict[str, Any]:
    """Return solvers by name."""
    return {
        "vr": solvers.VR(),
        "vr, small batches": solvers.VR(batch_size=7, inner_steps=5),
        "vr, no cache": solvers.VR(cache_megabytes=0),
        "vr, plain steps": solvers.VR(step_size=0.05),
        "vr, no opening": solvers.VR(opening=False),
        "smm": solvers.SMM(),
        "smm, forgetting": solvers.SMM(forgetting=2.0, batch_size=11),
        "sgd": solvers.SGD(),
        "batch": solvers.Batch(),
        "batch, plain": solvers.Batch(momentum=False),
        "algorithm 1": solvers.Algorithm1(step_size=0.01),
        "algorithm 1, automatic step": solvers.Algorithm1(),
        "algorithm 1, tau": solvers.Algorithm1(step_size=0.01, tau=0.1),
        "algorithm 1, random": solvers.Algorithm1(
            step_size=0.01, option="random", batch_size=5, inner_steps=6
        ),
    }


def sources_to_try(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield data by name: in memory, in files read by chunks, sparse, of one precision or the other."""
    import scipy.sparse
    import zarr

    X = rows()
    np.save(folder / "rows.npy", X)
    if not (folder / "rows.zarr").exists():
        zarr.save(str(folder / "rows.zarr"), X)
    yield "memory", X
    yield "float32", rows(np.float32)
    yield "sparse", scipy.sparse.csr_array(np.where(X > 1, X, 0))
    yield "mapped", folder / "rows.npy"
    yield "chunks", as_source(folder / "rows.npy", chunk_rows=37, sampling="blocks", window=3)
    yield "zarr", as_source(folder / "rows.zarr", chunk_rows=50)
    yield "one thread", as_source(X, n_jobs=1)


def digest(*values: Any) -> str:
    """Return a hash of arrays."""
    told = hashlib.blake2b(digest_size=12)
    for value in values:
        array = np.ascontiguousarray(value)
        told.update(f"{array.dtype.str} {array.shape} ".encode())
        told.update(array.tobytes())
    return told.hexdigest()


def hashes(model: Any, X: Any) -> dict[str, str]:
    """Return the hashes of a fitted model."""
    history = {name: column for name, column in model.history_.items() if name != "seconds"}
    return {
        "components": digest(model.components_),
        "history": digest(*(history[name] for name in sorted(history))),
        "codes": digest(model.transform(X)),
        "errors": digest(model.objective_, model.relative_stationarity_, model.reconstruction_error_),
    }


def model(name: str, **options: Any) -> Any:
    """Return an estimator with the options of all fits and its own."""
    groups = {"groups": [[0, 1], [2, 3]]} if name == "group-dictionary-learning" else {}
    return ESTIMATORS[name](**(OPTIONS | groups | options))


def fits(folder: Path) -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
    """Yield the fits by name, each as a function that returns its hashes."""
    X = rows()

    def fitted(name: str, data: Any, **options: Any) -> Callable[[], dict[str, str]]:
        return lambda: hashes(model(name, **options).fit(data), X.astype(getattr(data, "dtype", float)))

    def streamed(name: str, **options: Any) -> dict[str, str]:
        stream = model(name, **options)
        for batch in np.array_split(X, 6):
            stream.partial_fit(batch)
        return {"components": digest(stream.components_), "codes": digest(stream.transform(X))}

    def resumed(name: str, solver: Any) -> dict[str, str]:
        path = folder / "checkpoint"
        path.unlink(missing_ok=True)
        model(name, solver=solver, checkpoint=path, max_iter=2).fit(X)
        return hashes(model(name, solver=solver, checkpoint=path, max_iter=5).fit(X), X)

    def refitted(name: str) -> dict[str, str]:
        return hashes(model(name, warm_start=True).fit(X).fit(X), X)

    def transformed(name: str) -> dict[str, str]:
        return {"codes": digest(model(name).fit_transform(X))}

    for name in ESTIMATORS:
        for solver, value in solvers_to_try().items():
            yield f"{name} | {solver}", fitted(name, X, solver=value)
        for kind, data in sources_to_try(folder):
            yield f"{name} | {kind}", fitted(name, data)
        yield f"{name} | no choice of a start", fitted(name, X, init="data")
        yield f"{name} | to the end", fitted(name, X, max_iter=300, tol=1e-6)
        yield f"{name} | warm", partial(refitted, name)
        yield f"{name} | fit_transform", partial(transformed, name)
        for solver in ("smm", "sgd", "vr"):
            yield f"{name} | stream, {solver}", partial(streamed, name, solver=solver)
        for solver in ("vr", "batch", "smm"):
            yield f"{name} | resumed, {solver}", partial(resumed, name, solver)
    yield "robust-pca | default", fitted("robust-pca", X, n_components=None, max_iter=300, tol=1e-6)
    yield "nmf | decompose", lambda: {"parts": digest(*model("robust-nmf").fit(X).decompose(X))}


def cluster_fits() -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
    """Yield fits on the workers of a cluster."""
    import dask.array

    X = rows()
    lazy = dask.array.from_array(X, chunks=(45, D))
    for name in ("nmf", "robust-pca", "dictionary-learning"):
        for solver in ("vr", "smm", "sgd", "batch"):

            def fit(name: str = name, solver: str = solver) -> dict[str, str]:
                return hashes(ESTIMATORS[name](**OPTIONS, solver=solver).fit(lazy), X)

            yield f"{name} | cluster, {solver}", fit


def computed() -> dict[str, dict[str, str]]:
    """Return all hashes by name; a fit that fails has its error instead."""
    import distributed

    found: dict[str, dict[str, str]] = {}

    def add(name: str, fit: Callable[[], dict[str, str]]) -> None:
        try:
            found[name] = fit()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(name, file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        for name, fit in fits(Path(folder)):
            add(name, fit)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        for name, fit in cluster_fits():
            add(name, fit)
    return found


def main() -> int:
    """Record hashes, or compare with those recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    found = computed()
    print(f"vrmf of {Path(vrmf.__file__).parent}: {len(found)} fits", file=sys.stderr)
    if arguments.what == "record":
        arguments.path.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    before = json.loads(arguments.path.read_text())
    differing = sorted(name for name in before.keys() | found.keys() if before.get(name) != found.get(name))
    for name in differing:
        print(name, before.get(name), found.get(name), sep="\n  ")
    print(f"{len(differing)} of {len(before)} differ")
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
