"""How much each atom is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.estimators import summary
from vrmf.plots.panels import (
    BLUE,
    LABEL,
    ORANGE,
    TITLE,
    check_fitted,
    draw_thin_frame,
    message,
    new_axes,
    panels,
    per_cent,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Atoms up to which each bar has its number.
MOST_NUMBERED = 30

#: The share of the energy that the title reports.
MOST_ENERGY = 0.8


def usage(model: Any, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw how much each atom is used, the most used one first.

    The energy of an atom d with codes h is Σ h²‖d‖² over rows; the shares of all atoms add up to 1. For
    given rows, the share of those whose code has an entry for the atom is drawn, too.

    Parameters
    ----------
    model : fitted estimator
    X : rows, as for ``transform``, or None
        None takes the codes of the fit.
    ax : matplotlib Axes or None
        None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np, vrmf
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).random((60, 8))
    >>> model = vrmf.NMF(n_components=3, tol=1e-3, random_state=0).fit(X)
    >>> ax = usage(model, X, ax=Figure().subplots())
    >>> [panel.get_ylabel() for panel in ax.child_axes]
    ['energy, %', 'rows, %']
    """
    check_fitted(model)
    energies, rows = (energies_of_fit(model), None) if X is None else _of_rows(model, X)
    ax = new_axes(ax, 5.0, 2.4 if rows is None else 3.6)
    if energies is None:
        return message(ax, "The codes of the fit are not known: give rows, as in usage(model, X)")
    total = float(np.sum(energies))
    shares = energies / (total or 1.0)
    order = np.argsort(-shares, kind="stable")
    ax.set_title(_headline(shares[order], energies), fontsize=TITLE)
    grid = panels(ax, 1 if rows is None else 2, 1, gap=9)
    _bars(grid[0][0], shares[order], "energy, %", BLUE)
    if rows is not None:
        _bars(grid[1][0], rows[order], "rows, %", ORANGE)
        grid[0][0].tick_params(labelbottom=False)
    last = grid[-1][0]
    if len(order) <= MOST_NUMBERED:
        for line in grid:
            line[0].set_xticks(range(1, len(order) + 1), [str(number) for number in order])
        last.set_xlabel("number of the atom", fontsize=LABEL)
    else:
        last.set_xlabel("atoms, the most used first", fontsize=LABEL)
    return ax


def energies_of_fit(model: Any) -> Array | None:
    """Return the share of each atom in the energy of the codes of the fit, None if it is not known."""
    shares = summary.usage(model)
    return None if shares is None or len(shares) != len(model.components_) else shares


def _of_rows(model: Any, X: Any) -> tuple[Array, Array]:
    """Return the energy of each atom in some rows, and the share of rows that use it."""
    squares, used, count = np.zeros(len(model.components_)), np.zeros(len(model.components_)), 0
    for H in model.code_blocks(X):
        squares += np.sum(np.square(H, dtype=np.float64), axis=0)
        used += np.count_nonzero(H, axis=0)
        count += len(H)
    return squares * row_norms(model.components_).astype(np.float64) ** 2, used / max(count, 1)


def _headline(shares: Array, energies: Array) -> str:
    """Return in words how many atoms carry most of the energy, and how many none."""
    if not np.any(energies):
        return "no atom is used"
    if len(shares) == 1:
        return "one atom carries all of the energy"
    needed = int(np.searchsorted(np.cumsum(shares), MOST_ENERGY)) + 1
    unused = int(np.count_nonzero(energies == 0))
    idle = f"; {unused} {'is' if unused == 1 else 'are'} not used" if unused else ""
    verb = "carries" if needed == 1 else "carry"
    return f"{needed} of {len(shares)} atoms {verb} {per_cent(MOST_ENERGY)} of the energy{idle}"


def _bars(ax: Axes, shares: Array, label: str, colour: str) -> None:
    ax.bar(range(1, len(shares) + 1), 100 * shares, color=colour, width=0.8)
    draw_thin_frame(ax)
    ax.set_ylabel(label, fontsize=LABEL)
    ax.set_xlim(0.4, len(shares) + 0.6)
    ax.set_ylim(bottom=0)
