"""Where results may be written: never over their inputs, and over other files only if the user says so.

>>> import tempfile
>>> data = Path(tempfile.mkdtemp()) / "rows.npy"
>>> _ = data.write_bytes(b"rows")
>>> check_output("--output", data, {"the data": data}, overwrite=True)  # doctest: +ELLIPSIS
Traceback (most recent call last):
ValueError: `--output` is ...rows.npy, which is the data. Use another path.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

from vrmf.persistence.atomic import check_place


def check_output(
    name: str, path: Path, others: Mapping[str, Path | None], *, overwrite: bool, folder: bool = False
) -> None:
    """Raise, before any work, if a result cannot or must not be written to ``path``.

    Parameters
    ----------
    name : str
        The option that the user knows, for messages.
    path : Path
    others : mapping of words to paths
        Other files of the same command, which are inputs or other results. Links are followed.
    overwrite : bool
        Whether something that is there may be replaced.
    folder : bool
        Whether the result is a folder, a zarr array.
    """
    for what, other in others.items():
        if other is not None:
            check_apart(name, path, what, other)
    if os.path.lexists(path) and not overwrite:
        raise ValueError(f"`{name}` is {path}, which exists. Use --force to replace it, or another path.")
    if folder and path.exists():
        if not _is_zarr_array(path):
            raise ValueError(f"`{name}` is {path}, which is no zarr array. Use another path.")
        check_place(name, path.with_name(f"{path.name}.partial"))
    else:
        check_place(name, path)


def _is_zarr_array(path: Path) -> bool:
    """Whether a folder is a zarr array, not a group of several."""
    try:
        described = json.loads((path / "zarr.json").read_text())
        return isinstance(described, dict) and described.get("node_type") == "array"
    except (OSError, ValueError):
        return (path / ".zarray").is_file()


def check_apart(name: str, path: Path, what: str, other: Path) -> None:
    """Raise if two paths lead to the same file, or one into the folder that is the other.

    A link in a folder counts as the file to which it leads.
    """
    _check_name(name, path)
    here, there = Path(os.path.realpath(path)), Path(os.path.realpath(other))
    if here == there or (path.exists() and other.exists() and os.path.samefile(path, other)):
        raise ValueError(f"`{name}` is {path}, which is {what}. Use another path.")
    if path.is_file() and other.is_dir() and any(_leads_to(path, each) for each in other.rglob("*")):
        raise ValueError(f"`{name}` is {path}, to which {what} lead. Use another path.")
    if there in here.parents:
        raise ValueError(f"`{name}` is {path}, which lies inside of {what}. Use another path.")
    if here in there.parents:
        raise ValueError(f"`{name}` is {path}, which contains {what}. Use another path.")


def _check_name(name: str, path: Path) -> None:
    """Raise if a path is longer than the system takes."""
    try:
        path.exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise ValueError(
            f"`{name}` is a path of {len(str(path))} letters, which is too long for a file here. Use a "
            f"shorter one than {path}."
        ) from error


def _leads_to(path: Path, link: Path) -> bool:
    return link.is_file() and os.path.samefile(path, link)
