"""Small curves as SVG, made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

#: Width and height of the curve, and room for the number at its end, in pixels.
WIDTH, HEIGHT, MARGIN = 230, 52, 74

#: Points that are drawn, at most.
MOST_POINTS = 240

#: Largest over smallest value from which the scale is logarithmic.
LOGARITHMIC = 20.0

#: The colour of curves: enough contrast on white and on black.
COLOUR = "#2E86C9"

Point = tuple[float, float, float]  #: the place, the value and the stage


def sparkline(
    name: str,
    places: Sequence[float],
    values: Sequence[float],
    stages: Sequence[float],
    line: float | None = None,
) -> str:
    """Return the SVG of a curve, one line for each stage; "" if no value is known.

    ``line`` is a value at which a dashed line is drawn.

    >>> sparkline("objective", [0, 1], [math.nan, math.nan], [0, 0])
    ''
    >>> sparkline("objective", [0, 1, 2], [3.0, 2.0, 1.0], [0, 0, 0]).count("<polyline")
    1
    """
    points = _known(places, values, stages)
    if not points:
        return ""
    shown = [value for _, value, _ in points] + ([line] if line is not None else [])
    is_log = min(shown) > 0 and max(shown) > LOGARITHMIC * min(shown)
    x, y = _scale([place for place, _, _ in points], WIDTH - 8, False), _scale(shown, HEIGHT - 8, is_log)
    lines = []
    for _, stage in groupby(points, key=lambda point: point[2]):
        corners = [f"{4 + x(place):.1f},{HEIGHT - 4 - y(value):.1f}" for place, value, _ in stage]
        lines.append(f'<polyline points="{" ".join(corners)}" fill="none" stroke="{COLOUR}" {_ROUND}/>')
    place, value, _ = points[-1]
    end = 4 + x(place), HEIGHT - 4 - y(value)
    dash = "" if line is None else _dashed(HEIGHT - 4 - y(line))
    return _framed(name, dash + "".join(lines) + _end(*end, value))


_ROUND = 'stroke-width="1.6" stroke-linejoin="round"'
_TEXT = 'font-size="11" fill="currentColor" font-family="system-ui, sans-serif"'


def _known(places: Sequence[float], values: Sequence[float], stages: Sequence[float]) -> list[Point]:
    """Return what is known, evenly thinned out; the last point stays."""
    rows = zip(places, values, stages, strict=True)
    known = [(float(p), float(v), float(s)) for p, v, s in rows if math.isfinite(v)]
    step = -(-len(known) // MOST_POINTS) or 1
    return known[::-1][::step][::-1]


def _scale(values: Sequence[float], length: float, is_log: bool) -> Callable[[float], float]:
    """Return the function that maps values to pixels from 0 to the length."""
    measure = math.log10 if is_log else float
    low, high = measure(min(values)), measure(max(values))
    return lambda value: length * (measure(value) - low) / (high - low) if high > low else length / 2


def _dashed(height: float) -> str:
    ends = f'x1="0" x2="{WIDTH}" y1="{height:.1f}" y2="{height:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity=".5" stroke-dasharray="4 3"/>'


def _end(x: float, y: float, value: float) -> str:
    """Return the dot at the end of a curve and the number beside it."""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOUR}"/>'
    return (
        f'{dot}<text x="{WIDTH + 5}" y="{min(max(y + 4, 10), HEIGHT - 1):.1f}" {_TEXT}>{value:.4g}</text>'
    )


def _framed(name: str, drawing: str) -> str:
    """Return the drawing below its name, with thin axes."""
    label = escape(name)
    axes = f'<path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    return (
        f'<div class="quiet">{label} over passes</div>'
        f'<svg width="{WIDTH + MARGIN}" height="{HEIGHT + 1}" role="img" aria-label="{label}">'
        f"{axes}{drawing}</svg>"
    )
