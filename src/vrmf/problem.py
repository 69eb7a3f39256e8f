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
from typing import Any, Self

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.code_matrix import DenseCodes, code_matrix
from vrmf.coding import EXACT, Atoms, Coder, Codes
from vrmf.formulations import Formulation
from vrmf.running.clock import Clock
from vrmf.sources import AbstractSource
from vrmf.sources.layout import Rows
from vrmf.stats import Stats, WorstRows
from vrmf.surrogate import THOROUGH, promised_decrease
from vrmf.terms import Ridge, Simplex
from vrmf.terms.base import AbstractSet, AbstractTerm
from vrmf.terms.sums import parts_of

#: A fit with an objective below this share of what it explains, an error of 10⁻³, is nearly exact.
NEARLY_EXACT = 1e-6


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a full pass tells of a dictionary D.

    The relative stationarity is the decrease that one full step of majorisation and minimisation
    promises, in the metric of the curvature A of the same pass, as a share of f(D) without the penalty on
    outliers, f₀(D) = f(D) − mean of ϕ(r):

        max over D′ of  [ψ(D) − ψ(D′) − ⟨∇g(D), D′ − D⟩ − ½ tr((D′ − D)ᵀ A (D′ − D))] / f₀(D).

    It is 0 exactly at stationary points, and depends on neither the scale of the data, the size of gross
    outliers, the solver nor the start. (ϕ(r) grows with outliers that no dictionary explains; as a share of
    it, all that is to gain would be nothing.) The step keeps its promise, so f(D) is at least this share of
    f₀(D) above its minimum; how far it is above, no number that is computed at D alone can tell, unless
    f(D) itself is next to nothing.
    """

    D: Array
    objective: float  #: f(D)
    stationarity: float  #: ‖Γ(D)‖² at the step 1/λ_max(A)
    relative_stationarity: float  #: the decrease that a full step promises, over f₀(D)
    rounding: float  #: the part of the relative stationarity that rounding alone may cause
    reconstruction_error: float  #: ‖X − HD − R‖ / ‖X‖
    fitted: float  #: the mean of ½‖hD‖²
    is_exact: bool = False  #: whether the codes were exact
    own_stationarity: float = math.nan  #: ‖Γ(D)‖² at the solver's own step, where that is wanted
    worst_feature: float = math.nan  #: the largest ‖column of Γ(D)‖ over that of ∇ψ(D), for a ridge ψ

    def satisfies(self, tol: float) -> bool:
        """Whether there is at most the share ``tol`` to gain, or nothing but rounding."""
        return self.relative_stationarity <= max(tol, self.rounding) or self.is_nearly_exact(tol)

    def is_nearly_exact(self, tol: float) -> bool:
        """Whether f(D) is at most ``tol``, or NEARLY_EXACT, of the mean of ½‖hD‖²."""
        return self.objective <= min(tol, NEARLY_EXACT) * self.fitted


@dataclass(frozen=True, eq=False)
class PairedStats:
    """Sums over the same rows at the current dictionary and at the anchor."""

    current: Stats
    anchor: Stats

    def __add__(self, other: PairedStats) -> PairedStats:
        return PairedStats(self.current + other.current, self.anchor + other.anchor)


@dataclass(frozen=True, eq=False)
class SlopeChange:
    """Sums over rows of the slope at the current dictionary minus that at the anchor."""

    slope: Array  #: shape (k, d), but for gram · D − old_gram · anchor
    gram: Array | None  #: Σ hᵀh at the current dictionary over the rows whose slope needs it, if any
    old_gram: Array | None  #: the same at the anchor
    count: int  #: number of rows
    used: Array  #: in how many codes each atom takes part, shape (k,)

    def __add__(self, other: SlopeChange) -> SlopeChange:
        return SlopeChange(
            slope=self.slope + other.slope,
            gram=_sum_of_known(self.gram, other.gram),
            old_gram=_sum_of_known(self.old_gram, other.old_gram),
            count=self.count + other.count,
            used=self.used + other.used,
        )

    @property
    def gradient(self) -> Array:
        """The change of the gradient of the mean loss over these rows."""
        return self.slope / self.count


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise f(D) = mean over rows of ℓ(xᵢ, D) + ψ(D)."""

    formulation: Formulation
    source: AbstractSource

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self.source.n_samples

    def until(self, clock: Clock) -> Self:
        """Return the same problem, whose passes raise when the time of the clock is over."""
        return replace(self, source=self.source.until(clock))

    def stats(
        self,
        D: Array,
        coder: Coder,
        rows: Rows = None,
        *,
        start: Any = None,
        keep: Any = None,
    ) -> Stats:
        """Return the sums over ``rows`` (all, if None) at the dictionary D.

        ``start`` holds codes of all rows to start from; codes are written into ``keep`` if given.
        """
        block = _BlockStats(self.formulation, Atoms(D), coder)
        return self.source.reduce_codes(block, rows, start=start, keep=keep)

    def paired_stats(
        self, D: Array, anchor: Array, coder: Coder, rows: Rows, anchor_codes: Any = None
    ) -> PairedStats:
        """Return the sums over ``rows`` at D and at the anchor.

        If the codes of all rows at the anchor are known, they are used there, and D's start from
        them; else both are solved from zero.
        """
        block = _BlockPair(self.formulation, Atoms(D), Atoms(anchor), coder)
        return self.source.reduce_codes(block, rows, start=anchor_codes)

    def slope_change(
        self, D: Array, anchor: Array, coder: Coder, rows: Rows, anchor_codes: Any = None
    ) -> SlopeChange:
        """Return by how much the slope over ``rows`` at D differs from that at the anchor.

        What :meth:`paired_stats` tells, with fewer products: without outliers the slope is
        HᵀH D − HᵀX, so where codes are dense the rows enter by (H − H₀)ᵀX alone.
        """
        block = _BlockChange(self.formulation, Atoms(D), Atoms(anchor), coder)
        change = self.source.reduce_codes(block, rows, start=anchor_codes)
        if change.gram is None or change.old_gram is None:
            return change
        return replace(change, slope=change.slope + change.gram @ D - change.old_gram @ anchor)

    def prox_step(self, D: Array, gradient: Array, step: float) -> Array:
        """Return prox of step · ψ at D − step · gradient."""
        return self.formulation.dictionary.prox(D - step * gradient, step)

    def mapping(self, stats: Stats, D: Array, step: float) -> Array:
        """Return the gradient mapping Γ = (D − prox step) / step at D from the sums of a full pass."""
        return (D - self.prox_step(D, stats.gradient, step)) / step

    def stationarity(self, stats: Stats, D: Array, step: float) -> float:
        """Return ‖Γ‖² at D from the sums of a full pass."""
        return squared_norm(self.mapping(stats, D, step))

    def objective(self, stats: Stats, D: Array) -> float:
        """Return f at D from the sums of a full pass."""
        return stats.mean_loss + self.formulation.dictionary.value(D)

    def measure(
        self,
        stats: Stats,
        D: Array,
        mapping: Array | None = None,
        effort: tuple[float, int] = THOROUGH,
    ) -> Measurement:
        """Return what the sums of a full pass tell of D; Γ is at the step 1/λ_max(A) of that pass."""
        mapping = self.mapping(stats, D, 1 / stats.largest_curvature) if mapping is None else mapping
        objective, curvature = self.objective(stats, D), stats.curvature
        # What is feasible to single precision may need a last touch in double.
        exact = feasible(self.formulation, D.astype(np.float64, copy=False))
        promised = promised_decrease(self.formulation.dictionary, curvature, stats.gradient, exact, effort)
        # A step in the metric of A would fit the errors of exact codes and of rounding, a share of hD.
        fitted = float(np.sum(exact * (curvature @ exact)))
        rounding = (6 * EXACT.reachable_tol(D.dtype)) ** 2 * fitted
        scale = abs(objective - stats.outlier_loss / stats.count) or 1.0
        if not math.isfinite(stats.code_error):  # of codes that left the range of numbers nothing follows
            promised = math.inf
        return Measurement(
            D=D,
            objective=objective,
            stationarity=squared_norm(mapping),
            relative_stationarity=promised / scale,
            rounding=rounding / scale + 64 * float(np.finfo(np.float64).eps),
            reconstruction_error=stats.reconstruction_error,
            fitted=0.5 * fitted,
            worst_feature=_worst_feature(self.formulation.dictionary, D, mapping),
        )

    def certify(self, D: Array) -> Measurement:
        """Return what exact codes tell of D."""
        return self.certify_with_sums(D)[0]

    def certify_with_sums(self, D: Array, keep: Any = None) -> tuple[Measurement, Stats]:
        """Return what exact codes tell of D, and the sums of that pass; codes are written into ``keep``."""
        stats = self.stats(D, EXACT, keep=keep)
        return replace(self.measure(stats, D), is_exact=True), stats


