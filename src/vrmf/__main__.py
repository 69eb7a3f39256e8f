"""The command ``vrmf``, also as ``python -m vrmf``."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vrmf.standard_output import secure

#: The exit code of a command that was interrupted from the keyboard.
INTERRUPTED = 130

#: Why standard output cannot be written: a device or a quota is full, or a device fails.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main() -> None:
    """Run the command, or say what it needs."""
    try:
        with ended_by_interrupts():
            secure()
            from vrmf.cli import main as command
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f'The command vrmf needs the package {error.name}. Install it with pip: "vrmf[cli]".')
    run(command)


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """End at once if Ctrl-C is pressed, where nothing is lost: modules that are imported take time."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def run(command: Callable[[], Any]) -> None:
    """Run a command; end with one line if its output cannot be written."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in FULL or error.filename is not None or "--debug" in sys.argv:
            raise
        _forget_output()
        sys.exit(f"Error: standard output cannot be written: {error.strerror}. Use another place for it.")


def _forget_output() -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
