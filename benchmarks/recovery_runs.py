"""What all parts of recovery.py share: cases, the clock, and the compilation before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import vrmf
from benchmarks.recovery_data import mixture

#: What was measured, by name.
Found = dict[str, Any]

#: What is to be measured, by the name under which it is kept.
Cases = dict[str, Callable[[], Found]]

SEEDS = (0, 1, 2)


def warm_up() -> None:
    """Fit a small problem, which compiles what fits need."""
    vrmf.RobustPCA(random_state=0).fit(mixture(60, 40, 2, 0.05, seed=0).X)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its seconds."""
    began = time.perf_counter()
    return run(), time.perf_counter() - began
