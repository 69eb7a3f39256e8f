"""Which worker of a cluster stores the companions of which chunk."""

from __future__ import annotations

from collections.abc import Collection

from vrmf.sources.companions import Carry, Companion


class Holders:
    """The workers that store the newest companions of chunks, as the client knows them.

    >>> holders, codes = Holders(), Companion("codes", "1")
    >>> holders.wrote(Carry(writes={"H": codes}), 7, "tcp://a")
    >>> holders.of(Carry(reads={"H": codes}), 7)
    {'H': 'tcp://a'}
    """

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], dict[int, str]] = {}  #: by companion and chunk

    def wrote(self, carry: Carry | None, chunk: int, worker: str) -> None:
        """Note that a worker has written companions of a chunk; older ones of their kind are forgotten."""
        if carry is None:
            return
        for companion in carry.writes.values():
            used = {_key(each) for each in (*carry.reads.values(), *carry.writes.values())}
            for key in [key for key in self._workers if key[0] == companion.kind and key not in used]:
                del self._workers[key]
            self._workers.setdefault(_key(companion), {})[chunk] = worker

    def copied(self, carry: Carry | None, chunk: int, worker: str) -> None:
        """Note that a worker has fetched the companions of a chunk which a job reads."""
        for companion in {} if carry is None else carry.reads.values():
            workers = self._workers.get(_key(companion), {})
            if chunk in workers:
                workers[chunk] = worker

    def of(self, carry: Carry | None, chunk: int) -> dict[str, str]:
        """Return the workers that store what a job reads of a chunk, by the names that the job uses."""
        reads = {} if carry is None else carry.reads
        found = {
            name: self._workers.get(_key(companion), {}).get(chunk) for name, companion in reads.items()
        }
        return {name: worker for name, worker in found.items() if worker is not None}

    def lose(self, alive: Collection[str]) -> None:
        """Forget what workers stored that are no longer there."""
        for workers in self._workers.values():
            for chunk in [chunk for chunk, worker in workers.items() if worker not in alive]:
                del workers[chunk]


def _key(companion: Companion) -> tuple[str, str]:
    return companion.kind, companion.name
