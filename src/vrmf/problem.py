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
from typing import Self

import numpy as np

from vrmf.arrays import Array
from vrmf.block_sums import CODES, ChangeOfSlope, PairedStats, SlopeChange, SumsAtOne, SumsAtTwo
from vrmf.coding import EXACT, Atoms, Coder
from vrmf.dictionaries import feasible
from vrmf.formulations import Formulation
from vrmf.measurement import Measurement, squared_norm, worst_feature
from vrmf.running.clock import Clock
from vrmf.sources import AbstractSource
from vrmf.sources.companions import Carry, Companion
from vrmf.sources.selection import Batch, Rows, Sample
from vrmf.stats import Stats
from vrmf.surrogate import THOROUGH, promised_decrease


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise f(D) = mean over rows of ℓ(xᵢ, D) + ψ(D)."""

    formulation: Formulation
    source: AbstractSource

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self.source.n_samples

    @property
    def least_batch(self) -> int:
        """The smallest mini-batch that is worth its cost where the rows are."""
        return self.source.layout.least_batch

    def draw(self, size: int, *key: int, sample: Sample | None = None) -> Batch:
        """Draw a mini-batch of the rows, or of a sample of them; the key (seed, step, …) decides."""
        return self.source.draw(size, *key, sample=sample)

    def sample(self, count: int, seed: int) -> Sample | None:
        """Return a sample of about ``count`` rows, or None for all if they are more than half."""
        return self.source.sample(count, seed)

    def room_for_codes(self, kind: str, number: int, n_components: int) -> Companion:
        """Return room for the codes of all rows; the number tells those of a kind apart."""
        return self.source.companion(kind, number, n_components)

    def until(self, clock: Clock) -> Self:
        """Return the same problem, whose passes raise when the time of the clock is over."""
        return replace(self, source=self.source.until(clock))

    def stats(
        self,
        D: Array,
        coder: Coder,
        rows: Rows = None,
        *,
        known: Companion | None = None,
        store: Companion | None = None,
    ) -> Stats:
        """Return the sums over ``rows`` (all, if None) at the dictionary D.

        Codes start from those that are ``known``, if any, and are written into ``store`` if given.
        """
        function = SumsAtOne(self.formulation, Atoms(D), coder)
        sums: Stats = self.source.reduce(function, rows, Carry.of(CODES, known, store))
        return sums

    def paired_stats(
        self, D: Array, anchor: Array, coder: Coder, rows: Rows, anchor_codes: Companion | None = None
    ) -> PairedStats:
        """Return the sums over ``rows`` at D and at the anchor.

        If the codes of all rows at the anchor are known, they are used there, and D's start from
        them; else both are solved from zero.
        """
        function = SumsAtTwo(self.formulation, Atoms(D), Atoms(anchor), coder)
        pair: PairedStats = self.source.reduce(function, rows, Carry.of(CODES, anchor_codes, None))
        return pair

    def slope_change(
        self, D: Array, anchor: Array, coder: Coder, rows: Rows, anchor_codes: Companion | None = None
    ) -> SlopeChange:
        """Return by how much the slope over ``rows`` at D differs from that at the anchor.

        What :meth:`paired_stats` tells, with fewer products: without outliers the slope is
        HᵀH D − HᵀX, so where codes are dense the rows enter by (H − H₀)ᵀX alone.
        """
        function = ChangeOfSlope(self.formulation, Atoms(D), Atoms(anchor), coder)
        change: SlopeChange = self.source.reduce(function, rows, Carry.of(CODES, anchor_codes, None))
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
            worst_feature=worst_feature(self.formulation.dictionary, D, mapping),
        )

    def certify(self, D: Array) -> Measurement:
        """Return what exact codes tell of D."""
        return self.certify_with_sums(D)[0]

    def certify_with_sums(self, D: Array, store: Companion | None = None) -> tuple[Measurement, Stats]:
        """Return what exact codes tell of D, and the sums of that pass; ``store`` takes the codes."""
        stats = self.stats(D, EXACT, store=store)
        return replace(self.measure(stats, D), is_exact=True), stats
