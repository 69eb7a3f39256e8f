"""A comparison: contestants run one after the other, and their dictionaries are measured off the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.comparing.contestants import Contestant, our_solver
from vrmf.comparing.measuring import Snapshot, WarmProblem, Yardstick
from vrmf.comparing.peers import Setting, peers_of
from vrmf.dictionaries import atoms_from_rows, feasible
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.estimators.modelling import weights_in_use
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.solvers import SOLVERS
from vrmf.sources import AbstractSource, RowCheck, as_source, thread_count
from vrmf.terms import Simplex
from vrmf.terms.sums import parts_of

#: Bytes of rows with which contestants work, at most: other libraries need all of them in memory.
MOST_BYTES = 2**29

#: Rows by which dictionaries are measured, at most.
MOST_MEASURED = 10_000

#: An objective is near the lowest one if it exceeds it by at most this share.
NEAR = 0.01


@dataclass(frozen=True)
class Curve:
    """The objective and the error of a contestant over time."""

    name: str
    note: str
    is_ours: bool
    seconds: list[float]
    objective: list[float]  #: f by exact codes
    error: list[float]  #: ‖X − HD − S‖ / ‖X‖

    def reached(self, value: float) -> float | None:
        """Return the seconds after which the objective was at most a value for good, None for never."""
        above = np.flatnonzero(np.array(self.objective) > value)
        place = int(above[-1]) + 1 if len(above) else 0
        return self.seconds[place] if place < len(self.seconds) else None


@dataclass(frozen=True)
class Comparison:
    """The results of all contestants on the same rows.

    Attributes
    ----------
    model : str
        The name of the model on the command line.
    n_components : int
    weights : dict
        Of the problem that all solve.
    n_samples, n_measured : int
        Rows that contestants learn from, and rows by which dictionaries are measured.
    budget : float
        Seconds for each contestant.
    threads : int
    curves : list of Curve
        Ours first.
    missing : list of str
        Packages that are not installed, and would take part.
    """

    model: str
    n_components: int
    weights: dict[str, float]
    n_samples: int
    n_measured: int
    budget: float
    threads: int
    curves: list[Curve]
    missing: list[str]

    @property
    def best(self) -> float:
        """The lowest objective of all."""
        return min((min(curve.objective) for curve in self.curves if curve.objective), default=math.nan)

    def table(self) -> list[dict[str, Any]]:
        """Return for each contestant what it ends with, and when it was near to the lowest objective."""
        near = self.best + NEAR * abs(self.best)
        return [
            {
                "solver": curve.name,
                "objective": curve.objective[-1] if curve.objective else None,
                "error": curve.error[-1] if curve.error else None,
                "seconds": curve.seconds[-1] if curve.seconds else None,
                "seconds to 1 %": curve.reached(near),
            }
            for curve in self.curves
        ]


def compare(
    model: str,
    X: Any,
    n_components: int | None,
    *,
    seconds: float = 10.0,
    solvers: Sequence[str] = tuple(SOLVERS),
    peers: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    parameters: dict[str, Any] | None = None,
    tell: Callable[[str], None] = lambda name: None,
) -> Comparison:
    """Run our solvers and the other libraries that are installed on the same rows.

    All solve the problem of the same weights; of models with outliers these are the weights of the first
    stage. Each runs alone, with the same number of threads. Dictionaries are measured afterwards by exact
    codes, other libraries' after they are scaled to be feasible. The time of our start counts for us.

    Parameters
    ----------
    model : str
        A key of ``vrmf.estimators.ESTIMATORS``.
    X : rows, as for ``fit``
        What is beyond 512 MB is left out, evenly over the rows.
    n_components : int or None
        None is for models that find it; then atoms are those of the first stage.
    seconds : float
        For each contestant.
    solvers : sequence of str
        Which of ours.
    peers : bool
        Whether others take part.
    random_state : int
    n_jobs : int or None
        Threads of each contestant.
    parameters : dict or None
        Further parameters of the model.
    tell : callable
        Gets the name of each contestant before it runs.

    Returns
    -------
    Comparison
    """
    threads = thread_count(n_jobs)
    source = as_source(X, n_jobs)
    check = RowCheck(ESTIMATORS[model].__name__, feature_names=source.feature_names)
    rows = _rows_in_memory(source.read_as(check=check))
    estimator = ESTIMATORS[model](
        n_components, random_state=random_state, n_jobs=threads, **(parameters or {})
    )
    first, start_seconds = _timed_start(estimator, rows, n_components)
    problem = Problem(first.stage.formulation, as_source(rows, n_jobs=threads))
    weights = weights_in_use(estimator, len(rows), first.stage)
    setting = Setting(rows, problem, first.D, weights, first.stage.seed, threads)
    ours = [our_solver(name, problem, first.D, first.stage.seed, start_seconds) for name in solvers]
    others, missing = peers_of(model, setting) if peers else ([], [])
    measured = as_source(_measured_rows(rows, random_state), n_jobs=threads)
    yardstick = Yardstick(WarmProblem(problem.formulation, measured))
    curves = [_curve(yardstick, *_run(contestant, seconds, tell)) for contestant in (*ours, *others)]
    return Comparison(
        model,
        len(first.D),
        {name: value for name, value in weights.items() if isinstance(value, float)},
        len(rows),
        measured.n_samples,
        seconds,
        threads,
        curves,
        missing,
    )


def _timed_start(estimator: AbstractFactorizer, rows: Array, n_components: int | None) -> tuple[Any, float]:
    """Return the first iterate of a fit, and the seconds until it, without those of compilation."""
    next(estimator.iterate(rows[: max(n_components or 0, 500)]))  # which compiles what a start needs
    began = time.perf_counter()
    first = next(estimator.iterate(rows))
    return first, time.perf_counter() - began


def _run(
    contestant: Contestant, seconds: float, tell: Callable[[str], None]
) -> tuple[Contestant, list[Snapshot]]:
    """Return a contestant with its dictionaries: none if another library fails, which its note tells."""
    tell(contestant.name)
    try:
        return contestant, contestant.snapshots(seconds)
    except Exception as error:
        if contestant.is_ours:
            raise
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return replace(contestant, note=f"it failed with {told}"), []


def _curve(yardstick: Yardstick, contestant: Contestant, taken: Sequence[Snapshot]) -> Curve:
    """Measure the dictionaries of a contestant."""
    formulation = yardstick.problem.formulation
    found = [yardstick.measured(comparable(formulation, moment.D)) for moment in taken]
    return Curve(
        contestant.name,
        contestant.note,
        contestant.is_ours,
        [moment.seconds for moment in taken],
        [measured.objective for measured in found],
        [measured.reconstruction_error for measured in found],
    )


def comparable(formulation: Formulation, D: Array) -> Array:
    """Return a dictionary of another library made feasible: atoms of sum 1 if they are in the simplex."""
    if any(isinstance(part, Simplex) for part in parts_of(formulation.dictionary)):
        return atoms_from_rows(formulation, D)
    return feasible(formulation, np.ascontiguousarray(D))


def _rows_in_memory(source: AbstractSource) -> Array:
    """Return the rows, or as many as there is room for, evenly spread."""
    n, width = source.n_samples, source.n_features * source.dtype.itemsize
    count = max(1, min(n, MOST_BYTES // width))
    return source.rows(np.linspace(0, n - 1, count).astype(np.int64))


def _measured_rows(rows: Array, seed: int) -> Array:
    if len(rows) <= MOST_MEASURED:
        return rows
    return rows[np.sort(np.random.default_rng(seed).choice(len(rows), MOST_MEASURED, replace=False))]
