"""Parts of all pictures: axes, a grid of panels inside them, colours, images and curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vrmf.arrays import Array
from vrmf.extras import library

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that remain distinct without red or green vision (Okabe and Ito), and two greys.
BLUE, ORANGE, GREY, PALE = "#0072B2", "#D55E00", "#6E6E6E", "#E6E6E6"

#: Sizes of text in points.
TITLE, LABEL, SMALL = 10.0, 9.0, 7.5

#: Letters of a name that are shown at most.
MOST_LETTERS = 18


def matplotlib(module: str) -> Any:
    """Return a module of matplotlib, or say how to install it."""
    return library(f"matplotlib.{module}", "vrmf.plots")


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or those of a new figure of a size in inches."""
    if ax is not None:
        if not hasattr(ax, "get_window_extent"):
            raise TypeError(f"`ax` is {ax!r}. Use axes of matplotlib, or None for a new figure.")
        return ax
    figure = matplotlib("pyplot").figure(figsize=(width, height), layout="constrained")
    axes: Axes = figure.subplots()
    return axes


def check_fitted(model: Any) -> None:
    """Raise unless the model has a dictionary."""
    check_is_fitted(model, "components_")


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Return the width and the height of axes."""
    box, points = ax.get_window_extent(), 72 / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return max(box.width * points, 1.0), max(box.height * points, 1.0)


def panels(
    ax: Axes,
    rows: int,
    columns: int,
    *,
    above: float = 0.0,
    beside: float = 0.0,
    gap: float = 3.0,
    ratio: float | None = None,
) -> list[list[Axes]]:
    """Return a grid of panels inside the axes, whose own frame is hidden.

    ``above`` and ``beside`` are room for text over each row and at the left of each column, and ``gap``
    is between panels, all in points. Panels of a ``ratio`` of width to height lie close together in the
    middle; else they fill the axes.
    """
    ax.set_axis_off()
    width, height = size_in_points(ax)
    above, beside = min(above, 0.5 * height / rows), min(beside, 0.5 * width / columns)
    across, down = min(gap, 0.2 * width / columns), min(gap, 0.2 * height / rows)
    wide = (width + across) / columns - across - beside
    high = (height + down) / rows - down - above
    if ratio is not None:
        wide, high = min(wide, ratio * high), min(high, wide / ratio)
    step = wide + across + beside, high + down + above
    left = (width - columns * step[0] + across) / 2 + beside
    top = height - (height - rows * step[1] + down) / 2 - above
    return [
        [
            ax.inset_axes(
                (
                    (left + column * step[0]) / width,
                    (top - high - row * step[1]) / height,
                    wide / width,
                    high / height,
                )
            )
            for column in range(columns)
        ]
        for row in range(rows)
    ]


def grid_shape(count: int, ax: Axes, ratio: float = 1.0) -> tuple[int, int]:
    """Return rows and columns for panels of a ratio of width to height, as large as the axes allow."""
    width, height = size_in_points(ax)

    def panel_width(columns: int) -> float:
        return min(width / columns, ratio * height / math.ceil(count / columns))

    columns = max(range(1, count + 1), key=panel_width)
    return math.ceil(count / columns), columns


def message(ax: Axes, text: str) -> Axes:
    """Say in the axes why there is nothing to draw."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", fontsize=LABEL, wrap=True, transform=ax.transAxes)
    return ax


def draw_image(ax: Axes, row: Array, shape: tuple[int, ...], *, signed: bool, limits: Any = None) -> None:
    """Draw a row as an image: grey from black to white, or blue to red about a white 0 if ``signed``."""
    low, high = (float(np.min(row)), float(np.max(row))) if limits is None else limits
    if signed:
        high = max(abs(low), abs(high))
        low = -high
    high = high if high > low else low + 1
    image = np.reshape(np.asarray(row, dtype=np.float64), shape)
    if len(shape) == 3:
        image = np.clip((image - low) / (high - low), 0, 1)
    ax.imshow(image, cmap="RdBu_r" if signed else "gray", vmin=low, vmax=high, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(color=GREY, linewidth=0.4)


def draw_thin_frame(ax: Axes) -> None:
    """Leave the axes a thin frame at the left and below, and small numbers."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=GREY, linewidth=0.6)
    ax.tick_params(labelsize=SMALL, color=GREY, width=0.6, length=2.5)


def short_text(text: Any) -> str:
    """Return a text cut to MOST_LETTERS, with dollar signs escaped, which would begin a formula."""
    word = str(text)
    word = word if len(word) <= MOST_LETTERS else f"{word[: MOST_LETTERS - 1]}…"
    return word.replace("$", r"\$")


def per_cent(share: float) -> str:
    """Return a share in words.

    >>> per_cent(0.123), per_cent(0.004), per_cent(0.0)
    ('12 %', '0.4 %', '0 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else f"{100 * share:.1g} %"
