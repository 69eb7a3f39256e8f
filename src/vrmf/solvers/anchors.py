"""Anchors of variance reduction: what a pass at the start of an epoch leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.measurement import Measurement, squared_norm
from vrmf.problem import Problem
from vrmf.sources.companions import Companion
from vrmf.sources.selection import Sample
from vrmf.stats import Stats, WorstRows
from vrmf.surrogate import IN_PASSING


@dataclass(frozen=True, eq=False)
class Anchor:
    """The sums at a dictionary D over all rows, or over a sample of them."""

    D: Array
    gradient: Array  #: of the mean loss at D
    mapping: Array  #: Γ at D
    objective: float  #: f at D, over these rows
    stationarity: float  #: ‖Γ‖² at D, over these rows
    measured: Measurement | None  #: of D, if no row was left out
    noise: float  #: the variance of the gradient as an estimate of that over far more rows
    curvature: Array  #: A at D
    largest_curvature: float  #: λ_max(A)
    sensitivity: float  #: of the gradient to the relative error of codes
    used: Array  #: in how many codes each atom takes part
    worst: WorstRows  #: the rows that are explained worst
    codes: Companion | None  #: of the rows summed over, if they are stored
    sample: Sample | None  #: the rows summed over; None for all
    stats: Stats = field(repr=False)

    @classmethod
    def of(
        cls,
        problem: Problem,
        D: Array,
        stats: Stats,
        codes: Companion | None = None,
        sample: Sample | None = None,
    ) -> Anchor:
        """Return the anchor that sums over rows at D make."""
        mapping = problem.mapping(stats, D, 1 / stats.largest_curvature)
        return cls(
            D=D,
            gradient=stats.gradient,
            mapping=mapping,
            objective=problem.objective(stats, D),
            stationarity=squared_norm(mapping),
            measured=problem.measure(stats, D, mapping, IN_PASSING) if sample is None else None,
            noise=stats.noise / stats.count**2,
            curvature=stats.curvature,
            largest_curvature=stats.largest_curvature,
            sensitivity=stats.sensitivity / stats.count,
            used=stats.used,
            worst=stats.worst,
            codes=codes,
            sample=sample,
            stats=stats,
        )

    @property
    def count(self) -> int:
        """The number of rows summed over."""
        return self.stats.count

    @property
    def is_of_all_rows(self) -> bool:
        """Whether no row was left out."""
        return self.sample is None

    @property
    def is_exhausted(self) -> bool:
        """Whether Γ on the sample is below the noise of its gradient: more rows would point elsewhere."""
        return self.stationarity < self.noise

    def falls_since(self, start: Array) -> float:
        """Return how far the way from ``start`` to D still leads downhill: −cos(way, Γ), or 0."""
        way = self.D - start
        size = float(np.linalg.norm(way)) * float(np.linalg.norm(self.mapping))
        return -float(np.sum(way * self.mapping)) / size if size > 0 else 0.0

    def with_more_rows(self, problem: Problem, coder: Coder) -> Anchor:
        """Return the anchor over twice the sample, from these sums and those over the new rows."""
        assert self.sample is not None
        seed, count = self.sample.seed, self.count
        larger = problem.sample(2 * count, seed)
        added = Sample(seed, count, problem.n_samples if larger is None else larger.last)
        stats = self.stats + problem.stats(self.D, coder, added, store=self.codes)
        return Anchor.of(problem, self.D, stats, self.codes, larger)