@dataclass(frozen=True, eq=False)
class _BlockStats:
    """The sums over a block of rows, and its codes."""

    formulation: Formulation
    atoms: Atoms
    coder: Coder

    def __call__(self, X: Array, known: Array | None) -> tuple[Stats, Array]:
        codes = self.formulation.encode(X, self.atoms, self.coder, known)
        return self.formulation.stats(X, self.atoms, codes), codes.H


@dataclass(frozen=True, eq=False)
class _AtTwo:
    """A function of a block of rows and two dictionaries."""

    formulation: Formulation
    atoms: Atoms
    before: Atoms
    coder: Coder


class _BlockPair(_AtTwo):
    """The sums over a block of rows at two dictionaries, and its codes at the first."""

    def __call__(self, X: Array, known: Array | None) -> tuple[PairedStats, Array]:
        formulation = self.formulation
        codes = formulation.encode(X, self.atoms, self.coder, known)
        old = formulation.encode(X, self.before, self.coder) if known is None else Codes.given(known)
        pair = PairedStats(formulation.stats(X, self.atoms, codes), formulation.stats(X, self.before, old))
        return pair, codes.H


class _BlockChange(_AtTwo):
    """The change of the slope over a block of rows, but for products with Gram matrices; and its codes."""

    def __call__(self, X: Array, known: Array | None) -> tuple[SlopeChange, Array]:
        formulation = self.formulation
        H = formulation.encode(X, self.atoms, self.coder, known).H
        old = known if known is not None else formulation.encode(X, self.before, self.coder).H
        new_codes, old_codes = code_matrix(H), code_matrix(old)
        if isinstance(new_codes, DenseCodes) and not formulation.has_outliers:
            return SlopeChange((old - H).T @ X, H.T @ H, old.T @ old, len(X), new_codes.used), H
        slope = formulation.slope(X, self.atoms.D, new_codes)
        slope -= formulation.slope(X, self.before.D, old_codes)
        return SlopeChange(slope, None, None, len(X), new_codes.used), H


