"""What all estimators share: scikit-learn's contract around the loop.

An estimator is a dataclass: its fields are scikit-learn parameters, and ``__init__`` is written by
the dataclass decorator. A concrete one says only which formulation its parameters mean.
"""

from __future__ import annotations

import inspect
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, clone
from sklearn.utils import check_random_state

from vrmf.checks import real_number, whole_number
from vrmf.estimators.data import centred, is_stream, rows_for
from vrmf.estimators.inference import Inference
from vrmf.estimators.outcome import reported
from vrmf.estimators.parameters import NestedParameters
from vrmf.estimators.reporting import recorder, warn_of_outcome
from vrmf.estimators.resuming import run_fit
from vrmf.formulations import Formulation
from vrmf.initial import given_dictionary, initial_dictionary
from vrmf.loop import (
    History,
    Iterate,
    MaxEpochs,
    MaxTime,
    Outcome,
    Rule,
    Stationary,
    until_stopped,
)
from vrmf.problem import Measurement, Problem, atoms_from_rows
from vrmf.solvers import SMM, SOLVERS, VR, AbstractSolver, AbstractStreamSolver
from vrmf.solvers.smm import SMMState
from vrmf.sources import AbstractSource, single_threaded_blas
from vrmf.sources.lazy import lazy_part
from vrmf.stats import Stats
from vrmf.terms.base import Array
from vrmf.weights import DataSummary

#: Values of all weights of a formulation, by name.
Weights = dict[str, Any]

#: Rows that count as an epoch of a stream, for each component.
STREAM_ROWS = 50

#: How fast SMM forgets, where it stands in for a solver that needs a finite sum.
STREAM_FORGETTING = 5.0


