"""Checks of scalars that several modules share: each names the parameter, what it got and what would do."""

from __future__ import annotations

import dataclasses
import math
import os
from numbers import Integral, Real
from typing import Any

import numpy as np


def real_number(name: str, value: Any, *, low: float = -math.inf, strict: bool = False) -> float:
    """Return ``value`` as a float if it is a finite real number at or above ``low``, or above if strict."""
    need = f"a finite number {'above' if strict else 'of at least'} {low:g}"
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not _is_finite(value) or value < low or (strict and value == low):
        raise ValueError(f"`{name}` is {value!r}. Use {need}.")
    return float(value)


def _is_finite(value: Any) -> bool:
    """Whether a number is finite, also as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def whole_number(name: str, value: Any, *, low: int) -> int:
    """Return ``value`` as an int if it is a whole number of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"`{name}` is {value!r}. Use a whole number of at least {low}.")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False; words and numbers are not."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` is {value!r}. Use True or False.")
    return bool(value)


def is_auto(value: Any) -> bool:
    """Whether a value is the word "auto"; an array is not, and cannot be compared with a word."""
    return isinstance(value, str) and value == "auto"


def check_flags(value: Any) -> None:
    """Raise if a field of a dataclass that is declared as a bool has another value.

    >>> from vrmf.solvers import Batch
    >>> Batch(momentum="no")
    Traceback (most recent call last):
    ValueError: `momentum` is 'no'. Use True or False.
    """
    for field in dataclasses.fields(value):
        if field.type in ("bool", bool):
            flag(field.name, getattr(value, field.name))


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the words in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` is {value!r}. Use one of {', '.join(map(repr, choices))}.")
    return str(value)


def check_room(n_components: int, n_features: int, dtype: Any) -> None:
    """Raise if a dictionary, with the sums from which the next one comes, is larger than the memory.

    >>> check_room(10**8, 40, np.float64)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: `n_components` (-k) is 100000000. For 40 features a fit needs 1.6e+08 GB, but ...
    """
    # k² and 2 k d numbers for those of this step, and as many for those of the next.
    need = 2 * n_components * (n_components + 2 * n_features) * np.dtype(dtype).itemsize
    if need > (there := _memory()):
        raise ValueError(
            f"`n_components` (-k) is {n_components}. For {n_features} features a fit needs "
            f"{need / 1e9:.2g} GB, but this machine has {there / 1e9:.2g} GB. Use fewer components."
        )


def _memory() -> float:
    """Return the bytes of memory of this machine, or a terabyte where that cannot be asked."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 1e12


def check_range(
    largest_row: float, largest_entry: float, dtype: Any, what: str = "data", power: int = 4
) -> None:
    """Raise if powers of rows, by default the fourth, which curvatures contain, leave the dtype's range."""
    low, high = _safe_range(dtype, power)
    if largest_row > high or 0 < largest_entry < low:
        size = largest_row if high < largest_row < math.inf else largest_entry
        raise ValueError(
            f"The {what} are of size {size:.1e}. In {np.dtype(dtype).name} use sizes between {low:.1e} "
            f"and {high:.1e}: rescale X."
        )


def is_too_long(norm: float, dtype: Any) -> bool:
    """Whether a row of this norm is refused by :func:`check_range`."""
    return norm > _safe_range(dtype)[1]


def _safe_range(dtype: Any, power: int = 4) -> tuple[float, float]:
    limits = np.finfo(dtype)
    return float(limits.tiny) ** (1 / power), float(limits.max) ** (1 / power)
