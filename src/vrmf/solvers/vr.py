"""Variance-reduced steps, preconditioned by the curvature: the default solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vrmf.arrays import Array
from vrmf.checks import check_flags, real_number
from vrmf.coding import Coder
from vrmf.dictionaries import reseed
from vrmf.problem import Problem
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.base import (
    AbstractSolver,
    State,
    check_auto_count,
    check_auto_positive,
    check_coder,
    paper_batch_size,
    rises,
    smallest_batch,
    valid_batch_size,
)
from vrmf.solvers.opening import Opening
from vrmf.solvers.smm import SMMState
from vrmf.sources.companions import Companion
from vrmf.surrogate import descend_surrogate

# What these numbers gain was measured: docs/solvers.md.

#: Rows of a mini-batch for each atom beyond 64, at least.
ROWS_PER_ATOM = 4

#: Epochs over a sample of the rows, at most, before it is doubled.
EPOCHS_PER_SAMPLE = 4

#: How strongly the length of steps reacts to what an epoch achieved.
GAIN = 2.0

#: The length of steps is divided by this when the objective rose.
CUT = 4

#: Bound on the momentum.
MOST_MOMENTUM = 0.97

#: The codes of all rows are stored for so many anchors at a time.
STORED_ANCHORS = 2

#: The error of codes up to the first anchor; later it falls in proportion to ‖Γ‖.
LOOSEST = 1e-3

#: The kind of companion that the codes of anchors are.
ANCHOR_CODES = "codes of an anchor"


@dataclass(frozen=True, eq=False)
class Pace:
    """What the epochs so far have taught."""

    length: float = 1.0  #: of steps, in units of the step that is stable for the batch size
    sample_epochs: int = 0  #: epochs done on the present sample of the rows
    reseeded: bool = False  #: whether the last epoch ended with new atoms
    may_reseed: bool = True  #: until new atoms raise the objective, as a penalty on them may
    first_stationarity: float = 0.0  #: ‖Γ‖² at the first anchor


@dataclass(frozen=True, eq=False)
class VRState(State):
    """The state of VR."""

    opening: SMMState | None = None  #: of the SMM before the first anchor, until it is over
    anchor: Anchor | None = None
    inner: int = 0  #: inner steps done in this epoch
    point: Array | None = None  #: the dictionary before its extrapolation to D
    used: Array | None = None  #: in how many codes each atom took part, in this epoch
    pace: Pace = Pace()


@dataclass(frozen=True)
class VR(AbstractSolver[VRState]):
    """Variance-reduced steps, along V = gradient of a mini-batch at D − the same at the anchor + G.

    G is the gradient over all rows at the anchor, the dictionary with which the epoch began. So V is
    unbiased, and its variance vanishes as D and the anchor approach a stationary point.

    - A short run of SMM comes first, and the first anchors sum over a sample of the rows. The sample is
      doubled when ‖Γ‖² on it is below the variance of its gradient.
    - A step minimises ⟨V, D′ − D⟩ + ½ tr((D′ − D)ᵀ A (D′ − D))/w + ψ(D′): the curvature A at the
      anchor is the preconditioner. The weight w falls to 0 over an epoch, which averages the noise out.
    - The length of steps adapts from anchor to anchor. Up to w = b/(b + k) it is the weight w, beyond that
      momentum. It grows while the way since the last anchor still leads downhill, and shrinks otherwise.
      If the objective rose, the epoch is taken back.
    - Codes are as exact as the stationarity reached so far calls for.

    :class:`~vrmf.solvers.Algorithm1` is the paper's method, without these changes.

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is n/40, but at least 64 with four more for each atom beyond 64, and at most twice as
        much, or the largest of 256, 2k and 0.2 · n^⅔; never more than n/10. Where a mini-batch comes from a
        few chunks of the data, it is at least 128 rows of each, or n/10.
    inner_steps : int or "auto"
        m, the steps of an epoch. ``"auto"`` is n / b.
    step_size : float or "auto"
        η of plain steps D ← prox(D − η V), at most; it is quartered when the objective rose.
        ``"auto"`` takes the preconditioned steps above.
    opening : bool
        Whether SMM comes first and the first anchors sum over samples. False starts with a full
        pass; then no dictionary that a full pass measures is worse than the start.
    cache_megabytes : float
        Codes of all rows are stored from the anchor on if those of two anchors, the new and the last,
        take no more than this. They start the solves of the epoch and save the second solve of each
        mini-batch. 0 needs no memory but O(dk). Where they are stored is decided by the source of the rows:
        in memory, on the workers of a cluster, or in the ``companion_folder`` of
        :func:`vrmf.sources.as_source`.
    reseed : bool
        Whether atoms that no code used for an epoch are replaced.
    coder : Coder
        How codes are computed, and how exactly in the end.
    """

    batch_size: int | str = "auto"
    inner_steps: int | str = "auto"
    step_size: float | str = "auto"
    opening: bool = True
    cache_megabytes: float = 512.0
    reseed: bool = True
    coder: Coder = Coder(tol=1e-9)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_flags(self)
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        check_auto_count("inner_steps", self.inner_steps)
        check_auto_positive("step_size", self.step_size)
        real_number("cache_megabytes", self.cache_megabytes, low=0)

    def init(self, problem: Problem, D: Array, seed: int) -> VRState:
        self.epoch_shape(problem.n_samples, len(D))
        return VRState(D=D, seed=seed, opening=self._opening.start(D, seed) if self.opening else None)

    def epoch_shape(self, n_samples: int, n_components: int, least: int = 1) -> tuple[int, int]:
        """Return the batch size b and the number of inner steps m for n rows and k atoms.

        ``least`` is the smallest batch that is worth its cost where the rows are.
        """
        n = n_samples
        if self.batch_size != "auto":
            b = valid_batch_size(int(self.batch_size), n)
        else:
            enough = smallest_batch(n, n_components, ROWS_PER_ATOM)
            plenty = smallest_batch(n, n_components, 2 * ROWS_PER_ATOM)
            most = max(256, 2 * n_components, paper_batch_size(n), plenty)
            b = max(min(n // 40, most), enough, min(least, n // 10))
        return b, math.ceil(n / b) if self.inner_steps == "auto" else int(self.inner_steps)

    def step(self, problem: Problem, state: VRState) -> VRState:
        state = replace(state, measured=None)
        if state.opening is not None:
            smm, is_over = self._opening.step(problem, state.opening)
            is_done, rest = smm.step > state.step, None if is_over else smm
            state = replace(state, D=smm.D, opening=rest, step=smm.step, solved=smm.solved)
            if is_done:
                return state
        if state.inner == 0:
            state = self._begin_epoch(problem, state)
        anchor = state.anchor
        assert anchor is not None
        b, m = self.epoch_shape(anchor.count, len(state.D), problem.least_batch)
        batch = problem.draw(b, state.seed, state.step, sample=anchor.sample)
        change = problem.slope_change(state.D, anchor.D, self._coder(state), batch, anchor.codes)
        point, D = self._descend(problem, state, anchor, change.gradient + anchor.gradient, b, m)
        is_last = state.inner + 1 == m
        used = (anchor.used if state.used is None else state.used) + change.used
        pace = state.pace
        if is_last:
            D = reseed(problem.formulation, point, used == 0, anchor.worst) if self._reseeds(state) else D
            pace = replace(pace, reseeded=D is not point)
        return replace(
            state,
            D=D,
            point=D if is_last else point,
            step=state.step + 1,
            epoch=state.epoch + (is_last and anchor.is_of_all_rows),
            inner=0 if is_last else state.inner + 1,
            solved=state.solved + b * (2 if anchor.codes is None else 1),
            used=None if is_last else used,
            pace=pace,
        )

    def answer(self, state: VRState) -> Array:
        return state.D if state.point is None else state.point

    def going_on(self) -> VR:
        return replace(self, opening=False)

    @property
    def reports_best(self) -> bool:
        return True

    def _reseeds(self, state: VRState) -> bool:
        return self.reseed and state.pace.may_reseed

    @property
    def _opening(self) -> Opening:
        return Opening(self.batch_size, self.reseed, self._loose(LOOSEST))

    # Between epochs ----------------------------------------------------------------------------

    def _begin_epoch(self, problem: Problem, state: VRState) -> VRState:
        """Make the dictionary the anchor by a pass; if the objective rose, go back to the last."""
        new, old, pace = self._new_anchor(problem, state), state.anchor, state.pace
        measured, solved = new.measured, state.solved + new.count
        if old is None:
            pace = replace(pace, first_stationarity=new.stationarity)
        else:
            new, pace = self._judge(pace, old, new)
        return replace(state, D=new.D, point=new.D, anchor=new, pace=pace, measured=measured, solved=solved)

    def _new_anchor(self, problem: Problem, state: VRState) -> Anchor:
        """Return the anchor at D, over as many rows as its gradient calls for."""
        D, old, coder = state.D, state.anchor, self._coder(state)
        sample = None if old is None else old.sample
        if old is None and self.opening:
            sample = problem.sample(self._opening.rows_seen(problem.n_samples, len(D)), state.seed)
        codes = self._room_for_codes(problem, state)
        stats = problem.stats(D, coder, sample, known=None if old is None else old.codes, store=codes)
        anchor = Anchor.of(problem, D, stats, codes, sample)
        if not anchor.is_of_all_rows and state.pace.sample_epochs >= EPOCHS_PER_SAMPLE:
            anchor = anchor.with_more_rows(problem, coder)
        while not anchor.is_of_all_rows and anchor.is_exhausted:
            anchor = anchor.with_more_rows(problem, coder)
        return anchor

    def _judge(self, pace: Pace, old: Anchor, new: Anchor) -> tuple[Anchor, Pace]:
        """Return the better of two anchors, and the pace that this epoch teaches."""
        if new.count > old.count:  # not over the same rows
            return new, replace(pace, sample_epochs=0)
        pace = replace(pace, sample_epochs=pace.sample_epochs + 1)
        if not rises(new.objective, old.objective, new.D.dtype):
            length = pace.length * math.exp(GAIN * new.falls_since(old.D))
            return new, replace(pace, length=min(length, 1 / (1 - MOST_MOMENTUM)))
        if pace.reseeded:  # of new atoms and too long steps, suspect the atoms first
            return old, replace(pace, may_reseed=False)
        return old, replace(pace, length=pace.length / CUT)

    def _room_for_codes(self, problem: Problem, state: VRState) -> Companion | None:
        """Return room for the codes of all rows, or None if they take too much."""
        k, itemsize = len(state.D), state.D.itemsize
        if STORED_ANCHORS * problem.n_samples * k * itemsize > self.cache_megabytes * 2**20:
            return None
        number = state.seed * 2**32 + state.step  # stages of a path have seeds of their own
        return problem.room_for_codes(ANCHOR_CODES, number, k)

    # Within epochs -----------------------------------------------------------------------------

    def _descend(
        self, problem: Problem, state: VRState, anchor: Anchor, V: Array, b: int, m: int
    ) -> tuple[Array, Array]:
        """Return the point to which a step along V leads, and the same extrapolated by momentum."""
        length = state.pace.length
        if self.step_size != "auto":
            point = problem.prox_step(state.D, V, float(self.step_size) * min(1.0, length))
            return point, point
        # Preconditioned steps are stable up to b/(b + k), where the noise of b rows with k codes equals
        # what the step gains; so longer steps are a matter of momentum.
        weight = min(length, 1.0) * cooling(state.inner, m) * b / (b + len(V))
        point = descend_surrogate(problem.formulation.dictionary, anchor.curvature / weight, V, state.D)
        momentum = min(1 - 1 / length, (state.inner + 1) / (state.inner + 4))
        if momentum <= 0 or state.inner + 1 == m:
            return point, point
        return point, point + momentum * (point - state.point)

    def _coder(self, state: VRState) -> Coder:
        """Return the coder, as exact as the stationarity reached calls for."""
        anchor = state.anchor
        fallen = 1.0
        if anchor is not None:
            fallen = anchor.stationarity / (state.pace.first_stationarity or 1.0)
        return self._loose(LOOSEST * min(1.0, math.sqrt(fallen)))

    def _loose(self, tol: float) -> Coder:
        """Return the coder, no more exact than ``tol``."""
        return replace(self.coder, tol=max(self.coder.tol, tol))


def cooling(inner: int, steps: int) -> float:
    """Return what is left of the weight of steps, after some of the steps of an epoch."""
    return math.sqrt(1 - inner / steps)
