"""Formulations: a dictionary term, a code term and an outlier term make a problem.

For one row x the loss is ℓ(x, D) = min over h and r of ½‖x − hD − r‖² + φ(h) + ϕ(r), and the problem
is to minimise f(D) = mean of ℓ(xᵢ, D) + ψ(D). The eight formulations of the paper are compositions:

>>> robust_pca(alpha=1.0, outlier_alpha=0.1, n_samples=100)
Formulation(dictionary=Ridge(weight=0.01), code=Ridge(weight=1.0), outliers=L1(weight=0.1), \
reseeds=False)
>>> from vrmf.terms import Box, L1, UnitBall
>>> Formulation(dictionary=UnitBall(), code=L1(0.1) + Box(0.0, 5.0))
Formulation(dictionary=UnitBall(), code=Sum(terms=(L1(weight=0.1), Box(low=0.0, high=5.0)), \
iterative=False), outliers=Absent(), reseeds=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_squares
from vrmf.block import Block, as_block
from vrmf.code_matrix import AbstractCodeMatrix, code_matrix
from vrmf.coding import Atoms, Coder, Codes
from vrmf.coding.base import residual_and_outliers, residual_with_outliers
from vrmf.stats import Stats, WorstRows
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
    Trait,
    UnitBall,
)


@dataclass(frozen=True)
class Formulation:
    """Three terms: ψ and the set of the dictionary, φ and the set of codes, ϕ and the set of outliers.

    Parameters
    ----------
    dictionary : AbstractTerm
        Acts on D, shape (k, d), whose rows are atoms.
    code : AbstractRowTerm
        Acts on each row of H, shape (n, k).
    outliers : AbstractRowTerm
        Acts on each row of R, shape (n, d); ``Absent()`` for none.
    reseeds : bool
        Whether an atom that no code uses is replaced by a row of the data. Where the formulation
        reduces rank by letting atoms vanish, it is not.
    """

    dictionary: AbstractTerm
    code: AbstractRowTerm
    outliers: AbstractRowTerm = Absent()  # noqa: RUF009 - frozen, so safe to share
    reseeds: bool = True

    def __post_init__(self) -> None:
        for name, kind in (
            ("dictionary", AbstractTerm),
            ("code", AbstractRowTerm),
            ("outliers", AbstractRowTerm),
        ):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(
                    f"`{name}` is {getattr(self, name)!r}. Use a term that is a {kind.__name__}, "
                    "such as those in vrmf.terms."
                )

    def check_width(self, n_components: int, n_features: int) -> None:
        """Raise if a term was made for another number of atoms or features."""
        for name, width in (
            ("dictionary", n_features),
            ("code", n_components),
            ("outliers", n_features),
        ):
            term: AbstractTerm = getattr(self, name)
            if term.width not in (None, width):
                raise ValueError(
                    f"The {name} term {type(term).__name__} is made for {term.width} columns, but "
                    f"there are {width} (n_components={n_components}, {n_features} features)."
                )

    @property
    def has_outliers(self) -> bool:
        """Whether there is an outlier term."""
        return not isinstance(self.outliers, Absent)

    @property
    def rotates(self) -> bool:
        """Whether the factors are defined up to a rotation of the components only."""
        return Trait.ROTATABLE in self.dictionary.traits and Trait.RADIAL in self.code.traits

    def encode(self, X: Block | Array, atoms: Atoms, coder: Coder, start: Array | None = None) -> Codes:
        """Return the codes of the rows of ``X``."""
        return coder.encode(X, atoms, self.code, self.outliers, start)

    def residual(self, X: Block | Array, D: Array, H: Array) -> tuple[Array, Array | None]:
        """Return hD + r − x and r for each row, r being the best for the given codes, None if absent."""
        return self._residual(as_block(X), code_matrix(H).times(D))

    def _residual(self, rows: Block, E: Array) -> tuple[Array, Array | None]:
        """Turn E = HD into the residual, and return it with the outliers."""
        if not self.has_outliers:
            return rows.residual(E), None
        return residual_and_outliers(self.outliers, rows.dense, E)

    def slope(self, rows: Block, D: Array, codes: AbstractCodeMatrix) -> Array:
        """Return Σ hᵀ(hD + r − x) over the rows."""
        E = codes.times(D)
        if self.has_outliers:
            residual = residual_with_outliers(self.outliers, rows.dense, E)
        else:
            residual = rows.residual(E)
        return codes.transposed_times(residual)

    def losses(self, X: Block | Array, D: Array, H: Array) -> Array:
        """Return ½‖x − hD − r‖² + φ(h) + ϕ(r) for each row, in double precision."""
        residual, R = self.residual(X, D, H)
        outlier_losses = 0.0 if R is None else self.outliers.row_values(R)
        return 0.5 * row_squares(residual) + self.code.row_values(H) + outlier_losses

    def stats(self, X: Block | Array, atoms: Atoms, codes: Codes) -> Stats:
        """Return the sums over the rows of ``X``, for its codes at the given atoms."""
        H, matrix, rows = codes.H, code_matrix(codes.H), as_block(X)
        residual, R = self._residual(rows, matrix.times(atoms.D))
        gram, slope = matrix.gram, matrix.transposed_times(residual)
        squares, code_squares = row_squares(residual), row_squares(H)
        left = float(np.sum(squares))
        outlier_loss = 0.0 if R is None else float(np.sum(self.outliers.row_values(R)))
        return Stats(
            gram=gram,
            slope=slope,
            loss=0.5 * left + float(np.sum(self.code.row_values(H))) + outlier_loss,
            outlier_loss=outlier_loss,
            residual=left,
            energy=_explained(atoms, gram, slope) + left if R is None else float(np.sum(rows.squares)),
            count=len(rows),
            used=matrix.used,
            noise=float(np.sum(squares * code_squares)),
            sensitivity=_sensitivity(atoms, codes, squares, code_squares),
            code_error=float(np.max(codes.error, initial=0.0)),
            unfinished=int(np.sum(~codes.finished)),
            iterations=int(np.sum(codes.iterations)),
            worst=WorstRows.among(squares if self.reseeds else squares[:0], rows, R),
        )

    def code_curvature(self, atoms: Atoms) -> float:
        """Return a modulus of strong convexity of the code problem, assumption (A4) of the paper.

        The ridge on codes counts always, the dictionary's smallest curvature only without outliers,
        whose envelope is flat. Where both vanish (A4) fails, and a thousandth of the largest
        curvature stands in.
        """
        known = self.code.canonical
        ridge = 0.0 if known is None else known.ridge
        fit = 0.0 if self.has_outliers else atoms.smallest_curvature
        return max(ridge + fit, 1e-3 * atoms.squared_norm)


def _sensitivity(atoms: Atoms, codes: Codes, squares: Array, code_squares: Array) -> float:
    """Return how far relative errors of the codes may move the slope, in units of 1/code curvature."""
    if codes.scale is None:
        return 0.0
    return float(np.sum(codes.scale * (np.sqrt(squares) + np.sqrt(code_squares) * atoms.norm)))


def _explained(atoms: Atoms, gram: Array, slope: Array) -> float:
    """Return Σ‖x‖² − Σ‖x − hD‖² from the sums, without another look at the rows.

    With the residual e = hD − x it is Σ‖hD‖² − 2⟨hD, e⟩ = tr(gram · DDᵀ) − 2 tr(slope · Dᵀ).
    """
    return float(np.vdot(gram, atoms.gram)) - 2 * float(np.vdot(slope, atoms.D))


def _with_ridge(code: AbstractRowTerm, ridge: float) -> AbstractRowTerm:
    return code + Ridge(ridge) if ridge else code


def dictionary_learning(alpha: float, ridge: float = 0.0) -> Formulation:
    """(P1) Atoms in the unit ball, φ = alpha · ‖h‖₁; ``ridge`` adds (ridge/2)‖h‖²."""
    return Formulation(UnitBall(), _with_ridge(L1(alpha), ridge))


def group_dictionary_learning(
    groups: Sequence[Sequence[int]],
    weights: Sequence[float],
    ridge: float = 0.0,
    bounded: bool = True,
) -> Formulation:
    """(P2) φ = Σ_g weight_g · ‖h_g‖₂; atoms in the unit ball or, if not ``bounded``, free.

    As printed in the paper the dictionary is free and unpenalised, and then f has no minimiser:
    scaling D up and h down makes the penalty vanish.
    """
    code = _with_ridge(GroupL2(groups, weights), ridge)
    return Formulation(UnitBall() if bounded else Free(), code)


def nonnegative(alpha: float) -> Formulation:
    """(P3) Atoms in the simplex, codes h ≥ 0 with φ = (alpha/2)‖h‖²."""
    return Formulation(Simplex(), _with_ridge(NonNegative(), alpha))


def smooth_dictionary_learning(alpha: float, smoothness: float, laplacian: Any) -> Formulation:
    """(P4) Atoms in the simplex with ψ = (smoothness/2) tr(D L Dᵀ), codes as in (P3)."""
    atoms = Sum((Quadratic(laplacian, smoothness), Simplex()), iterative=True)
    return Formulation(atoms, _with_ridge(NonNegative(), alpha))


def robust_pca(alpha: float, outlier_alpha: float, n_samples: float) -> Formulation:
    """(P5) ψ = (alpha/2n)‖D‖², φ = (alpha/2)‖h‖², ϕ = outlier_alpha · ‖r‖₁."""
    return Formulation(Ridge(alpha / n_samples), Ridge(alpha), L1(outlier_alpha), reseeds=False)


def max_norm_decomposition(
    alpha: float, outlier_alpha: float, n_samples: float, ridge: float = 0.0
) -> Formulation:
    """(P6) ψ = (alpha/2n) · the largest squared column norm of D, ‖h‖ ≤ 1, ϕ = outlier_alpha · ‖r‖₁."""
    return Formulation(
        MaxColumnNorm(alpha / n_samples),
        _with_ridge(UnitBall(), ridge),
        L1(outlier_alpha),
        reseeds=False,
    )


def low_rank_representation(alpha: float, outlier_alpha: float, penalty: AbstractTerm) -> Formulation:
    """(P7) φ = (alpha/2)‖h‖², ϕ = outlier_alpha · ‖r‖₁, ψ from :func:`basis_penalty` or explicit maps."""
    return Formulation(penalty, Ridge(alpha), L1(outlier_alpha), reseeds=False)


def basis_penalty(basis: Array, dictionary_alpha: float, n_samples: float) -> LowRankQuadratic:
    """Return ψ of (P7), (1/2n²) tr(D Q Dᵀ) with Q = (I/λ₃ + YᵀY)⁻¹ for a basis Y of rows.

    Q is positive definite; its eigenvectors are the right singular vectors of Y.
    """
    singular, vectors = np.linalg.svd(np.asarray(basis, dtype=np.float64), full_matrices=False)[1:]
    kept = singular > 1e-12 * np.max(singular, initial=0.0)
    values = 1 / (1 / dictionary_alpha + singular[kept] ** 2)
    return LowRankQuadratic(vectors[kept].T, values, dictionary_alpha, 1 / n_samples**2)


def mapped_penalty(
    basis: Array, basis_map: Array, residual_map: Array, dictionary_alpha: float, n_samples: float
) -> Quadratic:
    """Return ψ of (P7) for explicit maps A and B: Q = A Yᵀ Y Aᵀ + λ₃ BᵀB."""
    mapped = np.asarray(basis, dtype=np.float64) @ np.asarray(basis_map, dtype=np.float64).T
    B = np.asarray(residual_map, dtype=np.float64)
    return Quadratic(mapped.T @ mapped + dictionary_alpha * B.T @ B, 1 / n_samples**2)


def robust_nmf(
    outlier_alpha: float, max_code: float, max_outlier: float, ridge: float = 0.0
) -> Formulation:
    """(P8) Atoms d ≥ 0 in the unit ball, 0 ≤ h ≤ max_code, |r| ≤ max_outlier, ϕ = outlier_alpha · ‖r‖₁."""
    return Formulation(
        NonNegative() + UnitBall(),
        _with_ridge(Box(0.0, max_code), ridge),
        L1(outlier_alpha) + Box(-max_outlier, max_outlier),
    )
