"""Fits on a Dask cluster of this machine: two workers against one, and one against none.

    python -m benchmarks.clusters                      # all of it: results/distributed.json and .md
    python -m benchmarks.clusters pass                 # only this part; the other results stay
    python -m benchmarks.clusters --rows 100000        # fewer rows; other results are dropped

Robust PCA of Synth (rank 10, a tenth of the entries outliers), n = 10⁶, d = 400, single precision, chunks
of 10 000 rows, codes not cached. Workers are processes with one thread each. "No cluster" is the local
source with the same chunks and one thread in this process. The contestants run in turn, and their
results must be equal to the bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from benchmarks.common import RESULTS, Array, machine, read, write
from vrmf import RobustPCA
from vrmf.coding import Coder
from vrmf.datasets import load_synth
from vrmf.problem import Problem
from vrmf.solvers import VR
from vrmf.sources import LocalSource, Sample, as_source
from vrmf.sources.cluster import WINDOW, ClusterSource
from vrmf.surrogate import descend_surrogate

FEATURES, ATOMS, CHUNK = 400, 10, 10_000
REPEATS = 5
FITS = 2
OPTIONS: dict[str, Any] = {
    "threads_per_worker": 1,
    "processes": True,
    "dashboard_address": None,
    "host": "127.0.0.1",
    "memory_limit": 0,
}
CONTESTANTS = ("no cluster", "one worker", "two workers")


def chunk(number: int, rows: int = CHUNK) -> Array:
    """Return a chunk of the data: rows of Synth, all with the same dictionary."""
    dictionary = load_synth(10, FEATURES, random_state=0).dictionary
    own = load_synth(rows, FEATURES, random_state=number)
    return (own.codes @ dictionary + own.outliers).astype(np.float32)


def model(**options: Any) -> RobustPCA:
    solver = VR(cache_megabytes=0)
    return RobustPCA(ATOMS, solver=solver, random_state=0, tol=0, n_jobs=1, **options)


@contextmanager
def sources(rows: int) -> Iterator[dict[str, Callable[[], Any]]]:
    """Give a function for each contestant that makes its source, over the same rows."""
    numbers = range(rows // CHUNK)
    X = np.concatenate([chunk(number) for number in numbers])
    with (
        LocalCluster(n_workers=1, **OPTIONS) as one,
        LocalCluster(n_workers=2, **OPTIONS) as two,
        Client(one, set_as_default=False) as one_client,
        Client(two, set_as_default=False) as two_client,
    ):
        made: dict[str, Callable[[], Any]] = {
            "no cluster": lambda: as_source(X, 1, chunk_rows=CHUNK, sampling="blocks", window=WINDOW)
        }
        for name, client in (("one worker", one_client), ("two workers", two_client)):
            parts = [
                da.from_delayed(dask.delayed(chunk, pure=False)(number), (CHUNK, FEATURES), np.float32)
                for number in numbers
            ]
            lazy = client.persist(da.concatenate(parts))
            with client.as_current():
                wait(lazy)
            made[name] = partial(ClusterSource, lazy, client)
        yield made


def in_turn(
    contestants: Mapping[str, Callable[[], Any]], repeats: int, alike: Callable[[Any], Array]
) -> dict[str, Any]:
    """Return all times and medians of contestants that take turns; their results must be equal."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    answers = []
    for _ in range(repeats):
        for name, run in contestants.items():
            began = time.perf_counter()
            answer = run()
            seconds[name].append(time.perf_counter() - began)
            answers.append(alike(answer))
            print(name, round(seconds[name][-1], 2), flush=True)
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    return {name: {"median": statistics.median(all_), "all": all_} for name, all_ in seconds.items()}


