"""The tables over which the laws run.

To add a part, add one line; every law of its kind then tests it:

- a term: one line in ``TERMS`` (the width is that of the rows on which it is tried; keep it at
  ``WIDTH``, so that it also enters the test of all pairs) and, for a new class, one line in
  ``reference.CONVEX`` that says the same to a general convex solver;
- a formulation: one line in ``FORMULATIONS``, a function from a random generator to
  (formulation, X, D), with D in the formulation's set.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vrmf import formulations
from vrmf.arrays import Array
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import LocalSource
from vrmf.terms import (
    L1,
    Absent,
    AbstractRowTerm,
    AbstractTerm,
    Box,
    Free,
    GroupL2,
    LowRankQuadratic,
    MaxColumnNorm,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    UnitBall,
    chain_laplacian,
    grid_laplacian,
)

WIDTH = 6
INF = float("inf")


def generator(name: str) -> np.random.Generator:
    """Return the random generator of a test, the same at every run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


@dataclass(frozen=True)
class AsymmetricL1(AbstractRowTerm):
    """A user's own term, f(z) = up · Σⱼ max(zⱼ, 0) + down · Σⱼ max(−zⱼ, 0), with the methods required."""

    up: float
    down: float

    def row_values(self, Z: Array) -> Array:
        return np.sum(np.where(Z > 0, self.up * Z, -self.down * Z), axis=1)

    def prox(self, Z: Array, step: float) -> Array:
        return np.maximum(Z - step * self.up, 0) + np.minimum(Z + step * self.down, 0)


def groups(columns: Sequence[Sequence[int]], weights: Sequence[float] | None = None) -> GroupL2:
    """Return the group penalty, from lists as users write them."""
    return GroupL2(columns, weights)


def _semidefinite() -> Array:
    A = generator("semidefinite").normal(size=(WIDTH, WIDTH - 2))
    return A @ A.T / WIDTH


def _orthonormal(columns: int) -> Array:
    return np.linalg.qr(generator("orthonormal").normal(size=(WIDTH, columns)))[0]


GRID = grid_laplacian(2, 3)
APART = [[0, 3], [5, 1, 2], [4]]  #: disjoint groups
CHAIN = [[0, 1, 2], [2, 3, 4], [4, 5]]  #: each group shares a column with the next
NESTED = [[0], [0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]  #: each group inside the next
RING = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 0, 1]]  #: every column in two groups
TREE = [[0, 1, 2, 3, 4, 5], [1, 2], [3, 4, 5], [4], [5]]  #: nested or apart, never crossing
TWICE = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2], [2, 3]]  #: one group named twice

BASIC: dict[str, AbstractTerm] = {
    "l1": L1(0.7),
    "l1-zero": L1(0.0),
    "ridge": Ridge(1.5),
    "free": Free(),
    "max-column-norm": MaxColumnNorm(0.8),
    "nonneg": NonNegative(),
    "box": Box(-0.5, 1.0),
    "box-positive": Box(0.25, 0.75),
    "box-code": Box(0.0, 2.0),
    "box-cone": Box(0.0, INF),
    "box-negative-cone": Box(-INF, 0.0),
    "box-whole-line": Box(-INF, INF),
    "box-point": Box(0.5, 0.5),
    "ball": UnitBall(),
    "simplex": Simplex(),
    "absent": Absent(),
    "quadratic-dense": Quadratic(_semidefinite(), 2.0),
    "quadratic-sparse": Quadratic(GRID, 0.5),
    "low-rank-quadratic": LowRankQuadratic(_orthonormal(2), np.array([3.0, 0.5]), 1.0, 0.5),
    "group-apart": groups(APART),
    "group-apart-zero-weight": groups(APART, [0.4, 0.0, 2.0]),
    "group-singletons": groups([[j] for j in range(WIDTH)], [0.7] * WIDTH),
    "group-one": groups([range(WIDTH)], [0.6]),
    "group-chain": groups(CHAIN),
    "group-nested": groups(NESTED, [0.5, 0.4, 0.3, 0.2]),
    "group-ring": groups(RING, [0.5, 1.0, 0.7]),
    "group-tree": groups(TREE, [0.3] * 5),
    "group-twice": groups(TWICE, [0.3, 0.4, 0.0]),
    "user": AsymmetricL1(0.3, 0.9),
}

