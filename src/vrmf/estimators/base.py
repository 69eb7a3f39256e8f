"""What all estimators share: scikit-learn's contract around the loop.

An estimator is a dataclass: its fields are scikit-learn parameters, and ``__init__`` is written by
the dataclass decorator. A concrete one says only which formulation its parameters mean.
"""

from __future__ import annotations

import inspect
import math
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, clone

from vrmf.checks import check_flags, check_room, real_number, whole_number
from vrmf.clock import Clock, watched_by
from vrmf.estimators.callbacks import CallbackSupportMixin, Telling, with_callbacks
from vrmf.estimators.data import centred, is_stream, rows_for
from vrmf.estimators.html import FittedHTML
from vrmf.estimators.inference import Inference
from vrmf.estimators.outcome import Report
from vrmf.estimators.parameters import NestedParameters
from vrmf.estimators.reporting import Watched, recorder, warn_of_outcome, warn_of_size
from vrmf.estimators.resuming import InterruptedFit, Judge, run_fit
from vrmf.estimators.seeds import drawn_seed
from vrmf.estimators.streaming import SEEN, Streaming, Weights, state_after_fit
from vrmf.formulations import Formulation
from vrmf.history import Iterate
from vrmf.initial import given_dictionary, initial_dictionary
from vrmf.loop import Outcome, until_stopped
from vrmf.path import AbstractPath, SingleStage, Stage
from vrmf.problem import Problem, atoms_from_rows
from vrmf.seen import DataSeen
from vrmf.solvers import SOLVERS, AbstractSolver, AbstractStreamSolver
from vrmf.sources import AbstractSource, thread_count
from vrmf.sources.lazy import lazy_part
from vrmf.terms.base import AbstractTerm, Array
from vrmf.weights import DataSummary

_ATTRIBUTES = "\nAttributes\n----------\n"


