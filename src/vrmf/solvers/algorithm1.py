"""Algorithm 1 of the paper to the letter: variance-reduced proximal stochastic gradient steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import one_of, real_number
from vrmf.coding import Atoms, Coder
from vrmf.measurement import squared_norm
from vrmf.problem import Problem
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.base import (
    AbstractSolver,
    State,
    check_auto_count,
    check_auto_positive,
    check_coder,
    paper_batch_size,
    paper_inner_steps,
    valid_batch_size,
)

#: The tolerance of inexact codes stays between these.
LEAST_TOL, MOST_TOL = 1e-14, 0.1


@dataclass(frozen=True, eq=False)
class Algorithm1State(State):
    """The state of Algorithm 1."""

    anchor: Anchor | None = None
    inner: int = 0  #: inner steps done in this epoch
    step_size: float = 0.0  #: η, once it is known
    first_gradient: float = 0.0  #: ‖G₀‖ at the first anchor
    chosen: Array | None = None  #: Option I: an iterate drawn uniformly from all so far


@dataclass(frozen=True)
class Algorithm1(AbstractSolver[Algorithm1State]):
    """Algorithm 1 of the paper, as it is printed.

    Each epoch begins with the gradient G over all rows at the anchor, the dictionary of that moment. Then
    there are m steps D ← prox(D − η V) along V, the gradient of a mini-batch at D minus that at the anchor
    plus G. The step size η is constant, the codes of each mini-batch are computed at both dictionaries,
    each from zero, and nothing is taken back.

    Parameters
    ----------
    batch_size : int or "auto"
        b. ``"auto"`` is 0.2 · n^⅔.
    inner_steps : int or "auto"
        m, the steps of an epoch. ``"auto"`` is 0.5 · n^⅓.
    step_size : float or "auto"
        η. ``"auto"`` is 1/λ_max(A) of the first anchor.
    option : {"last", "random"}
        The dictionary to report: the last iterate (the paper's Option II), or one drawn uniformly
        from all iterates (Option I, by reservoir sampling).
    tau : float or None
        If given, codes are inexact on the schedule of Theorem 2: at step t of epoch s the error of
        V is at most ‖G₀‖ · (m s + t + 1)^−(½ + τ), and anchors are as exact as their epoch's end.
    coder : Coder
        How codes are computed, and how exactly without ``tau``.
    """

    batch_size: int | str = "auto"
    inner_steps: int | str = "auto"
    step_size: float | str = "auto"
    option: str = "last"
    tau: float | None = None
    coder: Coder = Coder(tol=1e-9)  # noqa: RUF009

    def __post_init__(self) -> None:
        check_coder(self.coder)
        check_auto_count("batch_size", self.batch_size)
        check_auto_count("inner_steps", self.inner_steps)
        check_auto_positive("step_size", self.step_size)
        one_of("option", self.option, ("last", "random"))
        if self.tau is not None:
            real_number("tau", self.tau, low=0, strict=True)

    def epoch_shape(self, n_samples: int) -> tuple[int, int]:
        """Return the batch size b and the number of inner steps m for n rows."""
        b, m = paper_batch_size(n_samples), paper_inner_steps(n_samples)
        if self.batch_size != "auto":
            b = valid_batch_size(int(self.batch_size), n_samples)
        return b, m if self.inner_steps == "auto" else int(self.inner_steps)

    def init(self, problem: Problem, D: Array, seed: int) -> Algorithm1State:
        self.epoch_shape(problem.n_samples)
        return Algorithm1State(D=D, seed=seed)

    def step(self, problem: Problem, state: Algorithm1State) -> Algorithm1State:
        b, m = self.epoch_shape(problem.n_samples)
        if state.inner == 0:
            state = self._with_new_anchor(problem, state, m)
        else:
            state = replace(state, measured=None)
        anchor = state.anchor
        assert anchor is not None
        batch = problem.draw(b, state.seed, state.step)
        coder = self._coder(problem, state, state.step + 1)
        change = problem.slope_change(state.D, anchor.D, coder, batch)
        D = problem.prox_step(state.D, change.gradient + anchor.gradient, state.step_size)
        is_last = state.inner + 1 == m
        return replace(
            state,
            D=D,
            step=state.step + 1,
            epoch=state.epoch + is_last,
            inner=0 if is_last else state.inner + 1,
            solved=state.solved + 2 * b,
            chosen=self._choice(state, D),
        )

    def answer(self, state: Algorithm1State) -> Array:
        return state.D if state.chosen is None else state.chosen

    @property
    def reports_best(self) -> bool:
        return False

    def _with_new_anchor(self, problem: Problem, state: Algorithm1State, m: int) -> Algorithm1State:
        """Return the state with the dictionary as its anchor, by a pass over all rows."""
        stats = problem.stats(state.D, self._coder(problem, state, state.step + m))
        anchor = Anchor.of(problem, state.D, stats)
        eta = self._step_size(state, anchor)
        mapping = (anchor.D - problem.prox_step(anchor.D, anchor.gradient, eta)) / eta
        first = float(np.linalg.norm(anchor.gradient)) if state.anchor is None else state.first_gradient
        assert anchor.measured is not None
        return replace(
            state,
            anchor=anchor,
            solved=state.solved + anchor.count,
            measured=replace(anchor.measured, own_stationarity=squared_norm(mapping)),
            step_size=eta,
            first_gradient=first,
        )

    def _step_size(self, state: Algorithm1State, anchor: Anchor) -> float:
        """Return the step size, one for all epochs."""
        if self.step_size != "auto":
            return float(self.step_size)
        return state.step_size if state.step_size > 0 else 1 / anchor.largest_curvature

    def _coder(self, problem: Problem, state: Algorithm1State, count: int) -> Coder:
        """Return the coder, as exact as Theorem 2 asks for at that count of steps if there is a ``tau``."""
        anchor = state.anchor
        if self.tau is None or anchor is None:
            return self.coder
        allowed = state.first_gradient * count ** -(0.5 + self.tau)
        # Three groups of codes enter V: of the mini-batch at D and at the anchor, and of the anchor.
        curvature = problem.formulation.code_curvature(Atoms(state.D))
        tol = allowed * curvature / (3 * anchor.sensitivity or 1.0)
        return replace(self.coder, tol=min(max(tol, LEAST_TOL), MOST_TOL))

    def _choice(self, state: Algorithm1State, D: Array) -> Array | None:
        """Return an iterate drawn uniformly from those so far, D being the newest; None for Option II."""
        if self.option == "last":
            return None
        is_taken = np.random.default_rng([state.seed, state.step, 1]).random() * (state.step + 1) < 1
        return D if is_taken else state.chosen
