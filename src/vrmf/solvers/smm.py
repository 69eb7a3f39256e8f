"""Stochastic majorisation-minimisation, Algorithm S-1 of the paper (online dictionary learning)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import check_flags, real_number, whole_number
from vrmf.coding import Coder
from vrmf.dictionaries import reseed
from vrmf.problem import Problem
from vrmf.solvers.base import (
    AbstractStreamSolver,
    CodeSums,
    State,
    check_auto_count,
    check_coder,
    rescaled_atoms,
)
from vrmf.solvers.usage import Usage
from vrmf.sources.selection import Rows
from vrmf.stats import Stats
from vrmf.surrogate import minimise_surrogate


@dataclass(frozen=True, eq=False)
class SMMState(State):
    """The state of SMM: sums over all codes so far."""

    gram: Array | None = None  #: Σ hᵀh
    cross: Array | None = None  #: Σ hᵀ(x − r)
    weight: float = 0.0  #: how many rows these sums stand for
    usage: Usage | None = None  #: of the atoms, in this epoch

    @property
    def code_sums(self) -> CodeSums | None:
        return None if self.gram is None else CodeSums(self.gram, self.weight)


@dataclass(frozen=True)
class SMM(AbstractStreamSolver[SMMState]):
    """Minimise the surrogate (1/count)(½ tr(Dᵀ A D) − tr(Dᵀ B)) + ψ(D) after each mini-batch.

    A = Σ hᵀh and B = Σ hᵀ(x − r) are sums over the codes of all mini-batches so far.

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is 0.2 · n^⅔, but at least 64 or n/10.
    forgetting : float
        ρ ≥ 0: before the t-th mini-batch joins, the sums are weighted by (1 − 1/t)^ρ. 0 is the
        paper's algorithm; larger values follow data that drift and forget a poor start.
    sweeps : int
        Passes over the atoms in each update, where the surrogate has no closed-form minimiser.
    reseed : bool
        Whether atoms that no code used for an epoch are replaced.
    coder : Coder
        How codes are computed.
    """

    batch_size: int | str = "auto"
    forgetting: float = 0.0
    sweeps: int = 1
    reseed: bool = True
    coder: Coder = Coder(tol=1e-5)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_flags(self)
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        real_number("forgetting", self.forgetting, low=0)
        whole_number("sweeps", self.sweeps, low=1)

    def start(self, D: Array, seed: int) -> SMMState:
        return SMMState(D=D, seed=seed)

    def absorb(self, problem: Problem, state: SMMState, rows: Rows = None, *, epoch_rows: int) -> SMMState:
        return self.absorb_sums(problem, state, problem.stats(state.D, self.coder, rows), epoch_rows)

    def remembered(self, state: SMMState, count: int) -> float:
        return self._kept(state) * state.weight + count

    def _kept(self, state: SMMState) -> float:
        """Return by what the sums so far are weighted when new ones join."""
        return (1 - 1 / (state.step + 1)) ** self.forgetting if state.step else 1.0

    @property
    def has_code_sums(self) -> bool:
        return True

    def rescaled(self, state: SMMState, factors: Array | float) -> SMMState:
        if np.all(factors == 1):
            return state
        D, column = rescaled_atoms(state.D, factors)
        if state.gram is None or state.cross is None:
            return replace(state, D=D)
        return replace(state, D=D, gram=state.gram / (column * column.T), cross=state.cross / column)

    def at_batches_of(self, state: SMMState, rows: int) -> SMMState:
        # SMM forgets by steps. So it forgets by rows, however these are cut into mini-batches.
        return replace(state, step=-(-state.solved // rows))

    def at_new_scale(self, state: SMMState) -> SMMState:
        return state

    def absorb_sums(self, problem: Problem, state: SMMState, stats: Stats, epoch_rows: int) -> SMMState:
        """Take one step with the sums over some rows at the present dictionary."""
        gram, cross, weight = stats.gram, stats.cross(state.D), float(stats.count)
        if state.gram is not None and state.cross is not None:
            kept = self._kept(state)
            gram, cross = kept * state.gram + gram, kept * state.cross + cross
            weight += kept * state.weight
        D = minimise_surrogate(
            problem.formulation.dictionary, gram / weight, cross / weight, state.D, self.sweeps
        )
        solved = state.solved + stats.count
        epoch = solved // epoch_rows
        usage = Usage.after(state.usage, stats)
        if self.reseed and epoch > state.epoch:
            fresh = reseed(problem.formulation, D, usage.dead, usage.worst)
            replaced, D = np.any(fresh != D, axis=1), fresh
            # The sums of a replaced atom speak of its predecessor.
            gram = np.where(replaced | replaced[:, None], 0, gram).astype(gram.dtype)
            cross = np.where(replaced[:, None], 0, cross).astype(cross.dtype)
        return replace(
            state,
            D=D,
            step=state.step + 1,
            epoch=epoch,
            solved=solved,
            gram=gram,
            cross=cross,
            weight=weight,
            usage=usage if epoch == state.epoch else None,
        )