#: Sums whose prox is a composition, by a theorem.
COMPOSED: dict[str, AbstractTerm] = {
    "nonneg+ball": NonNegative() + UnitBall(),
    "cone+ball": UnitBall() + Box(-INF, 0.0),
    "l1+ball": L1(0.3) + UnitBall(),
    "l1+nonneg": L1(0.3) + NonNegative(),
    "l1+box": L1(0.3) + Box(-0.5, 1.0),
    "l1+box-positive": Box(0.25, 0.75) + L1(0.3),
    "l1+nonneg+ball": UnitBall() + L1(0.3) + NonNegative(),
    "elastic-net": L1(0.3) + Ridge(0.5),
    "elastic-net+nonneg": Ridge(0.5) + L1(0.3) + NonNegative(),
    "elastic-net+nonneg+ball": L1(0.3) + NonNegative() + Ridge(0.5) + UnitBall(),
    "ridge+ridge": Ridge(0.5) + Ridge(1.0),
    "nonneg+ridge": NonNegative() + Ridge(0.5),
    "box+ridge": Box(-0.5, 1.0) + Ridge(0.5),
    "box+box": Box(-0.5, 1.0) + Box(0.25, 3.0),
    "ball+ridge": UnitBall() + Ridge(0.5),
    "simplex+ridge": Ridge(0.5) + Simplex(),
    "quadratic+ridge": Quadratic(GRID, 0.5) + Ridge(0.5),
    "group+nonneg": groups(APART) + NonNegative(),
    "group+cone": Box(-INF, 0.0) + groups(APART),
    "group+ball": groups(APART) + UnitBall(),
    "group+ridge": groups(APART) + Ridge(0.5),
    "group-one+ball": groups([range(WIDTH)], [0.6]) + UnitBall(),
    "group+group-one": groups([range(WIDTH)], [0.6]) + groups(APART, [0.2, 0.3, 0.4]),
    "sparse-group": L1(0.3) + groups(APART),
    "sparse-group+nonneg+ball": L1(0.3) + groups(APART) + NonNegative() + UnitBall(),
    "overlap+ball": groups(CHAIN, [0.2, 0.3, 0.4]) + UnitBall(),
    "overlap+ridge": groups(RING, [0.5, 1.0, 0.7]) + Ridge(0.5),
    "overlap+ridge+ball": groups(TREE, [0.3] * 5) + Ridge(0.5) + UnitBall(),
    "absent+l1+ball": Absent() + L1(0.3) + UnitBall(),
}

#: Sums whose prox is computed by splitting.
ITERATIVE: dict[str, AbstractTerm] = {
    "quadratic-sparse+simplex": Sum((Quadratic(GRID, 0.5), Simplex()), iterative=True),
    "quadratic-dense+simplex": Sum((Simplex(), Quadratic(_semidefinite(), 2.0)), iterative=True),
    "l1+simplex": Sum((L1(0.02), Simplex()), iterative=True),
    "box+ball": Sum((Box(-0.5, 1.0), UnitBall()), iterative=True),
    "box+simplex": Sum((Box(0.0, 0.3), Simplex()), iterative=True),
    "quadratic+l1": Sum((Quadratic(GRID, 0.5), L1(0.3)), iterative=True),
    "quadratic+nonneg+ball": Sum((Quadratic(GRID, 0.5), NonNegative(), UnitBall()), iterative=True),
    "l1+overlap": Sum((L1(0.2), groups(CHAIN, [0.2, 0.3, 0.4])), iterative=True),
}

SUMS = COMPOSED | ITERATIVE

#: Every term with the width of the rows on which it is tried.
TERMS: dict[str, tuple[AbstractTerm, int]] = {
    name: (term, WIDTH) for name, term in (BASIC | SUMS).items()
} | {
    "simplex-narrow": (Simplex(), 1),
    "simplex-wide": (Simplex(), 40),
    "ball-narrow": (UnitBall(), 1),
    "quadratic-chain": (Quadratic(chain_laplacian(9), 3.0), 9),
    "low-rank-quadratic-empty": (LowRankQuadratic(np.zeros((3, 0)), np.zeros(0), 2.0), 3),
}

Instance = tuple[Formulation, Array, Array]

N_SAMPLES, N_FEATURES, N_ATOMS = 30, 7, 4
PAIRS = [[0, 1], [2, 3]]
CROSSING = [[0, 1], [1, 2, 3], [3, 0]]


