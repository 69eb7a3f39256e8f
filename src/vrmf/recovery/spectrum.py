"""The spectra of a low-rank fit HD and of its residual, from sums over rows.

With codes under (alpha/2)‖h‖² and a dictionary under (alpha/2n)‖D‖², all rows together have

    (alpha/2)(‖H‖² + ‖D‖²)  ≥  alpha · ‖HD‖_*,

with equality for balanced factors. So (P5) is a convex problem in L = HD, of which a stationary point is
the global minimum if the residual E = X − L − S has ‖E‖₂ ≤ alpha.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.block_sums import CODES
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import AbstractSource
from vrmf.sources.companions import Carry
from vrmf.stats import Stats

#: More features than this, and the leading directions of the residual come from a random subspace.
MOST_FEATURES = 2000

#: Directions of that subspace beyond those that are asked for, and rounds of subspace iteration.
SPARE, SUBSPACE_ROUNDS = 10, 3

#: Bytes of codes that are stored between these rounds, at most.
MOST_CODES = 2**29

#: The kind of companion that the codes of these rounds are.
LOOK_CODES = "codes of residuals"


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Sums over rows at a dictionary, and those of products of their residuals e = x − hD − r."""

    stats: Stats
    products: Array  #: Σ eᵀe, shape (d, d), or Σ eᵀ(eΩ) for given directions Ω
    energy: float  #: Σ‖e‖²

    def __add__(self, other: ResidualSums) -> ResidualSums:
        return ResidualSums(
            self.stats + other.stats, self.products + other.products, self.energy + other.energy
        )


