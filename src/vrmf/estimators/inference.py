"""``transform``, ``decompose``, ``score`` and the other methods of a fitted model for new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.checks import one_of
from vrmf.coding import EXACT, Atoms
from vrmf.dictionaries import feasible
from vrmf.estimators.data import batches_with_rows, check_width, is_stream, rows_for, shape_of
from vrmf.estimators.quality import CodeQuality, with_warning
from vrmf.estimators.row_functions import OfChunk, Reconstruction, RowFunctions
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource, RowCheck
from vrmf.sources.base import Reading, added_up, check_sizes
from vrmf.sources.lazy import lazy_blocks, lazy_part
from vrmf.sources.tables import float_type

#: A function of a fitted model and a block of rows: an array of as many rows, and how good codes are.
RowFunction = Callable[[RowFunctions, Block], tuple[Array, CodeQuality]]

#: The parts of a decomposition by name.
PARTS: dict[str, RowFunction] = {"low_rank": RowFunctions.low_rank, "outliers": RowFunctions.outliers}


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

        For a dask array they are a lazy one, for an iterator of batches an iterator. Here and in all
        methods that need codes, a ConvergenceWarning says how many are unfinished and how far off: for
        all rows together; for each batch of an iterator; and for each chunk of a dask array when it is
        computed, where it is computed (on a cluster, in the log of the worker).
        """
        check_is_fitted(self)
        if is_stream(X):
            self._check_output()
            return self._each(self.transform, X)
        return self._of_rows(X, RowFunctions.codes, [len(self.components_)])[0]

    def inverse_transform(self, X: Any) -> Any:
        """Return the reconstruction from codes, H D, plus the mean if centred.

        For a dask array it is a lazy one, for an iterator of batches an iterator.
        """
        check_is_fitted(self)
        if is_stream(X):
            return map(self.inverse_transform, X)
        lazy = lazy_part(X)
        H = check_array(X, dtype=[np.float64, np.float32], input_name="codes") if lazy is None else lazy
        if H.shape[1] != len(self.components_):
            raise ValueError(
                f"The codes have {H.shape[1]} columns. Use {len(self.components_)}, one for each component."
            )
        model = self._row_functions(Atoms(self.components_), self._mean(self.components_.dtype))
        if lazy is None:
            check_sizes(H, float(np.max(np.abs(H))), H.dtype, what="codes")
            return model.reconstructions(H)
        reading = Reading(float_type(H.dtype), check=RowCheck(type(self).__name__))
        return lazy_blocks(lazy, Reconstruction(model), reading, self.n_features_in_, reading.dtype)

    def decompose(self, X: Any) -> Any:
        """Return the low-rank part L = H D (plus the mean) and the outliers S of ``X``.

        S is zero where the formulation has no outliers. For a dask array both are lazy, for an
        iterator of batches there is an iterator of pairs.
        """
        check_is_fitted(self)
        if is_stream(X):
            return self._each(self.decompose, X)
        return self._of_rows(X, RowFunctions.parts, [self.n_features_in_, self.n_features_in_])

    def objective(self, X: Any) -> float:
        """Return f(D) on the rows of ``X``: the mean loss plus the dictionary's penalty."""
        check_is_fitted(self)
        loss, quality, D = 0.0, CodeQuality(), self.components_
        for source in self._sources(X):
            D = self._atoms(source.dtype).D
            stats = Problem(self.formulation_, source).stats(D, EXACT)
            loss, quality = loss + stats.loss, quality + CodeQuality.of_stats(stats)
        quality.warn(EXACT, D.dtype)
        return loss / quality.count + self.formulation_.dictionary.value(D)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the objective on ``X``: larger is better.

        It compares dictionaries of one size under one formulation. Do not choose weights or
        ``n_components`` by it, as a grid search would: penalties are part of the objective, so it
        always favours the smallest weights and the largest number of components. Choose those by the
        error on held-out entries or by what you need the codes for.
        """
        return -self.objective(X)

    def explained_variance_ratio(self, X: Any) -> float:
        """Return 1 − Σ‖x − hD − r‖² / Σ‖x − m‖² over the rows x of ``X``, m being their mean.

        The best possible value is 1; 0 is that of a model that always says the mean of ``X``, and it
        may be negative. What outliers r take counts as explained. It is r² of scikit-learn's
        ``r2_score(X, L + S, multioutput="variance_weighted")`` for (L, S) = ``decompose(X)``. For data
        without any variance it is 1 if they are reconstructed to rounding, else 0. It takes one pass,
        and an iterator of batches counts as all of its rows together.
        """
        check_is_fitted(self)
        parts = []
        for source in self._sources(X):
            model = self._row_functions(self._atoms(source.dtype), source.mean)
            parts.append(source.reduce(model.explained))
        total, dtype = added_up(parts), source.dtype
        total.quality.warn(EXACT, dtype)
        return total.ratio(dtype)

    def score_samples(self, X: Any) -> Any:
        """Return minus the loss of each row; lazy for a dask array."""
        check_is_fitted(self)
        if is_stream(X):
            return self._each(self.score_samples, X)
        return self._of_rows(X, RowFunctions.scores, [1], np.float64)[0][:, 0]

    def code_blocks(self, X: Any) -> Iterator[Array]:
        """Yield the codes of the rows of ``X`` block by block, in order, so that none need be stored."""
        return self._blocks(X, RowFunctions.codes)

    def part_blocks(self, X: Any, part: str) -> Iterator[Array]:
        """Yield one of what :meth:`decompose` returns, "low_rank" or "outliers", block by block."""
        return self._blocks(X, PARTS[one_of("part", part, tuple(PARTS))])

    def _blocks(self, X: Any, function: RowFunction) -> Iterator[Array]:
        """Yield what a function of rows gives, block by block."""
        check_is_fitted(self)
        source = self._new_rows(X)
        model = self._row_functions(self._atoms(source.dtype), source.mean)
        return with_warning(source.map(partial(function, model)), EXACT, source.dtype)

    def _codes_and_parts(self, source: AbstractSource, rows: Array) -> tuple[list[Array], CodeQuality]:
        """Return the codes, the low-rank part and the outliers of some rows, and how good the codes are."""
        model = self._row_functions(self._atoms(source.dtype), source.mean)
        blocks, qualities = zip(*source.map(model.codes_and_parts, rows), strict=True)
        k, d = self.components_.shape
        return np.split(np.concatenate(blocks), [k, k + d], axis=1), added_up(qualities)

    def _check_output(self) -> None:
        """Raise if ``set_output`` asks for frames, which scikit-learn cannot make of an iterator."""
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (own or get_config()["transform_output"]) != "default":
            raise ValueError(
                'An iterator of batches gives arrays. Use set_output(transform="default"), or transform '
                "each batch by itself."
            )

    def _of_rows(self, X: Any, function: RowFunction, widths: list[int], dtype: Any = None) -> Any:
        """Return the arrays that a function of rows gives, side by side, for all rows."""
        lazy, source = lazy_part(X), self._new_rows(X)
        model = self._row_functions(self._atoms(source.dtype), source.mean)
        of_block, dtype = partial(function, model), source.dtype if dtype is None else dtype
        if lazy is None:
            blocks = with_warning(source.map(of_block), EXACT, source.dtype)
            return _filled(blocks, source.n_samples, widths, dtype)
        chunk = OfChunk(of_block, EXACT, source.dtype)
        both = lazy_blocks(lazy, chunk, source.reading, sum(widths), dtype)
        return tuple(both[:, i:j] for i, j in pairwise(np.cumsum([0, *widths])))

    def _row_functions(self, atoms: Atoms, mean: Array | None) -> RowFunctions:
        return RowFunctions(self.formulation_, atoms, mean, EXACT)

    def _each(self, method: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
        """Yield what a method returns for each batch; for a batch without rows, arrays without rows."""
        for batch in batches:
            shape = shape_of(batch)
            if shape is None or shape[0]:
                yield method(batch)
                continue
            check_width(self, shape[1])
            one = method(np.zeros((1, shape[1]), dtype=self.components_.dtype))
            yield tuple(part[:0] for part in one) if isinstance(one, tuple) else one[:0]

    def _sources(self, X: Any) -> Iterator[AbstractSource]:
        """Yield the rows of X, or of each batch of an iterator that has any."""
        if not is_stream(X):
            yield self._new_rows(X)
            return
        for batch in batches_with_rows(X, lambda width: check_width(self, width)):
            yield self._new_rows(batch)

    def _new_rows(self, X: Any) -> AbstractSource:
        source = rows_for(self, X, reset=False, nonnegative=self._nonnegative, n_jobs=self.n_jobs)
        return source.read_as(mean=self._mean(source.dtype))

    def _mean(self, dtype: Any) -> Array | None:
        """Return the mean that the fit subtracted, if it did, whatever `center` says now."""
        mean = getattr(self, "mean_", None)
        return None if mean is None else mean.astype(dtype, copy=False)

    def _atoms(self, dtype: Any) -> Atoms:
        # Feasible in single precision may be slightly infeasible in double.
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
