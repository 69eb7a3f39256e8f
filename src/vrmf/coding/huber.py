"""Codes with outliers that act on entries: few shared steps for all rows, Newton's method for each.

With the best outliers for each code the objective is smooth and piecewise quadratic, up to bounds on
codes. Shared first-order steps find most pieces; from there Newton's method needs two to five steps for
a row (:mod:`vrmf.coding._huber_box`, :mod:`vrmf.coding._huber_ball`). Rows that it does not solve are
marked as unfinished.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._huber import LEAST_DAMPING, forecast
from vrmf.coding._huber_ball import newton_rows_in_ball
from vrmf.coding._huber_box import newton_rows_in_box
from vrmf.coding._measuring import Outliers
from vrmf.coding.alternating import Alternating, OutlierUpdate
from vrmf.coding.base import AbstractMethod, Codes, Task
from vrmf.coding.code_updates import (
    AbstractCodeUpdate,
    EntrywiseCodeUpdate,
    RadialCodeUpdate,
    code_update_for,
)
from vrmf.coding.conjugate import AbstractSwitchRule, conjugate_codes
from vrmf.coding.newton import outlier_numbers
from vrmf.momentum import next_momentum
from vrmf.running.clock import check_time

#: Alternating steps of all rows from a cold start.
FIRST_STEPS = 8

#: The last of these are taken at the threshold of the term.
LAST_STEPS = 2

#: Steps of splitting inside each alternating step.
INNER_STEPS = 8

#: Bound on the Newton steps of a row.
MOST_STEPS = 100

#: Damping of the first Newton step from a cold start, relative to the squared norms of atoms.
COLD_DAMPING = 3e-4

#: The same from a warm start.
WARM_DAMPING = 1e-8

#: The same in the ball, without a ridge.
BALL_DAMPING = 1e-4

#: Alternating steps of codes that are outside of the ball.
BALL_STEPS = 10

#: Newton steps that a row is expected to need.
NEWTON_STEPS = 1

#: Rows that kernels get at a time; a fit checks its time limit in between.
ROWS_AT_A_TIME = 128


class HuberBox(AbstractMethod):
    """Codes between bounds, with a ridge and a slope that has no kink between the bounds: P8."""

    def applies_to(self, task: Task) -> bool:
        known = task.code.canonical
        if known is None or outlier_numbers(task.outliers) is None or not task.has_outliers:
            return False
        if not known.is_entrywise or known.is_radial or (known.slope > 0 and known.low < 0):
            return False
        update = code_update_for(task.code, task.atoms)
        assert isinstance(update, EntrywiseCodeUpdate)
        return update.converges_fast(cold=task.start is None)

    def encode(self, task: Task) -> Codes:
        X, atoms, update, numbers = task.X, task.atoms, *_update_and_numbers(task)
        assert isinstance(update, EntrywiseCodeUpdate)
        spent = min(FIRST_STEPS, task.max_iter - 1) if task.start is None else 0
        cold = task.start is None
        H = _approach(task, update, spent) if cold else update.into_coordinates(task.first_codes())
        codes = Codes(
            H, np.full(len(X), np.inf), np.full(len(X), spent), np.zeros(len(X), bool), task.scale
        )
        number, form, D = X.dtype.type, update.form, _double(atoms.D)
        ends = float(number(form.low)), float(number(form.high))
        damping = COLD_DAMPING if task.start is None else WARM_DAMPING
        problem = (D, D @ D.T, form.ridge, form.slope, ends, numbers)

        def newton(x: Array, H: Array, allowed: Array, most: Array, steps: Array, error: Array) -> None:
            newton_rows_in_box(x, H, problem, allowed, most, damping, steps, error)

        finish_rows(codes, np.arange(len(X)), task, newton)
        return codes


class HuberRadial(AbstractMethod):
    """Codes with a ridge or without a penalty, in the unit ball or not: P5, P6 and P7.

    The ball comes in last: most codes are inside of it.
    """

    def applies_to(self, task: Task) -> bool:
        known = task.code.canonical
        if known is None or outlier_numbers(task.outliers) is None:
            return False
        return task.has_outliers and known.is_radial

    def encode(self, task: Task) -> Codes:
        update, numbers = _update_and_numbers(task)
        assert isinstance(update, RadialCodeUpdate)
        without_ball = update
        if update.in_ball:
            without_ball = RadialCodeUpdate(task.atoms, update.ridge, in_ball=False)
        codes = conjugate_codes(task, without_ball, CostForecast(update, numbers, task.start is None))
        if update.in_ball:
            _into_ball(codes, task)
        D = _double(task.atoms.D)
        problem = (D, D @ D.T, update.ridge, update.in_ball, numbers)
        damping = LEAST_DAMPING if update.ridge > 0 else BALL_DAMPING

        def newton(x: Array, H: Array, allowed: Array, most: Array, steps: Array, error: Array) -> None:
            if update.in_ball:  # rounding in single precision may have put a code outside
                H /= np.maximum(np.sqrt(row_squares(H)), 1)[:, None]
            newton_rows_in_ball(x, H, problem, allowed, most, damping, steps, error)

        rows = np.flatnonzero(~codes.finished & (codes.iterations < task.max_iter))
        finish_rows(codes, rows, task, newton)
        return codes


def _update_and_numbers(task: Task) -> tuple[AbstractCodeUpdate, Outliers]:
    update, numbers = code_update_for(task.code, task.atoms), outlier_numbers(task.outliers)
    assert update is not None and numbers is not None
    return update, numbers


def _into_ball(codes: Codes, task: Task) -> None:
    """Move codes outside of the unit ball into it, by some alternating steps."""
    rows = np.flatnonzero(row_squares(codes.H) > 1)
    if not len(rows):
        return
    codes.finished[rows], codes.error[rows] = False, np.inf
    first = codes.H[rows] if task.start is None else task.first_codes()[rows]
    codes.H[rows] = first / np.maximum(np.sqrt(row_squares(first)), 1)[:, None]
    budget = min(BALL_STEPS, task.max_iter - int(np.max(codes.iterations[rows])))
    if budget > 0:
        moved = Alternating().encode(task.of(rows, codes.H[rows], budget))
        codes.H[rows], codes.error[rows], codes.finished[rows] = moved.H, moved.error, moved.finished
        codes.iterations[rows] += moved.iterations


class CostForecast(AbstractSwitchRule):
    """Switches rows to Newton's method where that will cost less, and rows that are outside of the ball.

    Costs are counted in products of numbers, at the speed of BLAS.
    """

    def __init__(self, update: RadialCodeUpdate, outliers: Outliers, cold: bool) -> None:
        k, d = update.D.shape
        self.outliers, self.in_ball = outliers, update.in_ball
        self.first, self.every = (12, 4) if cold else (4, 4)
        step, newton_step = 2 * k * d + 50 * d, 4 * k * d + k**3 + 50 * d
        self.costs = float(self.every * step), float(NEWTON_STEPS * newton_step), float(k * k)
        self.before: Array | None = None
        self.least: Array | None = None

    def rows_to_switch(self, steps: int, P: Array, E: Array, miss: Array, allowed: Array) -> Array | None:
        self.least = miss.copy() if self.least is None else np.minimum(self.least, miss)
        if steps % self.every:
            return None
        before, self.before = self.before, self.least
        lost = row_squares(P) > 1 if self.in_ball else np.zeros(len(P), bool)
        if before is not None and steps >= self.first:
            forecast(E, self.outliers, before, self.least, miss, allowed, self.costs, lost)
        return lost

    def retain(self, rows: Array) -> None:
        self.before = None if self.before is None else self.before[rows]
        self.least = None if self.least is None else self.least[rows]


def finish_rows(
    codes: Codes,
    rows: Array,
    task: Task,
    newton: Callable[[Array, Array, Array, Array, Array, Array], None],
) -> None:
    """Move some codes to their optimum by a kernel in double precision; write their errors and iterations.

    The kernel takes rows, codes, the allowed errors, bounds on steps, and arrays for the steps and errors.
    """
    X, norm, eps = task.X, task.atoms.norm, float(np.finfo(np.float64).eps)
    for i in range(0, len(rows), ROWS_AT_A_TIME):
        check_time()
        some = rows[i : i + ROWS_AT_A_TIME]
        x, H, allowed = _double(X[some]), _double(codes.H[some]), task.tol * task.scale[some]
        # What the moves of x − hD add up to: roundings of what it was at first.
        drift = 2 * eps * norm * (np.sqrt(row_squares(x)) + norm * np.sqrt(row_squares(H)))
        steps, error = np.empty(len(some), np.int64), np.empty(len(some))
        newton(x, H, allowed, np.minimum(MOST_STEPS, task.max_iter - codes.iterations[some]), steps, error)
        codes.H[some] = H
        codes.iterations[some] += steps
        codes.error[some] = error / task.scale[some]
        codes.finished[some] = (error <= allowed) & (drift <= allowed / 2)


def _approach(task: Task, update: EntrywiseCodeUpdate, steps: int) -> Array:
    """Return codes after some accelerated alternating steps, with thresholds that are halved at each.

    Codes for given outliers are not solved for exactly: a few steps of splitting start from the last ones.
    """
    X, atoms, form, system = task.X, task.atoms, update.form, update.system
    outliers = OutlierUpdate(task.outliers, X, cold=True)
    Z = update.into_coordinates(np.zeros((len(X), len(atoms.D)), X.dtype))
    U, H, Q, E = np.zeros_like(Z), np.zeros_like(Z), np.zeros_like(Z), np.empty_like(X)
    Y, last, t = Z.copy(), Z.copy(), 1.0
    for step in range(steps):
        check_time()
        if steps - step <= LAST_STEPS:
            outliers.end_thresholds()
        np.matmul(Y, atoms.D, out=E)
        outliers.subtract(E, X)
        C = Y @ atoms.gram
        C += E @ atoms.D.T
        form.split_step(H, Z, U, C, Q, system.curvature, 0.0)  # only for Q
        form.split_steps(H, Z, U, C, Q, system.first_inverse, system.curvature, INNER_STEPS)
        factor, t = next_momentum(t)
        np.subtract(Z, last, out=Y)
        Y *= X.dtype.type(factor)
        Y += Z
        last[:] = Z
        outliers.halve_thresholds()
    return Z


def _double(Z: Array) -> Array:
    return np.ascontiguousarray(Z, np.float64)
