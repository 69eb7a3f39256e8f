"""What a fitted model does with new rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.problem import Problem, feasible
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource, as_source
from vrmf.terms.base import Array

#: How exactly codes are computed outside of the solvers: for ``transform``, ``objective`` and the like.
EXACT = Coder(tol=1e-8)


class Inference(TransformerMixin):
    """Codes, decompositions and scores, for an estimator that has been fitted."""

    components_: Array
    formulation_: Formulation
    solver_: AbstractSolver
    mean_: Array
    n_jobs: int | None

    @abstractmethod
    def _checked_sign(self, X: Array) -> Array:
        """Return the rows, or raise if they must not be negative and are."""

    def transform(self, X: Any) -> Array:
        """Return the codes of the rows of ``X``, shape (n, k): the same problem that ``fit`` solved."""
        source = self._new_rows(X)
        formulation, atoms = self.formulation_, self._atoms(source.dtype)
        blocks = source.map(lambda X, where: formulation.encode(X, atoms, EXACT).H)
        return np.concatenate(list(blocks))

    def inverse_transform(self, X: Any) -> Array:
        """Return the reconstruction from codes, H D, plus the mean if centred."""
        check_is_fitted(self)
        H = check_array(X, dtype=[np.float64, np.float32], input_name="codes")
        if H.shape[1] != len(self.components_):
            raise ValueError(
                f"The codes have {H.shape[1]} columns. Use {len(self.components_)}, one for each component."
            )
        low_rank = H @ self.components_.astype(H.dtype, copy=False)
        mean = self._mean(H.dtype)
        return low_rank if mean is None else low_rank + mean

    def decompose(self, X: Any) -> tuple[Array, Array]:
        """Return the low-rank part L = H D (plus the mean) and the outliers S of ``X``.

        S is zero where the formulation has no outliers.
        """
        source = self._new_rows(X)
        formulation, atoms = self.formulation_, self._atoms(source.dtype)

        def parts(X: Array, where: Any) -> tuple[Array, Array]:
            H = formulation.encode(X, atoms, EXACT).H
            R = formulation.residual(X, atoms.D, H)[1]
            return H @ atoms.D, np.zeros_like(X) if R is None else R

        low_rank, outliers = (np.concatenate(blocks) for blocks in zip(*source.map(parts), strict=True))
        mean = self._mean(source.dtype)
        return low_rank if mean is None else low_rank + mean, outliers

    def objective(self, X: Any) -> float:
        """Return f(D) on the rows of ``X``: the mean loss plus the dictionary's penalty."""
        source = self._new_rows(X)
        problem = Problem(self.formulation_, source)
        D = self._atoms(problem.source.dtype).D
        return problem.stats(D, EXACT).mean_loss + self.formulation_.dictionary.value(D)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the objective on ``X``: larger is better."""
        return -self.objective(X)

    def score_samples(self, X: Any) -> Array:
        """Return minus the loss of each row."""
        source = self._new_rows(X)
        formulation, atoms = self.formulation_, self._atoms(source.dtype)

        def losses(X: Array, where: Any) -> Array:
            return formulation.losses(X, atoms.D, formulation.encode(X, atoms, EXACT).H)

        return -np.concatenate(list(source.map(losses)))

    def _new_rows(self, X: Any) -> AbstractSource:
        check_is_fitted(self)
        X = self._checked_sign(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))
        return as_source(X, self.n_jobs, self._mean(X.dtype))

    def _mean(self, dtype: Any) -> Array | None:
        """Return the mean that the fit subtracted, if it did, whatever `center` says now."""
        mean = getattr(self, "mean_", None)
        return None if mean is None else mean.astype(dtype, copy=False)

    def _atoms(self, dtype: Any) -> Atoms:
        # What is feasible to single precision may need a last touch in double.
        return Atoms(feasible(self.formulation_, self.components_.astype(dtype, copy=False)))
