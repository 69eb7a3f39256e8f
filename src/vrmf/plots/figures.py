"""Whole figures of dictionaries, videos and runs. Every function returns a matplotlib figure.

>>> import numpy as np
>>> figure = atoms_figure(np.random.default_rng(0).random((4, 9)), image_shape=(3, 3))
>>> len(figure.axes)
4
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.arrays import Array
from vrmf.plots.panels import matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

History = Mapping[str, Sequence[float]]


def atoms_figure(components: Array, image_shape: tuple[int, int], title: str = "") -> Figure:
    """Draw each atom as an image, red where positive, blue where negative."""
    columns = math.ceil(math.sqrt(len(components)))
    rows = math.ceil(len(components) / columns)
    figure = _new_figure(1.1 * columns, 1.1 * rows + 0.5)
    figure.suptitle(title)
    for place, atom in enumerate(components, start=1):
        axes = figure.add_subplot(rows, columns, place)
        reach = float(np.max(np.abs(atom))) or 1.0
        _image(axes, atom, image_shape, cmap="RdBu_r", vmin=-reach, vmax=reach)
    return figure


def video_figure(
    videos: Mapping[str, Array], frames: Sequence[int], image_shape: tuple[int, int], title: str = ""
) -> Figure:
    """Draw the same frames of several videos: one column for each video, one row for each frame.

    Grey levels go from 0, black, to 1, white.

    >>> videos = {"frame": np.zeros((5, 6)), "what moved": np.eye(5, 6)}
    >>> len(video_figure(videos, frames=[0, 2, 4], image_shape=(2, 3)).axes)
    6
    """
    height = 2.4 * image_shape[0] / image_shape[1]
    figure = _new_figure(2.4 * len(videos), (height + 0.04) * len(frames) + 0.25 + 0.3 * bool(title))
    if title:
        figure.suptitle(title)
    grid = figure.subplots(len(frames), len(videos), squeeze=False)
    for column, (name, video) in zip(grid.T, videos.items(), strict=True):
        column[0].set_title(name, fontsize="medium")
        for axes, frame in zip(column, frames, strict=True):
            _image(axes, video[frame], image_shape, cmap="gray", vmin=0, vmax=1)
    return figure


def convergence_figure(runs: Mapping[str, Mapping[str, History]], title: str = "") -> Figure:
    """Draw the gap of the objective to the best value known, over passes and over seconds.

    ``runs`` maps the name of a problem to the histories of its solvers by name. The point that set the
    best value has no gap and is not drawn.
    """
    figure = _new_figure(9, 3.2 * len(runs))
    figure.suptitle(title)
    grid = figure.subplots(len(runs), 2, squeeze=False)
    for line, (problem, histories) in zip(grid, runs.items(), strict=True):
        best = min(float(np.nanmin(history["objective"])) for history in histories.values())
        for axes, against in zip(line, ("passes", "seconds"), strict=True):
            for solver, history in histories.items():
                objective = np.array(history["objective"], dtype=float)
                known = np.isfinite(objective) & (objective > best)
                gap = objective[known] / best - 1
                axes.semilogy(np.array(history[against])[known], gap, marker=".", label=solver)
            axes.set(xlabel=against, ylabel="(f − best) / best", title=problem)
            axes.grid(alpha=0.3)
        line[0].legend()
    return figure


def _new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    figure: Figure = matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
    return figure


def _image(axes: Any, row: Array, shape: tuple[int, int], **style: Any) -> None:
    axes.imshow(np.reshape(row, shape), **style)
    axes.set(xticks=[], yticks=[])
