"""Seeds from ``random_state``, and the state of a generator before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

#: Seeds are whole numbers below this one.
SEEDS = 2**31 - 1


def drawn_seed(random_state: Any) -> int:
    """Return the seed of a fit; from a generator one whole number is drawn.

    >>> drawn_seed(7) == drawn_seed(7)
    True
    >>> rng = np.random.default_rng(7)
    >>> drawn_seed(rng) == drawn_seed(rng)
    False
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(SEEDS))
    try:
        return int(check_random_state(random_state).randint(SEEDS))
    except ValueError as error:
        raise ValueError(
            f"`random_state` is {random_state!r}. Use a whole number from 0 to 2³² − 1, a Generator or a "
            "RandomState of NumPy, or None."
        ) from error


def generator_state(random_state: Any) -> Any:
    """Return the state of a generator, from which :func:`restore_generator` restores it; None of others."""
    if isinstance(random_state, np.random.Generator):
        return random_state.bit_generator.state
    return random_state.get_state() if isinstance(random_state, np.random.RandomState) else None


def restore_generator(random_state: Any, state: Any) -> None:
    """Put a generator into the state that it was in."""
    if isinstance(random_state, np.random.Generator):
        random_state.bit_generator.state = state
    elif isinstance(random_state, np.random.RandomState):
        random_state.set_state(state)