@dataclass(eq=False, repr=False)
class AbstractFactorizer(
    FittedHTML,
    CallbackSupportMixin,
    NestedParameters,
    Watched,
    Streaming,
    Inference,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
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
        The largest number of seconds for ``fit``, without those of compilation and of ``record_every``. A
        step that is under way then is dropped, and a last pass measures the dictionary; where time
        does not suffice for it, the best dictionary measured so far is the answer. A fit on this machine
        ends within 1.2 times ``max_time`` and a second.
    tol : float
        Stop when the relative stationarity is at most ``tol``: when one more full step promises to lower
        the objective by no more than this share of it (of what is left of it without the penalty on
        outliers, in models that have them). It is confirmed by exact codes of all rows for
        the dictionary that is returned. A fit that still gains ten times as much from one pass to the next
        goes on. A fit that is nearly exact, to an error of 10⁻³ or √tol,
        ends, too. 0 runs the whole budget. Without ``record_every`` SMM and SGD are measured after 2, 4,
        8, … epochs, and stop as well when doubling the epochs has lowered the objective by at most √tol
        of it, or √tol/4 of the mean of ½‖x‖².
    random_state : int, Generator or RandomState of NumPy, or None
        The same value gives the same bits, whatever the number of threads. From a generator each fit draws
        one whole number.
    n_jobs : int or None
        Threads; None and -1 take all cores, -2 all but one.
    verbose : int
        If positive, print a line for every so many epochs.
    warm_start : bool
        Whether ``fit`` starts from the dictionary of the last one.
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

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        D, whose rows are atoms.
    objective_ : float
        f(D) on the data of the fit; NaN after ``partial_fit``, as are the next three.
    relative_stationarity_ : float
        The share of f(D), the penalty on outliers aside, by which one full step promises to lower it, see
        ``tol``.
    stationarity_ : float
        ‖Γ(D)‖², the squared norm of the proximal gradient mapping.
    reconstruction_error_ : float
        ‖X − HD − S‖ / ‖X‖ in the Frobenius norm, S being the outliers (0 where there are none), without
        any penalty. With ``center`` X is the centred data.
    formulation_ : Formulation
        The problem that was solved, with all weights.
    solver_ : AbstractSolver
        The method, with its options.
    image_shape_ : tuple of two ints
        Height and width, where the rows of a file are images or frames.
    mean_ : array of shape (n_features,)
        What was subtracted from each row, with ``center`` only.
    n_iter_, n_steps_ : int
        Epochs and steps.
    n_passes_ : float
        Code problems solved, over the number of rows.
    n_samples_seen_ : int
        Rows of the fit, and of the batches after it.
    stop_reason_ : str
        Why the fit ended.
    history_ : dict of lists
        The record of the fit, step by step.
    """

    n_components: int = 10
    _: KW_ONLY
    solver: Any = "vr"
    init: Any = "auto"
    max_iter: int = 300
    max_time: float | None = None
    tol: float = 1e-6
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    center: bool = False
    record_every: int | None = None
    checkpoint: Any = None
    checkpoint_every: float = 60.0

    def __init_subclass__(cls, **options: Any) -> None:
        """Write common parameters and attributes into each estimator's documentation, after its own."""
        super().__init_subclass__(**options)
        common = inspect.cleandoc(AbstractFactorizer.__doc__ or "").partition("----------\n")[2]
        own, examples, code = inspect.cleandoc(cls.__doc__ or "").partition("\nExamples\n")
        own, _, own_attributes = own.partition(_ATTRIBUTES)
        parameters, _, attributes = common.partition(_ATTRIBUTES)
        attributes = f"{own_attributes.rstrip()}\n{attributes}".lstrip()
        cls.__doc__ = f"{own.rstrip()}\n{parameters}{_ATTRIBUTES}{attributes}\n{examples}{code}"

    # What a concrete estimator says ------------------------------------------------------------

    @abstractmethod
    def _weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        """Return the values of all weights for these data, checked."""

    @abstractmethod
    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        """Return the formulation for these weights and n rows."""

    @abstractmethod
    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        """Return rows of the data as atoms of a sensible size."""

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        """Return the weights as they enter the formulation of n rows; not all depend on n."""
        return weights

    def _set_weights(self, n_samples: float, weights: Weights) -> None:
        """Set what the weights among the parameters have become, numbers or terms, as attributes."""
        names = self._get_param_names()
        for name, value in self._weights_for(n_samples, weights).items():
            if name in names and isinstance(value, float | AbstractTerm):
                setattr(self, f"{name}_", value)

    def _look(self, source: AbstractSource, weights: Weights) -> None:
        """Set the further attributes that a model of this kind has, while a fit is under way."""

    # Fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> AbstractFactorizer:
        """Learn the dictionary from the rows of ``X``, shape (n, d).

        ``X`` is an array, a scipy.sparse matrix, a data frame, a memory-mapped array, a zarr array, an
        h5py data set, an Arrow table, a dask or xarray array, the path of a file or folder (see
        :func:`vrmf.sources.open_table`), or a source from :func:`vrmf.sources.as_source`. What is not in
        memory is read chunk by chunk. An iterator of batches is learned from as by ``partial_fit``, once.
        An interrupt from the keyboard (Ctrl-C) leaves the best dictionary so far in the model.
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
            clock, last = self._clock(), None
            with watched_by(clock):
                stage = self._start(source)
            record = recorder(source, self.record_every)
            problem, rules = Problem(stage.formulation, source), self._judge(clock).rules
            moments = until_stopped(solver, problem, stage, self._path(source), rules, record, clock=clock)
            for current, _, _ in moments:
                if current is not last:
                    yield current
                last = current

    @with_callbacks
    def _fit(self, X: Any, keep_codes: bool) -> Any:
        self._check_parameters()
        clock = self._clock()
        source, solver = self._source(X, reset=True), self._fit_solver()
        warn_of_size(self.n_components, source.n_samples, source.n_features)
        with closing(source):
            telling = Telling.begin(self, X, source, solver)
            try:
                outcome, report, codes = run_fit(self, source, solver, clock, keep_codes, telling.watch)
            except InterruptedFit as stop:
                self._keep(source, solver, *stop.found)
                raise
            self._keep(source, solver, outcome, report)
            telling.end()
        name, reason = type(self).__name__, outcome.reason
        warn_of_outcome(name, solver, reason, report, self.tol, self._why_nothing)
        return codes if codes is not None or not keep_codes else self.transform(X)

    def _start(self, source: AbstractSource, whole: bool = True, n_components: int | None = None) -> Stage:
        """Return the first stage of a fit, or of a stream, which may have another number of atoms."""
        seed, k = self._seed(), n_components or self._first_components(source)
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
        seen = DataSeen.of(summary, self._remembered_rows(source.n_features))
        return Stage(formulation, D, seed, weights | {SEEN: seen})

    def _first_components(self, source: AbstractSource) -> int:
        """Return the number of atoms with which a fit begins."""
        return self.n_components

    def _seed(self) -> int:
        return drawn_seed(self.random_state)

    def _keep(
        self, source: AbstractSource, solver: AbstractSolver, outcome: Outcome, report: Report
    ) -> None:
        """Set the fitted attributes."""
        last, measured, stage = outcome.iterate, report.measured, outcome.iterate.stage
        if source.mean is not None:
            self.mean_ = source.mean
        elif hasattr(self, "mean_"):
            del self.mean_
        self._keep_image_shape(source)
        self.components_ = report.D
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
        self._stream_weights = stage.weights
        self._set_weights(source.n_samples, stage.weights)
        self._stream = state_after_fit(report.D, report.stats, stage.seed)

    def _keep_image_shape(self, source: AbstractSource) -> None:
        """Set what pictures of atoms need to know, or forget what another fit has set."""
        if source.image_shape is not None:
            self.image_shape_ = source.image_shape
        elif hasattr(self, "image_shape_"):
            del self.image_shape_

    # Checks and small parts --------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Raise before any work if a common parameter will not do."""
        check_flags(self)
        thread_count(self.n_jobs)
        self._check_components()
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

    @property
    def _why_nothing(self) -> str:
        """What to say of a fit whose codes are all zero."""
        return "Use smaller weights on codes."

    def _check_components(self) -> None:
        whole_number("n_components", self.n_components, low=1)

    def _fit_solver(self) -> AbstractSolver:
        """Return the solver of a fit; one that goes on with a fitted dictionary needs no opening."""
        return self._solver().going_on() if self._goes_on else self._solver()

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
        if reset and self.n_components is not None:
            check_room(self.n_components, source.n_features, source.dtype)
        return centred(source) if self.center else source

    def _path(self, source: AbstractSource) -> AbstractPath:
        """Return the sequence of problems that a fit solves."""
        return SingleStage()

    def _judge(self, clock: Clock | None, keep_codes: bool = False) -> Judge:
        measures = self.record_every is not None or not isinstance(self._solver(), AbstractStreamSolver)
        return Judge(float(self.tol), int(self.max_iter), clock, keep_codes, measures)

    def _clock(self) -> Clock | None:
        return None if self.max_time is None else Clock(float(self.max_time))

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
