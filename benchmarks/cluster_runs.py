"""What distributed.py runs.

Robust PCA of Synth (rank 10, a tenth of the entries outliers), n = 10⁶, d = 400, single precision, chunks
of 10 000 rows, codes not cached. Workers are processes with one thread each. "No cluster" is the local
source with the same chunks and one thread in this process. All contestants take turns, and must end with
the same bits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from common import Array, machine, read, write
from distributed import Client, LocalCluster, wait

from vrmf import RobustPCA
from vrmf.coding import Coder
from vrmf.datasets import load_synth
from vrmf.problem import Problem
from vrmf.solvers import VR
from vrmf.sources import as_source
from vrmf.sources.cluster import WINDOW, ClusterSource

FEATURES, ATOMS, CHUNK = 400, 10, 10_000
REPEATS = 3
CONTESTANTS = ("no cluster", "one worker", "two workers")


def chunk(number: int, rows: int = CHUNK) -> Array:
    """Return a chunk of the data: rows of Synth over one dictionary, which the first chunk brings."""
    dictionary = load_synth(10, FEATURES, random_state=0).dictionary
    own = load_synth(rows, FEATURES, random_state=number)
    return (own.codes @ dictionary + own.outliers).astype(np.float32)


def model(**options: Any) -> RobustPCA:
    solver = VR(cache_megabytes=0)
    return RobustPCA(ATOMS, solver=solver, random_state=0, tol=0, n_jobs=1, **options)


@contextmanager
def sources(rows: int) -> Iterator[dict[str, Callable[[], Any]]]:
    """Give functions that make the source of each contestant, over the same rows."""
    numbers = range(rows // CHUNK)
    X = np.concatenate([chunk(number) for number in numbers])
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    options |= {"host": "127.0.0.1", "memory_limit": 0}
    with (
        LocalCluster(n_workers=1, **options) as one,
        LocalCluster(n_workers=2, **options) as two,
        Client(one, set_as_default=False) as one_client,
        Client(two, set_as_default=False) as two_client,
    ):
        made = {"no cluster": lambda: as_source(X, 1, chunk_rows=CHUNK, sampling="blocks", window=WINDOW)}
        for name, client in (("one worker", one_client), ("two workers", two_client)):
            parts = [
                da.from_delayed(dask.delayed(chunk, pure=False)(number), (CHUNK, FEATURES), np.float32)
                for number in numbers
            ]
            lazy = client.persist(da.concatenate(parts))
            with client.as_current():
                wait(lazy)
            made[name] = lambda lazy=lazy, client=client: ClusterSource(lazy, client)
        yield made


def in_turn(
    contestants: dict[str, Callable[[], Any]], repeats: int, alike: Callable[[Any], Array]
) -> dict[str, Any]:
    """Return all times and medians of contestants that take turns; their results must be the same."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    answers = []
    for _ in range(repeats):
        for name, run in contestants.items():
            began = time.perf_counter()
            answers.append(alike(run()))
            seconds[name].append(time.perf_counter() - began)
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
    found = in_turn(
        {name: lambda name=name: model(max_iter=1).fit(made[name]()) for name in CONTESTANTS},
        REPEATS,
        lambda fitted: fitted.components_,
    )
    fitted = model(max_iter=1).fit(made["two workers"]())
    return found | {"passes": fitted.n_passes_, "steps": fitted.n_steps_}


def round_trip(made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """A call to the workers with next to nothing to do: what a step costs besides its work."""
    few = model(max_iter=1).fit(chunk(0))
    D = few.components_
    found = {}
    for name in CONTESTANTS:
        source = made[name]()
        problem, times = Problem(few.formulation_, source), []
        for step in range(60):
            rows = source.draw(16, 0, step)
            began = time.perf_counter()
            problem.slope_change(D, D, Coder(tol=0.1), rows)
            times.append(time.perf_counter() - began)
        found[name] = {"median": statistics.median(times[10:])}
    return found


PARTS = {"pass": anchor_pass, "fit": whole_fit, "round trip": round_trip}


def markdown(results: dict[str, Any]) -> str:
    """Return the page of the results."""
    about = results["machine"]
    lines = [
        "# On a Dask cluster of one machine",
        "",
        f"{about['processor']}, {about['cores']} cores. Two threads get "
        f"{about['products of two threads over those of one']} times the products of one done. "
        "Made by `benchmarks/distributed.py`: robust PCA of Synth, "
        f"{results['rows']:,} × {FEATURES}, k = {ATOMS}, chunks of {CHUNK:,} rows; medians of {REPEATS}.",
        "",
        "| | no cluster | one worker | two workers | two against one | cost of Dask |",
        "|---|---|---|---|---|---|",
    ]
    for part in PARTS:
        if part not in results:
            continue
        none, one, two = (results[part][name]["median"] for name in CONTESTANTS)
        unit, scale = ("ms", 1e3) if part == "round trip" else ("s", 1)
        row = [part, *(f"{scale * value:.1f} {unit}" for value in (none, one, two))]
        more = ["", ""] if part == "round trip" else [f"{one / two:.2f} times", f"{one / none - 1:+.0%}"]
        lines.append(f"| {' | '.join([*row, *more])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--rows", type=int, default=10**6)
    chosen = parser.parse_args()
    results = read("distributed") | {"rows": chosen.rows, "machine": machine()}
    with sources(chosen.rows) as made:
        for part in chosen.parts or list(PARTS):
            print(f"--- {part}", flush=True)
            results[part] = PARTS[part](made)
            write("distributed", results)
            print(json.dumps(results[part]), flush=True)
    (Path(__file__).parent / "results" / "distributed.md").write_text(markdown(results))
