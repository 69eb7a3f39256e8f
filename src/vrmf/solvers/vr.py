"""Variance-reduced steps: a default without knobs, and Algorithm 1 of the paper to the letter."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import check_flags, one_of, real_number
from vrmf.coding import Atoms, Coder
from vrmf.problem import Measurement, Problem, reseed, squared_norm
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.base import (
    AbstractSolver,
    State,
    check_auto_count,
    check_auto_positive,
    check_coder,
    paper_batch_size,
    paper_inner_steps,
    rises,
    smallest_batch,
    valid_batch_size,
)
from vrmf.solvers.smm import SMM, SMMState
from vrmf.surrogate import descend_surrogate

# What these numbers buy was measured: docs/solvers.md.

#: Batches that SMM takes before the first anchor, in at most so many passes, how many of them make
#: its first step, which tells whether they are of use, and how fast they are forgotten.
OPENING_STEPS = 80
OPENING_PASSES = 2
FIRST_BATCH = 2
OPENING_FORGETTING = 5.0

#: Rows of a mini-batch for each atom beyond 64, at least: before the first anchor, and later.
OPENING_ROWS_PER_ATOM = 2
ROWS_PER_ATOM = 4

#: Epochs over a sample of the rows, at most, before it is doubled.
EPOCHS_PER_SAMPLE = 4

#: How strongly the reach of steps reacts to what an epoch achieved.
GAIN = 2.0

#: Bound on the momentum.
MOST_MOMENTUM = 0.97

#: Codes of so many anchors are there at a time.
ROOMS = 2

#: The error of codes up to the first anchor; later it falls in proportion to ‖Γ‖.
LOOSEST = 1e-3


@dataclass(frozen=True, eq=False)
class VRState(State):
    """The state of VR."""

    opening: SMMState | None = None  #: of the SMM before the first anchor
    opened: bool = False  #: whether that is over
    anchor: Anchor | None = None
    inner: int = 0  #: inner steps done in this epoch
    sample_epochs: int = 0  #: epochs done on the present sample of the rows
    reach: float = 1.0  #: how far steps go, in units of the step that is stable for the batch size
    point: Array | None = None  #: the dictionary before its extrapolation to D
    step_size: float = 0.0  #: η of this epoch, where steps are plain
    used: Array | None = None  #: in how many codes each atom took part, in this epoch
    reseeded: bool = False  #: whether the last epoch ended with new atoms
    may_reseed: bool = True  #: until new atoms raise the objective, as a penalty on them may
    first_gradient: float = 0.0  #: ‖G₀‖ at the first anchor
    first_stationarity: float = 0.0  #: ‖Γ‖² there
    chosen: Array | None = None  #: Option I: an iterate drawn uniformly from all so far


@dataclass(frozen=True)
class VR(AbstractSolver):
    """Variance-reduced steps, along V = gradient of a mini-batch at D − the same at the anchor + G.

    G is the full gradient at the anchor, the dictionary with which the epoch began; so V is
    unbiased and its variance vanishes as D and the anchor approach a stationary point. By default:

    - A short run of SMM comes first, and the first anchors sum over a sample of the rows. It is
      doubled when ‖Γ‖² on it is below the variance of its gradient.
    - A step minimises ⟨V, D′ − D⟩ + ½ tr((D′ − D)ᵀ A (D′ − D))/w + ψ(D′): the curvature A at the
      anchor is the metric. The weight w falls to 0 over an epoch, which averages the noise out.
    - How far steps reach, by w and beyond w = b/(b + k) by momentum, is learned from anchor to
      anchor: further while the way come still leads downhill, less far when it does not. If the
      objective rose, the epoch is taken back.
    - Codes are as exact as the stationarity reached so far calls for.

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is n/40, but at least 64 with four more for each atom beyond 64, and at most twice as
        much, or the largest of 256, 2k and 0.2 · n^⅔; never more than n/10. Where a mini-batch comes from a
        few chunks of the data, it is at least 128 rows of each, or n/10.
    inner_steps : int or "auto"
        m, the steps of an epoch. ``"auto"`` is n / b, or 0.5 · n^⅓ if ``literal``.
    step_size : float or "auto"
        η of plain steps D ← prox(D − η V), at most; it is quartered when the objective rose.
        ``"auto"`` takes the steps above (if ``literal``, plain ones with 1/λ_max(A) of the first
        anchor).
    opening : bool
        Whether SMM comes first and the first anchors sum over samples. False starts with a full
        pass; then no dictionary that a full pass measures is worse than the start.
    literal : bool
        Whether to run the paper's Algorithm 1 as it is printed: no opening, constant η, b and m of
        the paper, both problems of each mini-batch solved from zero, no re-seeding, no step back.
    option : {"last", "random"}
        The dictionary to report: the last iterate (the paper's Option II), or one drawn uniformly
        from all iterates (Option I, by reservoir sampling).
    tau : float or None
        If given, codes are inexact on the schedule of Theorem 2: at step t of epoch s the error of
        V is at most ‖G₀‖ · (m s + t + 1)^−(½ + τ), and anchors are as exact as their epoch's end.
    cache_megabytes : float
        Codes of all rows are kept from the anchor on if those of two anchors, the new and the last,
        take no more than this. They start the solves of the epoch and save the second solve of each
        mini-batch. 0 keeps memory at O(dk).
    cache_folder : str, path or None
        A folder on disk where the codes are kept instead of in memory.
    reseed : bool
        Whether atoms that no code used for an epoch are replaced (never if ``literal``).
    coder : Coder
        How codes are computed, and how exactly in the end.
    """

    batch_size: int | str = "auto"
    inner_steps: int | str = "auto"
    step_size: float | str = "auto"
    opening: bool = True
    literal: bool = False
    option: str = "last"
    tau: float | None = None
    cache_megabytes: float = 512.0
    cache_folder: str | os.PathLike[str] | None = None
    reseed: bool = True
    coder: Coder = Coder(tol=1e-9)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_flags(self)
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        check_auto_count("inner_steps", self.inner_steps)
        check_auto_positive("step_size", self.step_size)
        one_of("option", self.option, ("last", "random"))
        real_number("cache_megabytes", self.cache_megabytes, low=0)
        if self.cache_folder is not None and not isinstance(self.cache_folder, str | os.PathLike):
            raise ValueError(f"`cache_folder` is {self.cache_folder!r}. Use the path of a folder, or None.")
        if self.tau is not None:
            real_number("tau", self.tau, low=0, strict=True)

    def init(self, problem: Problem, D: Array, seed: int) -> VRState:
        self.epoch_shape(problem.n_samples, len(D))
        # Not before: a model may be loaded where that folder is not.
        if self.cache_folder is not None and not Path(self.cache_folder).is_dir():
            raise ValueError(f"`cache_folder` is {str(self.cache_folder)!r}. Use a folder that exists.")
        return VRState(D=D, seed=seed)

    def epoch_shape(self, n_samples: int, n_components: int, least: int = 1) -> tuple[int, int]:
        """Return the batch size b and the number of inner steps m for n rows and k atoms.

        ``least`` is the smallest batch that is worth its cost where the rows are.
        """
        n = n_samples
        if self.batch_size != "auto":
            b = valid_batch_size(int(self.batch_size), n)
        elif self.literal:
            b = paper_batch_size(n)
        else:
            enough = smallest_batch(n, n_components, ROWS_PER_ATOM)
            plenty = smallest_batch(n, n_components, 2 * ROWS_PER_ATOM)
            most = max(256, 2 * n_components, paper_batch_size(n), plenty)
            b = max(min(n // 40, most), enough, min(least, n // 10))
        if self.inner_steps != "auto":
            return b, int(self.inner_steps)
        return b, paper_inner_steps(n) if self.literal else math.ceil(n / b)

    def step(self, problem: Problem, state: State) -> VRState:
        assert isinstance(state, VRState)
        if not (state.opened or self.literal) and self.opening:
            state = self._open(problem, state)
            if state.opening is not None:
                return state
        measured = None
        if state.inner == 0:
            state, measured = self._begin_epoch(problem, state)
        anchor = state.anchor
        assert anchor is not None
        b, m = self.epoch_shape(anchor.count, len(state.D), problem.source.layout.least_batch)
        rows = problem.source.draw(b, state.seed, state.step, sample=anchor.sample)
        coder = self._coder(problem, state, state.step + 1)
        change = problem.slope_change(state.D, anchor.D, coder, rows, anchor.codes)
        point, D = self._descend(problem, state, change.gradient + anchor.gradient, b, m)
        last = state.inner + 1 == m
        used = (anchor.used if state.used is None else state.used) + change.used
        if last and self.reseed and state.may_reseed and not self.literal:
            D = reseed(problem.formulation, point, used == 0, anchor.worst)
        return replace(
            state,
            D=D,
            point=D if last else point,
            step=state.step + 1,
            epoch=state.epoch + (last and anchor.is_of_all_rows),
            inner=0 if last else state.inner + 1,
            solved=state.solved + b * (2 if anchor.codes is None else 1),
            measured=measured,
            used=None if last else used,
            reseeded=last and D is not point,
            chosen=self._draw(state, D),
        )

    def answer(self, state: State) -> Array:
        assert isinstance(state, VRState)
        if self.option == "random" and state.chosen is not None:
            return state.chosen
        return state.D if state.point is None else state.point

    def going_on(self) -> VR:
        return replace(self, opening=False)

    @property
    def reports_best(self) -> bool:
        return not self.literal and self.option == "last"

    # Before the first anchor -------------------------------------------------------------------

    def _opening_batch(self, problem: Problem, n_components: int) -> int:
        n = problem.n_samples
        if self.batch_size != "auto":
            return valid_batch_size(int(self.batch_size), n)
        return smallest_batch(n, n_components, OPENING_ROWS_PER_ATOM)

    def _open(self, problem: Problem, state: VRState) -> VRState:
        """Take a step of SMM, unless the start is so good that its gradient drowns in noise."""
        n, b, first = problem.n_samples, self._opening_batch(problem, len(state.D)), state.step == 0
        smm = SMM(forgetting=OPENING_FORGETTING, reseed=self.reseed, coder=self._loose(LOOSEST))
        rows = problem.source.draw(min(n, FIRST_BATCH * b) if first else b, state.seed, state.step)
        stats = problem.stats(state.D, smm.coder, rows)
        solved = state.solved + stats.count
        if first and Anchor.of(problem, state.D, stats).is_exhausted:
            return replace(state, opened=True, solved=solved)
        opening = state.opening or smm.start(state.D, state.seed)
        opening = smm.absorb_sums(problem, opening, stats, epoch_rows=n)
        return replace(
            state,
            D=opening.D,
            opening=opening,
            opened=solved >= min(OPENING_STEPS * b, OPENING_PASSES * n),
            step=state.step + 1,
            solved=solved,
            chosen=self._draw(state, opening.D),
        )

    # Between epochs ----------------------------------------------------------------------------

    def _begin_epoch(self, problem: Problem, state: VRState) -> tuple[VRState, Measurement | None]:
        """Make the dictionary the anchor by a pass; if the objective rose, go back to the last."""
        new, old = self._new_anchor(problem, state), state.anchor
        measured = new.measured
        state = replace(state, solved=state.solved + new.count, opening=None)
        if old is None:
            first = float(np.linalg.norm(new.gradient))
            state = replace(state, first_gradient=first, first_stationarity=new.stationarity)
        elif not self.literal:
            new, state = self._judge(state, old, new)
        eta = self._step_size(state, new)
        if self.literal and measured is not None:
            mapping = (new.D - problem.prox_step(new.D, new.gradient, eta)) / eta
            measured = replace(measured, own_stationarity=squared_norm(mapping))
        return replace(state, D=new.D, point=new.D, anchor=new, step_size=eta), measured

    def _new_anchor(self, problem: Problem, state: VRState) -> Anchor:
        """Return the anchor at D, over as many rows as its gradient calls for."""
        D, old, n = state.D, state.anchor, problem.n_samples
        coder = self._coder(problem, state, state.step + self.epoch_shape(n, len(D))[1])
        codes = self._room_for_codes(problem, state)
        sample = None if old is None else old.sample
        if old is None and self.opening and not self.literal:
            seen = OPENING_STEPS * self._opening_batch(problem, len(D))
            sample = problem.source.sample(seen, state.seed)
        stats = problem.stats(D, coder, sample, start=None if old is None else old.codes, keep=codes)
        anchor = Anchor.of(problem, D, stats, codes, sample)
        if not anchor.is_of_all_rows and state.sample_epochs >= EPOCHS_PER_SAMPLE:
            anchor = anchor.with_more_rows(problem, coder)
        while not anchor.is_of_all_rows and anchor.is_exhausted:
            anchor = anchor.with_more_rows(problem, coder)
        return anchor

    def _judge(self, state: VRState, old: Anchor, new: Anchor) -> tuple[Anchor, VRState]:
        """Return the better of two anchors, and the state with the reach that this epoch teaches."""
        if new.count > old.count:  # not over the same rows
            return new, replace(state, sample_epochs=0)
        state = replace(state, sample_epochs=state.sample_epochs + 1)
        if not rises(new.objective, old.objective, new.D.dtype):
            reach = state.reach * math.exp(GAIN * new.falls_since(old.D))
            return new, replace(state, reach=min(reach, 1 / (1 - MOST_MOMENTUM)))
        if state.reseeded:  # of new atoms and too far a reach, suspect the atoms first
            return old, replace(state, may_reseed=False)
        return old, replace(state, reach=state.reach / 4)

    # Within epochs -----------------------------------------------------------------------------

    def _descend(self, problem: Problem, state: VRState, V: Array, b: int, m: int) -> tuple[Array, Array]:
        """Return the point to which a step along V leads, and the same extrapolated by momentum."""
        anchor = state.anchor
        assert anchor is not None
        if self.literal or self.step_size != "auto":
            point = problem.prox_step(state.D, V, state.step_size)
            return point, point
        # Steps in the metric A are stable up to b/(b + k), where the noise of b rows with k codes
        # equals what the step gains; so further reach is a matter of momentum.
        weight = min(state.reach, 1.0) * cooling(state.inner, m) * b / (b + len(V))
        point = descend_surrogate(problem.formulation.dictionary, anchor.curvature / weight, V, state.D)
        momentum = min(1 - 1 / state.reach, (state.inner + 1) / (state.inner + 4))
        if momentum <= 0 or state.inner + 1 == m:
            return point, point
        return point, point + momentum * (point - state.point)

    def _room_for_codes(self, problem: Problem, state: VRState) -> Any:
        """Return room for the codes of all rows, or None if they are not to be kept."""
        k, itemsize = len(state.D), state.D.itemsize
        if self.literal or ROOMS * problem.n_samples * k * itemsize > self.cache_megabytes * 2**20:
            return None
        folder = None if self.cache_folder is None else Path(self.cache_folder)
        name = state.seed * 2**32 + state.step  # stages of a path have seeds of their own
        return problem.source.room_for_codes(k, name, folder)

    def _step_size(self, state: VRState, anchor: Anchor) -> float:
        if self.step_size != "auto":
            return float(self.step_size) * (1.0 if self.literal else min(1.0, state.reach))
        if self.literal and state.step_size > 0:  # Algorithm 1 has one step for all epochs
            return state.step_size
        return 1 / anchor.largest_curvature

    def _coder(self, problem: Problem, state: VRState, count: int) -> Coder:
        """Return the coder for the stationarity reached, or for Theorem 2 at that count of steps."""
        anchor = state.anchor
        if self.tau is not None and anchor is not None:
            allowed = state.first_gradient * count ** -(0.5 + self.tau)
            # Three groups of codes enter V: of the mini-batch at D and at the anchor, and of the anchor.
            curvature = problem.formulation.code_curvature(Atoms(state.D))
            tol = allowed * curvature / (3 * anchor.sensitivity or 1.0)
            return replace(self.coder, tol=min(max(tol, 1e-14), 0.1))
        if self.literal or self.tau is not None:
            return self.coder
        fallen = 1.0 if anchor is None else anchor.stationarity / (state.first_stationarity or 1.0)
        return self._loose(LOOSEST * min(1.0, math.sqrt(fallen)))

    def _loose(self, tol: float) -> Coder:
        """Return the coder, no more exact than ``tol``."""
        return replace(self.coder, tol=max(self.coder.tol, tol))

    def _draw(self, state: VRState, D: Array) -> Array | None:
        if self.option == "last":
            return None
        taken = np.random.default_rng([state.seed, state.step, 1]).random() * (state.step + 1) < 1
        return D if taken else state.chosen


def cooling(inner: int, steps: int) -> float:
    """Return what is left of the weight of steps, after some of the steps of an epoch."""
    return math.sqrt(1 - inner / steps)
