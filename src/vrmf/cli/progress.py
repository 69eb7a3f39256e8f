"""The progress of a fit on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from vrmf.estimators import AbstractFactorizer
from vrmf.estimators.progress import progress_words
from vrmf.estimators.recording import watching
from vrmf.running.history import History, Iterate

#: Columns of a terminal from which on there is a bar beside the words.
WIDE = 100

#: Characters of the bar.
BAR = 12

#: Columns for the number of epochs and spaces.
ROOM_FOR_EPOCHS = 14


@contextmanager
def progress(estimator: AbstractFactorizer, is_wanted: bool) -> Iterator[None]:
    """Show a bar while an estimator is fitted, if standard error is a terminal and one is wanted."""
    if not (is_wanted and sys.stderr.isatty()):
        yield
        return
    console = Console(stderr=True)
    bars = [BarColumn(bar_width=BAR)] if console.width >= WIDE else []
    columns = (TextColumn("{task.description}"), *bars, TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0, told="")

        def watch(current: Iterate, history: History) -> None:
            share, told = shown(estimator, current, history)
            room = console.width - ROOM_FOR_EPOCHS - (BAR + 1) * len(bars)
            words = as_many_as_fit(told, room)
            bar.update(task, description=f"epoch {current.epoch}", completed=share, told=words)

        with watching(estimator, watch):
            yield


def shown(estimator: Any, current: Iterate, history: History) -> tuple[float, list[str]]:
    """Return the share of the budget that is used, and words about the fit, the most important first.

    A fit ends sooner than its budget if it is stationary, so the time left is an upper bound.
    """
    epochs, seconds = current.epoch, current.seconds
    left = seconds / epochs * (estimator.max_iter - epochs) if epochs else math.inf
    share = epochs / estimator.max_iter
    if estimator.max_time is not None:
        left, share = min(left, estimator.max_time - seconds), max(share, seconds / estimator.max_time)
    cost, *measured = progress_words(current, history)
    known = [] if math.isinf(left) else [f"at most {_duration(max(0.0, left))} left"]
    return min(1.0, share), [*known, *measured, cost, f"k = {len(current.D)}"]


def as_many_as_fit(words: list[str], width: int) -> str:
    """Return the first words that fit into a line.

    >>> as_many_as_fit(["one", "two", "three"], 8)
    'one  two'
    """
    while len(words) > 1 and len("  ".join(words)) > width:
        words = words[:-1]
    return "  ".join(words)


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
