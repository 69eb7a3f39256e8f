"""Codes by a formula: least squares with a ridge or without any penalty."""

from __future__ import annotations

import numpy as np

from vrmf.coding.base import Atoms, Codes, error_scale
from vrmf.rows import row_squares
from vrmf.terms.base import Array


def ridge_codes(
    X: Array,
    atoms: Atoms,
    weight: float,
    *,
    tol: float = 0.0,
    max_iter: int = 1,
    start: Array | None = None,
) -> Codes:
    """Minimise ½‖x − hD‖² + (weight/2)‖h‖² for each row, H = X Dᵀ (D Dᵀ + weight · I)⁻¹.

    Directions in which the problem is flat to rounding get the coefficient 0, the solution of
    least norm.

    >>> ridge_codes(np.array([[2.0, 4.0]]), Atoms(np.eye(2)), weight=1.0).H
    array([[1., 2.]])
    """
    values, vectors = atoms.spectrum
    curvature = np.maximum(values, 0) + weight
    flat = curvature <= 4 * len(values) * np.finfo(values.dtype).eps * curvature[-1]
    inverse = np.where(flat, 0, 1 / np.where(flat, 1, curvature)).astype(X.dtype)
    C = X @ atoms.D.T
    H = ((C @ vectors) * inverse) @ vectors.T
    gradient = H @ atoms.gram + weight * H - C
    scale = error_scale(atoms, X)
    error = np.sqrt(row_squares(gradient)) / scale
    return Codes(H, error, np.ones(len(X), dtype=np.int64), np.ones(len(X), dtype=bool), scale)
