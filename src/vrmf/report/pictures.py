"""Rows as PNG images in the page itself."""

from __future__ import annotations

import base64
import io
from functools import cache
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.extras import library

#: Colours of the most negative, the zero and the most positive value.
NEGATIVE, ZERO, POSITIVE = (5, 90, 160), (255, 255, 255), (200, 70, 10)

#: Pixels a side of an image, at most: the shorter side of a long one is no smaller than one.
MOST_SIDE = 400


def picture(
    row: Array, shape: tuple[int, ...], limits: tuple[float, float], *, signed: bool, side: int
) -> str:
    """Return a row as the address of an image of at most so many pixels a side.

    Values are shown from black to white between the limits, or from blue over white at 0 to orange if
    ``signed``. Larger images are made smaller by means over pixels.

    >>> picture(np.arange(4.0), (2, 2), (0.0, 3.0), signed=False, side=64)[:22]
    'data:image/png;base64,'
    """
    low, high = limits
    scaled = np.clip((np.asarray(row, dtype=np.float64) - low) / ((high - low) or 1.0), 0.0, 1.0)
    pixels = np.round(255 * scaled).astype(np.uint8).reshape(shape)
    images = library("PIL.Image", "A report with images")
    image = images.fromarray(pixels)
    height, width = shape[:2]
    if max(height, width) > side:
        scale = side / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        image = image.resize(size, images.Resampling.BOX)
    if signed and len(shape) == 2:
        image.putpalette(_diverging())
    return _address(image)


def limits_of(rows: Array, *, signed: bool) -> tuple[float, float]:
    """Return the limits between which rows are shown, symmetric about 0 if they are signed.

    >>> limits_of(np.array([-1.0, 3.0]), signed=True)
    (-3.0, 3.0)
    """
    low, high = float(np.min(rows, initial=np.inf)), float(np.max(rows, initial=-np.inf))
    if signed:
        reach = max(abs(low), abs(high)) or 1.0
        return -reach, reach
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def side_for(count: int, shape: tuple[int, ...], most_pixels: int) -> int:
    """Return the pixels a side with which so many images have at most so many pixels together.

    >>> side_for(100, (500, 500), 1_000_000), side_for(4, (8, 8), 1_000_000)
    (100, 8)
    """
    height, width = shape[:2]
    scale = min(1.0, (most_pixels / max(1, count * int(np.prod(shape)))) ** 0.5)
    return min(MOST_SIDE, max(8, int(scale * max(height, width) + 1e-9)))


@cache
def _diverging() -> list[int]:
    """Return the palette of signed images."""
    share = np.linspace(-1.0, 1.0, 256)[:, None]
    ends = np.where(share < 0, NEGATIVE, POSITIVE)
    colours = np.array(ZERO) * (1 - np.abs(share)) + ends * np.abs(share)
    flat: list[int] = np.round(colours).astype(int).ravel().tolist()
    return flat


def _address(image: Any) -> str:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
