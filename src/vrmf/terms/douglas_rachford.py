"""The prox of a sum of two functions whose own proxes are known, by Douglas–Rachford splitting."""

from __future__ import annotations

import math
import warnings
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf.arrays import Array

#: Bound on the iterations.
MAX_ITERATIONS = 20_000


class Proximable(Protocol):
    """A function with a prox."""

    smoothness: float  #: Lipschitz constant of the gradient, infinite where there is none

    def prox(self, Z: Array, step: float) -> Array:
        """Return argmin over P of ½‖P − Z‖² + step · f(P)."""


def split_prox(first: Proximable, second: Proximable, Z: Array, step: float, name: object) -> Array:
    """Split into step · first + ½‖· − Z‖² and step · second; the result is in the domain of the second.

    ``name`` says in a warning whose prox it is.
    """
    W = Z
    if math.isfinite(first.smoothness):
        # The first function is 1-strongly convex; γ = 1/√κ gives the rate (√κ − 1)/(√κ + 1).
        gamma = 1 / math.sqrt(1 + step * first.smoothness)
    elif len(Z) != 1:
        return np.array([split_prox(first, second, row[None], step, name)[0] for row in Z]).reshape(Z.shape)
    else:
        # From P, W travels about γ‖Z‖ in steps of the size of P, which may be far smaller than Z.
        W = second.prox(first.prox(Z, step), step)
        gamma = min(1.0, float(_row_sizes(W)[0] / (_row_sizes(Z)[0] or 1.0))) or 1.0
    rounding = 8 * np.finfo(Z.dtype).eps
    for _ in range(MAX_ITERATIONS):
        Y = first.prox((W + gamma * Z) / (1 + gamma), gamma * step / (1 + gamma))
        P = second.prox(2 * Y - W, gamma * step)
        gap = _row_sizes(P - Y)
        W = W + P - Y
        if np.all(gap <= rounding * np.maximum(_row_sizes(W), _row_sizes(P))):
            return P
    warnings.warn(
        f"The prox of {name!r} stopped short at a gap of {np.max(gap):.1e} after {MAX_ITERATIONS} "
        "iterations of Douglas–Rachford splitting.",
        ConvergenceWarning,
        stacklevel=3,
    )
    return P


def _row_sizes(Z: Array) -> Array:
    return np.max(np.abs(Z), axis=1, initial=0.0)
