"""The finite-sum problem: a formulation over a source. Solvers ask it and nothing else.

>>> import numpy as np
>>> from vrmf.coding import Coder
>>> from vrmf.formulations import dictionary_learning
>>> from vrmf.sources import as_source
>>> problem = Problem(dictionary_learning(alpha=0.1), as_source(np.eye(4)))
>>> stats = problem.stats(np.eye(4)[:2], Coder())
>>> measured = problem.measure(stats, np.eye(4)[:2])
>>> round(measured.objective, 4), round(measured.stationarity, 4)
(0.2975, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.coding import Atoms, Coder, Codes
from vrmf.formulations import Formulation
from vrmf.sources import AbstractSource
from vrmf.stats import Stats, WorstRows
from vrmf.terms import Simplex, Sum
from vrmf.terms.base import Array, row_norms


@dataclass(frozen=True)
class Measurement:
    """What a full pass tells of a dictionary D."""

    objective: float  #: f(D)
    stationarity: float  #: ‖Γ(D)‖² at the step 1/λ_max(A)
    rounding: float  #: the part of ‖Γ(D)‖² that rounding alone may cause
    own_stationarity: float = math.nan  #: ‖Γ(D)‖² at the solver's own step, where that is wanted


@dataclass(frozen=True, eq=False)
class PairedStats:
    """Sums over the same rows at the current dictionary and at the anchor."""

    current: Stats
    anchor: Stats

    def __add__(self, other: PairedStats) -> PairedStats:
        return PairedStats(self.current + other.current, self.anchor + other.anchor)


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise f(D) = mean over rows of ℓ(xᵢ, D) + ψ(D)."""

    formulation: Formulation
    source: AbstractSource

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self.source.n_samples

    def stats(
        self,
        D: Array,
        coder: Coder,
        rows: Array | None = None,
        *,
        start: Array | None = None,
        keep: Array | None = None,
    ) -> Stats:
        """Return the sums over ``rows`` (all, if None) at the dictionary D.

        ``start`` holds codes of all rows to start from; codes are written into ``keep`` if given.
        """
        atoms = Atoms(D)

        def block(X: Array, where: Any) -> Stats:
            codes = self.formulation.encode(X, atoms, coder, _at(start, where))
            if keep is not None:
                keep[where] = codes.H
            return self.formulation.stats(X, atoms, codes)

        return self.source.reduce(block, rows)

    def paired_stats(
        self, D: Array, anchor: Array, coder: Coder, rows: Array, anchor_codes: Array | None = None
    ) -> PairedStats:
        """Return the sums over ``rows`` at D and at the anchor.

        If the codes of all rows at the anchor are known, they are used there, and D's start from
        them; else both are solved from zero.
        """
        current, before = Atoms(D), Atoms(anchor)

        def block(X: Array, where: Any) -> PairedStats:
            known = _at(anchor_codes, where)
            codes = self.formulation.encode(X, current, coder, known)
            if known is None:
                old = self.formulation.encode(X, before, coder)
            else:
                old = Codes.given(known)
            return PairedStats(
                self.formulation.stats(X, current, codes),
                self.formulation.stats(X, before, old),
            )

        return self.source.reduce(block, rows)

    def prox_step(self, D: Array, gradient: Array, step: float) -> Array:
        """Return prox of step · ψ at D − step · gradient."""
        return self.formulation.dictionary.prox(D - step * gradient, step)

    def stationarity(self, stats: Stats, D: Array, step: float) -> float:
        """Return ‖Γ‖² at D from the sums of a full pass, Γ = (D − prox step) / step."""
        mapping = (D - self.prox_step(D, stats.gradient, step)) / step
        return float(np.sum(np.square(mapping, dtype=np.float64)))

    def measure(self, stats: Stats, D: Array) -> Measurement:
        """Return f and ‖Γ‖² at D from the sums of a full pass, at the step 1/λ_max(A) of that pass."""
        curvature = stats.largest_curvature
        rounding = float(np.finfo(D.dtype).eps) * curvature * float(np.linalg.norm(D))
        return Measurement(
            objective=stats.mean_loss + self.formulation.dictionary.value(D),
            stationarity=self.stationarity(stats, D, 1 / curvature),
            rounding=rounding**2,
        )

    def sample(self, size: int, *key: int) -> Array:
        """Draw ``size`` row numbers uniformly without replacement, sorted; the key decides."""
        rng = np.random.default_rng(key)
        return np.sort(rng.choice(self.n_samples, size, replace=False, shuffle=False))


def feasible(formulation: Formulation, D: Array) -> Array:
    """Return D if its value is finite, else the nearest dictionary where it is."""
    if np.isfinite(formulation.dictionary.value(D)):
        return D
    # As the step goes to 0, the prox of a set plus a finite penalty goes to the projection.
    return formulation.dictionary.prox(D, 1e-14)


def atoms_from_rows(formulation: Formulation, rows: Array, norm: float = 1.0) -> Array:
    """Return feasible atoms that point along rows: of sum 1 in a simplex, else of the given norm."""
    term = formulation.dictionary
    if any(isinstance(part, Simplex) for part in (term.terms if isinstance(term, Sum) else [term])):
        size = np.sum(np.maximum(rows, 0), axis=1)
        rows, norm = np.maximum(rows, 0), 1.0
    else:
        size = row_norms(rows)
    return feasible(formulation, rows * (norm / np.where(size > 0, size, 1))[:, None])


def reseed(formulation: Formulation, D: Array, dead: Array, worst: WorstRows) -> Array:
    """Replace dead atoms (a mask) by rows that are explained worst, as far as these go.

    No code uses a dead atom, so no loss can rise by it (a penalty on the dictionary may). New atoms
    are as long as the live ones where the dictionary does not fix their length.
    """
    places = np.flatnonzero(dead)
    if len(places) == 0 or len(worst.rows) == 0 or not formulation.reseeds:
        return D
    # A row may be among the worst twice; equal atoms would stay equal.
    distinct = np.sort(np.unique(worst.rows, axis=0, return_index=True)[1])
    rows = worst.rows[distinct]
    rows = rows[np.any(rows != 0, axis=1)][: len(places)]
    places = places[: len(rows)]
    if len(places) == 0:
        return D
    alive = row_norms(D[~dead])
    norm = float(np.mean(alive)) if np.any(alive > 0) else 1.0
    D = D.copy()
    D[places] = atoms_from_rows(formulation, rows, norm)
    return feasible(formulation, D)


def with_tolerance(coder: Coder, tol: float) -> Coder:
    """Return the coder with another tolerance."""
    return replace(coder, tol=tol)


def _at(codes: Array | None, where: Any) -> Array | None:
    return None if codes is None else codes[where]
