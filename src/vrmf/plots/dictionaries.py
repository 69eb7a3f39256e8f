"""Atoms as images, as curves, or by the names of their strongest features."""

from __future__ import annotations

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
    TITLE,
    check_fitted,
    draw_image,
    draw_thin_frame,
    grid_shape,
    new_axes,
    panels,
    short_text,
)
from vrmf.plots.uses import energies_of_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How many atoms are drawn as images by default.
MOST_IMAGES = 225

#: How many atoms are drawn as curves or names by default.
MOST_PANELS = 12

#: Images up to which each has a number.
MOST_NUMBERED = 64


def atoms(
    model: Any,
    ax: Axes | None = None,
    image_shape: tuple[int, ...] | None = None,
    names: Any = None,
    count: int | None = None,
    top: int = 6,
) -> Axes:
    """Draw the atoms of a fitted model.

    They are images if ``image_shape`` is given, or if the model has an attribute ``image_shape_``. Else,
    if features have names, each atom shows its strongest ones. Else, or if names are numbers such as
    wavelengths, atoms are curves. If there are more atoms than ``count``, those with the largest share
    of the energy of codes are drawn.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib Axes or None
        None makes a new figure.
    image_shape : (height, width), (height, width, 3), or None
    names : names of the features, or None
        None takes those of the model, ``feature_names_in_``.
    count : int or None
        Atoms to draw, at most. None: 225 images, or 12 other panels.
    top : int
        Names for each atom.

    Returns
    -------
    matplotlib Axes
        Their insets are the atoms, each with its number in ``components_``.

    Examples
    --------
    >>> import numpy as np, vrmf
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).random((60, 8))
    >>> model = vrmf.NMF(n_components=3, tol=1e-3, random_state=0).fit(X)
    >>> ax = atoms(model, ax=Figure().subplots(), names=list("abcdefgh"), top=4)
    >>> [len(panel.patches) for panel in ax.child_axes]
    [4, 4, 4]
    """
    check_fitted(model)
    shape = None if names is not None else image_shape_of(model, image_shape)
    names = _names(model, names)
    chosen = _chosen(model, count, MOST_PANELS if shape is None else MOST_IMAGES)
    if shape is not None:
        ax = _image_grid(model.components_, chosen, shape, ax)
    elif names is None or feature_axis(names, len(names))[1] == "":
        ax = _curves(model.components_, chosen, names, ax)
    else:
        ax = _strongest(model.components_, chosen, names, min(top, len(names)), ax)
    total = len(model.components_)
    shown = f"{total}" if len(chosen) == total else f"{len(chosen)} most used of {total}"
    ax.set_title(f"{type(model).__name__}: {shown} {'atom' if total == 1 else 'atoms'}", fontsize=TITLE)
    return ax


def _names(model: Any, given: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None) if given is None else given
    if names is None:
        return None
    names = [str(name) for name in names]
    if len(names) != model.n_features_in_:
        raise ValueError(
            f"`names` has {len(names)} names for {model.n_features_in_} features. Use one for each."
        )
    return names


def _chosen(model: Any, count: int | None, most: int) -> list[int]:
    """Return the numbers of the atoms to draw, in their order."""
    limit, total = most if count is None else count, len(model.components_)
    if limit < 1:
        raise ValueError(f"`count` is {count}. Use at least 1, or None.")
    energies = energies_of_fit(model)
    if total <= limit or energies is None:
        return list(range(min(limit, total)))
    return sorted(np.argsort(-energies, kind="stable")[:limit].tolist())


def _image_grid(components: Array, chosen: list[int], shape: tuple[int, ...], ax: Axes | None) -> Axes:
    ratio, side = shape[1] / shape[0], np.ceil(np.sqrt(len(chosen)))
    ax = new_axes(ax, *np.clip((0.75 * side, 0.75 * side / ratio + 0.3), 2.0, 8.0))
    is_numbered = len(chosen) <= MOST_NUMBERED
    rows, columns = grid_shape(len(chosen), ax, ratio)
    grid = panels(ax, rows, columns, above=9 if is_numbered else 0, gap=4, ratio=ratio)
    cells = [panel for line in grid for panel in line]
    signed = bool(np.min(components) < 0)
    for panel, number in zip(cells, chosen, strict=False):
        atom = components[number]
        draw_image(panel, atom, shape, signed=signed, limits=None if signed else (0.0, float(atom.max())))
        if is_numbered:
            panel.set_title(str(number), fontsize=SMALL, pad=1.5, color=GREY)
    for panel in cells[len(chosen) :]:
        panel.remove()
    return ax


def _curves(components: Array, chosen: list[int], names: Any, ax: Axes | None) -> Axes:
    places, what = feature_axis(names, components.shape[1])
    columns = 1 if len(chosen) <= 4 else 2 if len(chosen) <= 8 else 3
    rows = -(-len(chosen) // columns)
    ax = new_axes(ax, 2.2 + 1.6 * columns, 0.5 + 0.9 * rows)
    grid = panels(ax, rows, columns, beside=18, gap=6)
    cells = [panel for line in grid for panel in line]
    drawn = components[chosen]
    low, high = float(min(drawn.min(), 0)), float(max(drawn.max(), 0))
    reach = (high - low) or 1.0
    for place, panel in enumerate(cells[: len(chosen)]):
        draw_thin_frame(panel)
        panel.axhline(0, color=GREY, linewidth=0.5)
        panel.plot(places, drawn[place], color=BLUE, linewidth=1.1)
        panel.set(ylim=(low - 0.05 * reach, high + 0.05 * reach), yticks=[])
        panel.set_ylabel(str(chosen[place]), fontsize=LABEL, rotation=0, ha="right", va="center")
        is_lowest = place + columns >= len(chosen)
        panel.tick_params(labelbottom=is_lowest)
        if is_lowest and what:
            panel.set_xlabel(what, fontsize=LABEL)
    for panel in cells[len(chosen) :]:
        panel.remove()
    return ax


def _strongest(components: Array, chosen: list[int], names: list[str], top: int, ax: Axes | None) -> Axes:
    """Draw the strongest features of each atom as bars, orange where negative."""
    columns = min(len(chosen), 2 if len(chosen) in (2, 4) else 3)
    rows = -(-len(chosen) // columns)
    ax = new_axes(ax, 0.4 + 2.3 * columns, 0.4 + rows * (0.35 + 0.17 * top))
    letters = max(len(short_text(name)) for name in names)
    grid = panels(ax, rows, columns, above=14, beside=6 + 0.58 * SMALL * letters, gap=8)
    cells = [panel for line in grid for panel in line]
    for panel, number in zip(cells, chosen, strict=False):
        atom = components[number]
        strongest = np.argsort(-np.abs(atom), kind="stable")[:top]
        sizes = np.abs(atom[strongest])
        panel.barh(range(top), sizes, color=np.where(atom[strongest] < 0, ORANGE, BLUE), height=0.7)
        panel.set_yticks(range(top), [short_text(names[i]) for i in strongest])
        panel.invert_yaxis()
        draw_thin_frame(panel)
        panel.spines["bottom"].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.set(xticks=[], xlim=(0, float(sizes.max()) or 1.0))
        panel.set_title(f"atom {number}", fontsize=LABEL, loc="left", pad=2)
    for panel in cells[len(chosen) :]:
        panel.remove()
    return ax
