"""The course of a fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.arrays import Array
from vrmf.plots.panels import (
    BLUE,
    GREY,
    LABEL,
    PALE,
    SMALL,
    TITLE,
    check_fitted,
    draw_thin_frame,
    message,
    new_axes,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"passes": "passes over the data", "seconds": "seconds"}

#: Words for reasons to stop whose first word alone is not clear.
SPOKEN = {"budget": "budget spent", "callback": "stopped by a callback"}

#: Largest over smallest objective from which its axis is logarithmic.
LOGARITHMIC = 20.0

#: Points up to which each has a dot.
MOST_DOTS = 40

#: The least relative stationarity that is drawn: double precision knows no less.
LEAST = 1e-17


def convergence(model: Any, ax: Axes | None = None, x: str = "passes") -> Axes:
    """Draw the objective and the relative stationarity along a fit.

    The stages of a path alternate between white and grey; their objectives do not compare.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib Axes or None
        None makes a new figure.
    x : {"passes", "seconds"}
        Passes over the data, or seconds inside steps.

    Returns
    -------
    matplotlib Axes
        Their insets are the two panels.

    Examples
    --------
    >>> import numpy as np, vrmf
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).random((60, 8))
    >>> model = vrmf.NMF(n_components=2, random_state=0).fit(X)
    >>> ax = convergence(model, ax=Figure().subplots(), x="seconds")
    >>> ax.get_title()
    'NMF: stationary after ... passes, ... s'
    """
    if x not in LABELS:
        raise ValueError(f"`x` is {x!r}. Use 'passes' or 'seconds'.")
    check_fitted(model)
    ax = new_axes(ax, 5.0, 3.8)
    history = {name: np.asarray(column, dtype=np.float64) for name, column in model.history_.items()}
    if not len(history["step"]):
        return message(ax, f"A stream has no history\n({model.n_samples_seen_} rows seen)")
    ax.set_title(headline(model), fontsize=TITLE)
    (above,), (below,) = panels(ax, 2, 1, gap=9)
    _draw_objective(above, history, x)
    _draw_stationarity(below, history, x, float(model.tol))
    for panel in (above, below):
        _draw_stages(panel, history, x)
        _fit_limits(panel, history[x])
    above.tick_params(labelbottom=False)
    below.set_xlabel(LABELS[x], fontsize=LABEL)
    return ax


def headline(model: Any) -> str:
    """Return in a few words why a fit ended, and its passes and seconds."""
    why = model.stop_reason_.partition(":")[0]
    passes = f"{model.n_passes_:.3g} pass{'' if round(model.n_passes_, 2) == 1 else 'es'}"
    cost = f"{passes}, {model.history_['seconds'][-1]:.2g} s"
    return f"{type(model).__name__}: {SPOKEN.get(why, why)} after {cost}"


def _draw_objective(ax: Axes, history: dict[str, Array], x: str) -> None:
    values = history["objective"]
    known = values[np.isfinite(values)]
    draw_thin_frame(ax)
    ax.set_ylabel("objective", fontsize=LABEL)
    if not len(known):
        message(ax, "No pass has measured the dictionary")
        return
    if known.min() > 0 and known.max() > LOGARITHMIC * known.min():
        ax.set_yscale("log")
    _draw_lines(ax, history, x, values)
    if len(known) == 1:
        ax.text(
            0.5,
            0.8,
            "known at the end only; record_every=1 measures it along the way",
            ha="center",
            fontsize=SMALL,
            color=GREY,
            transform=ax.transAxes,
        )


def _draw_stationarity(ax: Axes, history: dict[str, Array], x: str, tol: float) -> None:
    values = np.maximum(history["relative_stationarity"], LEAST)
    draw_thin_frame(ax)
    ax.set_ylabel("relative stationarity", fontsize=LABEL)
    ax.set_yscale("log")
    _draw_lines(ax, history, x, values)
    if tol > 0:
        ax.axhline(tol, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        ax.annotate(
            f"tol = {tol:g}",
            (0, tol),
            xycoords=("axes fraction", "data"),
            xytext=(3, 2),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize=SMALL,
            color=GREY,
        )


def _draw_lines(ax: Axes, history: dict[str, Array], x: str, values: Array) -> None:
    """Draw what is known, one line for each stage."""
    known = np.isfinite(values)
    marker = "o" if np.count_nonzero(known) <= MOST_DOTS else None
    for stage in np.unique(history["stage"]):
        here = known & (history["stage"] == stage)
        ax.plot(history[x][here], values[here], color=BLUE, linewidth=1.3, marker=marker, markersize=2.5)


def _draw_stages(ax: Axes, history: dict[str, Array], x: str) -> None:
    """Shade every second stage of a path."""
    starts = np.flatnonzero(np.diff(history["stage"])) + 1
    edges = [*history[x][starts], history[x][-1]]
    for low, high in zip(edges[:-1:2], edges[1::2], strict=False):
        ax.axvspan(low, high, color=PALE, alpha=0.6, linewidth=0, zorder=0)


def _fit_limits(ax: Axes, places: Array) -> None:
    end = float(places[-1]) or 1.0
    ax.set_xlim(float(places[0]) - 0.02 * end, 1.02 * end)
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        if math.log10(high / low) < 1:  # one decade at least, so that its axis has numbers
            ax.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
