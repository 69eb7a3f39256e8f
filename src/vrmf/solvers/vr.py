"""Variance-reduced proximal gradient steps, Algorithm 1 of the paper, and a practical default."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vrmf.checks import one_of, real_number
from vrmf.coding import Atoms, Coder
from vrmf.problem import Measurement, Problem, reseed, with_tolerance
from vrmf.solvers.base import (
    AbstractSolver,
    State,
    check_auto_count,
    check_auto_positive,
    check_coder,
    checked_batch_size,
    paper_batch_size,
    paper_inner_steps,
    rises,
)
from vrmf.solvers.usage import Usage
from vrmf.stats import Stats
from vrmf.terms.base import Array


@dataclass(frozen=True, eq=False)
class Anchor:
    """What the full pass at the start of an epoch leaves behind."""

    D: Array
    gradient: Array  #: of the mean loss at D
    measured: Measurement
    curvature: float  #: λ_max(A) at D
    sensitivity: float  #: of the gradient to the relative error of codes
    usage: Usage  #: of the atoms, by the codes at D
    codes: Array | None  #: of all rows at D, if they are cached

    @classmethod
    def of(cls, D: Array, stats: Stats, measured: Measurement, codes: Array | None) -> Anchor:
        """Return the anchor that the sums of a full pass at D make."""
        return cls(
            D=D,
            gradient=stats.gradient,
            measured=measured,
            curvature=stats.largest_curvature,
            sensitivity=stats.sensitivity / stats.count,
            usage=Usage.after(None, stats),
            codes=codes,
        )


@dataclass(frozen=True, eq=False)
class VRState(State):
    """The state of VR."""

    inner: int = 0  #: inner steps done in this epoch
    anchor: Anchor | None = None
    step_size: float = 0.0  #: η of this epoch
    shrink: float = 1.0  #: what step-backs have left of the step
    usage: Usage | None = None  #: of the atoms, in this epoch
    reseeded: bool = False  #: whether the last epoch ended with new atoms
    may_reseed: bool = True  #: until new atoms raise the objective, as a penalty on them may
    first_gradient: float = 0.0  #: ‖G₀‖ at the first anchor
    chosen: Array | None = None  #: Option I: an iterate drawn uniformly from all so far


@dataclass(frozen=True)
class VR(AbstractSolver):
    """Steps D ← prox(D − η V) with V = gradient of a mini-batch at D − the same at the anchor + G.

    G is the full gradient at the anchor, the dictionary with which the epoch began; so V is
    unbiased and its variance vanishes as D and the anchor approach a stationary point.

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is 0.2 · n^⅔, but at least 64 or n/10 (unless ``literal``).
    inner_steps : int or "auto"
        m, the steps of an epoch. ``"auto"`` is n / b, or 0.5 · n^⅓ if ``literal``.
    step_size : float or "auto"
        η. ``"auto"`` is 1/λ_max(A), a step of certain descent, taken anew at each anchor (if
        ``literal``, at the first one only).
    literal : bool
        Whether to run the paper's Algorithm 1 as it is printed: constant η, b and m as above, both
        problems of each mini-batch solved from zero, no re-seeding, no step back.
    option : {"last", "random"}
        The dictionary to report: the last iterate (the paper's Option II), or one drawn uniformly
        from all iterates (Option I, by reservoir sampling).
    tau : float or None
        If given, codes are inexact on the schedule of Theorem 2: at step t of epoch s the error of
        V is at most ‖G₀‖ · (m s + t + 1)^−(½ + τ), and anchors are as exact as their epoch's end.
        None solves all to the tolerance of ``coder``.
    cache_megabytes : float
        Codes of all rows are kept from the anchor on while they take no more than this. They start
        the solves of the epoch and save the second solve of each mini-batch. 0 keeps memory at
        O(dk).
    reseed : bool
        Whether atoms that no code used for an epoch are replaced (never if ``literal``).
    coder : Coder
        How codes are computed.
    """

    batch_size: int | str = "auto"
    inner_steps: int | str = "auto"
    step_size: float | str = "auto"
    literal: bool = False
    option: str = "last"
    tau: float | None = None
    cache_megabytes: float = 256.0
    reseed: bool = True
    coder: Coder = Coder(tol=1e-7)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        check_auto_count("inner_steps", self.inner_steps)
        check_auto_positive("step_size", self.step_size)
        one_of("option", self.option, ("last", "random"))
        real_number("cache_megabytes", self.cache_megabytes, low=0)
        if self.tau is not None:
            real_number("tau", self.tau, low=0, strict=True)

    def init(self, problem: Problem, D: Array, seed: int) -> VRState:
        self.epoch_shape(problem.n_samples)
        return VRState(D=D, seed=seed)

    def epoch_shape(self, n_samples: int) -> tuple[int, int]:
        """Return the batch size b and the number of inner steps m for n rows."""
        if self.literal and self.batch_size == "auto":
            b = paper_batch_size(n_samples)
        else:
            b = checked_batch_size(self.batch_size, n_samples)
        if self.inner_steps != "auto":
            return b, int(self.inner_steps)
        return b, paper_inner_steps(n_samples) if self.literal else math.ceil(n_samples / b)

    def step(self, problem: Problem, state: State) -> VRState:
        assert isinstance(state, VRState)
        measured = None
        if state.inner == 0:
            state, measured = self._begin_epoch(problem, state)
        anchor, eta = state.anchor, state.step_size
        assert anchor is not None
        b, m = self.epoch_shape(problem.n_samples)
        rows = problem.sample(b, state.seed, state.step)
        coder = self._coder(problem, state, state.step + 1)
        pair = problem.paired_stats(state.D, anchor.D, coder, rows, anchor.codes)
        V = pair.current.gradient - pair.anchor.gradient + anchor.gradient
        D = problem.prox_step(state.D, V, eta)
        usage = Usage.after(state.usage, pair.current)
        last = state.inner + 1 == m
        kept = D
        if last and self.reseed and state.may_reseed and not self.literal:
            D = reseed(problem.formulation, D, usage.dead, usage.worst)
        return replace(
            state,
            D=D,
            step=state.step + 1,
            epoch=state.epoch + last,
            inner=0 if last else state.inner + 1,
            solved=state.solved + b * (2 if anchor.codes is None else 1),
            measured=measured,
            usage=usage,
            reseeded=D is not kept,
            chosen=self._draw(state, D),
        )

    def answer(self, state: State) -> Array:
        assert isinstance(state, VRState)
        drawn = self.option == "random" and state.chosen is not None
        return np.asarray(state.chosen if drawn else state.D)

    def fallback(self, state: State) -> tuple[Array, float] | None:
        assert isinstance(state, VRState)
        if self.literal or self.option == "random" or state.anchor is None:
            return None
        return state.anchor.D, state.anchor.measured.objective

    def _begin_epoch(self, problem: Problem, state: VRState) -> tuple[VRState, Measurement]:
        """Make the dictionary the anchor by a full pass; if the objective rose, go back to the last."""
        D, old = state.D, state.anchor
        n, m = problem.n_samples, self.epoch_shape(problem.n_samples)[1]
        codes = self._room_for_codes(n, D)
        coder = self._coder(problem, state, state.step + m)
        stats = problem.stats(D, coder, start=None if old is None else old.codes, keep=codes)
        measured = problem.measure(stats, D)
        first = float(np.linalg.norm(stats.gradient)) if old is None else state.first_gradient
        if old and not self.literal and rises(measured.objective, old.measured.objective, D.dtype):
            # Of new atoms and too long a step, suspect the atoms first.
            anchor, shrink = old, state.shrink if state.reseeded else state.shrink / 2
            state = replace(state, may_reseed=state.may_reseed and not state.reseeded)
        else:
            anchor, shrink = Anchor.of(D, stats, measured, codes), min(1.0, 1.5 * state.shrink)
        eta = shrink * self._step_size(state, anchor)
        if self.literal:
            own = problem.stationarity(stats, D, eta)
            measured = replace(measured, own_stationarity=own)
        state = replace(
            state,
            D=anchor.D,
            solved=state.solved + n,
            anchor=anchor,
            step_size=eta,
            shrink=shrink,
            usage=anchor.usage,
            first_gradient=first,
        )
        return state, measured

    def _room_for_codes(self, n_samples: int, D: Array) -> Array | None:
        """Return an empty array for the codes of all rows, or None if they are not to be kept."""
        if self.literal or n_samples * len(D) * D.itemsize > self.cache_megabytes * 2**20:
            return None
        return np.empty((n_samples, len(D)), dtype=D.dtype)

    def _step_size(self, state: VRState, anchor: Anchor) -> float:
        if self.step_size != "auto":
            return float(self.step_size)
        if self.literal and state.step_size > 0:  # Algorithm 1 has one step for all epochs
            return state.step_size
        return 1 / anchor.curvature

    def _coder(self, problem: Problem, state: VRState, count: int) -> Coder:
        """Return the coder whose error allows that of Theorem 2 at the given count of steps."""
        if self.tau is None or state.anchor is None:
            return self.coder
        allowed = state.first_gradient * count ** -(0.5 + self.tau)
        # Three groups of codes enter V: of the mini-batch at D and at the anchor, and of the anchor.
        curvature = problem.formulation.code_curvature(Atoms(state.D))
        tol = allowed * curvature / (3 * state.anchor.sensitivity or 1.0)
        return with_tolerance(self.coder, min(max(tol, 1e-14), 0.1))

    def _draw(self, state: VRState, D: Array) -> Array | None:
        if self.option == "last":
            return None
        taken = np.random.default_rng([state.seed, state.step, 1]).random() * (state.step + 1) < 1
        return D if taken else state.chosen
