"""Single and double precision, over which many laws run, and tolerances in units of their rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Precision = type[np.floating[Any]]

every_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def roundings(dtype: Precision, number: float = 1e3) -> float:
    """Return a tolerance of so many roundings."""
    return number * float(np.finfo(dtype).eps)
