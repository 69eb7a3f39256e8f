"""Rows that this process reads: from memory, or chunk by chunk from files.

Blocks are cut by the shape of the data alone, BLAS runs on one thread inside a block, and results
come back in the order of the blocks: bits do not depend on the number of threads. While a chunk is
worked on, the next one is read by a thread of its own.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import whole_number
from vrmf.lazily import computed_once
from vrmf.running.clock import check_time, watched_by
from vrmf.sources.base import AbstractSource, Reading, RowCheck, added_up
from vrmf.sources.companions import Carry, Companion
from vrmf.sources.conversion import as_table
from vrmf.sources.layout import Layout, block_slices
from vrmf.sources.selection import Batch, Part, Rows, Sample
from vrmf.sources.tables import AbstractRowTable, AbstractTable
from vrmf.sources.threads import single_threaded_blas, thread_count

T = TypeVar("T")


class LocalSource(AbstractSource):
    """Rows of a table, optionally shifted by a mean.

    Parameters
    ----------
    X : AbstractTable, or whatever :func:`~vrmf.sources.conversion.as_table` takes
    n_jobs : int or None
        Threads; None or -1 takes all cores that this process may use.
    mean : array of shape (d,), or None
        Subtracted from each block when it is read, so that no centred copy is made.
    check : RowCheck or None
        What each block must satisfy when it is read.
    chunk_rows : int or None
        Rows of a chunk. None is everything for what is in memory, else about 32 MB, in whole chunks
        of the file if it has such.
    sampling : {"auto", "rows", "blocks"}
        How mini-batches are drawn, see :class:`~vrmf.sources.layout.Layout`. ``"auto"`` is by rows in
        memory and from mapped arrays up to 1 GiB, else by blocks.
    window : int
        Chunks that a mini-batch comes from, by blocks.
    companion_folder : str, path or None
        A folder on disk for arrays by row, such as the codes of all rows that VR stores, which are in
        memory otherwise.
    """

    def __init__(
        self,
        X: Any,
        n_jobs: int | None = None,
        mean: Array | None = None,
        *,
        check: RowCheck | None = None,
        chunk_rows: int | None = None,
        sampling: str = "auto",
        window: int = 2,
        companion_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.table: AbstractTable = as_table(X)
        if chunk_rows is not None:
            whole_number("chunk_rows", chunk_rows, low=1)
        self.n_features, self.feature_names = self.table.shape[1], self.table.feature_names
        self.row_label, self.image_shape = self.table.row_label, self.table.image_shape
        self.remarks = self.table.remarks
        self.reading = Reading(self.table.dtype, mean, check)
        if sampling == "auto":
            cheap = isinstance(self.table, AbstractRowTable) and self.table.cheap_rows
            sampling = "rows" if cheap else "blocks"
        elif sampling == "rows" and not isinstance(self.table, AbstractRowTable):
            raise ValueError('`sampling` is "rows", but these data are read by chunks. Use "blocks".')
        self.layout = Layout(self.table.bounds(chunk_rows), sampling, window)
        self.n_threads = thread_count(n_jobs)
        self.companion_folder = _folder("companion_folder", companion_folder)
        self._chunks: dict[int, Future[Array]] = {}  #: that are read or being read, last used last

    def map(self, function: Callable[[Block], T], rows: Rows = None) -> Iterator[T]:
        for results in self._results(lambda X, numbers: function(Block(X)), rows):
            yield from results

    def reduce(
        self, function: Callable[[Block], Any], rows: Rows = None, carry: Carry | None = None
    ) -> Any:
        return added_up(map(added_up, self._results(_with_companions(function, carry), rows)))

    def row_names(self, start: int, stop: int) -> list[str] | None:
        return self.table.row_names(start, stop)

    def companion(self, kind: str, number: int, width: int) -> Companion:
        shape = (self.n_samples, width)
        if self.companion_folder is None:
            return Companion(kind, str(number), np.empty(shape, dtype=self.dtype))
        # The file has no name: it is gone when the last view of it is.
        with tempfile.TemporaryFile(prefix="vrmf-", dir=self.companion_folder) as file:
            return Companion(kind, str(number), np.memmap(file, dtype=self.dtype, mode="w+", shape=shape))

    def close(self) -> None:
        self._chunks.clear()

    # Blocks ------------------------------------------------------------------------------------

    def _results(self, work: Callable[[Array, Any], T], rows: Rows) -> Iterator[Iterator[T]]:
        """Yield the results for the blocks of each part, which are to be taken before the next."""
        parts = self.layout.parts(rows)
        by_chunks = not self.table.in_memory and parts[0].chunk is not None
        # The chunks of a mini-batch stay in memory together; more chunks than that are read one by one.
        passes = isinstance(rows, Sample | None) or len(parts) > self.layout.window + 1
        groups = [[part] for part in parts] if by_chunks and passes else [parts]
        next_chunk = rows.next_chunk if isinstance(rows, Batch) else None
        with single_threaded_blas():
            for group, following in zip(groups, [*groups[1:], []], strict=True):
                ahead = [part.chunk for part in following] if passes else [next_chunk]
                yield from self._group_results(work, group, ahead)

    def _group_results(
        self, work: Callable[[Array, Any], T], group: list[Part], ahead: list[int | None]
    ) -> Iterator[Iterator[T]]:
        # Only local names refer to chunks: they are gone when the next ones are read.
        cuts = [block_slices(len(part), self.n_features, self.dtype) for part in group]
        blocks = [
            (part, reader, block)
            for part, reader, cut in zip(group, self._readers(group, ahead), cuts, strict=True)
            for block in cut
        ]
        results = self._each(work, blocks)
        for cut in cuts:
            yield itertools.islice(results, len(cut))

    def _each(self, work: Callable[[Array, Any], T], blocks: list[Any]) -> Iterator[T]:
        def one(block: tuple[Part, Callable[[slice], Array], slice]) -> T:
            part, read, where = block
            numbers = shifted(where, part.rows) if isinstance(part.rows, slice) else part.rows[where]
            with watched_by(self.clock):
                check_time()
                return work(self.reading(read(where), numbers), numbers)

        if self.n_threads == 1 or len(blocks) == 1:
            return map(one, blocks)
        return self._pool.map(one, blocks)

    def _readers(self, group: list[Part], ahead: list[int | None]) -> list[Callable[[slice], Array]]:
        """Return, for each part, what reads a block of it."""
        if self.table.in_memory or group[0].chunk is None:
            return [lambda where, part=part: self._direct(part, where) for part in group]  # type: ignore[misc]
        wanted = [part.chunk for part in group if part.chunk is not None]
        loaded = self._load(wanted, ahead)
        return [
            lambda where, X=X, part=part: within(X, part, self.layout, where)  # type: ignore[misc]
            for X, part in zip(loaded, group, strict=True)
        ]

    def _direct(self, part: Part, where: slice) -> Array:
        if isinstance(part.rows, slice):
            rows = shifted(where, part.rows)
            return self.table.read(rows.start, rows.stop)
        assert isinstance(self.table, AbstractRowTable)
        return self.table.take(part.rows[where])

    # Reading ahead -----------------------------------------------------------------------------

    def _load(self, wanted: list[int], ahead: list[int | None]) -> list[Array]:
        """Return the chunks that are wanted, and have the first that comes next read meanwhile.

        Those used last stay in memory, but never more than the window and one, and in a pass, which wants
        one chunk at a time, none that is done with. Data that fit into the window are read once.
        """
        most = self.layout.window + 1
        if len(wanted) == 1 and self.layout.n_chunks > most:
            most = 2
        for chunk in wanted:
            self._read_chunk(chunk, wanted, most)
        loaded = [self._chunks[chunk].result() for chunk in wanted]
        if ahead and ahead[0] is not None and len(wanted) < most:
            self._read_chunk(ahead[0], wanted, most)
        return loaded

    def _read_chunk(self, chunk: int, wanted: list[int], most: int) -> None:
        known = self._chunks.pop(chunk, None)
        while known is None and len(self._chunks) >= most:
            del self._chunks[next(other for other in self._chunks if other not in wanted)]
        start, stop = (int(bound) for bound in self.layout.bounds[chunk : chunk + 2])
        self._chunks[chunk] = known or self._reader.submit(self.table.read, start, stop)

    @computed_once
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads, thread_name_prefix="vrmf")

    @computed_once
    def _reader(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="vrmf-reader")


def shifted(where: slice, rows: slice) -> slice:
    """Return a slice inside of other rows as a slice of all."""
    return slice(rows.start + where.start, rows.start + where.stop)


def within(X: Array, part: Part, layout: Layout, where: slice) -> Array:
    """Return a block of a part from its chunk X."""
    if isinstance(part.rows, slice):
        return X[where]
    assert part.chunk is not None
    return X[part.rows[where] - layout.bounds[part.chunk]]


def _with_companions(function: Callable[[Block], Any], carry: Carry | None) -> Callable[[Array, Any], Any]:
    """Return a function of rows and their numbers, which reads and writes what is carried."""
    if carry is None:
        return lambda X, numbers: function(Block(X))
    reads, writes = _values(carry.reads), _values(carry.writes)

    def work(X: Array, numbers: Any) -> Any:
        result, written = function(Block(X, {name: known[numbers] for name, known in reads.items()}))
        for name, values in writes.items():
            values[numbers] = written[name]
        return result

    return work


def _values(companions: Mapping[str, Companion]) -> dict[str, Array]:
    """Return the arrays of companions. Those that were left on the workers of a cluster are unknown."""
    return {name: each.values for name, each in companions.items() if each.values is not None}


def _folder(name: str, value: Any) -> Path | None:
    """Return a folder that exists, or None."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"`{name}` is {value!r}. Use the path of a folder, or None.")
    if not Path(value).is_dir():
        raise ValueError(f"`{name}` is {str(value)!r}. Use a folder that exists.")
    return Path(value)
