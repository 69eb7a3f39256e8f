"""Files and folders that are replaced whole or not at all, even if the process is killed meanwhile.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "notes"
>>> with replacing(path) as file:
...     _ = file.write(b"first")
>>> with contextlib.suppress(ZeroDivisionError), replacing(path) as file:
...     _ = file.write(b"second")
...     1 / 0
>>> path.read_bytes(), len(list(path.parent.iterdir()))
(b'first', 1)
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

#: Seconds after which a temporary file is left over, even if its process seems to run.
STALE = 86400.0


@contextlib.contextmanager
def replacing(path: Path, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of ``path`` once it is whole and on the disk, or never.

    Even if the process is killed, ``path`` holds the old file or the new one. A new file has the
    permissions of the old one. If ``path`` is a link, its target is replaced. Without ``overwrite`` a file
    that was created meanwhile stays, and the new one gets another name, which a FileExistsError contains.
    """
    path = Path(os.path.realpath(path))
    check_kind("path", path)
    partial = _partial(path)
    try:
        with open(partial, "xb") as file:
            if path.exists() and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(partial, path)
        else:
            _put_beside_others(partial, path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Provide a new folder that takes the place of ``path`` once it is whole, or never.

    An old folder is moved out of the way first: if the process is killed just then, it is beside ``path``,
    under a name that begins with a dot. ``overwrite`` is as for files.
    """
    path = Path(os.path.realpath(path))
    partial, old = _partial(path), _partial(path).with_suffix(".old")
    partial.mkdir()
    try:
        yield partial
        if path.exists() and not overwrite:
            _put_beside_others(partial, path)
        if path.exists():
            partial.chmod(stat.S_IMODE(path.stat().st_mode))
            path.rename(old)
        partial.rename(path)
        _sync_folder(path.parent)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _put_beside_others(partial: Path, path: Path) -> None:
    """Move a new file to its path or, if that is taken, to another one, and raise a FileExistsError."""
    if not os.path.lexists(path):
        try:
            os.link(partial, path)  # which never replaces anything
            partial.unlink()
            return
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(partial, path)
            return
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    other = next(name for name in names if not os.path.lexists(name))
    os.replace(partial, other)
    raise FileExistsError(f"{path} was created meanwhile, and was left alone. The result is in {other}.")


def check_kind(name: str, path: Path) -> None:
    """Raise if there is something at ``path`` that is not a plain file; ``name`` is of the parameter."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"`{name}` is {path}, which is a folder or a device. Use the path of a file.")


def check_place(name: str, path: Path) -> None:
    """Raise unless :func:`replacing` will find a folder to write into; ``name`` is of the parameter."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise ValueError(
            f"`{name}` is {path}, but there is no folder {path.parent}. Create it, or use another path."
        )
    check_kind(name, path)
    partial = _partial(path)
    try:
        partial.touch(exist_ok=False)
        partial.unlink()
    except OSError as error:
        raise ValueError(
            f"`{name}` is {path}, but no file can be written there ({error}). Use another path."
        ) from error


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files beside ``path`` whose processes have ended, or which are a day old."""
    path = Path(os.path.realpath(path))
    for partial in path.parent.iterdir():
        if not (partial.name.startswith(f".{path.name}.") and partial.name.endswith(".partial")):
            continue
        pid = partial.name.removeprefix(f".{path.name}.").partition("-")[0]
        with contextlib.suppress(OSError):
            if time.time() - partial.stat().st_mtime > STALE or (pid.isdigit() and _is_gone(int(pid))):
                partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    """Return a new path beside ``path``, whose name contains the id of this process."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


def _is_gone(pid: int) -> bool:
    """Whether there is no process of that number; False where the system cannot tell."""
    if os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _sync_folder(folder: Path) -> None:
    """Write the folder's new entry to the disk, where the system allows it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot; the file itself is safe by now
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
