"""How an alternating step updates the codes: they become the best ones for given targets.

Each update works in coordinates of its own choice, in which its dictionary is ``D``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.coding._alternating import momentum_step, radial_step
from vrmf.coding.base import Atoms
from vrmf.coding.forms import EntrywiseForm, entrywise_form
from vrmf.coding.splitting import split_codes
from vrmf.coding.system import System
from vrmf.terms.base import AbstractRowTerm


class AbstractCodeUpdate(ABC):
    """Minimises ½‖target − hD‖² + φ(h) over h, for many rows."""

    D: Array

    @abstractmethod
    def into_coordinates(self, H: Array) -> Array:
        """Return codes in the coordinates of this update, as a new array."""

    @abstractmethod
    def out_of_coordinates(self, P: Array) -> Array:
        """Return codes in the coordinates of the user."""

    @abstractmethod
    def step(self, P: Array, Y: Array, pull: Array, t: Array, allowed: Array) -> Array:
        """Take an accelerated step in place, and return a bound on the error of each new code.

        The targets are yD + (e − r), given by ``pull`` = (e − r) Dᵀ. P becomes the best codes for them,
        and Y the point from which momentum starts the next step. ``t`` is the momentum of each row.
        """


class RadialCodeUpdate(AbstractCodeUpdate):
    """φ(h) = (ridge/2)‖h‖², over all codes or those of the unit ball: in the eigenbasis of DDᵀ."""

    def __init__(self, atoms: Atoms, ridge: float, in_ball: bool) -> None:
        self.vectors, self.norm = atoms.spectrum[1], atoms.squared_norm**0.5
        self.D, self.metric = atoms.once("rotated", lambda: _rotated(atoms))
        self.flat, self.absent = self.metric == 0, np.diagonal(atoms.gram) == 0
        self.ridge, self.in_ball = ridge, in_ball

    def into_coordinates(self, H: Array) -> Array:
        P = np.asarray(H @ self.vectors)
        P[:, self.flat] = 0
        return P

    def out_of_coordinates(self, P: Array) -> Array:
        H = np.asarray(P @ self.vectors.T)
        H[:, self.absent] = 0  # exactly, not to rounding
        return H

    def step(self, P: Array, Y: Array, pull: Array, t: Array, allowed: Array) -> Array:
        moved = np.empty(len(P), P.dtype)
        radial_step(P, Y, pull, self.metric, P.dtype.type(self.ridge), self.in_ball, t, moved)
        return self.norm * moved


def _rotated(atoms: Atoms) -> tuple[Array, Array]:
    """Return the dictionary in the eigenbasis of DDᵀ, and a diagonal metric that majorises DDᵀ there.

    Small eigenvalues are known to the rounding of the largest only, so the metric has a floor there.
    Directions that are nothing but rounding are 0 in both.
    """
    D = atoms.spectrum[1].T @ atoms.D
    squares, largest = row_squares(D), atoms.squared_norm
    eps, k = float(np.finfo(D.dtype).eps), len(D)
    flat = squares <= k * (64 * eps) ** 2 * largest
    D[flat] = 0
    return D, np.where(flat, 0, np.maximum(squares, 4 * k * eps * largest)).astype(D.dtype)


#: Bound on the iterations of one solve inside a step; what is missing then counts into the error.
INNER_ITERATIONS = 100


class EntrywiseCodeUpdate(AbstractCodeUpdate):
    """φ acts on each entry alone: the codes without outliers, each step from those of the last."""

    def __init__(self, atoms: Atoms, form: EntrywiseForm) -> None:
        self.D, self.gram, self.form = atoms.D, atoms.gram, form
        self.system, self.norm = System.of(atoms, form.ridge), atoms.squared_norm**0.5

    def converges_fast(self, cold: bool) -> bool:
        """Whether few steps find good codes: atoms are independent, or sparse codes start from zero."""
        return self.system.inverse is not None or (cold and self.form.slope > 0)

    def into_coordinates(self, H: Array) -> Array:
        return self.form.feasible(H)

    def out_of_coordinates(self, P: Array) -> Array:
        return P

    def step(self, P: Array, Y: Array, pull: Array, t: Array, allowed: Array) -> Array:
        C = Y @ self.gram
        C += pull
        unit = np.ones_like(allowed)
        best = split_codes(C, self.system, self.form, 0.1 * allowed, unit, INNER_ITERATIONS, P)
        moved = np.empty(len(P), P.dtype)
        step = Y - best.H
        momentum_step(P, Y, best.H, step, step @ self.gram, t, moved)
        return self.norm * moved + best.error


def code_update_for(code: AbstractRowTerm, atoms: Atoms) -> AbstractCodeUpdate | None:
    """Return the update for a code term, or None if there is none for it."""
    known = code.canonical
    if known is None:
        return None
    if known.is_radial:
        return RadialCodeUpdate(atoms, known.ridge, known.in_ball)
    return EntrywiseCodeUpdate(atoms, entrywise_form(known)) if known.is_entrywise else None
