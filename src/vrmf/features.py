"""How the features of a row lie: as the pixels of an image, along an axis, or each by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vrmf.arrays import Array


def image_shape_of(model: Any, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the shape of rows as images: as it is given, or as the model knows it; None for neither."""
    shape = getattr(model, "image_shape_", None) if given is None else given
    if shape is None:
        return None
    width = model.n_features_in_
    try:
        shape = tuple(int(side) for side in shape) if not isinstance(shape, str) else ()
    except (TypeError, ValueError):
        shape = ()
    if len(shape) == 3 and shape[2] == 1:
        shape = shape[:2]
    is_sound = min(shape, default=0) > 0 and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3))
    if not is_sound or math.prod(shape) != width:
        raise ValueError(
            f"`image_shape` is {given!r}, but a row has {width} features. Use (height, width), or "
            f"(height, width, 3) for colours, whose product is {width}."
        )
    return shape


def feature_axis(names: Any, width: int) -> tuple[Array, str]:
    """Return the places of features along a curve: the numbers that name them, or else 0, 1, …"""
    try:
        places = np.array([float(name) for name in names])
    except (TypeError, ValueError):
        return np.arange(width), "feature"
    return (places, "") if np.all(np.isfinite(places)) else (np.arange(width), "feature")
