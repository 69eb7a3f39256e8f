"""The numbers that a report shows first, each with what it means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from vrmf.estimators.cautions import is_finished
from vrmf.estimators.row_figures import RowFigures
from vrmf.report.contents import Tile
from vrmf.report.wording import number


def tiles(model: Any, figures: RowFigures) -> list[Tile]:
    """Return the tiles of a fitted model, of what these rows show first."""
    return [*_of_rows(model, figures), *_of_fit(model)]


def _of_rows(model: Any, figures: RowFigures) -> Iterator[Tile]:
    has_outliers = figures.outlier_share is not None
    what = "of what is no outlier; " if has_outliers else ""
    yield Tile(
        "explained by the components",
        share(figures.explained),
        f"of the variance of these rows, {what}100 % is all",
    )
    rest = "neither components nor outliers explain" if has_outliers else "the components do not explain"
    yield Tile("error", share(figures.error), f"the size of what {rest}, compared with the rows")
    if figures.outlier_share is not None:
        yield Tile("outliers", share(figures.outlier_share), "of the entries of these rows")


def _of_fit(model: Any) -> Iterator[Tile]:
    if hasattr(model, "noise_"):
        if hasattr(model, "rank_"):
            yield Tile("rank", str(model.rank_), "components found")
        if math.isfinite(model.noise_):
            yield Tile("noise", number(model.noise_), "standard deviation, in units of the data")
    if math.isfinite(model.relative_stationarity_):
        name = "converged" if is_finished(model) else "not converged"
        meaning = "one more step would improve the objective by this share of it"
        yield Tile(name, number(model.relative_stationarity_), meaning)
    seconds = model.history_["seconds"]
    if seconds:
        yield Tile("seconds", number(seconds[-1]), "that the fit took")


def share(value: float) -> str:
    """Return a share in per cent, which is 0 or 100 only if nothing else would be true.

    >>> share(0.5), share(0.99999), share(1.0), share(0.0001), share(-0.2)
    ('50 %', '> 99.9 %', '100 %', '0.01 %', '−20 %')
    """
    percent = 100 * value
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    if 99 <= percent < 100:
        return f"{percent:.1f} %"
    digits = f"{percent:.0f}" if abs(percent) >= 10 else f"{percent:.2g}"
    return f"{digits.replace('-', '−')} %"