@dataclass(eq=False, repr=False)
class AbstractFactorizer(NestedParameters, Inference, ClassNamePrefixFeaturesOutMixin, BaseEstimator):
    """The common parameters, and ``fit``, ``transform`` and the rest in terms of a formulation.

    Parameters
    ----------
    n_components : int
        k, the number of atoms.
    solver : {"vr", "smm", "sgd", "batch"} or a value of vrmf.solvers
        The method; its options live on the value, as in ``solver=VR(batch_size=256)``.
    init : name, or array of shape (n_components, n_features)
        The dictionary to start from. ``"spread"``: rows of different directions (k-means++ on
        directions); ``"data"``: random rows; ``"svd"`` and ``"nndsvd"``: singular vectors, or their
        nonnegative parts; ``"random"``: random directions; ``"ones"``: as in the paper's experiments.
        ``"auto"``: the best of several ``"spread"`` starts after a few steps on a sample of the rows;
        ``"data"``, with outlying entries clipped, in models with outliers.
    max_iter : int
        The largest number of epochs: for VR an anchor with its inner steps, for SMM and SGD one
        pass over the data, for batch one step.
    max_time : float or None
        The largest number of seconds inside steps.
    tol : float
        Stop when the squared norm ‖Γ‖² of the proximal gradient mapping has fallen to ``tol`` times
        its first value. 0 runs the whole budget. SMM and SGD know ‖Γ‖² only where ``record_every``
        makes it known.
    random_state : int, RandomState instance or None
        The same value gives the same bits, whatever the number of threads.
    n_jobs : int or None
        Threads; None and -1 take all cores, -2 all but one.
    verbose : int
        If positive, print a line for every so many epochs.
    warm_start : bool
        Whether ``fit`` starts from the dictionary of the last one. ``tol`` is then relative to the
        stationarity of that dictionary.
    center : bool
        Whether to subtract the mean of each feature.
    record_every : int or None
        Measure objective and stationarity after every so many epochs, by a full pass off the clock.
    checkpoint : str, os.PathLike or None
        The path of a file in which ``fit`` keeps its state, so that it can be interrupted at any
        moment. If the file is there, ``fit`` goes on from it, and ends with the bits of a fit that was
        never interrupted; if it is of other data or parameters, it is refused. Of the data the shape,
        the dtype and 64 rows are compared. ``n_jobs``, ``verbose``, ``max_iter``, ``max_time`` and
        ``tol`` may be others than before. The file stays when the fit is done. It takes one fit at a
        time.
    checkpoint_every : float
        Seconds between two saves, at least; 0 saves after every step. The end, an exception and an
        interrupt from the keyboard are saved in any case.
    """

    n_components: int = 10
    _: KW_ONLY
    solver: Any = "vr"
    init: Any = "auto"
    max_iter: int = 100
    max_time: float | None = None
    tol: float = 1e-4
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    center: bool = False
    record_every: int | None = None
    checkpoint: Any = None
    checkpoint_every: float = 60.0

    def __init_subclass__(cls, **options: Any) -> None:
        """Write the common parameters into the documentation of each estimator, after its own."""
        super().__init_subclass__(**options)
        common = inspect.cleandoc(AbstractFactorizer.__doc__ or "").partition("----------\n")[2]
        own, examples, code = inspect.cleandoc(cls.__doc__ or "").partition("\nExamples\n")
        cls.__doc__ = f"{own.rstrip()}\n{common}\n{examples}{code}"

    # What a concrete estimator says ------------------------------------------------------------

    @abstractmethod
    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        """Return the values of all weights for these data, checked."""

    @abstractmethod
    def _formulation(self, n_samples: int, weights: Weights) -> Formulation:
        """Return the formulation for these weights and n rows."""

    @abstractmethod
    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        """Return rows of the data as atoms of a sensible size."""

    # Fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> AbstractFactorizer:
        """Learn the dictionary from the rows of ``X``, shape (n, d).

        ``X`` is an array, a scipy.sparse matrix, a data frame, a memory-mapped array, a zarr array, an
        h5py data set, an Arrow table, a dask or xarray array, the path of a file (.npy, .zarr, .h5,
        .parquet, .arrow), or a source from :func:`vrmf.sources.as_source`. What is not in memory is
        read chunk by chunk. An iterator of batches is learned from as by ``partial_fit``, once.
        """
        if is_stream(X):
            return self._fit_stream(X)
        self._fit(X, keep_codes=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the dictionary and return the codes of ``X``, which the last pass has computed."""
        if is_stream(X):
            raise ValueError("An iterator of batches can be read once only. Use fit, then transform.")
        if lazy_part(X) is not None:
            return self.fit(X).transform(X)
        return self._fit(X, keep_codes=True)

    def iterate(self, X: Any) -> Iterator[Iterate]:
        """Yield the iterates of the fit, one step at a time, without changing the model.

        It starts anew: ``checkpoint`` is neither read nor written.
        """
        self._check_parameters()
        # A clone learns the number of features; the model stays as it is.
        source, solver = clone(self)._source(X, reset=True), self._fit_solver()
        with closing(source):
            problem, D, seed, _ = self._start(source)
            record = recorder(problem, self.record_every)
            for current, _, _ in until_stopped(solver, problem, D, seed, self._rules(), record):
                yield current

    def partial_fit(self, X: Any, y: Any = None) -> AbstractFactorizer:
        """Learn from one more batch of rows, of any size.

        A stream is no finite sum, so variance reduction and batch steps have no meaning here: with
        those solvers the batch is taken by SMM that forgets a poor start, and ``solver_`` says so.
        Automatic weights take the scale of the first batch; n inside ψ and inside weights is the
        number of rows seen. ``checkpoint`` is neither read nor written; ``vrmf.save`` keeps a stream.
        """
        self._check_parameters()
        first = not hasattr(self, "_stream")
        if is_stream(X):
            for batch in X:
                self.partial_fit(batch)
            return self
        if self.center or hasattr(self, "mean_"):
            raise ValueError(
                f"`center` {'is' if self.center else 'was'} True, but the mean of a stream is not known "
                "in advance. Use center=False and subtract it yourself."
            )
        if not first and len(self._stream.D) != self.n_components:
            raise ValueError(
                f"`n_components` is {self.n_components}, but this model has {len(self._stream.D)} "
                "atoms. Use a new model to change it."
            )
        source = self._source(
            X,
            reset=first and not hasattr(self, "components_"),
            dtype=None if first else self._stream.D.dtype,
        )
        chosen = self._solver()
        solver = chosen if isinstance(chosen, AbstractStreamSolver) else SMM(forgetting=STREAM_FORGETTING)
        if first:
            problem, D, seed, self._stream_weights = self._start(source, whole=False)
            self._stream: Any = solver.start(D, seed)
            self.n_samples_seen_ = 0
            self.history_ = History().as_columns()
        fresh = solver.start(self._stream.D, self._stream.seed)
        if type(self._stream) is not type(fresh):  # the solver is another than before
            self._stream = fresh
        self.n_samples_seen_ += source.n_samples
        self.formulation_ = self._formulation(self.n_samples_seen_, self._stream_weights)
        problem = Problem(self.formulation_, source)
        with single_threaded_blas():
            self._stream = solver.absorb(problem, self._stream, epoch_rows=STREAM_ROWS * self.n_components)
        self.solver_ = solver
        self.components_ = self._stream.D
        self.n_steps_ = self.n_iter_ = self._stream.step
        self.n_passes_ = 1.0
        self.objective_ = self.stationarity_ = float("nan")
        self.stop_reason_ = f"stream: {self.n_samples_seen_} rows seen"
        return self

    def _fit_stream(self, batches: Any) -> AbstractFactorizer:
        first = next(batches, None)
        if first is None:
            raise ValueError("The stream has no batches. Use one with rows.")
        for name in ("_stream", "components_", "mean_"):
            if hasattr(self, name) and not self.warm_start:
                delattr(self, name)
        return self.partial_fit(chain([first], batches))

    def _fit(self, X: Any, keep_codes: bool) -> Any:
        self._check_parameters()
        source, solver = self._source(X, reset=True), self._fit_solver()
        with closing(source):
            problem, start, outcome = run_fit(self, source, solver)
            codes = source.room_for_codes(self.n_components, outcome.iterate.step) if keep_codes else None
            D, stats, measured = reported(problem, solver, outcome, codes)
        self._keep(problem, solver, D, outcome, stats, measured)
        self._stream_weights = start.weights
        self._stream = SMMState(
            D=D,
            seed=start.seed,
            step=outcome.iterate.step,
            gram=stats.gram,
            cross=stats.cross(D),
            weight=float(stats.count),
        )
        warn_of_outcome(type(self).__name__, solver, outcome.reason, stats, self.tol)
        return codes

    def _start(self, source: AbstractSource, whole: bool = True) -> tuple[Problem, Array, int, Weights]:
        """Return the problem, the initial dictionary, the seed and the weights."""
        seed, k = self._seed(), self.n_components
        summary = DataSummary.of(source)
        weights = self._weights(source, summary, seed)
        formulation = self._formulation(source.n_samples, weights)
        formulation.check_width(k, source.n_features)
        if self._goes_on and whole:
            D = given_dictionary("components_", self.components_, formulation, k, source)
        else:
            D = initial_dictionary(
                self.init,
                source,
                formulation,
                k,
                summary,
                lambda rows: self._start_rows(formulation, rows, source.n_samples, weights),
                seed,
            )
        return Problem(formulation, source), D, seed, weights

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep(
        self,
        problem: Problem,
        solver: AbstractSolver,
        D: Array,
        outcome: Outcome,
        stats: Stats,
        measured: Measurement,
    ) -> None:
        """Set the fitted attributes."""
        last = outcome.iterate
        if problem.source.mean is not None:
            self.mean_ = problem.source.mean
        elif hasattr(self, "mean_"):
            del self.mean_
        self.components_ = D
        self.formulation_ = problem.formulation
        self.solver_ = solver
        self.objective_ = measured.objective
        self.stationarity_ = measured.stationarity
        self.n_iter_ = max(1, last.epoch)
        self.n_steps_ = last.step
        self.n_passes_ = last.passes
        self.n_samples_seen_ = problem.n_samples
        self.stop_reason_ = outcome.reason.text
        self.history_ = outcome.history.as_columns()

    # Checks and small parts --------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Raise before any work if a common parameter will not do."""
        whole_number("n_components", self.n_components, low=1)
        whole_number("max_iter", self.max_iter, low=1)
        whole_number("verbose", self.verbose + 0 if isinstance(self.verbose, bool) else self.verbose, low=0)
        real_number("tol", self.tol, low=0)
        if self.max_time is not None:
            real_number("max_time", self.max_time, low=0, strict=True)
        if self.record_every is not None:
            whole_number("record_every", self.record_every, low=1)
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise ValueError(f"`checkpoint` is {self.checkpoint!r}. Use the path of a file, or None.")
        real_number("checkpoint_every", self.checkpoint_every, low=0)
        if self.center and self._nonnegative:
            raise ValueError(
                f"`center` is True, but {type(self).__name__} needs data without negative entries. "
                "Use center=False."
            )

    def _fit_solver(self) -> AbstractSolver:
        """Return the solver of a fit; one that goes on with a fitted dictionary needs no opening."""
        solver = self._solver()
        if self._goes_on and isinstance(solver, VR):
            return replace(solver, opening=False)
        return solver

    @property
    def _goes_on(self) -> bool:
        return self.warm_start and hasattr(self, "components_")

    def _solver(self) -> AbstractSolver:
        if isinstance(self.solver, AbstractSolver):
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in SOLVERS:
            raise ValueError(
                f"`solver` is {self.solver!r}. Use one of {', '.join(map(repr, SOLVERS))}, or a "
                "value such as vrmf.solvers.VR(batch_size=256)."
            )
        return SOLVERS[self.solver]()

    def _source(self, X: Any, reset: bool, dtype: Any = None) -> AbstractSource:
        source = rows_for(
            self, X, reset=reset, nonnegative=self._nonnegative, n_jobs=self.n_jobs, dtype=dtype
        )
        return centred(source) if self.center else source

    def _rules(self) -> list[Rule]:
        rules: list[Rule] = [Stationary(float(self.tol)), MaxEpochs(int(self.max_iter))]
        return rules if self.max_time is None else [*rules, MaxTime(float(self.max_time))]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._nonnegative
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class AtomsOfFixedSize(AbstractFactorizer):
    """Estimators whose dictionary term fixes the size of atoms."""

    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        return atoms_from_rows(formulation, rows)
