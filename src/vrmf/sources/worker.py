"""What a worker of a cluster does with its chunks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import distributed
import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.sources.base import Reading, added_up
from vrmf.sources.companions import Carry, Companion
from vrmf.sources.layout import block_slices
from vrmf.sources.threads import single_threaded_blas

#: A run, the kind and the name of a companion, and a chunk.
Key = tuple[str, str, str, int]


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be done with each part of a pass or of a mini-batch."""

    reading: Reading
    function: Callable[[Block], Any]
    run: str  #: of which the companions are
    carry: Carry | None = None
    summed: bool = True

    def read_key(self, name: str, chunk: int) -> Key:
        """Return under which key workers store the companion of a chunk that the job reads as ``name``."""
        assert self.carry is not None
        return _key(self, self.carry.reads[name], chunk)


@dataclass(frozen=True, eq=False)
class Place:
    """Rows of a chunk, or all of it."""

    chunk: int
    first: int  #: the number of the chunk's first row
    rows: Array | None  #: counted from there
    holders: Mapping[str, str] = field(default_factory=dict)  #: workers that store companions, by name


#: Bytes of freed memory that a worker may keep for its next arrays; the limits of the C library by number.
KEPT_BYTES = 2**27
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

#: Seconds that another worker has to hand over companions.
MOST_SECONDS_TO_FETCH = 20.0

#: The companions that this worker stores, by run, kind, name and chunk.
_STORED: dict[Key, Array] = {}

#: Runs and workers that did not hand over companions: those are computed anew, without asking again.
_SILENT: set[tuple[str, str]] = set()


def run_part(X: Array, blob: bytes, place: Place) -> tuple[Any, str]:
    """Do a job with a chunk or some of its rows; return the result, and the worker that did it."""
    worker, job = distributed.get_worker(), _job(blob)
    if any(holder != worker.address for holder in place.holders.values()):
        distributed.utils.sync(worker.loop, _fetch, worker, job, place)
    return _result(X, job, place), worker.address


async def run_parts(
    blob: bytes, plan: dict[str, list[tuple[Any, Place]]], dask_worker: Any = None
) -> dict[int, Any]:
    """Do a job with rows of those chunks of a plan that are on this worker; return results by chunk."""
    loop, executor = asyncio.get_running_loop(), dask_worker.executors["default"]
    here = [
        (place, dask_worker.data[key])
        for key, place in plan[dask_worker.address]
        if key in dask_worker.data
    ]
    job = await loop.run_in_executor(executor, _job, blob)
    await asyncio.gather(*(_fetch(dask_worker, job, place) for place, _ in here))
    results = await asyncio.gather(
        *(loop.run_in_executor(executor, _result, X, job, place) for place, X in here)
    )
    return {place.chunk: result for (place, _), result in zip(here, results, strict=True)}


def forget(run: str) -> None:
    """Drop all companions of a run, and give freed memory back."""
    for key in [key for key in _STORED if key[0] == run]:
        _STORED.pop(key, None)
    _SILENT.difference_update([each for each in _SILENT if each[0] == run])
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


async def _fetch(worker: Any, job: Job, place: Place) -> None:
    """Fetch the companions of a chunk that a job reads and other workers store."""
    for name, holder in place.holders.items():
        if holder == worker.address or (job.run, holder) in _SILENT:
            continue
        key = job.read_key(name, place.chunk)
        try:
            ask = worker.rpc(holder).run(function=pickle.dumps(_stored), args=pickle.dumps((key,)))
            answer = await asyncio.wait_for(ask, MOST_SECONDS_TO_FETCH)
        except (OSError, TimeoutError):
            _SILENT.add((job.run, holder))
            continue
        if answer["status"] == "OK" and answer["result"] is not None:
            _STORED[key] = answer["result"]


def _stored(key: Key) -> Array | None:
    return _STORED.get(key)


def _result(X: Array, job: Job, place: Place) -> Any:
    """Do a job block by block, with the companions that are known here."""
    X = X if place.rows is None else X[place.rows]
    numbers = place.first + (np.arange(len(X)) if place.rows is None else place.rows)
    known = _known(job, place)
    results, written = [], []
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
        for where in block_slices(len(X), X.shape[1], job.reading.dtype):
            rows = job.reading(X[where], numbers[where])
            result = job.function(Block(rows, {name: values[where] for name, values in known.items()}))
            if job.carry is not None:
                result, more = result
                written.append(more)
            results.append(result)
    if job.carry is not None and job.carry.writes:
        for name in job.carry.writes:
            _store(job, name, place.chunk, np.concatenate([more[name] for more in written]))
    return added_up(results) if job.summed else results


def _known(job: Job, place: Place) -> dict[str, Array]:
    """Return the companions of some rows of a chunk that a job reads, as far as there are any."""
    known = {}
    for name in place.holders:
        values = _STORED.get(job.read_key(name, place.chunk))
        if values is not None:
            known[name] = values if place.rows is None else values[place.rows]
    return known


def _key(job: Job, companion: Companion, chunk: int) -> Key:
    return job.run, companion.kind, companion.name, chunk


@functools.lru_cache(maxsize=2)
def _job(blob: bytes) -> Job:
    """Return the job; tasks on one worker share what is derived from its dictionary."""
    _reuse_memory()
    job: Job = pickle.loads(blob)
    return job


@functools.cache
def _reuse_memory() -> None:
    """Let this process keep what it frees for its next arrays, as it does outside of a cluster.

    Dask's workers set MALLOC_TRIM_THRESHOLD_, which stops the C library from adapting: each array of a
    few megabytes is then new memory, zeroed page by page, and codes take more than twice as long.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES // 4)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _store(job: Job, name: str, chunk: int, values: Array) -> None:
    """Store a companion of a chunk, and drop those of its kind that the job neither reads nor writes."""
    assert job.carry is not None
    companion = job.carry.writes[name]
    used = {each.name for each in (*job.carry.reads.values(), *job.carry.writes.values())}
    for key in [key for key in _STORED if key[:2] == (job.run, companion.kind) and key[2] not in used]:
        _STORED.pop(key, None)
    _STORED[_key(job, companion, chunk)] = values
