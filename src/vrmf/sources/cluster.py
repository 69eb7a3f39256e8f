"""Rows on a Dask cluster: chunks stay on the workers, dictionaries go out, sums come back.

A pass is one task for each chunk, which Dask schedules, balances and repeats if a worker dies. A
mini-batch is drawn from a few chunks (see :class:`~vrmf.sources.layout.Layout`) and worked on where
these are, by one call to their workers past the queue of tasks: a step is one round trip. Rows move
only where a worker has more than its share of these chunks. Parts, blocks and the order of sums are
those of a :class:`~vrmf.sources.local.LocalSource` with the same layout, so that results have the same
bits, whatever the number of workers. Stored companions are the exception: where the worker that runs a
task does not have them, they are computed anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

import cloudpickle
import dask
import distributed
import numpy as np
from distributed.comm import CommClosedError

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.sources.base import AbstractSource, Reading, RowCheck, added_up
from vrmf.sources.companions import Carry, Companion
from vrmf.sources.layout import Layout
from vrmf.sources.selection import Batch, Part, Rows
from vrmf.sources.tables import float_type, two_dimensional
from vrmf.sources.worker import Job, Place, forget, run_part, run_parts

T = TypeVar("T")

#: Chunks that a mini-batch comes from: enough for some workers to share it.
WINDOW = 8

#: Results that are fetched together.
FETCHED = 64

#: Seconds without a worker, or without an answer from one, after which a fit gives up.
MOST_SECONDS_WITHOUT_ANSWER = 60.0

#: What a call to a worker raises when that worker is gone.
_LOST = (CommClosedError, concurrent.futures.CancelledError, asyncio.CancelledError, OSError)

#: What Dask raises when the cluster, not our work, is at fault.
_FAULTS = (
    distributed.KilledWorker,
    CommClosedError,
    concurrent.futures.CancelledError,
    asyncio.CancelledError,
    TimeoutError,
)

_ADVICE = (
    " Nothing is lost up to the last step: with `checkpoint` set, the same fit on a sound cluster goes on "
    "from there."
)


class ClusterError(RuntimeError):
    """The cluster failed in a way that Dask could not mend."""


class ClusterSource(AbstractSource):
    """Rows of a dask array on the workers of a cluster.

    Parameters
    ----------
    X : dask array of shape (n, d)
        Chunks of a lazy array are computed anew in each pass; ``X.persist()`` keeps them in the memory
        of the workers.
    client : distributed.Client or None
        None takes the one that was made last.
    mean, check
        As for :class:`~vrmf.sources.local.LocalSource`.
    window : int
        Chunks that a mini-batch comes from.
    """

    def __init__(
        self,
        X: Any,
        client: distributed.Client | None = None,
        mean: Array | None = None,
        *,
        check: RowCheck | None = None,
        window: int = WINDOW,
    ) -> None:
        X = two_dimensional(X)
        X = X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})
        self.client = client or distributed.default_client()
        self.n_features = X.shape[1]
        self.reading = Reading(float_type(X.dtype), mean, check)
        sizes = np.array(X.chunks[0])
        self.layout = Layout(np.cumsum([0, *sizes[sizes > 0]]), "blocks", window)
        self.run = uuid.uuid4().hex
        self._delayed = [chunk for chunk, size in zip(X.to_delayed().ravel(), sizes, strict=True) if size]
        self._active: dict[int, distributed.Future] = {}  #: chunks that mini-batches come from
        self._homes: dict[int, str] = {}  #: the workers where these are
        self._moved: set[int] = set()  #: active chunks of which a worker got a copy, to share the work
        self._companions_at: dict[int, str] = {}  #: the workers that store the newest companions of chunks

    def map(self, function: Callable[[Block], T], rows: Rows = None) -> Iterator[T]:
        for results in self._results(Job(self.reading, function, self.run, summed=False), rows):
            yield from results

    def reduce(
        self, function: Callable[[Block], Any], rows: Rows = None, carry: Carry | None = None
    ) -> Any:
        return added_up(self._results(Job(self.reading, function, self.run, carry), rows))

    def companion(self, kind: str, number: int, width: int) -> Companion:
        """Return the name of a companion in the memory of the workers."""
        return Companion(kind, str(number))

    def close(self) -> None:
        self._active, self._homes, self._moved, self._companions_at = {}, {}, set(), {}
        if self.client.status == "running":
            with suppress(*_FAULTS, OSError):  # what is gone has forgotten all
                self.client.run(forget, self.run, on_error="ignore")

    def _results(self, job: Job, rows: Rows) -> Iterator[Any]:
        """Yield the result for each part, in order."""
        parts = [self._place(part) for part in self.layout.parts(rows)]
        blob = cloudpickle.dumps(job)
        try:
            if isinstance(rows, Batch):
                self._activate(rows)
                yield from self._called(blob, parts)
            else:
                yield from self._scheduled(blob, parts, job)
        except _FAULTS as error:
            raise ClusterError(_told(error)) from error

    def _activate(self, batch: Batch) -> None:
        """Have the chunks of a mini-batch computed, and the one that is needed next, and forget others.

        Chunks of a lazy array are computed once for all mini-batches that need them.
        """
        assert batch.chunks is not None
        wanted = [*batch.chunks.tolist(), *([] if batch.next_chunk is None else [batch.next_chunk])]
        self._active = {c: self._active.get(c) or self.client.compute(self._delayed[c]) for c in wanted}
        self._homes = {c: home for c, home in self._homes.items() if c in self._active}
        self._moved &= self._active.keys()

    def _place(self, part: Part) -> Place:
        assert part.chunk is not None
        first = int(self.layout.bounds[part.chunk])
        return Place(part.chunk, first, None if isinstance(part.rows, slice) else part.rows - first)

    # A pass: tasks -----------------------------------------------------------------------------

    def _scheduled(self, blob: bytes, parts: list[Place], job: Job) -> Iterator[Any]:
        """Yield the results of one task for each part."""
        # The job is one node of the graph, which workers hand on to each other.
        shared = dask.delayed(bytes, pure=False)(blob)
        tasks = []
        for part in parts:
            with self._near_companions(part.chunk, job):
                tasks.append(dask.delayed(run_part, pure=False)(self._delayed[part.chunk], shared, part))
        futures = self.client.compute(tasks, optimize_graph=False)
        for i in range(0, len(futures), FETCHED):
            some = slice(i, i + FETCHED)
            self._wait(futures[some])
            answers = self.client.gather(futures[some])
            futures[some] = [None] * len(answers)  # the workers may forget them
            for part, (result, worker) in zip(parts[some], answers, strict=True):
                if job.carry is not None and job.carry.writes:
                    self._companions_at[part.chunk] = worker
                yield result

    def _near_companions(self, chunk: int, job: Job) -> Any:
        """Return a context for the task of a chunk, which prefers the worker that stores its companions."""
        if job.carry is None or not job.carry.reads or chunk not in self._companions_at:
            return nullcontext()
        return dask.annotate(workers=[self._companions_at[chunk]], allow_other_workers=True)

    def _wait(self, futures: list[distributed.Future]) -> None:
        """Wait for futures, but not for ever if there are no workers."""
        patience = _Patience("The cluster has had no workers")
        while True:
            try:
                with self.client.as_current():
                    distributed.wait(futures, timeout=5)
                return
            except TimeoutError:
                if self.client.status != "running":
                    raise ClusterError("The connection to the scheduler is lost." + _ADVICE) from None
                patience.spend(bool(self.client.nthreads()))

    # A mini-batch: a call ----------------------------------------------------------------------

    def _called(self, blob: bytes, parts: list[Place]) -> list[Any]:
        """Return the results that the workers give when they are called."""
        patience = _Patience("Workers that hold the rows of a mini-batch have not answered")
        while True:
            plan: dict[str, list[tuple[Any, Place]]] = {}
            homes = self._find([part.chunk for part in parts])
            for part in parts:
                plan.setdefault(homes[part.chunk], []).append((self._active[part.chunk].key, part))
            answers = self.client.run(run_parts, blob, plan, workers=list(plan), on_error="return")
            results: dict[int, Any] = {}
            for answer in answers.values():
                if isinstance(answer, dict):
                    results.update(answer)
                elif not isinstance(answer, _LOST):
                    raise answer
            if len(results) == len(parts):
                return [results[part.chunk] for part in parts]
            # A worker is gone, or a chunk has moved: Dask computes it anew, and tells where.
            self._homes = {}
            patience.spend(False)

    def _find(self, chunks: list[int]) -> dict[int, str]:
        """Return at which workers the active chunks are, if possible those that store their companions."""
        patience = _Patience("Chunks of a mini-batch have been on no worker")
        while unknown := [chunk for chunk in chunks if chunk not in self._homes]:
            futures = [self._active[chunk] for chunk in unknown]
            self._wait(futures)
            for future in futures:
                if future.status in ("error", "cancelled"):
                    future.result()  # raises what went wrong
            holders, everyone = self.client.who_has(futures), sorted(self.client.nthreads())
            share, found = -(-len(chunks) // max(1, len(everyone))), 0
            for chunk, future in zip(unknown, futures, strict=True):
                workers = sorted(holders.get(future.key, ()))
                if workers and not self._is_moved(chunk, workers, everyone, share):
                    preferred = self._companions_at.get(chunk, "")
                    self._homes[chunk] = preferred if preferred in workers else workers[0]
                found += bool(workers)
            patience.spend(found == len(unknown))
        return self._homes

    def _is_moved(self, chunk: int, workers: list[str], everyone: list[str], share: int) -> bool:
        """Have an active chunk copied to an idle worker if its own have their share of them already.

        The copy lasts while the chunk is active. A chunk with companions stays with them.
        """
        load = Counter(self._homes.values())
        idlest = min(everyone, key=lambda worker: load[worker])
        is_fair = load[workers[0]] < share or load[idlest] >= share
        if is_fair or chunk in self._companions_at or chunk in self._moved:
            return False
        self._moved.add(chunk)
        self._active[chunk] = self.client.submit(
            _copied, self._active[chunk], workers=[idlest], allow_other_workers=True, pure=False
        )
        return True


def _copied(X: Array) -> Array:
    """Return X; on the worker that runs this it is a copy."""
    return X


class _Patience:
    """Raises after MOST_SECONDS_WITHOUT_ANSWER seconds in which nothing was well."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.since: float | None = None

    def spend(self, is_well: bool) -> None:
        now = time.monotonic()
        if is_well or self.since is None:
            self.since = None if is_well else now
        elif now - self.since > MOST_SECONDS_WITHOUT_ANSWER:
            raise ClusterError(f"{self.what} for {MOST_SECONDS_WITHOUT_ANSWER:g} seconds." + _ADVICE)
        if not is_well:
            time.sleep(0.1)


def _told(error: BaseException) -> str:
    """Return what happened to the cluster, in words."""
    if isinstance(error, distributed.KilledWorker):
        return (
            "Workers died again and again over the same chunk. If they ran out of memory, use smaller "
            f"chunks or workers with more.{_ADVICE} (Dask says: {error})"
        )
    return (
        f"The cluster is gone or has lost data that it cannot compute anew.{_ADVICE} (Dask says: {error!r})"
    )
