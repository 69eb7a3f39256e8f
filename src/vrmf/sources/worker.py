"""What a worker of a cluster does with its chunks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import distributed
import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.sources.base import Reading, added_up
from vrmf.sources.companions import Carry
from vrmf.sources.layout import block_slices
from vrmf.sources.threads import single_threaded_blas


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be done with each part of a pass or of a mini-batch."""

    reading: Reading
    function: Callable[[Block], Any]
    run: str  #: of which the companions are
    carry: Carry | None = None
    summed: bool = True


@dataclass(frozen=True, eq=False)
class Place:
    """Rows of a chunk, or all of it."""

    chunk: int
    first: int  #: the number of the chunk's first row
    rows: Array | None  #: counted from there


#: Bytes of freed memory that a worker may keep for its next arrays; the limits of the C library by number.
KEPT_BYTES = 2**27
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

#: The companions that this worker stores, by run, kind, name and chunk.
_STORED: dict[tuple[str, str, str, int], Array] = {}


def run_part(X: Array, blob: bytes, place: Place) -> tuple[Any, str]:
    """Do a job with a chunk or some of its rows; return the result, and the worker that did it."""
    return _result(X, _job(blob), place), distributed.get_worker().address


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
    results = await asyncio.gather(
        *(loop.run_in_executor(executor, _result, X, job, place) for place, X in here)
    )
    return {place.chunk: result for (place, _), result in zip(here, results, strict=True)}


def forget(run: str) -> None:
    """Drop all companions of a run, and give freed memory back."""
    for key in [key for key in _STORED if key[0] == run]:
        _STORED.pop(key, None)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


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
    """Return the companions of some rows of a chunk that a job reads, as far as this worker has them."""
    known = {}
    for name, companion in ({} if job.carry is None else job.carry.reads).items():
        values = _STORED.get((job.run, companion.kind, companion.name, place.chunk))
        if values is not None:
            known[name] = values if place.rows is None else values[place.rows]
    return known


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
    _STORED[job.run, companion.kind, companion.name, chunk] = values
