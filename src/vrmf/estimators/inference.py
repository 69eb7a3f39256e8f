"""What a fitted model does with new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from vrmf.coding import EXACT, Atoms
from vrmf.estimators.data import is_stream, rows_for
from vrmf.formulations import Formulation
from vrmf.problem import Problem, feasible
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource
from vrmf.sources.lazy import lazy_blocks, lazy_part
from vrmf.terms.base import Array


@dataclass(frozen=True, eq=False)
class _OfRows:
    """A function of rows and a fitted model, which gives an array with as many rows."""

    formulation: Formulation
    atoms: Atoms
    mean: Array | None

    def codes(self, X: Array) -> Array:
        return self.formulation.encode(X, self.atoms, EXACT).H

    def parts(self, X: Array) -> Array:
        """Return the low-rank part and the outliers, side by side."""
        H = self.codes(X)
        R = self.formulation.residual(X, self.atoms.D, H)[1]
        L = H @ self.atoms.D
        return np.hstack([L if self.mean is None else L + self.mean, np.zeros_like(X) if R is None else R])

    def scores(self, X: Array) -> Array:
        return -self.formulation.losses(X, self.atoms.D, self.codes(X))[:, None]

    def reconstructions(self, H: Array) -> Array:
        L = H @ self.atoms.D.astype(H.dtype, copy=False)
        return L if self.mean is None else L + self.mean.astype(H.dtype, copy=False)


class Inference(TransformerMixin):
    """Codes, decompositions and scores, for an estimator that has been fitted."""

    components_: Array
    formulation_: Formulation
    solver_: AbstractSolver
    mean_: Array
    n_features_in_: int
    n_jobs: int | None

    #: Whether the data must not have negative entries.
    _nonnegative: ClassVar[bool] = False

    def transform(self, X: Any) -> Any:
        """Return the codes of the rows of ``X``, shape (n, k): the same problem that ``fit`` solved.

        For a dask array they are a lazy one, for an iterator of batches an iterator.
        """
        check_is_fitted(self)
        if is_stream(X):
            return map(self.transform, X)
        return self._of_rows(X, "codes", [len(self.components_)])[0]

    def inverse_transform(self, X: Any) -> Any:
        """Return the reconstruction from codes, H D, plus the mean if centred."""
        check_is_fitted(self)
        lazy = lazy_part(X)
        H = check_array(X, dtype=[np.float64, np.float32], input_name="codes") if lazy is None else lazy
        if H.shape[1] != len(self.components_):
            raise ValueError(
                f"The codes have {H.shape[1]} columns. Use {len(self.components_)}, one for each component."
            )
        model = _OfRows(self.formulation_, Atoms(self.components_), self._mean(self.components_.dtype))
        return model.reconstructions(H)

    def decompose(self, X: Any) -> Any:
        """Return the low-rank part L = H D (plus the mean) and the outliers S of ``X``.

        S is zero where the formulation has no outliers. For a dask array both are lazy, for an
        iterator of batches there is an iterator of pairs.
        """
        check_is_fitted(self)
        if is_stream(X):
            return map(self.decompose, X)
        return self._of_rows(X, "parts", [self.n_features_in_, self.n_features_in_])

    def objective(self, X: Any) -> float:
        """Return f(D) on the rows of ``X``: the mean loss plus the dictionary's penalty."""
        check_is_fitted(self)
        loss, count, D = 0.0, 0, self.components_
        for batch in X if is_stream(X) else [X]:
            source = self._new_rows(batch)
            D = self._atoms(source.dtype).D
            stats = Problem(self.formulation_, source).stats(D, EXACT)
            loss, count = loss + stats.loss, count + stats.count
        if count == 0:
            raise ValueError("The stream has no batches. Use one with rows.")
        return loss / count + self.formulation_.dictionary.value(D)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the objective on ``X``: larger is better."""
        return -self.objective(X)

    def score_samples(self, X: Any) -> Any:
        """Return minus the loss of each row; lazy for a dask array."""
        check_is_fitted(self)
        if is_stream(X):
            return map(self.score_samples, X)
        return self._of_rows(X, "scores", [1])[0][:, 0]

    def _of_rows(self, X: Any, name: str, widths: list[int]) -> Any:
        """Return the arrays that a function of rows gives, side by side, for all rows."""
        lazy, source = lazy_part(X), self._new_rows(X)
        model = _OfRows(self.formulation_, self._atoms(source.dtype), source.mean)
        function, dtype = getattr(model, name), np.float64 if name == "scores" else source.dtype
        if lazy is None:
            return _filled(source.map(function), source.n_samples, widths, dtype)
        both = lazy_blocks(lazy, function, source.reading, sum(widths), dtype)
        return tuple(both[:, i:j] for i, j in pairwise(np.cumsum([0, *widths])))

    def code_blocks(self, X: Any) -> Iterator[Array]:
        """Yield the codes of the rows of ``X`` block by block, in order, so that none need be kept."""
        check_is_fitted(self)
        source = self._new_rows(X)
        model = _OfRows(self.formulation_, self._atoms(source.dtype), source.mean)
        return source.map(model.codes)

    def _new_rows(self, X: Any) -> AbstractSource:
        source = rows_for(self, X, reset=False, nonnegative=self._nonnegative, n_jobs=self.n_jobs)
        return source.read_as(mean=self._mean(source.dtype))

    def _mean(self, dtype: Any) -> Array | None:
        """Return the mean that the fit subtracted, if it did, whatever `center` says now."""
        mean = getattr(self, "mean_", None)
        return None if mean is None else mean.astype(dtype, copy=False)

    def _atoms(self, dtype: Any) -> Atoms:
        # What is feasible to single precision may need a last touch in double.
        return Atoms(feasible(self.formulation_, self.components_.astype(dtype, copy=False)))


def _filled(blocks: Iterator[Array], n_samples: int, widths: list[int], dtype: Any) -> tuple[Array, ...]:
    """Return one array for each width, filled from blocks of rows that hold all of them side by side."""
    filled = tuple(np.empty((n_samples, width), dtype=dtype) for width in widths)
    row, columns = 0, list(pairwise(np.cumsum([0, *widths])))
    for block in blocks:
        for array, (i, j) in zip(filled, columns, strict=True):
            array[row : row + len(block)] = block[:, i:j]
        row += len(block)
    return filled
