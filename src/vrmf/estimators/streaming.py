"""Learning from streams, one batch of rows after another. A batch that is refused changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from vrmf.arrays import Array
from vrmf.estimators.data import batches_with_rows, check_width, is_stream
from vrmf.estimators.modelling import AbstractModel, Weights
from vrmf.estimators.seeds import generator_state, restore_generator
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running.history import History
from vrmf.running.stage import Stage
from vrmf.running.stream import SEEN, Stream, without_data
from vrmf.solvers import AbstractSolver, AbstractStreamSolver
from vrmf.solvers.base import State
from vrmf.solvers.streams import epoch_of_stream, solver_for_streams
from vrmf.sources import AbstractSource, as_source, single_threaded_blas

#: When the scale of the data has changed by more than this factor, atoms of free size are rescaled, and an
#: automatic step of SGD is chosen anew.
SAME_SCALE = 1.5


class Streaming(AbstractModel):
    """``partial_fit``, and ``fit`` of an iterator of batches."""

    #: The power p for which the atoms of data c·X, with automatic weights, are c^p times those of X.
    _size_power: ClassVar[float] = 0.0

    n_features_in_: int
    n_samples_seen_: int
    n_steps_: int
    formulation_: Formulation
    solver_: AbstractSolver
    stream_: Stream | None = None  #: None before the first fit or batch

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of rows, of any size, or from each batch of an iterator.

        A stream is no finite sum, so variance reduction and batch steps have no meaning here. With
        those solvers SMM with forgetting learns the batch, and is ``solver_`` afterwards.
        Automatic weights follow all rows seen: they are derived anew when the scale of the data has
        changed by 1%, or the number of rows by a quarter; those of models with outliers follow the noise of
        each batch. n inside ψ and inside weights is the number of rows that the solver remembers. The
        number of atoms is fixed by the first batch; models with outliers and automatic weights are learned
        anew from the rows that they remember while these are few, up to the 128th row. A batch that is
        refused leaves the model as it was. Batches of an iterator may have no rows, and are skipped then.
        ``objective_``, ``stationarity_`` and ``reconstruction_error_`` are NaN afterwards, since no pass
        over the whole stream is made.
        ``checkpoint`` is neither read nor written; ``vrmf.save`` stores a stream.
        """
        if is_stream(X):
            return self._learn_from_all(X, afresh=False)
        return self._learn(X, afresh=False)

    def _fit_stream(self, batches: Iterable[Any]) -> Self:
        return self._learn_from_all(batches, afresh=not self.warm_start)

    def _learn_from_all(self, batches: Iterable[Any], afresh: bool) -> Self:
        """Learn from batches, and skip those without rows; ``afresh`` forgets what was learned before."""
        self._check_parameters()

        def check(width: int) -> None:
            if hasattr(self, "n_features_in_") and not afresh:
                check_width(self, width)

        for batch in batches_with_rows(batches, check):
            self._learn(batch, afresh)
            afresh = False
        return self

    def _learn(self, X: Any, afresh: bool) -> Self:
        with _unchanged_if_refused(self):
            if afresh:
                for name in ("stream_", "components_", "mean_"):
                    vars(self).pop(name, None)
            self._check_parameters()
            self._check_stream()
            self._absorb(X)
        return self

    def _check_stream(self) -> None:
        """Raise if this model cannot learn from a stream, or no longer with its parameters."""
        if self.center or hasattr(self, "mean_"):
            raise ValueError(
                f"`center` {'is' if self.center else 'was'} True, but the mean of a stream is not known "
                "in advance. Use center=False and subtract it yourself."
            )
        stream = self.stream_
        if stream is not None and not self._accepts_components(len(stream.state.D)):
            raise ValueError(
                f"`n_components` is {self.n_components}, but this model has {len(stream.state.D)} "
                "atoms. Use a new model to change it."
            )

    def _absorb(self, X: Any) -> None:
        """Take one step with a batch."""
        solver, source = self._stream_solver(), self._batch(X)
        stream = self.stream_
        before, steps = (0, 0) if stream is None else (self.n_samples_seen_, self.n_steps_)
        self.n_samples_seen_ = before + source.n_samples
        if stream is None:
            self.history_ = History().as_columns()
            stream = self._first_stream(solver, source)
        elif stream.seen is not None and self._begins_anew(stream, before, self.n_samples_seen_):
            rows = stream.seen.after(source, self._remembered_rows(source.n_features)).rows
            source = as_source(rows, n_jobs=self.n_jobs)
            stream = self._first_stream(solver, source)
        else:
            stream = self._following(stream, solver, source)
        state = solver.at_batches_of(stream.state, source.n_samples)
        remembered = solver.remembered(state, source.n_samples)
        self.formulation_ = self._formulation(remembered, without_data(stream.weights))
        state = solver.rescaled(state, self._size_factors(state, self.formulation_))
        with single_threaded_blas():
            problem = Problem(self.formulation_, source)
            state = solver.absorb(problem, state, epoch_rows=epoch_of_stream(len(state.D)))
        self._set_weights(remembered, stream.weights)
        self._set_learned(solver, Stream(state, stream.weights), steps + 1)

    def _batch(self, X: Any) -> AbstractSource:
        """Return the rows of a batch, in the precision of those before."""
        if self.stream_ is not None:
            return self._source(X, reset=False, dtype=self.stream_.state.D.dtype)
        return self._source(X, reset=not hasattr(self, "components_"))

    def _set_learned(self, solver: AbstractStreamSolver, stream: Stream, steps: int) -> None:
        """Set the fitted attributes after a batch."""
        self.stream_ = stream
        self.solver_ = solver
        self.components_ = stream.state.D
        self.n_steps_ = steps
        self.n_iter_ = steps
        self.n_passes_ = 1.0
        self.objective_ = self.stationarity_ = self.relative_stationarity_ = math.nan
        self.reconstruction_error_ = math.nan
        self.stop_reason_ = f"stream: {self.n_samples_seen_} rows seen"

    def _stream_solver(self) -> AbstractStreamSolver:
        return solver_for_streams(self._solver())

    def _first_stream(self, solver: AbstractStreamSolver, source: AbstractSource) -> Stream:
        """Return the state and the weights with which a stream begins, from its first rows."""
        stage = self._first_stage(source)
        return Stream(solver.start(stage.D, stage.seed), stage.weights)

    def _following(self, stream: Stream, solver: AbstractStreamSolver, source: AbstractSource) -> Stream:
        """Return the state and the weights with which to learn from the rows of a source."""
        state, weights = solver.going_on_from(stream.state), stream.weights
        if stream.seen is None:  # the model was saved before weights could follow
            return Stream(state, weights)
        seen = stream.seen.after(source, self._remembered_rows(source.n_features))
        if not seen.has_changed:
            return Stream(state, self._after_batch(weights, weights, state, source) | {SEEN: seen})
        derived = self._resolved_weights(as_source(seen.rows), seen.summary, state.seed)
        follows = derived.get("outlier_alpha") != weights.get("outlier_alpha")  # it was not given
        if follows and not _is_near_one(seen.growth):
            state = solver.rescaled(state, seen.growth**self._size_power)
        growth = seen.sums.scales[0] / (seen.used.scales[0] or 1.0)
        if not _is_near_one(growth):
            state = solver.at_new_scale(state)
        weights = self._after_batch(weights, derived, state, source)
        return Stream(state, weights | {SEEN: seen.settled()})

    def _begins_anew(self, stream: Stream, before: int, now: int) -> bool:
        """Whether a stream of ``now`` rows is learned anew, since there were few before this batch."""
        return False

    def _first_stage(self, source: AbstractSource) -> Stage:
        """Return the problem and the dictionary with which a stream begins, from its first batch."""
        return self._start(source, whole=False)

    def _size_factors(self, state: State, formulation: Formulation) -> Array | float:
        """Return by what factors atoms of free size grow where weights, or the number of rows, change."""
        return 1.0

    def _accepts_components(self, count: int) -> bool:
        """Whether a stream with that many atoms can go on with these parameters."""
        return count == self.n_components

    def _after_batch(
        self, weights: Weights, derived: Weights, state: State, source: AbstractSource
    ) -> Weights:
        """Return the weights with which to learn from a batch, after those of the last one.

        They are derived from all rows seen; those of models with outliers follow the noise as well.
        """
        return derived


def _is_near_one(ratio: float) -> bool:
    return 1 / SAME_SCALE <= ratio <= SAME_SCALE


@contextmanager
def _unchanged_if_refused(model: Any) -> Iterator[None]:
    """Restore all attributes of a model, and its random generator, if there is an exception.

    Attributes are replaced and never changed in place, so their values need no copies.
    """
    before, generator = dict(vars(model)), model.random_state
    drawn = generator_state(generator)
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        restore_generator(generator, drawn)
        raise
