"""Charts of a report, as specifications of Vega-Lite. Colours are those of the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.report.contents import Contents, Features, RowParts

Chart = dict[str, Any]

#: Points of a curve that are drawn, at most.
MOST_POINTS = 400

#: Bars that are drawn, at most; those that are numbered; and those that would be too wide.
MOST_BARS, MOST_NUMBERED, FEW_BARS = 150, 40, 20

#: Largest over smallest value from which a scale is logarithmic.
LOGARITHMIC = 20.0

BLUE, ORANGE, GREY = "var(--blue)", "var(--orange)", "var(--grey)"

_TEXT = {"labelColor": "var(--ink)", "titleColor": "var(--ink)", "titleFontWeight": "normal"}
_LINES = {"gridColor": "var(--line)", "domainColor": "var(--grey)", "tickColor": "var(--grey)"}
CONFIG: Chart = {
    "font": "system-ui, sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {**_TEXT, **_LINES, "labelFontSize": 12, "titleFontSize": 12, "labelOverlap": True},
    "legend": {**_TEXT, "orient": "top", "title": None, "labelFontSize": 12},
}


def convergence(contents: Contents, column: str, name: str) -> Chart | None:
    """Return the chart of a column of the history over passes or seconds; None if nothing is known."""
    history = contents.history
    known = _known(history, column)
    if not known:
        return None
    line = contents.tol if column == "relative_stationarity" else None
    shown = [row["value"] for row in known] + ([line] if line else []) + [contents.answer[column]]
    shown = [value for value in shown if math.isfinite(value)]
    is_log = min(shown) > 0 and max(shown) > LOGARITHMIC * min(shown)
    scale = {"type": "log"} if is_log else {"zero": False}
    tooltip = [
        {"field": "passes", "type": "quantitative", "format": ".4~g"},
        {"field": "seconds", "type": "quantitative", "format": ".4~g"},
        {"field": "value", "type": "quantitative", "title": name, "format": ".4~g"},
        {"field": "components", "type": "quantitative"},
    ]
    x = {"field": "place", "type": "quantitative", "title": None, "axis": {"format": ".4~g"}}
    y = {"field": "value", "type": "quantitative", "title": name, "scale": scale, "axis": _numbers(is_log)}
    drawn = {"x": x, "y": y, "detail": {"field": "stage", "type": "nominal"}, "tooltip": tooltip}
    mark = {"type": "line", "color": BLUE, "point": {"color": BLUE, "size": 12}}
    layers = [{"mark": mark, "encoding": drawn}, _nearest(drawn, BLUE)]
    answer = {"value": contents.answer[column], **contents.answer, "components": len(contents.components)}
    if math.isfinite(answer["value"]):
        layers.append(_answer(answer, {"x": x, "y": y, "tooltip": tooltip}))
    if line:
        rule = {"mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY}}
        layers.append({"data": {"values": [{}]}, **rule, "encoding": {"y": {"datum": line}}})
    chart = _chart(f"{name} of the fit", known, layer=layers)
    chart["params"] = [{"name": "over", "value": "passes"}]
    chart["transform"] = [{"calculate": "datum[over]", "as": "place"}]
    return chart


def _answer(answer: Mapping[str, float], encoding: Chart) -> Chart:
    """Return the layer with the point of the answer, which may be of a stage before the last."""
    return {
        "data": {"values": [{name: v for name, v in answer.items() if math.isfinite(v)}]},
        "transform": [{"calculate": "datum[over]", "as": "place"}],
        "mark": {"type": "point", "shape": "diamond", "filled": True, "color": ORANGE, "size": 110},
        "encoding": encoding,
    }


def usage(shares: Array, rows: Array) -> Chart:
    """Return the chart of each atom's share of the energy, and of the rows that use it."""
    order = np.argsort(-shares, kind="stable")[:MOST_BARS]
    values = [
        {"atom": int(atom), "energy": float(shares[atom]), "rows": float(rows[atom])} for atom in order
    ]
    tooltip = [
        {"field": "atom", "type": "nominal"},
        {"field": "energy", "type": "quantitative", "title": "share of the energy", "format": ".2%"},
        {"field": "rows", "type": "quantitative", "title": "rows that use it", "format": ".2%"},
    ]
    x = {
        "field": "atom",
        "type": "nominal",
        "sort": None,
        "title": "number of the atom, the most used first",
        "axis": {"labelAngle": 0, "ticks": False, "labels": len(values) <= MOST_NUMBERED},
    }
    y = {
        "field": "energy",
        "type": "quantitative",
        "title": "share of the energy",
        "axis": {"format": "~%"},
    }
    return _chart(
        "Usage of atoms",
        values,
        mark={"type": "bar", "color": BLUE, **({"size": 26} if len(values) <= FEW_BARS else {})},
        encoding={"x": x, "y": y, "tooltip": tooltip},
    )


