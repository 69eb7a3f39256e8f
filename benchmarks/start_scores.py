"""How far fits are above the best known objective; for starts.py and its report."""

from __future__ import annotations

from typing import Any

#: The rules of ``init`` that are compared.
RULES = ("auto", "spread", "data", "svd", "nndsvd")

#: A fit is poor if it is above the best known objective by more than this share of it.
POOR = 0.02

#: Objectives below this share of f(0) count as that much.
LEAST_SHARE = 1e-4


def above(found: dict[str, Any], rule: str) -> list[float]:
    """Return the relative distances of the fits by a rule to the best known objective."""
    best = min([*found["peers"], *(value for values in found["fits"].values() for value in values)])
    return [(value - best) / max(best, LEAST_SHARE * found["zero"]) for value in found["fits"][rule]]
