"""Tables of images: a folder of pictures of one size, each of which is a row."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from vrmf.arrays import Array
from vrmf.extras import library
from vrmf.sources.spool import Spool
from vrmf.sources.tables import AbstractTable, NamedTable

#: Suffixes of pictures.
SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm", ".webp")


def image_table(folder: Path) -> AbstractTable:
    """Return the table of the images in a folder, in the order of their names; colours become grey."""
    files = sorted(_images_in(folder), key=_natural)
    first, has_colour = _read(files[0])
    with Spool(first.size, first.dtype) as spool:
        for file in files:
            image, is_coloured = _read(file)
            has_colour |= is_coloured
            _check_same(file, image, files[0], first)
            spool.add(image.reshape(1, -1))
        X = spool.rows()
    shape = first.shape
    table = NamedTable(X, None, [file.name for file in files], "file")
    table.image_shape = (int(shape[0]), int(shape[1]))
    grey = ("colours made grey",) if has_colour else ()
    table.remarks = (f"{len(files)} images of {shape[0]} × {shape[1]} pixels", *grey)
    return table


def _check_same(file: Path, image: Array, other: Path, first: Array) -> None:
    """Raise if two images are not of one kind and size."""
    if image.dtype != first.dtype:
        raise ValueError(
            f"{file} has {image.dtype} pixels, but {other.name} has {first.dtype}. Use images of one kind."
        )
    if image.shape != first.shape:
        raise ValueError(
            f"{file} has {image.shape[0]} × {image.shape[1]} pixels, but {other.name} has "
            f"{first.shape[0]} × {first.shape[1]}. Use images of one size."
        )


def _images_in(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.name[0] != "."]


def _natural(file: Path) -> list[tuple[int, str]]:
    """Return a key by which frame 10 comes after frame 9."""
    parts = re.split(r"(\d+)", file.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _read(file: Path) -> tuple[Array, bool]:
    """Return an image as an array of grey levels, and whether it has colours."""
    pillow = library("PIL.Image", file)
    try:
        with pillow.open(file) as image:
            is_coloured = image.mode not in ("L", "1", "I", "F", "I;16", "I;16B", "LA")
            grey = image if image.mode in ("I", "F", "I;16", "I;16B") else image.convert("L")
            return np.asarray(grey), is_coloured
    except (OSError, SyntaxError, pillow.DecompressionBombError) as error:
        raise ValueError(f"{file} is no image that can be read: {error}") from error