def energies(rows: RowParts, what: str) -> Chart:
    """Return the chart of how unusual each row is; the most unusual are always among its points."""
    values, chosen = rows.unusual, np.arange(len(rows.numbers))
    if len(values) > 4 * MOST_POINTS:
        largest = np.argsort(-values, kind="stable")[:MOST_POINTS]
        evenly = np.linspace(0, len(values) - 1, 3 * MOST_POINTS).astype(int)
        chosen = np.unique(np.concatenate([largest, evenly]))
    points = [
        {"row": int(rows.numbers[i]), "energy": float(values[i]), "name": rows.label(i)}
        for i in chosen.tolist()
    ]
    tooltip = [
        {"field": "name", "type": "nominal", "title": "row"},
        {"field": "energy", "type": "quantitative", "title": what, "format": ".4~g"},
    ]
    encoding = {
        "x": {"field": "row", "type": "quantitative", "title": "row", "axis": {"format": "d"}},
        "y": {"field": "energy", "type": "quantitative", "title": what, "axis": {"format": ".3~g"}},
        "tooltip": tooltip,
    }
    mark = {"type": "circle", "color": ORANGE, "size": 22, "opacity": 0.7}
    return _chart(f"{what} of each row", points, mark=mark, encoding=encoding)


def curve(values: Array, features: Features, name: str, limits: tuple[float, float]) -> Chart:
    """Return the chart of an atom as a curve."""
    assert features.places is not None
    kept = with_extremes(values[None])
    points = [{"place": float(features.places[i]), "value": float(values[i])} for i in kept]
    encoding = {
        "x": _place(features),
        "y": {**_value(limits), "axis": {"labels": False, "ticks": False, "title": None}},
        "tooltip": _curve_tooltip(),
    }
    layers = [{"mark": {"type": "line", "color": BLUE}, "encoding": encoding}, _nearest(encoding, BLUE)]
    return _chart(name, points, height=90, layer=layers)


def row_curves(features: Features, names: Mapping[str, str], first: Sequence[Any]) -> Chart:
    """Return the chart of one row and its parts: of the first row, until the page's script gives others."""
    y = {"type": "quantitative", "axis": {"format": ".3~g", "tickCount": 5, "title": None}}
    layers: list[Chart] = [
        {"mark": mark, "encoding": {"x": _place(features), "y": {**y, "field": part}}}
        for part, mark in (
            ("rest", {"type": "rule", "color": ORANGE, "strokeWidth": 1.5}),
            ("low_rank", {"type": "line", "color": BLUE}),
            ("original", {"type": "circle", "color": GREY, "size": 14, "opacity": 0.9}),
        )
    ]
    layers[0]["encoding"]["y2"] = {"datum": 0}
    rest = {"x": _place(features), "y": {**y, "field": "rest"}}
    marked = {**rest, "opacity": _only_if({"test": "datum.mask"})}
    layers.append({"mark": {"type": "circle", "color": ORANGE, "size": 40}, "encoding": marked})
    tooltip = [
        {"field": "place", "type": "quantitative", "title": "feature"},
        *({"field": f, "type": "quantitative", "title": n, "format": ".4~g"} for f, n in names.items()),
    ]
    encoding = {"x": _place(features), "y": {**y, "field": "original"}, "tooltip": tooltip}
    chart = _chart("Parts of a row", first, layer=[*layers, _nearest(encoding, GREY)], height=300)
    chart["data"]["name"] = "row"
    return chart


