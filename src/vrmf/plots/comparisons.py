"""Solvers and other libraries on the same rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vrmf.plots.panels import GREY, LABEL, SMALL, TITLE, draw_thin_frame, message, new_axes, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of our solvers, which remain distinct without red or green vision (Okabe and Ito).
OURS = ("#0072B2", "#56B4E9", "#009E73", "#000000")

#: Colours of other libraries.
OTHERS = ("#D55E00", "#E69F00", "#CC79A7", "#6E6E6E")

#: The columns of a curve that are drawn, and what their axes are called.
LABELS = {"objective": "objective", "error": "reconstruction error"}


def comparison(found: Any, ax: Axes | None = None) -> Axes:
    """Draw the objective and the reconstruction error of all contestants over seconds.

    Parameters
    ----------
    found : Comparison
        As :func:`vrmf.comparing.compare` returns it.
    ax : matplotlib Axes or None
        None makes a new figure.

    Returns
    -------
    matplotlib Axes
        Their insets are the two panels.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from vrmf.comparing import Comparison, Curve
    >>> curve = Curve("vrmf, vr", "", True, [0.1, 1.0], [2.0, 1.0], [0.5, 0.4])
    >>> found = Comparison("nmf", 3, {"alpha": 0.0}, 100, 100, 1.0, 2, [curve], [])
    >>> ax = comparison(found, ax=Figure().subplots())
    >>> [panel.get_ylabel() for panel in ax.child_axes]
    ['objective', 'reconstruction error']
    """
    ax = new_axes(ax, 9.0, 4.0)
    if not any(curve.seconds for curve in found.curves):
        return message(ax, "No contestant has a dictionary")
    title = f"{found.model}, {found.n_components} components, {found.n_samples} rows"
    ax.set_title(title, fontsize=TITLE)
    ((left, right),) = panels(ax, 1, 2, gap=48)
    for panel, (column, label) in zip((left, right), LABELS.items(), strict=True):
        draw_thin_frame(panel)
        _draw(panel, found, column)
        panel.set_xscale("log")
        panel.set_xlabel("seconds", fontsize=LABEL)
        panel.set_ylabel(label, fontsize=LABEL)
    left.legend(fontsize=SMALL, frameon=False, loc="upper right")
    return ax


def _draw(ax: Axes, found: Any, column: str) -> None:
    """Draw a line for each contestant, with limits at which the ends of all can be seen."""
    ours, others = iter(OURS), iter(OTHERS)
    for curve in found.curves:
        colour = next(ours, GREY) if curve.is_ours else next(others, GREY)
        ax.plot(
            curve.seconds,
            getattr(curve, column),
            color=colour,
            linewidth=1.6 if curve.is_ours else 1.2,
            linestyle="-" if curve.is_ours else (0, (5, 2)),
            marker="o",
            markersize=2.5,
            label=curve.name,
        )
    values = [value for curve in found.curves for value in getattr(curve, column)[-1:]]
    starts = [value for curve in found.curves for value in getattr(curve, column)]
    low, high = min(starts), max(values)
    # Where a curve begins far above, its end would not be seen.
    room = max(4 * (high - low), 0.05 * abs(low))
    if max(starts) > low + room and math.isfinite(room):
        ax.set_ylim(low - 0.05 * room, low + room)
