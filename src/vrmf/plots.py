"""Pictures of dictionaries, decompositions and runs. Every function returns a matplotlib figure.

>>> import numpy as np
>>> figure = atoms_figure(np.random.default_rng(0).random((4, 9)), image_shape=(3, 3))
>>> len(figure.axes)
4
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vrmf.terms.base import Array

History = Mapping[str, Sequence[float]]


def atoms_figure(components: Array, image_shape: tuple[int, int], title: str = "") -> Figure:
    """Draw each atom as an image, red where positive, blue where negative."""
    columns = math.ceil(math.sqrt(len(components)))
    rows = math.ceil(len(components) / columns)
    figure = Figure(figsize=(1.1 * columns, 1.1 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    for place, atom in enumerate(components, start=1):
        axes = figure.add_subplot(rows, columns, place)
        reach = float(np.max(np.abs(atom))) or 1.0
        _image(axes, atom, image_shape, cmap="RdBu_r", vmin=-reach, vmax=reach)
    return figure


def decomposition_figure(
    parts: Mapping[str, Array],
    image_shape: tuple[int, int],
    signed: Sequence[str] = (),
    count: int = 10,
    title: str = "",
) -> Figure:
    """Draw the first rows of several matrices below each other: data, low-rank part, outliers.

    Parts whose names are in ``signed`` are drawn in red and blue, each on a scale of its own, the others
    in shades of grey, on one scale for all of them.
    """
    count = min(count, *(len(part) for part in parts.values()))
    grey = max((_reach(part[:count]) for name, part in parts.items() if name not in signed), default=1.0)
    figure = Figure(figsize=(1.05 * count + 1.4, 1.1 * len(parts) + 0.5), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(len(parts), count, squeeze=False)
    for line, (name, part) in zip(grid, parts.items(), strict=True):
        reach = _reach(part[:count]) if name in signed else grey
        for axes, row in zip(line, part, strict=False):
            low, cmap = (-reach, "RdBu_r") if name in signed else (0.0, "gray_r")
            _image(axes, row, image_shape, cmap=cmap, vmin=low, vmax=reach)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def convergence_figure(runs: Mapping[str, Mapping[str, History]], title: str = "") -> Figure:
    """Draw the gap of the objective to the best value known, over passes and over seconds.

    ``runs`` maps the name of a problem to the histories of its solvers by name. The point that set the
    best value has no gap and is not drawn.
    """
    figure = Figure(figsize=(9, 3.2 * len(runs)), layout="constrained")
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


def _reach(part: Array) -> float:
    """Return the largest size of entries, but for a few."""
    return float(np.quantile(np.abs(part), 0.995)) or 1.0


def _image(axes: Any, row: Array, shape: tuple[int, int], **style: Any) -> None:
    axes.imshow(np.reshape(row, shape), **style)
    axes.set(xticks=[], yticks=[])
