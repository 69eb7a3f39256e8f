"""Codes by a formula: least squares with a ridge or without any penalty."""

from __future__ import annotations

import numpy as np

from vrmf.arrays import row_squares
from vrmf.coding.base import AbstractMethod, Codes, Task


class ClosedForm(AbstractMethod):
    """Codes that minimise ½‖x − hD‖² + (ridge/2)‖h‖²: H = X Dᵀ (D Dᵀ + ridge · I)⁻¹.

    Directions in which the problem is flat to rounding get the coefficient 0, the solution of least norm.

    >>> from vrmf.block import Block
    >>> from vrmf.coding.base import Atoms
    >>> from vrmf.terms import Absent, Ridge
    >>> task = Task(Block(np.array([[2.0, 4.0]])), Atoms(np.eye(2)), Ridge(1.0), Absent(), 1e-6, max_iter=1)
    >>> ClosedForm().encode(task).H
    array([[1., 2.]])
    """

    def applies_to(self, task: Task) -> bool:
        form = task.code.canonical
        return form is not None and form.is_only_ridge and not task.has_outliers

    def encode(self, task: Task) -> Codes:
        rows, atoms, form = task.rows, task.atoms, task.code.canonical
        assert form is not None
        values, vectors = atoms.spectrum
        curvature = np.maximum(values, 0) + form.ridge
        flat = curvature <= 4 * len(values) * np.finfo(values.dtype).eps * curvature[-1]
        inverse = np.where(flat, 0, 1 / np.where(flat, 1, curvature)).astype(rows.dtype)
        C = rows.times_atoms(atoms.D)
        H = ((C @ vectors) * inverse) @ vectors.T
        gradient = H @ atoms.gram + form.ridge * H - C
        error = np.sqrt(row_squares(gradient)) / task.scale
        n = len(rows)
        return Codes(H, error, np.ones(n, dtype=np.int64), np.ones(n, dtype=bool), task.scale)
