"""This checkout against another one: the time of the same fits, in turn.

    python -m benchmarks.versions ../other-checkout [--rounds 5]

Each version runs in a process of its own. Both get the same rows, start, weights and number of epochs, so
ratios of times are those of an epoch. The other version runs twice: the spread of its ratio to itself is
that of the measurement. Each round has new processes, since the speed of a process depends on where its
memory happens to be. Makes results/versions.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checkouts import THIS, Served

#: Data, model, atoms, weights and epochs of each fit.
FITS: dict[str, tuple[str, str, int, dict[str, float], int]] = {
    "ODL CBCL, k = 49": ("cbcl", "DictionaryLearning", 49, {"alpha": 361**-0.5}, 20),
    "ODL MNIST 10 000, k = 49": ("mnist", "DictionaryLearning", 49, {"alpha": 1 / 28}, 4),
    "ODL MNIST 10 000, k = 100": ("mnist", "DictionaryLearning", 100, {"alpha": 1 / 28}, 2),
    "ONMF CBCL, k = 49": ("cbcl", "NMF", 49, {"alpha": 1e-3 / 361}, 20),
    "ONMF MNIST 10 000, k = 49": ("mnist", "NMF", 49, {"alpha": 1e-3 / 784}, 4),
    "P2 CBCL, k = 49": ("cbcl", "GroupDictionaryLearning", 49, {"alpha": 361**-0.5}, 10),
    "ORPCA Yale B, k = 49": ("yaleb", "RobustPCA", 49, {"alpha": 1 / 32, "outlier_alpha": 1 / 32}, 2),
    "ORNMF Yale B, k = 25": ("yaleb", "RobustNMF", 25, {"outlier_alpha": 1 / 32}, 1),
    "ODL MNIST 10 000 from a file, k = 49": ("file", "DictionaryLearning", 49, {"alpha": 1 / 28}, 3),
    "ODL MNIST 10 000 on two workers, k = 49": ("workers", "DictionaryLearning", 49, {"alpha": 1 / 28}, 2),
}

#: Rows of a chunk, in the file and on the workers.
CHUNK = 500

VERSIONS = ("this", "other", "again")

#: Pairs of fits in each round.
PAIRS = 3


def serve() -> None:
    """Answer requests, which are names of fits, with the seconds in steps and of the processor."""
    import vrmf
    from benchmarks.common import THREADS, cbcl, mnist, rows_as_atoms, yaleb

    load = functools.cache(lambda data: {"cbcl": cbcl, "yaleb": yaleb}.get(data, lambda: mnist(10_000))())
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        data, name, k, weights, epochs = FITS[json.loads(line)]
        X = load(data)
        start = rows_as_atoms(X, k, by_sum=name == "NMF")
        options: dict[str, Any] = {"init": start, "random_state": 0, "n_jobs": THREADS}
        model, place = getattr(vrmf, name)(k, tol=0, max_iter=epochs, **options, **weights), placed(data, X)
        began = time.process_time()
        model.fit(place)
        told = {"processor": time.process_time() - began, "seconds": model.history_["seconds"][-1]}
        print(json.dumps(told | {"f": model.objective_}), flush=True)


@functools.cache
def _cluster() -> Any:
    from distributed import Client, LocalCluster

    workers = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    return Client(workers)


def placed(data: str, X: Any) -> Any:
    """Return rows in memory, in a file or on workers, as the name of the data says."""
    from vrmf.sources import as_source

    if data == "file":
        path = Path(tempfile.gettempdir()) / "vrmf-versions.npy"
        if not path.exists():
            np.save(path, X)
        return as_source(path, chunk_rows=CHUNK, sampling="blocks")
    if data == "workers":
        import dask.array

        _cluster()
        return dask.array.from_array(X, chunks=(CHUNK, X.shape[1])).persist()
    return X


def compare(other: Path, rounds: int) -> dict[str, Any]:
    """Return, for each fit, the times of this version over those of the other, and of that over itself."""
    found: dict[str, Any] = {}
    for name in FITS:
        runs: dict[str, list[dict[str, float]]] = {which: [] for which in VERSIONS}
        for turn in range(rounds):
            for which, told in one_round(name, other, reverse=bool(turn % 2)).items():
                runs[which].extend(told)
        found[name] = {
            "this over other": ratios(runs["this"], runs["other"]),
            "other over itself": ratios(runs["again"], runs["other"]),
            "this over other, processor": ratios(runs["this"], runs["other"], "processor"),
            "other over itself, processor": ratios(runs["again"], runs["other"], "processor"),
            "seconds": round(statistics.median(run["seconds"] for run in runs["this"]), 3),
            "f": [runs[which][-1]["f"] for which in ("this", "other")],
        }
        print(name, found[name], flush=True)
    return found


def one_round(name: str, other: Path, reverse: bool) -> dict[str, list[dict[str, float]]]:
    """Return the results of fits in turn, in new processes; the first fit of each is left out."""
    checkouts = {"this": THIS, "other": other, "again": other}
    versions = {
        which: Served(checkouts[which], "benchmarks.versions", "--serve")
        for which in sorted(VERSIONS, reverse=reverse)
    }
    runs: dict[str, list[dict[str, float]]] = {which: [] for which in versions}
    for _ in range(PAIRS + 1):
        for which, version in versions.items():
            runs[which].append(version.ask(name))
    for version in versions.values():
        version.close()
    return {which: told[1:] for which, told in runs.items()}


def ratios(
    runs: list[dict[str, float]], others: list[dict[str, float]], clock: str = "seconds"
) -> dict[str, Any]:
    """Return the median and the quartiles of the ratios of seconds, or of processor time.

    Processor time is that of the process that fits, without that of workers.
    """
    shares = [a[clock] / b[clock] for a, b in zip(runs, others, strict=True)]
    low, middle, high = statistics.quantiles(shares, n=4)
    return {"median": round(middle, 3), "quarters": [round(low, 3), round(high, 3)]}


def main() -> None:
    """Compare with the checkout that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", nargs="?", type=Path, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    if arguments.other is None:
        parser.error("name the folder of the other checkout")
    from benchmarks.common import machine, write

    fits = compare(arguments.other, arguments.rounds)
    found = {"rounds": arguments.rounds, "pairs": PAIRS * arguments.rounds, "fits": fits}
    write("versions", found | {"machine": machine()})


if __name__ == "__main__":
    main()
