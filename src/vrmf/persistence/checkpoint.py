"""Checkpoints: a run in a file, from which it goes on as if it had never been interrupted.

A checkpoint is one line with a version and a checksum, followed by an archive
(:mod:`vrmf.persistence.archive`) of the solver's state, the history and all that was decided before the
first step. Since a step is pure and its randomness comes from the seed and its number, the state is all
that the rest of the run depends on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from vrmf._version import __version__
from vrmf.persistence.archive import VALUES, ExactWriter, Reader, write_archive
from vrmf.persistence.atomic import replacing
from vrmf.persistence.declared import check_declared, declared_types
from vrmf.persistence.fingerprint import differences
from vrmf.problem import Problem
from vrmf.running.history import COLUMNS, History, Iterate, Mark
from vrmf.running.loop import ResumePoint, Watch
from vrmf.running.stage import Stage
from vrmf.solvers.base import AbstractSolver, State
from vrmf.sources import AbstractSource

FORMAT = "vrmf-checkpoint"
VERSION = 6

#: Exceptions that a step may raise if values in a checkpoint do not fit together.
MISFITS = (ValueError, TypeError, IndexError, AttributeError, ArithmeticError)

_HEADER = re.compile(rb"vrmf-checkpoint (\d{1,9}) ([0-9a-f]{64})\n")
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class Saved:
    """What a checkpoint holds."""

    stage: Stage
    resume: ResumePoint
    epoch: int  #: epochs done


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where and how often a run is saved, and the fingerprint of its fit.

    Parameters
    ----------
    path : Path
        The file.
    every : float
        Seconds between two saves, at least; 0 saves after every step.
    fingerprint : dict
        Of the parameters and the data; a file with another one is refused.
    kinds : tuple of types
        The classes of terms, besides those of vrmf, that the file may hold.
    """

    path: Path
    every: float
    fingerprint: dict[str, Any]
    kinds: tuple[type, ...] = ()

    def read(self, solver: AbstractSolver, source: AbstractSource) -> Saved | None:
        """Return what the file holds, or None if there is none; it is left as it is."""
        if not self.path.exists():
            return None
        verify(self.path)
        with self._reader() as reader:
            manifest = reader.manifest()
            differing = differences(manifest["fingerprint"], self.fingerprint)
        if differing:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit: {'; '.join(differing)}. Use another "
                "path, or remove the file to start anew."
            )
        with self._reader() as reader:
            stage = Stage(**reader.decode(manifest["stage"]))
            check_declared(stage)
            fits = stage.D.ndim == 2 and stage.D.shape[1] == source.n_features and len(stage.D) > 0
            if not fits or stage.D.dtype != source.dtype:
                raise TypeError(f"its dictionary is of shape {stage.D.shape} and type {stage.D.dtype}")
            history = _history_in(reader, manifest)
            seconds, epoch = float(manifest["seconds"]), int(manifest["epoch"])
        first = solver.init(Problem(stage.formulation, source), stage.D, stage.seed)

        def state() -> State:
            with self._reader(*declared_types(type(first))) as reader:
                found: State = reader.decode(manifest["state"])
                check_declared(found)
                same = found.D.shape == first.D.shape and found.D.dtype == first.D.dtype
                if type(found) is not type(first) or not same:
                    raise TypeError(
                        f"its state is a {type(found).__name__}, with D of shape {found.D.shape}"
                    )
                return found

        return Saved(stage, ResumePoint(state, seconds, history), epoch)

    @contextlib.contextmanager
    def saving(self, saved: Saved | None) -> Iterator[Watch]:
        """Provide a watch that saves iterates, at most one in ``every`` seconds.

        The newest iterate is saved at the end, also if the run ends by an exception. If a run cannot take
        its first step from the file, the error names the file.
        """
        saver = _Saver(self, is_saved=saved is not None)
        try:
            yield saver.watch
        except BaseException as error:
            try:
                saver.save()
            except Exception as failure:
                error.add_note(f"The checkpoint {self.path} could not be brought up to date: {failure!r}")
            unmoved = saved is not None and saver.is_saved
            if unmoved and isinstance(error, MISFITS) and not str(error).startswith(str(self.path)):
                raise ValueError(
                    f"{self.path} holds a fit that cannot go on ({error!r}). If somebody has changed it, "
                    "remove the file to start anew."
                ) from error
            raise
        saver.save()

    def write(self, current: Iterate, history: History) -> None:
        """Write an iterate and its history to the file, whole or not at all."""
        writer = ExactWriter((*VALUES, *self.kinds, *declared_types(type(current.state))))
        columns = {name: np.array(getattr(history, name)) for name in COLUMNS}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "vrmf": __version__,
            "fingerprint": self.fingerprint,
            "stage": writer.encode("stage", fields_of(current.stage)),
            "state": writer.encode("state", current.state),
            "epoch": current.epoch,
            "seconds": current.seconds,
            "history": writer.encode("history", columns),
            "last": writer.encode("last", history.last),
            "doubt": history.doubt,
            "best": writer.encode("best", None if history.best is history.last else history.best),
        }
        with replacing(self.path) as file:
            file.write(_header(""))
            digesting = _Digesting(file)
            write_archive(digesting, manifest, writer.arrays)
            file.seek(0)
            file.write(_header(digesting.digest.hexdigest()))

    @contextlib.contextmanager
    def _reader(self, *kinds: type) -> Iterator[Reader]:
        """Open the file. Its checksum is right, so if it cannot be read, another version wrote it."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield Reader(archive, (*VALUES, *self.kinds, *kinds))
        except Exception as error:  # its type depends on what is different
            raise ValueError(
                f"{self.path} does not fit vrmf {__version__} ({error!r}). Go on with the version that "
                "wrote it, or remove the file to start anew."
            ) from error


def _history_in(reader: Reader, manifest: Any) -> History:
    """Return the history in a file, whose columns are numbers of the same length."""
    found = reader.decode(manifest["history"])
    columns = {name: np.asarray(found[name]) for name in COLUMNS}
    lengths = {column.shape for column in columns.values()}
    if len(lengths) != 1 or not all(column.ndim == 1 and len(column) for column in columns.values()):
        raise TypeError("its history has columns of different lengths")
    if not all(column.dtype.kind in "fi" for column in columns.values()):
        raise TypeError("its history does not hold numbers")
    last, best = (reader.decode(manifest[name]) for name in ("last", "best"))
    values = {name: column.tolist() for name, column in columns.items()}
    history = History(**values, last=last, best=last if best is None else best, doubt=manifest["doubt"])
    check_declared(history)
    return history


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, each as it is."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


@dataclass
class _Saver:
    """Saves the newest iterate of a run, if it is not in the file yet."""

    checkpoint: Checkpoint
    is_saved: bool  #: whether what comes first is in the file
    newest: tuple[Iterate, History, Mark] | None = None
    clock: Callable[[], float] = time.monotonic
    last: float = field(default_factory=time.monotonic)  #: when something was saved

    def watch(self, current: Iterate, history: History) -> None:
        is_first, self.newest = self.newest is None, (current, history, history.mark())
        if is_first and self.is_saved:
            return
        self.is_saved = False
        if is_first or self.clock() - self.last >= self.checkpoint.every:
            self.save()

    def save(self) -> None:
        if self.is_saved or self.newest is None:
            return
        current, history, mark = self.newest
        self.checkpoint.write(current, history.upto(mark))
        self.is_saved, self.last = True, self.clock()


def verify(path: Path) -> None:
    """Raise unless the file is a whole checkpoint of a version that can be read."""
    remedy = "Use another path, or remove the file to start anew."
    with open(path, "rb") as file:
        header = file.readline(len(_header("")) + 9)
        told = _HEADER.fullmatch(header)
        if told is None:
            kind = "an archive, such as vrmf.save writes" if header[:2] == b"PK" else "something else"
            raise ValueError(f"{path} is not a checkpoint of vrmf, or is damaged: it is {kind}. {remedy}")
        version = int(told[1])
        if version > VERSION:
            raise ValueError(
                f"{path} has version {version} of the format. Upgrade vrmf; this one reads up to "
                f"version {VERSION}."
            )
        if version < VERSION:
            raise ValueError(
                f"{path} has version {version} of the format, which this vrmf no longer goes on from. Use "
                "the version of vrmf that wrote it, or remove the file to start anew."
            )
        digest = _digest()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if header != _header(digest.hexdigest()):
        raise ValueError(f"{path} is damaged: its checksum is not that of its content. {remedy}")


def _digest() -> Any:
    return hashlib.blake2b(digest_size=32)


def _header(digest: str) -> bytes:
    """Return the first line of a file; its length does not depend on the digest."""
    return f"{FORMAT} {VERSION} {digest:0>64}\n".encode()


class _Digesting:
    """A file that is written from begin to end, with a digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = _digest()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()
