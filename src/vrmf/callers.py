"""Whose line a warning is about."""

from __future__ import annotations

import sys

#: Packages whose frames lie between a warning and the line of the user that it is about.
INSIDE = ("vrmf.", "sklearn.")


def level_of_caller() -> int:
    """Return the stack level, for a warning of the function that asks, of the nearest line outside.

    >>> level_of_caller() >= 1
    True
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    return level
