"""Standard output and standard error that outlive their reader, and that take any text.

>>> "4\N{NO-BREAK SPACE}× 5 …".encode("ascii", PLAIN_SIGNS)
b'4 x 5 ...'
>>> os.fsdecode(b"caf\\xe9").encode("latin-1", PLAIN_SIGNS)
b'caf\\\\xe9'
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import Any, TextIO, cast

#: The name by which codecs know :func:`_in_plain_signs`.
PLAIN_SIGNS = "vrmf.plain_signs"

#: What stands for signs that an encoding may not have.
_PLAIN = {"…": "...", "×": "x", "–": "-", "\N{NO-BREAK SPACE}": " "}


def secure() -> None:
    """Let nothing that happens to standard output or standard error end what a command does.

    If one of them is closed, or its reader is gone, what is printed goes nowhere.
    """
    sys.stdout, sys.stderr = _secured(sys.stdout), _secured(sys.stderr)


def has_lost_its_reader() -> bool:
    """Whether standard output was a pipe, and nobody reads it any more."""
    buffer: Any = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return isinstance(raw, _Pipe) and (raw.is_broken or _is_unread(raw.fileno()))


def _is_unread(descriptor: int) -> bool:
    """Whether the other end of a pipe is closed, where the system can be asked without writing to it."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


class _Pipe(io.FileIO):
    """A file whose content goes nowhere once its reader is gone."""

    is_broken = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self.is_broken = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return memoryview(data).nbytes


def _secured(stream: TextIO | None) -> TextIO:
    """Return a stream in place of one of Python's, which is None if it was closed."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream.isatty():
        stream.reconfigure(errors=PLAIN_SIGNS)
        return stream
    stream.flush()
    raw = _Pipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        cast(Any, raw) if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=PLAIN_SIGNS,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Return what is written instead of signs that an encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign) or _escaped(sign) for sign in signs), error.end


def _escaped(sign: str) -> str:
    """Return the code of a sign, or of the byte of a name of a file that is no text."""
    if "\udc80" <= sign <= "\udcff":
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(PLAIN_SIGNS, _in_plain_signs)
