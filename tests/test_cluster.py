"""Laws of the source on a Dask cluster: the bits of the local source, and what faults do to them.

Workers are real processes on this machine, and kills are real.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import vrmf
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.estimators import AbstractFactorizer
from vrmf.persistence.checkpoint import verify
from vrmf.solvers import VR, Algorithm1
from vrmf.sources import as_source
from vrmf.sources.companions import Carry
from vrmf.starting.initial import NAMES

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

from vrmf.sources.cluster import WINDOW, ClusterError, ClusterSource  # noqa: E402
from vrmf.sources.worker import Job, run_part  # noqa: E402

CHUNK = 60
WITHOUT_CODES = VR(cache_megabytes=0)  #: a worker that dies has nothing to lose
SOLVERS = {
    "vr": VR(),
    "vr without stored codes": WITHOUT_CODES,
    "algorithm1": Algorithm1(step_size=0.01),
    "smm": "smm",
    "sgd": "sgd",
    "batch": "batch",
}

# A worker that is killed leaves its log of what it lost, and Python 3.12's warnings of forks.
pytestmark = pytest.mark.filterwarnings("ignore")


def data(n: int = 1230, d: int = 8) -> Array:
    rng = np.random.default_rng([n, d])
    return rng.gamma(1.0, size=(n, 3)) @ rng.random((3, d)) + 0.05 * rng.random((n, d))


X = data()


def model(solver: Any = WITHOUT_CODES, name: str = "RobustPCA", **options: Any) -> AbstractFactorizer:
    given: dict[str, Any] = {"n_components": 3, "max_iter": 2, "tol": 0, "random_state": 0, "n_jobs": 1}
    return getattr(vrmf, name)(solver=solver, **(given | options))


def twin(rows: Array = X) -> Any:
    """Return the local source with the layout that a cluster gives these rows."""
    return as_source(rows, n_jobs=1, chunk_rows=CHUNK, sampling="blocks", window=WINDOW)


def on_cluster(rows: Array = X) -> Any:
    return da.from_array(rows, chunks=(CHUNK, rows.shape[1]))


def cluster(n_workers: int, **options: Any) -> Any:
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        **options,
    )


@contextmanager
def connected(n_workers: int) -> Iterator[Any]:
    # A call to a worker that is gone is to fail soon.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        cluster(n_workers) as workers,
        distributed.Client(workers) as client,
    ):
        client.wait_for_workers(n_workers, timeout=60)
        yield client
    with suppress(ValueError):
        distributed.default_client()
        return
    dask.config.config.pop("scheduler", None)  # which a client may leave behind that lost its workers


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with connected(2) as client:
        yield client


@pytest.fixture
def killable() -> Iterator[Any]:
    """A cluster of its own for a test that kills its workers."""
    with connected(2) as client:
        yield client


def pids(client: Any) -> list[int]:
    return sorted(client.run(os.getpid).values())


# ------------------------------------------------------------------ the same bits


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_on_a_cluster_has_the_bits_of_the_local_source(client: Any, solver: str) -> None:
    local = model(SOLVERS[solver]).fit(twin())
    assert isinstance(model()._source(on_cluster(), reset=True), ClusterSource)
    remote = model(SOLVERS[solver]).fit(on_cluster())
    np.testing.assert_array_equal(remote.components_, local.components_)
    assert remote.objective_ == local.objective_
    assert remote.history_["passes"] == local.history_["passes"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["DictionaryLearning", "NMF", "MaxNormDecomposition", "LowRankRepresentation"]
)
def test_every_kind_of_model_goes_to_the_workers(client: Any, name: str) -> None:
    local = model(name=name, max_iter=1).fit(twin())
    np.testing.assert_array_equal(
        model(name=name, max_iter=1).fit(on_cluster()).components_, local.components_
    )


@pytest.mark.slow
@pytest.mark.parametrize("init", [name for name in NAMES if name != "ones"])
def test_every_start_has_the_bits_of_the_local_source(client: Any, init: str) -> None:
    for name in ("DictionaryLearning", "NMF", "RobustPCA"):
        local, remote = (
            next(iter(model(name=name, init=init).iterate(rows))).D for rows in (twin(), on_cluster())
        )
        np.testing.assert_array_equal(remote, local)


@pytest.mark.slow
def test_bits_do_not_depend_on_the_number_of_workers(client: Any) -> None:
    two = model().fit(on_cluster().persist()).components_
    with cluster(1) as one, distributed.Client(one, set_as_default=False) as other:
        source = ClusterSource(on_cluster(), other)
        np.testing.assert_array_equal(model().fit(source).components_, two)


@pytest.mark.slow
def test_codes_are_kept_on_the_workers_and_given_back(client: Any) -> None:
    cached = model(VR()).fit(on_cluster().persist())
    local = model(VR()).fit(twin())
    np.testing.assert_array_equal(cached.components_, local.components_)
    assert cached.n_passes_ == local.n_passes_ < model().fit(twin()).n_passes_

    def kept() -> int:
        from vrmf.sources import worker

        return len(worker._STORED)

    assert set(client.run(kept).values()) == {0}


@pytest.mark.slow
def test_a_worker_fetches_the_companions_of_chunks_that_another_one_stores(client: Any) -> None:
    source = ClusterSource(on_cluster().persist(), client)
    doubled = source.companion("doubled rows", 0, X.shape[1])
    source.reduce(lambda block: (0, {"twice": 2 * block.dense}), carry=Carry(writes={"twice": doubled}))

    def error(block: Block) -> Any:
        return np.max(np.abs(block.companions["twice"] - 2 * block.dense)), {}

    reads, batch = Carry(reads={"twice": doubled}), source.draw(300, 0, 0)
    assert source.reduce(error, batch, reads) == 0
    before = dict(source._homes)
    client.replicate(list(source._active.values()))
    other = dict(zip(sorted(client.nthreads()), reversed(sorted(client.nthreads())), strict=True))
    source._homes = {chunk: other[home] for chunk, home in before.items()}
    assert source.reduce(error, batch, reads) == 0
    job = Job(source.reading, error, source.run, reads)
    for part in source.layout.parts(None):
        place = source._place(part, job)
        away = other[place.holders["twice"]]
        done = client.submit(run_part, X[part.rows], cloudpickle.dumps(job), place, workers=[away])
        assert done.result() == (0, away)
    source.close()


@pytest.mark.slow
def test_single_precision_the_mean_and_the_threaded_scheduler(client: Any) -> None:
    single = X.astype(np.float32)
    local = model(center=True).fit(twin(single))
    remote = model(center=True).fit(on_cluster(single))
    assert remote.components_.dtype == np.float32
    np.testing.assert_array_equal(remote.components_, local.components_)
    np.testing.assert_array_equal(remote.mean_, local.mean_)


@pytest.mark.slow
def test_codes_and_parts_are_lazy(client: Any) -> None:
    fitted, lazy = model().fit(X), on_cluster()
    H, (L, S) = fitted.transform(lazy), fitted.decompose(lazy)
    scores, again = fitted.score_samples(lazy), fitted.inverse_transform(H)
    for array, expected in (
        (H, fitted.transform(X)),
        (L, fitted.decompose(X)[0]),
        (S, fitted.decompose(X)[1]),
        (scores, fitted.score_samples(X)),
        (again, fitted.inverse_transform(fitted.transform(X))),
    ):
        assert isinstance(array, da.Array) and array.shape == expected.shape
        np.testing.assert_allclose(array.compute(), expected, rtol=1e-6, atol=1e-6)
    assert fitted.objective(lazy) == pytest.approx(fitted.objective(X), rel=1e-9)
    assert isinstance(model().fit_transform(lazy), da.Array)


@pytest.mark.slow
def test_columns_in_several_chunks_and_zarr_behind_xarray(client: Any, tmp_path: Path) -> None:
    zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")
    expected = model(max_iter=1).fit(twin()).components_
    narrow = da.from_array(X, chunks=(CHUNK, 3))
    np.testing.assert_array_equal(model(max_iter=1).fit(narrow).components_, expected)
    stored = zarr.create_array(
        store=str(tmp_path / "x.zarr"), shape=X.shape, chunks=(CHUNK, 8), dtype=X.dtype
    )
    stored[:] = X
    named = xarray.DataArray(da.from_zarr(str(tmp_path / "x.zarr")), dims=("row", "feature"))
    np.testing.assert_array_equal(model(max_iter=1).fit(named).components_, expected)


@pytest.mark.slow
def test_incremental_of_dask_ml_takes_our_estimators(client: Any) -> None:
    wrappers = pytest.importorskip("dask_ml.wrappers")
    wrapped = wrappers.Incremental(model("smm"))
    wrapped.fit(on_cluster())
    assert wrapped.estimator_.n_samples_seen_ == len(X)
    assert np.isfinite(wrapped.score(on_cluster(), None))


@pytest.mark.slow
def test_bad_rows_are_named(client: Any) -> None:
    bad = X.copy()
    bad[700, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 700, column \d+ of the data is (nan|inf)"):
        model().fit(on_cluster(bad))


@pytest.mark.slow
def test_a_checkpoint_whose_codes_a_cluster_stored_goes_on_without_it(client: Any, tmp_path: Path) -> None:
    path, whole = tmp_path / "fit.checkpoint", model(VR(), max_iter=6).fit(twin())
    model(VR(), checkpoint=path).fit(on_cluster())
    gone_on = model(VR(), max_iter=6, checkpoint=path).fit(twin())
    np.testing.assert_allclose(gone_on.components_, whole.components_, rtol=1e-2, atol=1e-2)
    assert gone_on.objective_ == pytest.approx(whole.objective_, rel=1e-3)


@pytest.mark.slow
def test_a_client_that_is_not_the_default_stays_so(client: Any) -> None:
    seen: set[Any] = set()
    with cluster(1) as other, distributed.Client(other, set_as_default=False) as own:
        source = ClusterSource(on_cluster(), own)
        watched = threading.Event()

        def watch() -> None:
            while not watched.is_set():
                seen.add(distributed.get_client().id)

        thread = threading.Thread(target=watch)
        thread.start()
        model("smm", max_iter=1).fit(source)
        watched.set()
        thread.join()
    assert seen == {client.id}


def test_a_source_holds_the_chunks_that_workers_persist(client: Any) -> None:
    source = ClusterSource(on_cluster().persist(), client)
    gc.collect()
    assert len(source.rows(np.arange(5))) == 5


# ------------------------------------------------------------------ faults


def worker_killing(rows: Array, marker: Path, when: Callable[[int], bool]) -> Any:
    """Return a lazy array; whichever worker computes the chosen chunk kills itself, once."""

    def load(block: Array, block_info: Any = None) -> Array:
        if when(block_info[0]["chunk-location"][0]):
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return block
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    return on_cluster(rows).map_blocks(load, dtype=rows.dtype, meta=np.empty((0, 0)))


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_pass_changes_nothing(killable: Any, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    fitted = model(VR(cache_megabytes=0, opening=False)).fit(
        worker_killing(X, marker, lambda chunk: chunk == 11)
    )
    assert marker.exists()
    expected = model(VR(cache_megabytes=0, opening=False)).fit(twin())
    np.testing.assert_array_equal(fitted.components_, expected.components_)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_inner_steps_changes_nothing(killable: Any) -> None:
    expected = [it.D for it in model(max_iter=1).iterate(twin())]
    kills = []
    for place, it in enumerate(model(max_iter=1).iterate(on_cluster().persist())):
        np.testing.assert_array_equal(it.D, expected[place])
        if place in (len(expected) // 4, len(expected) - 4):
            victim = pids(killable)[0]
            os.kill(victim, signal.SIGKILL)
            kills.append(victim)
    assert place == len(expected) - 1 and len(kills) == 2


@pytest.mark.slow
def test_with_codes_on_workers_a_kill_costs_the_tolerance_of_codes(killable: Any) -> None:
    expected = [it.D for it in model(VR(), max_iter=1).iterate(twin())]
    iterates = []
    for it in model(VR(), max_iter=1).iterate(on_cluster().persist()):
        iterates.append(it.D)
        if len(iterates) == len(expected) - 8:  # in the last epoch, whose anchor has left codes there
            os.kill(pids(killable)[-1], signal.SIGKILL)
    np.testing.assert_allclose(iterates[-1], expected[-1], rtol=1e-2, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [VR(), WITHOUT_CODES])
def test_a_worker_that_joins_changes_nothing(client: Any, solver: VR) -> None:
    expected = [it.D for it in model(solver).iterate(twin())]
    with cluster(1) as growing, distributed.Client(growing, set_as_default=False) as own:
        for place, it in enumerate(model(solver).iterate(ClusterSource(on_cluster(), own))):
            np.testing.assert_array_equal(it.D, expected[place])
            if place == len(expected) // 3:
                growing.scale(2)
                own.wait_for_workers(2)


def armed(flag: Path, disaster: Callable[[], None]) -> Any:
    """Return a lazy array with a chunk that is a disaster for its worker, once a file is there."""

    def load(block: Array, block_info: Any = None) -> Array:
        if block_info[0]["chunk-location"][0] == 7 and flag.exists():
            disaster()
        return block

    return on_cluster().map_blocks(load, dtype=X.dtype, meta=np.empty((0, 0)))


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat_memory() -> None:
    held = []
    while True:  # until the worker's nanny ends it
        held.append(np.ones(2**22))
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("disaster", [kill_self, eat_memory])
def test_a_chunk_that_ends_every_worker_ends_the_fit_with_a_checkpoint(
    tmp_path: Path, disaster: Callable[[], None]
) -> None:
    path, flag = tmp_path / "fit.checkpoint", tmp_path / "armed"
    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.comm.timeouts.connect": "3s"}
    before = model(max_iter=1).fit(twin())
    with (
        dask.config.set(settings),
        cluster(1, memory_limit="700MB") as weak,
        distributed.Client(weak, set_as_default=False) as own,
    ):
        first = model(max_iter=1, checkpoint=path).fit(ClusterSource(armed(flag, disaster), own))
        np.testing.assert_array_equal(first.components_, before.components_)
        flag.touch()
        words = r"Workers died again and again over the same chunk\. .*smaller chunks.*`checkpoint` set"
        with pytest.raises(ClusterError, match=words):
            model(max_iter=3, checkpoint=path).fit(ClusterSource(armed(flag, disaster), own))
    # The file has the last sound step; here it goes on without a cluster.
    gone_on = model(max_iter=3, checkpoint=path).fit(twin())
    np.testing.assert_array_equal(gone_on.components_, model(max_iter=3).fit(twin()).components_)


@pytest.mark.slow
def test_a_scheduler_that_is_gone_ends_the_fit_with_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "fit.checkpoint"
    processes = []

    def start(*words: str) -> Any:
        processes.append(
            subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]])
        )
        return processes[-1]

    address = f"tcp://127.0.0.1:{free_port()}"
    try:
        scheduler = start("scheduler", "--host", address, "--no-dashboard")
        start("worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1")
        with distributed.Client(address, timeout="20s", set_as_default=False) as own:
            own.wait_for_workers(1, timeout=20)
            threading.Thread(target=kill_after, args=(path, scheduler)).start()
            with pytest.raises(ClusterError, match=r"(gone|lost).*`checkpoint` set"):
                model(max_iter=10**6, checkpoint=path, checkpoint_every=0).fit(
                    ClusterSource(on_cluster(), own)
                )
    finally:
        for process in processes:
            process.kill()
            process.wait()
    epochs = verified_epoch(path)
    gone_on = model(max_iter=epochs + 2, checkpoint=path).fit(twin())
    np.testing.assert_array_equal(gone_on.components_, model(max_iter=epochs + 2).fit(twin()).components_)


def kill_after(path: Path, process: Any) -> None:
    """Kill a process half a second after a file is there."""
    while not path.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    process.kill()


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def verified_epoch(path: Path) -> int:
    """Return how many epochs are done in a checkpoint, whose checksum is right."""
    verify(path)
    with zipfile.ZipFile(path) as archive:
        return int(json.loads(archive.read("manifest.json"))["epoch"])
