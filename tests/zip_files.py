"""Models and checkpoints as zip files: their members, read and replaced by tests of damaged files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any


def members_of(path: Path) -> dict[str, bytes]:
    """Return the content of each member, by its name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(
    file: Path | IO[bytes], members: dict[str, bytes], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write a zip file with these members alone."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def containers(value: Any) -> list[Any]:
    """Return all lists and dicts inside a value of JSON that are not empty, itself included."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value] * bool(inside) + [node for part in inside for node in containers(part)]
