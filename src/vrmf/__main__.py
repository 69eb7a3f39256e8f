"""The command ``vrmf``, also as ``python -m vrmf``."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

#: The exit code of a command that was interrupted from the keyboard, and of one that failed.
INTERRUPTED, FAILED = 130, 1

#: Why standard output cannot be written: a device or a quota is full, or a device fails.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main() -> None:
    """Run the command, or say what it needs."""
    try:
        from vrmf.cli import main as command
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f'The command vrmf needs the package {error.name}. Install it with pip: "vrmf[cli]".')
    run(command)


def run(command: Callable[[], Any]) -> None:
    """Run a command; end quietly if its reader is gone, and with one line if no output can be written."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        sys.exit(FAILED)
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
