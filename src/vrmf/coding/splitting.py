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

from dataclasses import dataclass

import numpy as np

from vrmf.coding.base import Atoms, Codes, error_scale
from vrmf.coding.forms import AbstractForm, form_of
from vrmf.coding.system import System
from vrmf.terms.base import AbstractRowTerm, Array

#: Steps of splitting before the first Newton step; if that fails, twice as many before the next.
FIRST_STEPS = 12
MOST_STEPS = 400

#: Over-relaxation, the customary value.
RELAX = 1.6

#: The weight ρ is adapted after these steps, when it is off by more than MISFIT.
ADAPT_AT = (4, 8, 16, 32, 64, 128, 256)
MISFIT = 2.5


@dataclass(frozen=True, eq=False)
class Solved:
    """Codes with their absolute errors."""

    H: Array
    error: Array
    iterations: Array
    finished: Array


def plain_codes(
    X: Array,
    atoms: Atoms,
    code: AbstractRowTerm,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
) -> Codes:
    """Minimise ½‖x − hD‖² + φ(h) for each row of ``X``, to the relative error ``tol``.

    >>> import numpy as np
    >>> from vrmf.terms import L1
    >>> plain_codes(np.array([[3.0, 0.5]]), Atoms(np.eye(2)), L1(1.0), tol=1e-12, max_iter=100).H
    array([[2., 0.]])
    """
    form = form_of(code)
    scale = error_scale(atoms, X)
    solved = split_codes(X @ atoms.D.T, System.of(atoms, form.ridge), form, tol * scale, max_iter, start)
    return Codes(solved.H, solved.error / scale, solved.iterations, solved.finished, scale)


def split_codes(
    C: Array,
    system: System,
    form: AbstractForm,
    allowed: Array,
    max_iter: int,
    start: Array | None = None,
) -> Solved:
    """Minimise ½ hAhᵀ − c·h + φ(h) for each row c of ``C`` until its error is at most ``allowed``.

    The error is the distance of 0 to the subdifferential, or a bound on it; it is always computed
    from the code that is returned.
    """
    n, dtype = len(C), C.dtype
    H = np.zeros_like(C) if start is None else form.feasible(start.astype(dtype, copy=False))
    error, iterations = np.zeros(n, dtype=dtype), np.zeros(n, dtype=np.int64)
    finished, alive = np.zeros(n, dtype=bool), np.arange(n)
    rounding = 2 * float(np.finfo(dtype).eps) * system.bound
    rho, steps, spent, split_next = system.curvature, FIRST_STEPS, 0, start is None
    P, c = H, C
    while len(alive):
        if split_next:
            steps = min(steps, max_iter - spent)
            P, rho = _split(c, P if spent else None, system, form, rho, steps)
            iterations[alive] += steps
            spent, steps = spent + steps, min(2 * steps, MOST_STEPS)
        force = c - P @ system.A
        miss, residual = form.conditions(P, force, system)
        done = miss <= allowed[alive]
        if not np.all(done):
            done |= miss <= rounding * np.sqrt(np.einsum("ij,ij->i", P, P))
        ended = done if spent < max_iter else np.ones_like(done)
        if np.any(ended):
            rows, going = alive[ended], ~ended
            H[rows], error[rows], finished[rows] = P[ended], miss[ended], done[ended]
            alive, P, c, force, residual = alive[going], P[going], c[going], force[going], residual[going]
        if len(alive) and (split_next or spent == 0):
            rounds = form.newton(P, force, residual, system, allowed[alive], max_iter - spent)
            iterations[alive] += np.abs(rounds)
            spent += int(np.max(np.abs(rounds)))
            split_next = not np.any(rounds > 0)
        else:
            split_next = True
    return Solved(H, error, iterations, finished)


def _split(
    C: Array, start: Array | None, system: System, form: AbstractForm, rho: float, steps: int
) -> tuple[Array, float]:
    """Take steps of splitting from the given codes; return codes and the weight ρ as adapted."""
    number, counts = C.dtype.type, form.counts(C.shape[1])
    inverse = system.shifted_inverse(rho * counts)
    H, Q = np.empty_like(C), C.copy()
    if start is None:
        Z, U = (np.zeros((len(C), int(np.sum(counts))), C.dtype) for _ in range(2))
    else:
        U = form.spread(C - start @ system.A) / number(rho)
        Z = np.zeros_like(U)
        form.split_step(start, Z, U, C, Q, rho, 1.0)
    for step in range(1, steps + 1):
        np.matmul(Q, inverse, out=H)
        gap, moved, size, dual = form.split_step(H, Z, U, C, Q, rho, RELAX)
        if step in ADAPT_AT and step < steps:
            # Balance the two residuals, each relative to its own size.
            factor = ((gap / size) * (dual / moved)) ** 0.25 if size > 0 and moved > 0 else 1.0
            factor = min(max(factor, 0.1), 10.0)
            if not 1 / MISFIT < factor < MISFIT:
                rho *= factor
                inverse = system.shifted_inverse(rho * counts)
                U /= number(factor)
                form.split_step(np.zeros_like(H), Z, U, C, Q, rho, 0.0)
    return form.merge(Z), rho
