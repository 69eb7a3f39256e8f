"""Solvers that raise before a given step, for tests of fits that are interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Interruption(Exception):
    """What an interrupted step raises."""


@contextmanager
def interrupted_before(
    step: float, solver: type[Any], error: type[BaseException] = Interruption
) -> Iterator[None]:
    """Let the solver take so many steps and raise the error instead of the next one."""
    take_step, left = solver.step, step

    def step_or_raise(self: Any, problem: Any, state: Any) -> Any:
        nonlocal left
        if left <= 0:
            raise error
        left -= 1
        return take_step(self, problem, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "step", step_or_raise)
        yield
