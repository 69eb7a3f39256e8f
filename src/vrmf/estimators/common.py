"""The parameters that all estimators share: their meaning, their checks, and what is made of them.

An estimator is a dataclass: its fields are scikit-learn parameters, and ``__init__`` is written by
the dataclass decorator.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from vrmf.checks import check_flags, real_number, whole_number
from vrmf.estimators.parameters import NestedParameters
from vrmf.estimators.seeds import drawn_seed
from vrmf.running.clock import Clock
from vrmf.solvers import SOLVERS, AbstractSolver
from vrmf.sources import thread_count

_PARAMETERS = "\nParameters\n----------"
_ATTRIBUTES = "\nAttributes\n----------\n"


@dataclass(eq=False, repr=False)
class CommonParameters(NestedParameters):
    """The parameters of all estimators, and the attributes that a fit sets.

    Parameters
    ----------
    n_components : int
        k, the number of atoms.
    solver : {"vr", "smm", "sgd", "batch", "algorithm1"} or a solver of vrmf.solvers
        The method. Pass a solver object to set its options, as in ``solver=VR(batch_size=256)``.
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
        The largest number of seconds for ``fit``, without those of compilation and of ``record_every``.
        When time is over, the step in progress is dropped, and a last pass measures the dictionary. If
        there is no time for that pass, the best dictionary measured so far is returned. A fit on this
        machine ends within 1.2 times ``max_time`` and a second.
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
        The path of a file in which ``fit`` stores its state, so that it can be interrupted at any
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
    stream_ : vrmf.running.stream.Stream
        The state of the solver and the weights, from which ``partial_fit`` goes on.
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

    #: Whether the data must not have negative entries.
    _nonnegative: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Write common parameters and attributes into each estimator's documentation, after its own."""
        super().__init_subclass__(**options)
        common = inspect.cleandoc(CommonParameters.__doc__ or "").partition("----------\n")[2]
        own, examples, code = inspect.cleandoc(cls.__doc__ or "").partition("\nExamples\n")
        own, _, own_attributes = own.partition(_ATTRIBUTES)
        if _PARAMETERS not in own:
            own += f"\n{_PARAMETERS}"
        parameters, _, attributes = common.partition(_ATTRIBUTES)
        attributes = f"{own_attributes.rstrip()}\n{attributes}".lstrip()
        cls.__doc__ = f"{own.rstrip()}\n{parameters}{_ATTRIBUTES}{attributes}\n{examples}{code}"

    def _check_parameters(self) -> None:
        """Raise before any work if a common parameter is not valid."""
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

    def _check_components(self) -> None:
        whole_number("n_components", self.n_components, low=1)

    def _solver(self) -> AbstractSolver:
        if isinstance(self.solver, AbstractSolver):
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in SOLVERS:
            raise ValueError(
                f"`solver` is {self.solver!r}. Use one of {', '.join(map(repr, SOLVERS))}, or a "
                "value such as vrmf.solvers.VR(batch_size=256)."
            )
        return SOLVERS[self.solver]()

    def _seed(self) -> int:
        return drawn_seed(self.random_state)

    def _clock(self) -> Clock | None:
        return None if self.max_time is None else Clock(float(self.max_time))
