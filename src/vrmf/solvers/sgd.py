"""Proximal stochastic gradient descent, Algorithm S-2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import check_flags
from vrmf.coding import Coder
from vrmf.dictionaries import reseed
from vrmf.problem import Problem
from vrmf.solvers.base import (
    AbstractStreamSolver,
    State,
    check_auto_count,
    check_auto_positive,
    check_coder,
    rescaled_atoms,
)
from vrmf.solvers.usage import Usage
from vrmf.sources.selection import Rows


@dataclass(frozen=True, eq=False)
class SGDState(State):
    """The state of SGD."""

    scale: float = 0.0  #: β, once it is known
    offset: float = 0.0  #: β′, once it is known
    usage: Usage | None = None  #: of the atoms, in this epoch


@dataclass(frozen=True)
class SGD(AbstractStreamSolver[SGDState]):
    """Stochastic proximal gradient steps D ← prox(D − γ V), γ_t = β / (b t + β′).

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is 0.2 · n^⅔, but at least 64 or n/10.
    scale : float or "auto"
        β. ``"auto"`` makes the first step 1/λ_max(A) of the first mini-batch; let that be a large one.
    offset : float or "auto"
        β′. ``"auto"`` is n, so that the step has halved after the first pass.
    reseed : bool
        Whether atoms that no code used for an epoch are replaced.
    coder : Coder
        How codes are computed.
    """

    batch_size: int | str = "auto"
    scale: float | str = "auto"
    offset: float | str = "auto"
    reseed: bool = True
    coder: Coder = Coder(tol=1e-5)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_flags(self)
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        check_auto_positive("scale", self.scale)
        check_auto_positive("offset", self.offset)

    def start(self, D: Array, seed: int) -> SGDState:
        return SGDState(D=D, seed=seed)

    def remembered(self, state: SGDState, count: int) -> float:
        return float(state.solved + count)

    @property
    def has_code_sums(self) -> bool:
        return False

    def rescaled(self, state: SGDState, factors: Array | float) -> SGDState:
        return state if np.all(factors == 1) else replace(state, D=rescaled_atoms(state.D, factors)[0])

    def at_batches_of(self, state: SGDState, rows: int) -> SGDState:
        return state

    def at_new_scale(self, state: SGDState) -> SGDState:
        """Return a state that chooses an automatic step anew."""
        return self.start(state.D, state.seed) if self.scale == "auto" else state

    def absorb(self, problem: Problem, state: SGDState, rows: Rows = None, *, epoch_rows: int) -> SGDState:
        stats = problem.stats(state.D, self.coder, rows)
        scale, offset = state.scale, state.offset
        if state.step == 0:
            offset = float(epoch_rows) if self.offset == "auto" else float(self.offset)
            automatic = offset / stats.largest_curvature
            scale = automatic if self.scale == "auto" else float(self.scale)
        gamma = scale / (state.solved + offset)
        D = problem.prox_step(state.D, stats.gradient, gamma)
        solved = state.solved + stats.count
        epoch = solved // epoch_rows
        usage = Usage.after(state.usage, stats)
        if self.reseed and epoch > state.epoch:
            D = reseed(problem.formulation, D, usage.dead, usage.worst)
        return replace(
            state,
            D=D,
            step=state.step + 1,
            epoch=epoch,
            solved=solved,
            scale=scale,
            offset=offset,
            usage=usage if epoch == state.epoch else None,
        )