def thinned(count: int) -> list[int]:
    """Return evenly spaced places among so many, few enough to draw."""
    found: list[int] = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int)).tolist()
    return found


def with_extremes(curves: Array, marked: Array | None = None) -> list[int]:
    """Return places along some curves, few enough to draw, with the extremes of each stretch.

    ``marked`` are places to keep as well, as far as they are few.

    >>> peak = np.zeros((1, 10_000))
    >>> peak[0, 1234] = 1.0
    >>> 1234 in with_extremes(peak), len(with_extremes(peak)) <= 2 * MOST_POINTS
    (True, True)
    """
    count = curves.shape[1]
    if count <= MOST_POINTS:
        return list(range(count))
    kept = {0, count - 1}
    for stretch in np.array_split(np.arange(count), max(1, MOST_POINTS // (2 * len(curves)))):
        kept.update(int(stretch[i]) for i in np.argmin(curves[:, stretch], axis=1))
        kept.update(int(stretch[i]) for i in np.argmax(curves[:, stretch], axis=1))
    if marked is not None:
        kept.update(np.flatnonzero(marked)[:MOST_POINTS].tolist())
    return sorted(kept)


def _known(history: Mapping[str, Sequence[float]], column: str) -> list[dict[str, float]]:
    """Return what is known of a column, thinned out; the last point of each stage stays."""
    rows = [
        {"passes": p, "seconds": s, "value": float(v), "stage": stage, "components": k}
        for p, s, v, stage, k in zip(
            history["passes"],
            history["seconds"],
            history[column],
            history["stage"],
            history["n_components"],
            strict=True,
        )
        if math.isfinite(v)
    ]
    last = [i for i, row in enumerate(rows) if i + 1 == len(rows) or rows[i + 1]["stage"] != row["stage"]]
    return [rows[i] for i in sorted({*thinned(len(rows)), *last})] if rows else []


def _chart(description: str, values: Sequence[Any], *, height: int = 220, **more: Any) -> Chart:
    return {
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "config": CONFIG,
        **more,
    }


def _nearest(encoding: Chart, colour: str) -> Chart:
    """Return the layer that shows the point nearest to the pointer, with its values."""
    hover = {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}
    opacity = _only_if({"param": "hover", "empty": False})
    return {
        "params": [{"name": "hover", "select": hover}],
        "mark": {"type": "circle", "color": colour, "size": 70},
        "encoding": {**encoding, "opacity": opacity},
    }


def _only_if(condition: Chart) -> Chart:
    """Return the opacity of marks that are seen under a condition only."""
    return {"condition": {**condition, "value": 1}, "value": 0}


def _numbers(is_log: bool) -> Chart:
    return {"format": ".1~e" if is_log else ".4~g", "tickCount": 5}


def _place(features: Features) -> Chart:
    title = "feature" if features.names is None else None
    axis = {"title": title, "format": ".6~g", "tickCount": 5, "grid": False}
    return {"field": "place", "type": "quantitative", "scale": {"zero": False, "nice": False}, "axis": axis}


def _value(limits: tuple[float, float]) -> Chart:
    low, high = limits
    scale = {"domain": [min(low, 0.0), max(high, 0.0)] if high > low else [low - 0.5, low + 0.5]}
    return {"field": "value", "type": "quantitative", "scale": scale}


def _curve_tooltip() -> list[Chart]:
    return [
        {"field": "place", "type": "quantitative", "title": "feature"},
        {"field": "value", "type": "quantitative", "format": ".4~g"},
    ]
