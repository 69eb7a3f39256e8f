"""Sums taken apart: which parts they have, and how much of them is a ridge."""

from __future__ import annotations

from vrmf.terms.base import AbstractTerm, Sum
from vrmf.terms.penalties import Ridge


def parts_of(term: AbstractTerm) -> tuple[AbstractTerm, ...]:
    """Return the parts of a sum, or the term itself."""
    return term.terms if isinstance(term, Sum) else (term,)


def ridge_of(term: AbstractTerm) -> float:
    """Return the weight of all ridges in a term.

    >>> from vrmf.terms import L1
    >>> ridge_of(L1(1.0) + Ridge(0.5) + Ridge(0.25))
    0.75
    """
    if isinstance(term, Sum):
        return term.ridge
    return term.weight if isinstance(term, Ridge) else 0.0
