"""Proximal gradient steps on the full sum, with momentum and restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import check_flags
from vrmf.coding import Coder
from vrmf.dictionaries import feasible, reseed
from vrmf.momentum import next_momentum
from vrmf.problem import Problem
from vrmf.solvers.base import AbstractSolver, State, check_auto_positive, check_coder, rises
from vrmf.surrogate import IN_PASSING


@dataclass(frozen=True, eq=False)
class BatchState(State):
    """The state of Batch; D is the point at which the next gradient is taken."""

    point: Array | None = None  #: the last result of a prox step
    start: Array | None = None  #: where that step began
    objective: float = np.inf  #: f there
    momentum: float = 1.0  #: Nesterov's t
    shrink: float = 1.0  #: what step-backs have left of a given step
    reseeded: bool = False  #: whether the last step ended with new atoms
    may_reseed: bool = True  #: until new atoms raise the objective, as a penalty on them may


@dataclass(frozen=True)
class Batch(AbstractSolver[BatchState]):
    """Full steps P ← prox(D − η ∇g(D)), then D ← P + momentum · (P − the last P).

    Each step costs one pass. When the objective rises the momentum is dropped and the method goes
    back to P, where it is lower than before; a given step without momentum is halved instead.

    Parameters
    ----------
    step_size : float or "auto"
        η. ``"auto"`` is 1/λ_max(A) of each pass, a step of certain descent.
    momentum : bool
        Whether to extrapolate; without, these are plain proximal gradient steps.
    reseed : bool
        Whether atoms that no code uses are replaced.
    coder : Coder
        How codes are computed.
    """

    step_size: float | str = "auto"
    momentum: bool = True
    reseed: bool = True
    coder: Coder = Coder(tol=1e-9)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_flags(self)
        check_coder(self.coder)
        check_auto_positive("step_size", self.step_size)

    def init(self, problem: Problem, D: Array, seed: int) -> BatchState:
        return BatchState(D=D, seed=seed)

    def step(self, problem: Problem, state: BatchState) -> BatchState:
        stats = problem.stats(state.D, self.coder)
        measured = problem.measure(stats, state.D, effort=IN_PASSING)
        state = replace(
            state,
            step=state.step + 1,
            epoch=state.epoch + 1,
            solved=state.solved + stats.count,
            measured=measured,
        )
        if rises(measured.objective, state.objective, state.D.dtype):
            state = replace(state, may_reseed=state.may_reseed and not state.reseeded)
            if state.momentum > 1 and state.point is not None:
                return replace(state, D=state.point, momentum=1.0)
            if self.step_size != "auto" and state.start is not None:
                return replace(state, D=state.start, objective=np.inf, shrink=state.shrink / 2)
        automatic = 1 / stats.largest_curvature
        eta = automatic if self.step_size == "auto" else float(self.step_size) * state.shrink
        P = problem.prox_step(state.D, stats.gradient, eta)
        dead = stats.used == 0
        kept = P
        if self.reseed and state.may_reseed and np.any(dead):
            P = reseed(problem.formulation, P, dead, stats.worst)
        D, momentum = P, 1.0
        if self.momentum and state.point is not None:
            ahead, momentum = next_momentum(state.momentum)
            D = feasible(problem.formulation, P + ahead * (P - state.point))
        return replace(
            state,
            D=D,
            point=P,
            start=state.D,
            objective=measured.objective,
            momentum=momentum,
            reseeded=P is not kept,
        )

    def answer(self, state: BatchState) -> Array:
        return state.D

    @property
    def reports_best(self) -> bool:
        return True