@dataclass(frozen=True, eq=False)
class _BlockResiduals:
    """The residual sums over a block of rows, and its codes."""

    formulation: Formulation
    atoms: Atoms
    coder: Coder
    trim: float
    directions: Array | None = None

    def __call__(self, block: Block) -> tuple[ResidualSums, dict[str, Array]]:
        codes = self.formulation.encode(block, self.atoms, self.coder, block.companion(CODES))
        stats = self.formulation.stats(block, self.atoms, codes)
        E = self._residual(block.dense, codes.H).astype(np.float64, copy=False)
        products = E.T @ (E if self.directions is None else E @ self.directions)
        energy = float(np.sum(np.square(E)))
        return ResidualSums(stats, products, energy), {CODES: codes.H}

    def _residual(self, X: Array, H: Array) -> Array:
        if math.isinf(self.trim):
            return self.formulation.residual(X, self.atoms.D, H)[0]
        left = X - H @ self.atoms.D
        return np.where(np.abs(left) <= self.trim, left, 0)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values and right singular vectors (rows) of a matrix, the largest first."""

    values: Array
    vectors: Array

    def above(self, level: float) -> Spectrum:
        """Return the part with singular values above a level."""
        is_above = self.values > level
        return Spectrum(self.values[is_above], self.vectors[is_above])

    def first(self, count: int) -> Spectrum:
        """Return the part with the largest singular values."""
        return Spectrum(self.values[:count], self.vectors[:count])

    def less(self, amount: float) -> Spectrum:
        """Return the spectrum with singular values reduced by an amount."""
        return Spectrum(self.values - amount, self.vectors)


@dataclass(frozen=True, eq=False)
class Spectra:
    """What a pass tells of a low-rank fit."""

    alpha: float  #: the weight of the nuclear norm
    fitted: Spectrum  #: of HD
    missing: Spectrum  #: of the residual E outside of the row space of D, as far as above a level
    norm: float  #: ‖E‖₂
    edge: float  #: what ‖E‖₂ would be if all but the missing directions were noise, at least alpha
    passes: float  #: made for it


def balanced_atoms(*parts: Spectrum) -> Array:
    """Return atoms √s · v for singular values s and vectors v, the longest first."""
    values = np.concatenate([part.values for part in parts])
    vectors = np.concatenate([part.vectors for part in parts])
    order = np.argsort(-values, kind="stable")
    return np.asarray(np.sqrt(values[order])[:, None] * vectors[order])


def spectra(
    problem: Problem, D: Array, coder: Coder, level: float, most: int, trim: float = math.inf
) -> Spectra:
    """Return the spectra at D; of the residual, at most ``most`` values above ``level`` · edge.

    A matrix of noise of the standard deviation σ has the norm σ(√n + √d): there the edge is, σ being that
    of what is left of the residual without the missing directions. (With many outliers, whose residuals
    are as large as their weight, the edge may exceed alpha.) In the row space of the fit, singular values
    of the residual are alpha by stationarity, and say nothing.

    With ``trim`` the residual is X − L with entries beyond it set to zero, instead of X − L − S. So
    outliers that have a structure, such as an object that moves slowly, call for no atoms.
    """
    code = problem.formulation.code.canonical
    assert code is not None
    alpha, basis = code.ridge, _row_space(D.astype(np.float64))
    residual = _SmallResidual if D.shape[1] <= MOST_FEATURES else _LargeResidual
    block = _BlockResiduals(problem.formulation, Atoms(D), coder, trim)
    E = residual(problem.source, block, basis, most)
    above = E.above(level * alpha)
    left = E.energy - np.cumsum(above.values**2)
    edges = np.sqrt(np.maximum([E.energy, *left], 0)) * (problem.n_samples**-0.5 + D.shape[1] ** -0.5)
    edges = np.maximum(edges, alpha)
    count = int(np.max(np.flatnonzero(above.values > level * edges[1:]), initial=-1)) + 1
    missing, edge = above.first(min(count, most)), float(edges[count])
    return Spectra(alpha, spectrum_of_fit(E.stats, D), missing, E.norm, edge, E.passes)


class _SmallResidual:
    """The residual by EᵀE, for few features."""

    passes = 1.0

    def __init__(self, source: AbstractSource, block: _BlockResiduals, basis: Array, most: int) -> None:
        sums: ResidualSums = source.reduce(block, carry=Carry())
        whole = sums.products
        self.stats, self.energy = sums.stats, sums.energy
        self.outside = _outside(basis, _outside(basis, whole).T)
        inside = np.linalg.eigvalsh(basis @ whole @ basis.T) if len(basis) else np.zeros(1)
        self.largest = _largest_eigenvalue(self.outside)
        self.norm = max(float(inside[-1]), self.largest, 0.0) ** 0.5

    def above(self, level: float) -> Spectrum:
        if self.largest <= level**2:  # a dense factorisation for nothing
            return Spectrum(np.empty(0), np.empty((0, len(self.outside))))
        squares, V = scipy.linalg.eigh(self.outside, subset_by_value=(level**2, np.inf), driver="evr")
        return Spectrum(np.sqrt(squares[::-1]), V.T[::-1])


class _LargeResidual:
    """The leading part of the residual by subspace iteration, for many features."""

    passes = float(SUBSPACE_ROUNDS)

    def __init__(self, source: AbstractSource, block: _BlockResiduals, basis: Array, most: int) -> None:
        k, d = block.atoms.D.shape
        V = np.random.default_rng(d).standard_normal((min(d, most + SPARE), d))
        number = zlib.crc32(block.atoms.D.tobytes())  # of this dictionary and no other
        fits = source.n_samples * k * block.atoms.D.itemsize <= MOST_CODES
        codes = source.companion(LOOK_CODES, number, k) if fits else None
        for i in range(SUBSPACE_ROUNDS):
            V = _orthonormal(_outside(basis, V.T).T)
            directions = np.concatenate([V, basis]).T
            carry = Carry.of(CODES, codes if i else None, codes)
            sums: ResidualSums = source.reduce(replace(block, directions=directions), carry=carry)
            W = sums.products.T
            W, inside = W[: len(V)], W[len(V) :] @ basis.T
            self.squares, rotation = np.linalg.eigh(W @ V.T)
            self.vectors = rotation.T @ V
            V = W
        self.stats, self.energy = sums.stats, sums.energy
        largest_inside = np.linalg.eigvalsh((inside + inside.T) / 2)[-1] if len(basis) else 0.0
        self.norm = max(float(largest_inside), float(self.squares[-1]), 0.0) ** 0.5

    def above(self, level: float) -> Spectrum:
        return Spectrum(np.sqrt(np.maximum(self.squares[::-1], 0)), self.vectors[::-1]).above(level)


def _largest_eigenvalue(C: Array) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix, to a thousandth."""
    if len(C) < 20:
        return float(np.linalg.eigvalsh(C)[-1])
    start = np.random.default_rng(len(C)).standard_normal(len(C))
    if not np.any(C):
        return 0.0
    return float(eigsh(C, k=1, v0=start, tol=1e-3, return_eigenvectors=False)[0])


def _row_space(D: Array) -> Array:
    """Return an orthonormal basis of the rows of D, as rows."""
    values, vectors = np.linalg.svd(D, full_matrices=False)[1:]
    return np.asarray(vectors[values > 1e-10 * max(np.max(values, initial=0.0), 1e-300)])


def _orthonormal(V: Array) -> Array:
    """Return orthonormal rows that span those of V."""
    return np.asarray(np.linalg.qr(V.T)[0].T)


def _outside(basis: Array, Z: Array) -> Array:
    """Return the columns of Z without their parts in a row space."""
    return np.asarray(Z - basis.T @ (basis @ Z))


def spectrum_of_fit(stats: Stats, D: Array) -> Spectrum:
    """Return the singular values and right singular vectors of HD, from HᵀH and D."""
    squares, Q = np.linalg.eigh(stats.gram.astype(np.float64))
    root = np.sqrt(np.maximum(squares, 0))[:, None] * Q.T
    values, vectors = np.linalg.svd(root @ D.astype(np.float64), full_matrices=False)[1:]
    return Spectrum(values, vectors)
