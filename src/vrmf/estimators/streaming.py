"""Learning from streams: one batch of rows after another, each of which counts whole or not at all."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from vrmf.arrays import Array
from vrmf.estimators.data import batches_with_rows, check_width, is_stream
from vrmf.estimators.seeds import generator_state, restore_generator
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running.history import History
from vrmf.running.stage import Stage
from vrmf.seen import DataSeen, kept_rows
from vrmf.solvers import SGD, SMM, AbstractSolver, AbstractStreamSolver
from vrmf.solvers.base import State
from vrmf.solvers.smm import SMMState
from vrmf.sources import AbstractSource, as_source, single_threaded_blas
from vrmf.stats import Stats
from vrmf.weights import DataSummary

#: Values of all weights of a formulation, by name.
Weights = dict[str, Any]

#: The key under which weights carry what they were derived from.
SEEN = "seen"

#: Rows that count as an epoch of a stream, for each component.
STREAM_ROWS = 50

#: How fast SMM forgets, where it stands in for a solver that needs a finite sum.
STREAM_FORGETTING = 5.0

#: When the scale of the data has changed by more than this factor, atoms of free size are rescaled, and an
#: automatic step of SGD is chosen anew.
SAME_SCALE = 1.5


class Streaming:
    """``partial_fit``, and ``fit`` of an iterator of batches."""

    #: The power p for which the atoms of data c·X, with automatic weights, are c^p times those of X.
    _size_power: ClassVar[float] = 0.0

    n_components: int
    center: bool
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    n_features_in_: int
    n_samples_seen_: int
    n_steps_: int
    solver_: AbstractSolver
    _stream: State
    _stream_weights: Weights

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _source(self, X: Any, reset: bool, dtype: Any = None) -> AbstractSource: ...

    @abstractmethod
    def _solver(self) -> AbstractSolver: ...

    @abstractmethod
    def _start(
        self, source: AbstractSource, whole: bool = True, n_components: int | None = None
    ) -> Stage: ...

    @abstractmethod
    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights: ...

    @abstractmethod
    def _formulation(self, n_samples: float, weights: Weights) -> Formulation: ...

    @abstractmethod
    def _set_weights(self, n_samples: float, weights: Weights) -> None: ...

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of rows, of any size, or from each batch of an iterator.

        A stream is no finite sum, so variance reduction and batch steps have no meaning here: with
        those solvers the batch is taken by SMM that forgets a poor start, and ``solver_`` says so.
        Automatic weights follow all rows seen: they are derived anew when the scale of the data has
        changed by 1%, or the number of rows by a quarter; those of models with outliers follow the noise of
        each batch. n inside ψ and inside weights is the number of rows that the solver remembers. The
        number of atoms is fixed by the first batch; models with outliers and automatic weights are learned
        anew from the rows that they keep while these are few, up to the 128th row. A batch that is refused
        leaves the model as it was. Batches of an iterator may have no rows, and are skipped then.
        ``objective_``, ``stationarity_`` and ``reconstruction_error_`` are NaN afterwards, since no pass
        over the whole stream is made.
        ``checkpoint`` is neither read nor written; ``vrmf.save`` keeps a stream.
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
                for name in ("_stream", "components_", "mean_"):
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
        if hasattr(self, "_stream") and not self._accepts_components(len(self._stream.D)):
            raise ValueError(
                f"`n_components` is {self.n_components}, but this model has {len(self._stream.D)} "
                "atoms. Use a new model to change it."
            )

    def _absorb(self, X: Any) -> None:
        """Take one step with a batch."""
        solver, first = self._stream_solver(), not hasattr(self, "_stream")
        dtype = None if first else self._stream.D.dtype
        source = self._source(X, reset=first and not hasattr(self, "components_"), dtype=dtype)
        before, steps = (0, 0) if first else (self.n_samples_seen_, self.n_steps_)
        self.n_samples_seen_ = before + source.n_samples
        if first:
            self.history_ = History().as_columns()
        elif self._begins_anew(before, self.n_samples_seen_) and SEEN in self._stream_weights:
            source, first = self._rows_so_far(source), True
        if first:
            stage = self._first_stage(source)
            state, weights = solver.start(stage.D, stage.seed), stage.weights
        else:
            state, weights = self._following(solver, source)
        state = _at_step_by_rows(state, source.n_samples)
        remembered = solver.remembered(state, source.n_samples)
        self.formulation_ = self._formulation(remembered, values_of(weights))
        state = _rescaled(state, self._size_factors(state, self.formulation_))
        with single_threaded_blas():
            problem = Problem(self.formulation_, source)
            state = solver.absorb(problem, state, epoch_rows=STREAM_ROWS * len(state.D))
        self._stream, self._stream_weights = state, weights
        self._set_weights(remembered, weights)
        self.solver_ = solver
        self.components_ = state.D
        self.n_steps_ = steps + 1
        self.n_iter_ = self.n_steps_
        self.n_passes_ = 1.0
        self.objective_ = self.stationarity_ = self.relative_stationarity_ = math.nan
        self.reconstruction_error_ = math.nan
        self.stop_reason_ = f"stream: {self.n_samples_seen_} rows seen"

    def _stream_solver(self) -> AbstractStreamSolver:
        solver = self._solver()
        return solver if isinstance(solver, AbstractStreamSolver) else SMM(forgetting=STREAM_FORGETTING)

    def _following(self, solver: AbstractStreamSolver, source: AbstractSource) -> tuple[State, Weights]:
        """Return the state and the weights with which to learn from the rows of a source."""
        state, weights = self._stream, self._stream_weights
        fresh = solver.start(state.D, state.seed)
        if type(state) is not type(fresh):  # the solver is another than before
            state = fresh
        if SEEN not in weights:  # the model was saved before weights could follow
            return state, weights
        seen: DataSeen = weights[SEEN].after(source, self._remembered_rows(source.n_features))
        if not seen.has_changed:
            return state, self._after_batch(weights, weights, state, source) | {SEEN: seen}
        derived = self._weights(as_source(seen.rows), seen.summary, state.seed)
        follows = derived.get("outlier_alpha") != weights.get("outlier_alpha")  # it was not given
        if follows and not _is_near_one(seen.growth):
            state = _rescaled(state, seen.growth**self._size_power)
        growth = seen.sums.scales[0] / (seen.used.scales[0] or 1.0)
        if isinstance(solver, SGD) and solver.scale == "auto" and not _is_near_one(growth):
            state = solver.start(state.D, state.seed)
        return state, self._after_batch(weights, derived, state, source) | {SEEN: seen.settled()}

    def _rows_so_far(self, source: AbstractSource) -> AbstractSource:
        """Return the rows that the stream keeps, with those of one more batch."""
        limit = self._remembered_rows(source.n_features)
        return as_source(self._stream_weights[SEEN].after(source, limit).rows, n_jobs=self.n_jobs)

    def _begins_anew(self, before: int, now: int) -> bool:
        """Whether a stream of ``now`` rows is learned anew, since those before this batch told little."""
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

    def _remembered_rows(self, n_features: int) -> int:
        """Return how many rows a stream keeps, at most."""
        return kept_rows(n_features)


def values_of(weights: Weights) -> Weights:
    """Return the weights without what they were derived from."""
    return {name: value for name, value in weights.items() if name != SEEN}


def state_after_fit(D: Array, stats: Stats | None, seed: int) -> SMMState:
    """Return the state from which a stream goes on after a fit, with sums over its rows, if known.

    A stream of m rows remembers m/(1 + ρ) of them. All rows of a fit count, as those of a stream so long
    that it remembers as many.
    """
    if stats is None:
        return SMMState(D=D, seed=seed)
    solved = round((1 + STREAM_FORGETTING) * stats.count)
    return SMMState(
        D=D,
        seed=seed,
        gram=stats.gram,
        cross=stats.cross(D),
        weight=float(stats.count),
        solved=solved,
        epoch=solved // (STREAM_ROWS * len(D)),
    )


def _at_step_by_rows(state: State, rows: int) -> State:
    """Return the state at the step at which it were if all batches so far had had so many rows.

    SMM forgets by steps; so it forgets by rows, however these are cut into batches.
    """
    return replace(state, step=-(-state.solved // rows)) if isinstance(state, SMMState) else state


def _is_near_one(ratio: float) -> bool:
    return 1 / SAME_SCALE <= ratio <= SAME_SCALE


def _rescaled(state: State, factors: Array | float) -> State:
    """Return the state with atoms of other sizes; the codes in its sums change by the inverse."""
    if np.all(factors == 1):
        return state
    column = np.broadcast_to(np.asarray(factors, dtype=state.D.dtype), len(state.D))[:, None]
    if isinstance(state, SMMState) and state.gram is not None and state.cross is not None:
        state = replace(state, gram=state.gram / (column * column.T), cross=state.cross / column)
    return replace(state, D=state.D * column)


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
