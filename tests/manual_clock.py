"""A clock for tests that do not wait: it shows the time that a test sets."""

from __future__ import annotations


class ManualClock:
    """A stand-in for ``time`` whose seconds pass only when a test adds to ``now``."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now
