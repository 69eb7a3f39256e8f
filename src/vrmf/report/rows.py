"""The rows that a report shows one at a time: which, and what the page needs of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.report import charts
from vrmf.report.contents import Contents, RowParts
from vrmf.report.pictures import limits_of, picture, side_for

#: Rows that are shown: evenly spaced ones, and those with the most outliers.
EVEN_ROWS, TOP_ROWS = 20, 10

#: Pixels of all images of rows together: about two megabytes at most.
MOST_PIXELS = 1_400_000

#: Features of a row that are listed by name.
MOST_NAMES = 12


def shown_rows(rows: RowParts) -> list[int]:
    """Return the places of the rows that are shown, in order."""
    count = len(rows.numbers)
    evenly = np.linspace(0, count - 1, min(count, EVEN_ROWS)).astype(int)
    return sorted({*evenly.tolist(), *top_rows(rows)})


def top_rows(rows: RowParts) -> list[int]:
    """Return the places of the most unusual rows, the first before all."""
    values = rows.unusual
    order = np.argsort(-values, kind="stable")[:TOP_ROWS]
    return [int(place) for place in order if values[place] > 0]


def part_names(rows: RowParts) -> dict[str, str]:
    """Return the parts of rows, each with what it is called.

    A mask comes last, if there is one.
    """
    if rows.outliers is None:
        return {"original": "original", "low_rank": "reconstruction", "rest": "residual"}
    names = {"original": "original", "low_rank": "low rank", "rest": "outliers"}
    return names if rows.mask is None else {**names, "mask": "mask"}


def row_data(contents: Contents, places: list[int]) -> list[dict[str, Any]]:
    """Return, for each row that is shown, what the page's script needs."""
    show = {"image": _images, "curve": _curves, "names": _names}[contents.features.kind]
    top = set(top_rows(contents.rows))
    return [
        {"label": contents.rows.label(place), "is_top": place in top, **shown}
        for place, shown in zip(places, show(contents, places), strict=True)
    ]


def _images(contents: Contents, places: list[int]) -> list[dict[str, Any]]:
    rows, shape = contents.rows, contents.features.image_shape
    assert shape is not None
    names = part_names(rows)
    side = side_for(len(places) * len(names), shape, MOST_PIXELS)
    data, rest = limits_of(rows.original[places], signed=False), _limits_of_rest(rows.rest[places])
    limits = {"original": data, "low_rank": data, "rest": rest, "mask": (0.0, 1.0)}
    return [
        {
            part: picture(
                np.asarray(getattr(rows, part)[place], dtype=np.float64),
                shape,
                limits[part],
                signed=part == "rest",
                side=side,
            )
            for part in names
        }
        for place in places
    ]


def _limits_of_rest(rest: Array) -> tuple[float, float]:
    """Return limits about 0 that a few entries exceed, so that faint objects are seen, too."""
    sizes = np.abs(rest[rest != 0])
    reach = float(np.quantile(sizes, 0.98)) if len(sizes) else 1.0
    return -reach, reach


def _curves(contents: Contents, places: list[int]) -> list[dict[str, Any]]:
    rows, along, found = contents.rows, contents.features.places, []
    assert along is not None
    for place in places:
        parts = {part: getattr(rows, part)[place] for part in part_names(rows)}
        shown = np.stack([parts[part] for part in ("original", "low_rank", "rest")])
        kept = charts.with_extremes(shown, parts.get("mask"))
        values = [
            {"place": float(along[i]), **{part: _short(parts[part][i]) for part in parts}} for i in kept
        ]
        found.append({"values": values})
    return found


def _names(contents: Contents, places: list[int]) -> list[dict[str, Any]]:
    """Return the features of each row whose rest is largest, or whose entries are if there is none."""
    rows, names = contents.rows, contents.features.names
    found = []
    for place in places:
        order = np.lexsort((-np.abs(rows.original[place]), -np.abs(rows.rest[place])))[:MOST_NAMES]
        table = [
            [
                str(i) if names is None else str(names[i]),
                *(_cell(getattr(rows, part)[place, i]) for part in part_names(rows)),
            ]
            for i in order
        ]
        found.append({"table": table})
    return found


def _short(value: Any) -> Any:
    """Return a number with as many digits as a chart can show."""
    return bool(value) if isinstance(value, np.bool_) else float(f"{value:.5g}")


def _cell(value: Any) -> str:
    return ("outlier" if value else "") if isinstance(value, np.bool_) else f"{value:.4g}"
