"""The progress of a fit on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from vrmf.estimators import AbstractFactorizer
from vrmf.estimators.progress import told_of
from vrmf.estimators.reporting import watched
from vrmf.history import History, Iterate


@contextmanager
def progress(estimator: AbstractFactorizer, is_wanted: bool) -> Iterator[None]:
    """Show a bar while an estimator is fitted, if standard error is a terminal and one is wanted."""
    if not (is_wanted and sys.stderr.isatty()):
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[told]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0, left="", told="")

        def watch(current: Iterate, history: History) -> None:
            bar.update(task, **shown(estimator, current, history))

        with watched(estimator, watch):
            yield


def shown(estimator: Any, current: Iterate, history: History) -> dict[str, Any]:
    """Return what the bar shows of an iterate: its place in the budget, and what was measured last.

    A fit ends sooner than its budget if it is stationary, so the time left is an upper bound.
    """
    epochs, seconds = current.epoch, current.seconds
    left = seconds / epochs * (estimator.max_iter - epochs) if epochs else math.inf
    share = epochs / estimator.max_iter
    if estimator.max_time is not None:
        left, share = min(left, estimator.max_time - seconds), max(share, seconds / estimator.max_time)
    return {
        "description": f"epoch {epochs}",
        "completed": min(1.0, share),
        "left": "" if math.isinf(left) else f"at most {_duration(max(0.0, left))} left",
        "told": "  ".join([f"k = {len(current.D)}", *told_of(current, history)]),
    }


def _duration(seconds: float) -> str:
    """Return a time in words.

    >>> _duration(5), _duration(150), _duration(7500)
    ('5 s', '2 min 30 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
