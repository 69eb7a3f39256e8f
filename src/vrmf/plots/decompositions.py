"""Rows, and the parts of which they are the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.arrays import Array
from vrmf.features import feature_axis, image_shape_of
from vrmf.plots.panels import (
    BLUE,
    GREY,
    LABEL,
    ORANGE,
    SMALL,
    check_fitted,
    draw_image,
    draw_thin_frame,
    new_axes,
    panels,
)
from vrmf.sources.conversion import as_table
from vrmf.sources.tables import AbstractRowTable, ArrayTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows that are drawn, if none are named.
SOME_ROWS = 3


@dataclass(frozen=True, eq=False)
class _Parts:
    """Some rows and their parts."""

    numbers: list[int]
    original: Array
    low_rank: Array
    rest: Array  #: outliers, or what is left if the model has none
    mask: Array | None  #: which entries are outliers

    @property
    def rest_name(self) -> str:
        return "residual" if self.mask is None else "outliers"

    @property
    def low_rank_name(self) -> str:
        return "reconstruction" if self.mask is None else "low rank"


def decomposition(
    model: Any,
    X: Any,
    ax: Axes | None = None,
    rows: Any = None,
    image_shape: tuple[int, ...] | None = None,
) -> Axes:
    """Draw rows beside their parts: the low-rank part, the outliers, and the mask of outliers.

    For models without outliers the reconstruction and the residual are drawn. Rows are images if
    ``image_shape`` is given, or if the model has an attribute ``image_shape_``; else they are curves.

    Parameters
    ----------
    model : fitted estimator
    X : rows, as for ``decompose``
    ax : matplotlib Axes or None
        None makes a new figure.
    rows : numbers of rows, or None
        None takes three, evenly spaced.
    image_shape : (height, width), (height, width, 3), or None

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np, vrmf
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 1)) * np.ones(12) + (rng.random((60, 12)) < 0.05)
    >>> model = vrmf.RobustPCA(random_state=0).fit(X)
    >>> ax = decomposition(model, X, ax=Figure().subplots(), rows=[0, 1], image_shape=(3, 4))
    >>> [panel.get_title() for panel in ax.child_axes[:4]]
    ['original', 'low rank', 'outliers', 'mask']
    """
    check_fitted(model)
    shape = image_shape_of(model, image_shape)
    parts = _parts(model, X, rows)
    if shape is not None:
        return _images(parts, shape, ax)
    names, width = getattr(model, "feature_names_in_", None), parts.original.shape[1]
    return _curves(parts, *feature_axis(names, width), ax)


def _parts(model: Any, X: Any, rows: Any) -> _Parts:
    table = as_table(X)
    count = table.shape[0]
    numbers = [int(i) for i in (_some(count) if rows is None else np.atleast_1d(rows))]
    for number in numbers:
        if not -count <= number < count:
            raise ValueError(f"`rows` has {number}, but there are {count} rows. Use numbers below {count}.")
    numbers = [number % count for number in numbers]
    if isinstance(table, AbstractRowTable):
        original = table.take(np.array(numbers, dtype=np.intp))
    else:
        original = np.concatenate([table.read(number, number + 1) for number in numbers])
    chosen = ArrayTable(original)
    chosen.feature_names = table.feature_names
    low_rank, outliers = model.decompose(chosen)
    if not model.formulation_.has_outliers:
        return _Parts(numbers, original, low_rank, original - low_rank, None)
    mask = model.outlier_mask(chosen) if hasattr(model, "outlier_mask") else outliers != 0
    return _Parts(numbers, original, low_rank, outliers, np.asarray(mask))


def _some(count: int) -> Array:
    """Return a few numbers of rows, evenly spaced, none twice."""
    return np.unique((np.arange(SOME_ROWS) + 0.5) * count / SOME_ROWS).astype(np.intp)


def _images(parts: _Parts, shape: tuple[int, ...], ax: Axes | None) -> Axes:
    columns = 3 if parts.mask is None else 4
    height = 1.9 * shape[0] / shape[1]
    ax = new_axes(ax, 1.9 * columns + 0.4, (height + 0.05) * len(parts.numbers) + 0.35)
    low, high = float(parts.original.min()), float(parts.original.max())
    reach = float(np.max(np.abs(parts.rest)))
    names = ["original", parts.low_rank_name, parts.rest_name, "mask"]
    grid = panels(ax, len(parts.numbers), columns, gap=4, ratio=shape[1] / shape[0])
    for place, line in enumerate(grid):
        draw_image(line[0], parts.original[place], shape, signed=False, limits=(low, high))
        draw_image(line[1], parts.low_rank[place], shape, signed=False, limits=(low, high))
        draw_image(line[2], parts.rest[place], shape, signed=True, limits=(-reach, reach))
        if parts.mask is not None:
            marked = 1.0 * parts.mask[place]
            draw_image(line[3], marked, shape, signed=False, limits=(0.0, 1.0))
        line[0].set_ylabel(f"row {parts.numbers[place]}", fontsize=LABEL)
    for panel, name in zip(grid[0], names, strict=False):
        panel.set_title(name, fontsize=LABEL, pad=3)
    return ax


def _curves(parts: _Parts, places: Array, what: str, ax: Axes | None) -> Axes:
    ax = new_axes(ax, 7.0, 0.7 + 1.2 * len(parts.numbers))
    grid = panels(ax, len(parts.numbers), 2, beside=30, gap=8)
    for place, (left, right) in enumerate(grid):
        left.plot(places, parts.original[place], ".", color=GREY, markersize=3, label="original")
        left.plot(places, parts.low_rank[place], color=BLUE, linewidth=1.2, label=parts.low_rank_name)
        right.axhline(0, color=GREY, linewidth=0.5)
        right.vlines(places, 0, parts.rest[place], color=ORANGE, linewidth=1.0)
        if parts.mask is not None:
            marked = parts.mask[place]
            right.plot(places[marked], parts.rest[place][marked], "o", color=ORANGE, markersize=3)
        for panel in (left, right):
            draw_thin_frame(panel)
            is_last = place == len(grid) - 1
            panel.tick_params(labelbottom=is_last)
            if is_last and what:
                panel.set_xlabel(what, fontsize=LABEL)
        left.set_ylabel(f"row {parts.numbers[place]}", fontsize=LABEL)
    left, right = grid[0]
    left.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=SMALL, borderpad=0
    )
    dots = "" if parts.mask is None else " (dots: in the mask)"
    right.set_title(f"{parts.rest_name}{dots}", fontsize=SMALL, pad=5)
    return ax
