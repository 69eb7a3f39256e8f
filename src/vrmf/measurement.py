"""What a full pass tells of a dictionary: the objective, and how far it is from stationary."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.terms import Ridge
from vrmf.terms.base import AbstractTerm

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


def worst_feature(penalty: AbstractTerm, D: Array, mapping: Array) -> float:
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


def squared_norm(Z: Array) -> float:
    """Return ‖Z‖², summed in double precision."""
    return float(np.sum(np.square(Z, dtype=np.float64)))
