"""Checks of scalars that several modules share: each names the parameter, what it got and what would do."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def real_number(name: str, value: Any, *, low: float = -math.inf, strict: bool = False) -> float:
    """Return ``value`` as a float if it is a finite real number at or above ``low``, or above if strict."""
    need = f"a finite number {'above' if strict else 'of at least'} {low:g}"
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < low or (strict and value == low):
        raise ValueError(f"`{name}` is {value!r}. Use {need}.")
    return float(value)


def whole_number(name: str, value: Any, *, low: int) -> int:
    """Return ``value`` as an int if it is a whole number of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"`{name}` is {value!r}. Use a whole number of at least {low}.")
    return int(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the words in ``choices``."""
    if value not in choices:
        raise ValueError(f"`{name}` is {value!r}. Use one of {', '.join(map(repr, choices))}.")
    return str(value)