def anchor_pass(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """The sums over all rows at one dictionary, from zero codes."""
    few = model(max_iter=1).fit(chunk(0))

    def run(name: str) -> Callable[[], Any]:
        problem = Problem(few.formulation_, made[name]())
        problem.stats(few.components_, Coder(tol=1e-4), problem.source.layout.spread(2000))  # compile
        return lambda: problem.stats(few.components_, Coder(tol=1e-4))

    return in_turn({name: run(name) for name in CONTESTANTS}, REPEATS, lambda stats: stats.slope)


def whole_fit(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """A fit of one epoch, from the first look at the data to the certificate."""
    counted: dict[str, Any] = {}

    def run(name: str) -> Any:
        fitted = model(max_iter=1).fit(made[name]())
        counted.update(passes=fitted.n_passes_, steps=fitted.n_steps_)
        return fitted.components_

    contestants = {name: partial(run, name) for name in CONTESTANTS}
    return in_turn(contestants, FITS, lambda components: components) | counted


def step(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """The change of the slope over a mini-batch, codes at D and at the anchor from zero."""
    few, batch = model(max_iter=1).fit(chunk(0)), 2000
    D, anchor = few.components_, np.float32(1.01) * few.components_
    found: dict[str, Any] = {"batch": batch}
    problems = {name: Problem(few.formulation_, made[name]()) for name in CONTESTANTS}
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for number in range(40):
        for name, problem in problems.items():
            rows = problem.source.draw(batch, 0, number)
            began = time.perf_counter()
            problem.slope_change(D, anchor, Coder(tol=1e-4), rows)
            times[name].append(time.perf_counter() - began)
    return found | {name: {"median": statistics.median(some[5:])} for name, some in times.items()}


def driver(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What a step does besides the sums: the draw and the move of the dictionary."""
    few = model(max_iter=1).fit(chunk(0))
    D, source, times = few.components_, made["no cluster"](), []
    A = np.eye(ATOMS, dtype=np.float32) + np.float32(0.1)
    for number in range(60):
        began = time.perf_counter()
        source.draw(2000, 0, number)
        descend_surrogate(few.formulation_.dictionary, A, 0.01 * D, D)
        times.append(time.perf_counter() - began)
    return {"median": statistics.median(times[5:])}


def counts(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """How many rows a fit sums over in passes, and in mini-batches of which sizes."""
    found: dict[str, Any] = {"rows in passes": 0, "mini-batches": {}}

    class Counting(LocalSource):
        def reduce(self, function: Any, rows: Any = None, carry: Any = None) -> Any:
            count = sum(map(len, self.layout.parts(rows)))
            if isinstance(rows, Sample | None):
                found["rows in passes"] += count
            else:
                found["mini-batches"][str(count)] = found["mini-batches"].get(str(count), 0) + 1
            return super().reduce(function, rows, carry)

    local = made["no cluster"]()
    options: dict[str, Any] = {"chunk_rows": CHUNK, "sampling": "blocks", "window": WINDOW}
    model(max_iter=1).fit(Counting(local.table, 2, **options))
    return found


def calls(made: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """A call to one, two, four and eight workers that have nothing to do, in seconds."""
    found = {}
    for n_workers in (1, 2, 4, 8):
        with LocalCluster(n_workers=n_workers, **OPTIONS) as cluster, Client(cluster) as client:
            client.wait_for_workers(n_workers)
            times = []
            for _ in range(60):
                began = time.perf_counter()
                client.run(nothing, bytes(10**5))
                times.append(time.perf_counter() - began)
        found[str(n_workers)] = statistics.median(times[5:])
    return found


async def nothing(blob: bytes) -> bytes:
    return blob[:20_000]


def network(made: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """How fast rows come from a worker to the driver."""
    client = made["one worker"]().client
    future = client.submit(np.ones, 2**23)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        client.gather(future)
        times.append(time.perf_counter() - began)
    return {"bytes a second": 2**26 / statistics.median(times)}


PARTS = {
    "pass": anchor_pass,
    "fit": whole_fit,
    "step": step,
    "driver": driver,
    "counts": counts,
    "calls": calls,
    "network": network,
}
TABLE = ("pass", "fit", "step")


def fit_times(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the times of the fits of each contestant."""
    return [results["fit"][name] for name in CONTESTANTS] if "fit" in results else []


def markdown(results: dict[str, Any]) -> str:
    """Return the page of the results."""
    about = results["machine"]
    fits = " or ".join(map(str, sorted({len(found["all"]) for found in fit_times(results)})))
    lines = [
        "# On a Dask cluster of one machine",
        "",
        f"{about['processor']}, {about['cores']} cores. Two threads get "
        f"{about['products of two threads over those of one']} times the products of one done. "
        "Made by `benchmarks/clusters.py`: robust PCA of Synth, "
        f"{results['rows']:,} × {FEATURES}, k = {ATOMS}, chunks of {CHUNK:,} rows; "
        f"medians of {REPEATS} passes, 35 steps and {fits} fits. All ended with the same bits.",
        "",
        "| | no cluster | one worker | two workers | two against one | cost of Dask |",
        "|---|---|---|---|---|---|",
    ]
    for part in [part for part in TABLE if part in results]:
        none, one, two = (results[part][name]["median"] for name in CONTESTANTS)
        unit, scale = ("ms", 1e3) if part == "step" else ("s", 1)
        row = [part, *(f"{scale * value:.1f} {unit}" for value in (none, one, two))]
        more = [f"{one / two:.2f} times", f"{one / none - 1:+.0%}"]
        lines.append(f"| {' | '.join([*row, *more])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--rows", type=int, default=10**6)
    chosen = parser.parse_args()
    results = read("distributed")
    if results.get("rows") != chosen.rows:  # results for other numbers of rows are not comparable
        results = {"rows": chosen.rows}
    results["machine"] = machine()
    with sources(chosen.rows) as made:
        for part in chosen.parts or list(PARTS):
            print(f"--- {part}", flush=True)
            results[part] = PARTS[part](made)
            write("distributed", results)
            print(json.dumps(results[part]), flush=True)
    (RESULTS / "distributed.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