def _signed(rng: np.random.Generator, formulation: Formulation, scale: float = 1.0) -> Instance:
    """Rows near combinations of unit atoms of any sign."""
    D = rng.normal(size=(N_ATOMS, N_FEATURES))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    H = rng.normal(size=(N_SAMPLES, N_ATOMS)) * scale
    return formulation, H @ D + 0.1 * rng.normal(size=(N_SAMPLES, N_FEATURES)), D


def _positive(rng: np.random.Generator, formulation: Formulation) -> Instance:
    """Nonnegative rows near combinations of atoms in the simplex."""
    D = rng.dirichlet(np.ones(N_FEATURES), size=N_ATOMS)
    H = rng.gamma(0.4, size=(N_SAMPLES, N_ATOMS)) * 6
    return formulation, H @ D + 0.5 * rng.random((N_SAMPLES, N_FEATURES)), D


def _with_outliers(rng: np.random.Generator, instance: Instance, sign: bool = True) -> Instance:
    """One entry in ten far off."""
    formulation, X, D = instance
    size = rng.uniform(3, 8, size=X.shape) * (rng.choice([-1, 1], size=X.shape) if sign else 1)
    return formulation, X + np.where(rng.random(X.shape) < 0.1, size, 0), D


def _p4(rng: np.random.Generator) -> Instance:
    return _positive(rng, formulations.smooth_dictionary_learning(0.2, 0.3, chain_laplacian(N_FEATURES)))


def _p7(rng: np.random.Generator) -> Instance:
    basis = rng.normal(size=(5, N_FEATURES))
    penalty = formulations.basis_penalty(basis, 0.5, N_SAMPLES)
    model = formulations.low_rank_representation(0.3, 0.4, penalty)
    return _with_outliers(rng, _signed(rng, model))


def _p8(rng: np.random.Generator) -> Instance:
    model = formulations.robust_nmf(0.3, max_code=2.0, max_outlier=4.0)
    model, X, D = _positive(rng, model)
    atoms = D / np.linalg.norm(D, axis=1, keepdims=True)
    return _with_outliers(rng, (model, X, atoms), sign=False)


#: Kinds of random dictionaries, of any shape.
DICTIONARIES: dict[str, Any] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "simplex": lambda rng, shape: rng.dirichlet(np.full(shape[1], 0.3), size=shape[0]),
    "of-all-sizes": lambda rng, shape: rng.normal(size=shape) * np.geomspace(1, 1e-3, shape[0])[:, None],
    "heavy-tailed": lambda rng, shape: rng.standard_cauchy(shape),
}

#: Small random instances of every formulation: (formulation, X, D).
FORMULATIONS: dict[str, Callable[[np.random.Generator], Instance]] = {
    "P1": lambda rng: _signed(rng, formulations.dictionary_learning(0.2)),
    "P1-ridge": lambda rng: _signed(rng, formulations.dictionary_learning(0.2, ridge=0.1)),
    "P2": lambda rng: _signed(rng, formulations.group_dictionary_learning(PAIRS, weights=[0.3, 0.5])),
    "P2-overlap": lambda rng: _signed(
        rng, formulations.group_dictionary_learning(CROSSING, weights=[0.2, 0.3, 0.4])
    ),
    "P2-literal": lambda rng: _signed(
        rng, formulations.group_dictionary_learning(PAIRS, weights=[0.3, 0.5], bounded=False)
    ),
    "P3": lambda rng: _positive(rng, formulations.nonnegative(0.2)),
    "P4": _p4,
    "P5": lambda rng: _with_outliers(rng, _signed(rng, formulations.robust_pca(0.3, 0.4, N_SAMPLES))),
    "P6": lambda rng: _with_outliers(
        rng, _signed(rng, formulations.max_norm_decomposition(0.3, 0.4, N_SAMPLES), scale=0.7)
    ),
    "P7": _p7,
    "P8": _p8,
    "user": lambda rng: _with_outliers(
        rng,
        _signed(rng, Formulation(UnitBall(), AsymmetricL1(0.1, 0.3), AsymmetricL1(0.6, 0.4))),
    ),
}

every_formulation = pytest.mark.parametrize("name", FORMULATIONS)


def problem_of(name: str, **options: Any) -> tuple[Problem, Array]:
    """Return the problem of a formulation of the table, and the dictionary; options are of the source."""
    formulation, X, D = FORMULATIONS[name](generator(name))
    return Problem(formulation, LocalSource(X, **options)), D