def _worst_feature(penalty: AbstractTerm, D: Array, mapping: Array) -> float:
    """Return the largest norm of a column of Γ, over that of the column of ∇ψ, where ψ is a ridge.

    A column of ∇ψ counts as a tenth of the root mean square of all at least: some features may be zero.
    """
    if not isinstance(penalty, Ridge):
        return math.nan
    forces, pulls = row_norms(mapping.T), penalty.weight * row_norms(D.T)
    least = 0.1 * float(np.sqrt(np.mean(np.square(pulls, dtype=np.float64))))
    if least == 0:
        return math.inf if np.any(forces) else 0.0
    return float(np.max(forces / np.maximum(pulls, least)))


def _sum_of_known(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(first + second)


def squared_norm(Z: Array) -> float:
    """Return ‖Z‖², summed in double precision."""
    return float(np.sum(np.square(Z, dtype=np.float64)))


def feasible(formulation: Formulation, D: Array) -> Array:
    """Return D if its value is finite, else the nearest dictionary where it is."""
    if np.isfinite(formulation.dictionary.value(D)):
        return D
    sets = [part for part in parts_of(formulation.dictionary) if isinstance(part, AbstractSet)]
    if len(sets) == 1:
        return sets[0].prox(D, 1.0)
    # As the step goes to 0, the prox of sets plus a finite penalty goes to the projection.
    return formulation.dictionary.prox(D, 1e-14)


def atoms_from_rows(formulation: Formulation, rows: Array, norm: float = 1.0) -> Array:
    """Return feasible atoms that point along rows: of sum 1 in a simplex, else of the given norm."""
    if any(isinstance(part, Simplex) for part in parts_of(formulation.dictionary)):
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
