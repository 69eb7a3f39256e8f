"""Rows on a Dask cluster: chunks stay on the workers, dictionaries go out, sums come back.

A pass is one task for each chunk, which Dask schedules, balances and repeats if a worker dies. A
mini-batch is drawn from a few chunks (see :class:`~vrmf.sources.layout.Layout`) and worked on where
these are, by one call to their workers past the queue of tasks: a step is one round trip. Rows move
only where a worker has more than its share of these chunks. A worker that gets a chunk whose companions
another one stores fetches them from there. Parts, blocks and the order of sums are those of a
:class:`~vrmf.sources.local.LocalSource` with the same layout, so that results have the same bits,
whatever the number of workers. Only the companions of a worker that dies are computed anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
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
from vrmf.sources.holders import Holders
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
        self._array = X  #: holds the chunks of a persisted array on the workers, which _delayed does not
        self._delayed = [chunk for chunk, size in zip(X.to_delayed().ravel(), sizes, strict=True) if size]
        self._active: dict[int, distributed.Future] = {}  #: chunks that mini-batches come from
        self._homes: dict[int, str] = {}  #: the workers where these are
        self._moved: set[int] = set()  #: active chunks of which a worker got a copy, to share the work
        self._holders = Holders()

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
        self._active, self._homes, self._moved, self._holders = {}, {}, set(), Holders()
        if self.client.status == "running":
            with suppress(*_FAULTS, OSError):  # what is gone has forgotten all
                self.client.run(forget, self.run, on_error="ignore")

    def _results(self, job: Job, rows: Rows) -> Iterator[Any]:
        """Yield the result for each part, in order."""
        parts = self.layout.parts(rows)
        blob = cloudpickle.dumps(job)
        try:
            if isinstance(rows, Batch):
                self._activate(rows, job)
                yield from self._called(blob, parts, job)
            else:
                yield from self._scheduled(blob, parts, job)
        except _FAULTS as error:
            raise ClusterError(_told(error)) from error

    def _place(self, part: Part, job: Job) -> Place:
        assert part.chunk is not None
        first = int(self.layout.bounds[part.chunk])
        rows = None if isinstance(part.rows, slice) else part.rows - first
        return Place(part.chunk, first, rows, self._holders.of(job.carry, part.chunk))

    # A pass: tasks -----------------------------------------------------------------------------

    def _scheduled(self, blob: bytes, parts: list[Part], job: Job) -> Iterator[Any]:
        """Yield the results of one task for each part."""
        # The job is one node of the graph, which workers hand on to each other.
        shared = dask.delayed(bytes, pure=False)(blob)
        self._holders.lose(self.client.nthreads())
        tasks, places = [], [self._place(part, job) for part in parts]
        for place in places:
            with dask.annotate(**_near(place.holders)):
                tasks.append(dask.delayed(run_part, pure=False)(self._delayed[place.chunk], shared, place))
        futures = self.client.compute(tasks, optimize_graph=False)
        for i in range(0, len(futures), FETCHED):
            some = slice(i, i + FETCHED)
            self._wait(futures[some])
            answers = self.client.gather(futures[some])
            futures[some] = [None] * len(answers)  # the workers may forget them
            for place, (result, worker) in zip(places[some], answers, strict=True):
                self._holders.wrote(job.carry, place.chunk, worker)
                yield result

    def _wait(self, futures: list[distributed.Future]) -> None:
        """Wait for futures, but not for ever if there are no workers."""
        patience, waiting = _Patience("The cluster has had no workers"), list(futures)
        while waiting:
            try:
                # Not distributed.wait, which would make this client that of all threads meanwhile.
                waiting[-1].exception(timeout=5)
                waiting.pop()
            except TimeoutError:
                if self.client.status != "running":
                    raise ClusterError("The connection to the scheduler is lost." + _ADVICE) from None
                patience.spend(bool(self.client.nthreads()))

    # A mini-batch: a call ----------------------------------------------------------------------

    def _activate(self, batch: Batch, job: Job) -> None:
        """Have the chunks of a mini-batch computed, and the one that is needed next, and forget others.

        Chunks of a lazy array are computed once for all mini-batches that need them, if possible where
        their companions are.
        """
        assert batch.chunks is not None
        wanted = [*batch.chunks.tolist(), *([] if batch.next_chunk is None else [batch.next_chunk])]
        self._active = {
            chunk: self._active.get(chunk)
            or self.client.compute(self._delayed[chunk], **_near(self._holders.of(job.carry, chunk)))
            for chunk in wanted
        }
        self._homes = {chunk: home for chunk, home in self._homes.items() if chunk in self._active}
        self._moved &= self._active.keys()

    def _called(self, blob: bytes, parts: list[Part], job: Job) -> list[Any]:
        """Return the results that the workers give when they are called."""
        patience = _Patience("Workers that hold the rows of a mini-batch have not answered")
        while True:
            plan: dict[str, list[tuple[Any, Place]]] = {}
            places = [self._place(part, job) for part in parts]
            homes = self._find(places)
            for place in places:
                plan.setdefault(homes[place.chunk], []).append((self._active[place.chunk].key, place))
            answers = self.client.run(run_parts, blob, plan, workers=list(plan), on_error="return")
            results: dict[int, Any] = {}
            for answer in answers.values():
                if isinstance(answer, dict):
                    results.update(answer)
                elif not isinstance(answer, _LOST):
                    raise answer
            if len(results) == len(parts):
                for place in places:
                    self._holders.copied(job.carry, place.chunk, homes[place.chunk])
                return [results[place.chunk] for place in places]
            # A worker is gone, or a chunk has moved: Dask computes it anew, and tells where.
            self._homes = {}
            self._holders.lose(self.client.nthreads())
            patience.spend(False)

    def _find(self, places: list[Place]) -> dict[int, str]:
        """Return at which workers the active chunks are, if possible those that store their companions."""
        patience = _Patience("Chunks of a mini-batch have been on no worker")
        while unknown := [place for place in places if place.chunk not in self._homes]:
            futures = [self._active[place.chunk] for place in unknown]
            self._wait(futures)
            for future in futures:
                if future.status in ("error", "cancelled"):
                    future.result()  # raises what went wrong
            who_has, everyone = self.client.who_has(futures), sorted(self.client.nthreads())
            share, found = -(-len(places) // max(1, len(everyone))), 0
            for place, future in zip(unknown, futures, strict=True):
                workers = sorted(who_has.get(future.key, ()))
                if workers and (place.holders or not self._is_moved(place.chunk, workers, everyone, share)):
                    preferred = [worker for worker in workers if worker in place.holders.values()]
                    self._homes[place.chunk] = (preferred or workers)[0]
                found += bool(workers)
            patience.spend(found == len(unknown))
        return self._homes

    def _is_moved(self, chunk: int, workers: list[str], everyone: list[str], share: int) -> bool:
        """Have an active chunk copied to an idle worker if its own have their share of them already.

        The copy lasts while the chunk is active.
        """
        load = Counter(self._homes.values())
        idlest = min(everyone, key=lambda worker: load[worker])
        is_fair = load[workers[0]] < share or load[idlest] >= share
        if is_fair or chunk in self._moved:
            return False
        self._moved.add(chunk)
        self._active[chunk] = self.client.submit(
            _copied, self._active[chunk], workers=[idlest], allow_other_workers=True, pure=False
        )
        return True


def _near(holders: Mapping[str, str]) -> dict[str, Any]:
    """Return the options with which Dask prefers, for a task, the workers that store its companions."""
    return {"workers": sorted(set(holders.values())), "allow_other_workers": True} if holders else {}


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
