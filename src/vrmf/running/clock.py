"""How long a fit may take.

>>> with watched_by(Clock(limit=0.0)):
...     check_time()
Traceback (most recent call last):
vrmf.running.clock.OutOfTime: max_time=0 seconds are over
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from vrmf.compiled import working_seconds


class OutOfTime(Exception):
    """Raised when the time of a fit is over, in the middle of a step, which is dropped."""


class Clock:
    """Seconds since it was made, without those of compilation and those in which it was stopped.

    Parameters
    ----------
    limit : float
        Seconds until :meth:`check` raises.

    Examples
    --------
    >>> clock = Clock(limit=60.0)
    >>> clock.check()
    >>> clock.go_on_from(seconds=60.0)
    >>> clock.check()
    Traceback (most recent call last):
    vrmf.running.clock.OutOfTime: max_time=60 seconds are over
    """

    def __init__(self, limit: float) -> None:
        self.limit, self._began, self._stops = limit, working_seconds(), 0
        self.extra = 0.0  #: seconds beyond the limit, for what must come after it

    def go_on_from(self, seconds: float) -> None:
        """Add the seconds of a run that is taken up again."""
        self._began -= seconds

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return working_seconds() - self._began

    def check(self) -> None:
        """Raise :class:`OutOfTime` if the limit is passed, unless the clock is stopped."""
        if not self._stops and self.seconds >= self.limit + self.extra:
            raise OutOfTime(f"max_time={self.limit:g} seconds are over")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock: what happens inside does not count."""
        stopped, self._stops = working_seconds(), self._stops + 1
        try:
            yield
        finally:
            self._stops -= 1
            self._began += working_seconds() - stopped


_here = threading.local()  # holds the clock of this thread


@contextlib.contextmanager
def watched_by(clock: Clock | None) -> Iterator[None]:
    """Let :func:`check_time` check the given clock in this thread while the context lasts."""
    before = getattr(_here, "clock", None)
    _here.clock = clock
    try:
        yield
    finally:
        _here.clock = before


def check_time() -> None:
    """Raise :class:`OutOfTime` if this thread has a clock and its time is over.

    Loops that may take long call it, so that no clock is passed down to them.
    """
    clock = getattr(_here, "clock", None)
    if clock is not None:
        clock.check()
