"""Compiled: what kernels do with whole vectors.

An assignment of one slice to another compiles the text of the error that it might raise: seconds. A loop
does not.
"""

from __future__ import annotations

from vrmf.arrays import Array
from vrmf.compiled import inlined


@inlined
def copy(target: Array, source: Array) -> None:
    """Write the entries of a vector into another one, of the same length."""
    for i in range(len(target)):
        target[i] = source[i]
