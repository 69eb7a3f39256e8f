"""What a fit shows while it runs: lines on a plain stream, a bar in a notebook."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vrmf.running.history import History, Iterate

Show = Callable[[Iterate, History], None]


@contextmanager
def progress(name: str, every: int, epoch: int | None = None) -> Iterator[Show]:
    """Give a function that shows how far a fit is after every so many epochs, 0 for never.

    In a notebook with ipywidgets it is a bar of tqdm, else there are lines. A run that goes on has seen
    ``epoch`` already.
    """
    kind = notebook_bar() if every else None
    if kind is None:
        yield lines(name, every, epoch)
        return
    # How many epochs a fit takes is not known in advance.
    with kind(desc=name, unit=" epochs", initial=epoch or 0) as bar:
        yield bar_filler(bar, every, epoch)


def lines(name: str, every: int, epoch: int | None = None) -> Show:
    """Return a function that prints a line after every so many epochs, 0 for never."""
    seen = epoch // every if epoch and every else 0

    def show(current: Iterate, history: History) -> None:
        nonlocal seen
        if not every or current.epoch // every <= seen:
            return
        seen = current.epoch // every
        print("  ".join([f"[{name}] epoch {current.epoch}", *progress_words(current, history)]))

    return show


def bar_filler(bar: Any, every: int, epoch: int | None = None) -> Show:
    """Return a function that moves a bar of tqdm, and writes beside it what is known of the fit."""
    seen = epoch // every if epoch else 0

    def show(current: Iterate, history: History) -> None:
        nonlocal seen
        if current.epoch // every <= seen:
            return
        seen = current.epoch // every
        bar.set_postfix_str(", ".join(progress_words(current, history)), refresh=False)
        bar.update(current.epoch - bar.n)

    return show


def progress_words(current: Iterate, history: History) -> list[str]:
    """Return the passes, seconds and measurements of a fit so far, in words."""
    words = [f"{current.passes:.1f} passes  {current.seconds:.2f} s"]
    known = history.last
    if known is not None:
        words += [f"f = {known.objective:.6g}", f"relative stationarity {known.relative_stationarity:.1e}"]
    return words


def notebook_bar() -> Any:
    """Return the bar of tqdm for notebooks, or None outside of one or without ipywidgets.

    >>> notebook_bar() is None
    True
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or "IPKernelApp" not in getattr(shell, "config", {}):
        return None
    try:
        importlib.import_module("ipywidgets")
        return importlib.import_module("tqdm.notebook").tqdm
    except ImportError:
        return None
