"""``fit``, ``fit_transform`` and ``iterate``, and the attributes that a fit sets."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Self

from sklearn.base import clone

from vrmf.estimators.callbacks import CallbackSupportMixin, FitCallbacks, with_callbacks
from vrmf.estimators.checkpoints import checkpoint_of
from vrmf.estimators.data import is_stream
from vrmf.estimators.inference import Inference
from vrmf.estimators.outcome import Answer, StoppingRules, oriented
from vrmf.estimators.recording import Watched, recorder, warn_of_outcome, warn_of_size
from vrmf.estimators.resuming import FitPlan, InterruptedFit, run_fit
from vrmf.estimators.streaming import Streaming
from vrmf.problem import Problem
from vrmf.running.clock import Clock, watched_by
from vrmf.running.history import History, Iterate
from vrmf.running.loop import Outcome, Watch, until_stopped
from vrmf.running.stream import Stream
from vrmf.solvers import AbstractSolver
from vrmf.solvers.streams import state_after_fit
from vrmf.sources import AbstractSource
from vrmf.sources.lazy import lazy_part

#: Attributes that take a pass over all rows.
MEASURED = ("objective_", "stationarity_", "relative_stationarity_", "reconstruction_error_")


class Fitting(CallbackSupportMixin, Watched, Streaming, Inference):
    """``fit``, ``fit_transform`` and ``iterate``."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the dictionary from the rows of ``X``, shape (n, d).

        ``X`` is an array, a scipy.sparse matrix, a data frame, a memory-mapped array, a zarr array, an
        h5py data set, an Arrow table, a dask or xarray array, the path of a file or folder (see
        :func:`vrmf.sources.open_table`), or a source from :func:`vrmf.sources.as_source`. What is not in
        memory is read chunk by chunk. An iterator of batches is learned from as by ``partial_fit``, once.
        An interrupt from the keyboard (Ctrl-C) leaves the best dictionary so far in the model.
        """
        if is_stream(X):
            return self._fit_stream(X)
        self._fit(X, store_codes=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the dictionary and return the codes of ``X``, which the last pass has computed."""
        if is_stream(X):
            raise ValueError("An iterator of batches can be read once only. Use fit, then transform.")
        if lazy_part(X) is not None:
            return self.fit(X).transform(X)
        return self._fit(X, store_codes=True)

    def iterate(self, X: Any) -> Iterator[Iterate]:
        """Yield the iterates of the fit, one step at a time, without changing the model.

        It starts anew: ``checkpoint`` is neither read nor written.
        """
        self._check_parameters()
        # A clone learns the number of features; the model stays as it is.
        source, solver = clone(self)._source(X, reset=True), self._fit_solver()
        with closing(source):
            clock, last = self._clock(), None
            with watched_by(clock):
                stage = self._start(source)
            record = recorder(source, self.record_every)
            problem, rules = Problem(stage.formulation, source), self._stopping_rules(clock).rules
            iterates = until_stopped(solver, problem, stage, self._path(source), rules, record, clock=clock)
            for current, _, _ in iterates:
                if current is not last:
                    yield current
                last = current

    @with_callbacks
    def _fit(self, X: Any, store_codes: bool) -> Any:
        self._check_parameters()
        clock = self._clock()
        source, solver = self._source(X, reset=True), self._fit_solver()
        warn_of_size(self.n_components, source.n_samples, source.n_features)

        def attributes(current: Iterate, history: History) -> dict[str, Any]:
            return self._interim_attributes(source, solver, current, history)

        with closing(source):
            callbacks = FitCallbacks.begin(self, X, int(self.max_iter), attributes)
            plan = self._plan(source, solver, clock, store_codes, callbacks.watch)
            try:
                outcome, answer, codes = run_fit(plan, source, solver, clock)
            except InterruptedFit as stop:
                self._set_fitted(source, solver, *stop.found)
                raise
            self._set_fitted(source, solver, outcome, answer)
            callbacks.end()
        name, reason = type(self).__name__, outcome.reason
        warn_of_outcome(name, solver, reason, answer, self.tol, self._why_nothing)
        return codes if codes is not None or not store_codes else self.transform(X)

    def _plan(
        self,
        source: AbstractSource,
        solver: AbstractSolver,
        clock: Clock | None,
        store_codes: bool,
        callbacks: Watch,
    ) -> FitPlan:
        """Return what is decided before a fit runs; raise if its checkpoint cannot be written."""
        checkpoint = None
        if self.checkpoint is not None:
            warm = self.components_ if self._goes_on else None
            checkpoint = checkpoint_of(self, source, solver, warm)
        return FitPlan(
            name=type(self).__name__,
            start=lambda: self._start(source),
            draw_seed=self._seed,
            stopping=self._stopping_rules(clock, store_codes),
            path=self._path(source),
            checkpoint=checkpoint,
            verbose=int(self.verbose),
            record_every=self.record_every,
            watcher=self._watcher,
            callbacks=callbacks,
        )

    def _fit_solver(self) -> AbstractSolver:
        """Return the solver of a fit, which needs no opening if it starts from a fitted dictionary."""
        return self._solver().going_on() if self._goes_on else self._solver()

    def _stopping_rules(self, clock: Clock | None, store_codes: bool = False) -> StoppingRules:
        measures = self.record_every is not None or self._solver().measures
        return StoppingRules(float(self.tol), int(self.max_iter), clock, store_codes, measures)

    @property
    def _why_nothing(self) -> str:
        """The advice in the warning that all codes are zero."""
        return "Use smaller weights on codes."

    def _set_fitted(
        self, source: AbstractSource, solver: AbstractSolver, outcome: Outcome, answer: Answer
    ) -> None:
        """Set the fitted attributes."""
        last, measured, stage = outcome.iterate, answer.measured, outcome.iterate.stage
        self._set_or_delete("mean_", source.mean)
        self._set_or_delete("image_shape_", source.image_shape)  # which pictures of atoms need
        self.components_ = answer.D
        self.formulation_ = stage.formulation
        self.solver_ = solver
        self.objective_ = math.nan if measured is None else measured.objective
        self.stationarity_ = math.nan if measured is None else measured.stationarity
        self.relative_stationarity_ = math.nan if measured is None else measured.relative_stationarity
        self.reconstruction_error_ = math.nan if measured is None else measured.reconstruction_error
        self.n_iter_ = max(1, last.epoch)
        self.n_steps_ = last.step
        self.n_passes_ = last.passes
        self.n_samples_seen_ = source.n_samples
        self.stop_reason_ = outcome.reason.text
        self.history_ = outcome.history.as_columns()
        self._set_weights(source.n_samples, stage.weights)
        self.stream_ = Stream(state_after_fit(answer.D, answer.stats, stage.seed), stage.weights)

    def _set_or_delete(self, name: str, value: Any) -> None:
        """Set an attribute, or delete what another fit has set if there is no value."""
        if value is not None:
            setattr(self, name, value)
        elif hasattr(self, name):
            delattr(self, name)

    def _interim_attributes(
        self, source: AbstractSource, solver: AbstractSolver, current: Iterate, history: History
    ) -> dict[str, Any]:
        """Return the attributes as if the fit had ended now; those that would take a pass are NaN."""
        stage, model = current.stage, copy.copy(self)
        known = dict.fromkeys(MEASURED, math.nan) | {
            "components_": oriented(current.D) if stage.formulation.rotates else current.D,
            "formulation_": stage.formulation,
            "solver_": solver,
            "history_": history.as_columns(),
            "n_iter_": current.epoch,
            "n_steps_": current.step,
            "n_passes_": current.passes,
            "n_samples_seen_": source.n_samples,
            "stop_reason_": "under way: a callback looks at it",
            "stream_": Stream(state_after_fit(current.D, None, stage.seed), stage.weights),
        }
        mean = {} if source.mean is None else {"mean_": source.mean}
        for name, value in (known | mean).items():
            setattr(model, name, value)
        model._set_weights(source.n_samples, stage.weights)
        model._set_interim_attributes(source, stage.weights)
        before = vars(self)
        return {name: value for name, value in vars(model).items() if before.get(name, known) is not value}
