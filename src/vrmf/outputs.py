"""Where results may be written: never over what they were made from, and over nothing else unasked.

>>> import tempfile
>>> data = Path(tempfile.mkdtemp()) / "rows.npy"
>>> _ = data.write_bytes(b"rows")
>>> check_output("--output", data, {"the data": data}, overwrite=True)  # doctest: +ELLIPSIS
Traceback (most recent call last):
ValueError: `--output` is ...rows.npy, which is the data. Use another path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vrmf.atomic import check_place

#: What lies in the folder of a zarr array.
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")


def check_output(
    name: str, path: Path, others: Mapping[str, Path | None], *, overwrite: bool, folder: bool = False
) -> None:
    """Raise, before any work, if a result cannot or must not be written to ``path``.

    Parameters
    ----------
    name : str
        What the user calls the place of the result, for messages.
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
            _check_apart(name, path, what, other)
    if os.path.lexists(path) and not overwrite:
        raise ValueError(f"`{name}` is {path}, which exists. Use --force to replace it, or another path.")
    if folder and path.is_dir():
        if not any((path / file).exists() for file in ZARR_FILES):
            raise ValueError(f"`{name}` is {path}, a folder that is no zarr array. Use another path.")
        check_place(name, path.with_name(f"{path.name}.partial"))
    else:
        check_place(name, path)


def _check_apart(name: str, path: Path, what: str, other: Path) -> None:
    """Raise if two paths lead to the same file, or one into the folder that is the other."""
    here, there = Path(os.path.realpath(path)), Path(os.path.realpath(other))
    if here == there or (path.exists() and other.exists() and os.path.samefile(path, other)):
        raise ValueError(f"`{name}` is {path}, which is {what}. Use another path.")
    if there in here.parents:
        raise ValueError(f"`{name}` is {path}, which lies inside of {what}. Use another path.")
    if here in there.parents:
        raise ValueError(f"`{name}` is {path}, which contains {what}. Use another path.")
