"""Codes without outliers, by splitting for all rows at once and Newton steps for each.

For each row, with A = D Dᵀ + ridge · I and c = x Dᵀ, minimise ½ hAhᵀ − c·h + φ(h). Splitting [1]_
alternates between the quadratic part, one product with (A + ρI)⁻¹ that all rows share, and the prox
of φ. It finds the active set of nearly every row in a dozen steps, and from there a Newton step is
exact (:mod:`vrmf.coding._pivoting`), if φ acts on entries. Warm starts begin with the Newton step.

References
----------
.. [1] S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed optimization and statistical
   learning via the alternating direction method of multipliers", Foundations and Trends in Machine
   Learning 3 (2011).
"""

from __future__ import annotations

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding.base import AbstractMethod, Account, Codes, Task
from vrmf.coding.forms import AbstractForm, form_of
from vrmf.coding.system import System
from vrmf.running.clock import check_time

#: Steps of splitting before the first Newton steps, for few atoms.
FIRST_STEPS = 8

#: There is one more such step for each so many atoms.
ATOMS_FOR_ONE_MORE = 64

#: Bound on the steps before the first Newton steps.
MOST_FIRST_STEPS = 16

#: After Newton steps that fail there are twice as many steps as before, up to this bound.
MOST_STEPS = 400

#: The weight ρ may be adapted after these numbers of steps.
ADAPT_AT = (4, 8, 16, 32, 64, 128, 256)

#: It is adapted when it is wrong by more than this factor.
MISFIT = 2.5

#: ρ stays within this factor of its first value: on rows that are fitted exactly it would vanish.
MOST_CHANGE = 10.0


class Splitting(AbstractMethod):
    """Codes that minimise ½‖x − hD‖² + φ(h), for any φ.

    >>> from vrmf.block import Block
    >>> from vrmf.coding.base import Atoms
    >>> from vrmf.terms import L1, Absent
    >>> task = Task(Block(np.array([[3.0, 0.5]])), Atoms(np.eye(2)), L1(1.0), Absent(), 1e-12, max_iter=100)
    >>> Splitting().encode(task).H
    array([[2., 0.]])
    """

    def applies_to(self, task: Task) -> bool:
        return not task.has_outliers

    def encode(self, task: Task) -> Codes:
        form, atoms = form_of(task.code), task.atoms
        system = System.of(atoms, form.ridge)
        C, allowed = task.rows.times_atoms(atoms.D), task.tol * task.scale
        return split_codes(C, system, form, allowed, task.scale, task.max_iter, task.start)


def split_codes(
    C: Array,
    system: System,
    form: AbstractForm,
    allowed: Array,
    scale: Array,
    max_iter: int,
    start: Array | None = None,
) -> Codes:
    """Minimise ½ hAhᵀ − c·h + φ(h) for each row c of ``C`` until its absolute error is at most ``allowed``.

    The error is the distance of 0 to the subdifferential, or a bound on it, always computed from the
    code that is returned; it is given in units of ``scale``.
    """
    dtype = C.dtype
    P = np.zeros_like(C) if start is None else form.feasible(start.astype(dtype, copy=False))
    account = Account(P, scale, max_iter)
    rounding = 2 * float(np.finfo(dtype).eps) * system.bound
    splitting = _Splitting(system, form)
    steps = min(FIRST_STEPS + len(system.A) // ATOMS_FOR_ONE_MORE, MOST_FIRST_STEPS)
    c, spent, split_next = C, 0, start is None
    while len(account.open_rows):
        check_time()
        if split_next:
            steps = min(steps, max_iter - spent)
            P = splitting.run(c, None if start is None else P, steps)
            account.iterations[account.open_rows] += steps
            spent, steps = spent + steps, min(2 * steps, MOST_STEPS)
        force = c - P @ system.A
        miss, residual = form.conditions(P, force, system)
        done = _are_done(miss, allowed[account.open_rows], rounding, P)
        ended = done if spent < max_iter else np.ones_like(done)
        if np.any(ended):
            stay = account.close(ended, P, miss, done)
            P, c, force, residual = P[stay], c[stay], force[stay], residual[stay]
            splitting.retain(stay)
        if len(account.open_rows) and (split_next or spent == 0):
            rounds = form.newton(P, force, residual, system, allowed[account.open_rows], max_iter - spent)
            account.iterations[account.open_rows] += np.abs(rounds)
            spent += int(np.max(np.abs(rounds)))
            split_next = not np.any(rounds > 0)
        else:
            split_next = True
    return account.codes()


def _are_done(miss: Array, allowed: Array, rounding: float, P: Array) -> Array:
    """Return which codes have an allowed error, or one that is nothing but rounding."""
    done = miss <= allowed
    if not np.all(done):
        done |= miss <= rounding * np.sqrt(row_squares(P))
    return done


class _Splitting:
    """The state of splitting for some rows: copies z of the codes, scaled duals u, and the weight ρ."""

    def __init__(self, system: System, form: AbstractForm) -> None:
        self.system, self.form, self.rho = system, form, system.curvature
        self.counts = form.counts(len(system.A))
        self.Z: Array | None = None
        self.U: Array | None = None

    def run(self, C: Array, start: Array | None, steps: int) -> Array:
        """Take steps from where the last run ended, or from ``start``, or from zero; return codes."""
        number, form = C.dtype.type, self.form
        H, Q = np.zeros_like(C), C.copy()
        if self.Z is None or self.U is None:
            self.Z = np.zeros((len(C), int(np.sum(self.counts))), C.dtype)
            self.U = np.zeros_like(self.Z)
            if start is not None:
                self.U = form.spread(C - start @ self.system.A) / number(self.rho)
                form.split_step(start, self.Z, self.U, C, Q, self.rho, 1.0)
        else:
            form.split_step(H, self.Z, self.U, C, Q, self.rho, 0.0)  # only for Q
        inverse = self._inverse()
        taken = 0
        while taken < steps:
            check_time()
            stop = min([steps, *(step for step in ADAPT_AT if step > taken)])
            sums = form.split_steps(H, self.Z, self.U, C, Q, inverse, self.rho, stop - taken)
            taken, factor = stop, self._adapt(_misfit(sums)) if stop < steps else 1.0
            if factor != 1:
                self.U /= number(factor)
                form.split_step(H, self.Z, self.U, C, Q, self.rho, 0.0)  # only for Q
                inverse = self._inverse()
        return form.merge(self.Z)

    def retain(self, rows: Array) -> None:
        """Retain some of the rows."""
        if self.Z is not None and self.U is not None:
            self.Z, self.U = self.Z[rows], self.U[rows]

    def _adapt(self, factor: float) -> float:
        """Change ρ by about the given factor if that is worth while; return by what it was changed."""
        if 1 / MISFIT < factor < MISFIT:
            return 1.0
        low, high = self.system.curvature / MOST_CHANGE, self.system.curvature * MOST_CHANGE
        before, self.rho = self.rho, min(max(factor * self.rho, low), high)
        return self.rho / before

    def _inverse(self) -> Array:
        if self.rho == self.system.curvature and np.all(self.counts == 1):
            return self.system.first_inverse
        return self.system.shifted_inverse(self.rho * self.counts)


def _misfit(sums: tuple[float, float, float, float]) -> float:
    """Return the factor of ρ that balances the two residuals, each relative to its own size."""
    gap, moved, size, dual = sums
    return float((gap / size) * (dual / moved)) ** 0.25 if size > 0 and moved > 0 else 1.0
