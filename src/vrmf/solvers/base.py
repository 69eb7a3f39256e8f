"""What a solver is: options, and a pure step from one state to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from vrmf.arrays import Array
from vrmf.checks import is_auto, real_number, whole_number
from vrmf.coding import Coder
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.sources.selection import Rows


@dataclass(frozen=True, eq=False)
class CodeSums:
    """Sums over codes, and how many rows they stand for."""

    gram: Array  #: Σ hᵀh
    rows: float


@dataclass(frozen=True, eq=False)
class State:
    """What a solver knows between two steps; every solver's state has these fields."""

    D: Array  #: the dictionary
    seed: int  #: randomness comes from (seed, step)
    step: int = 0  #: steps done
    epoch: int = 0  #: epochs done
    solved: int = 0  #: code problems solved
    measured: Measurement | None = None  #: of the dictionary that the last step began with

    @property
    def code_sums(self) -> CodeSums | None:
        """The sums over all codes so far, or None if the state has none."""
        return None


S = TypeVar("S", bound=State)


class AbstractSolver(ABC, Generic[S]):
    """A frozen dataclass of options with ``init`` and ``step``.

    ``step`` is pure: it changes nothing, and from the same state it gives the same bits. Stopping,
    timing and recording live in :mod:`vrmf.running.loop`.
    """

    @abstractmethod
    def init(self, problem: Problem, D: Array, seed: int) -> S:
        """Return the state before the first step, from the dictionary D."""

    @abstractmethod
    def step(self, problem: Problem, state: S) -> S:
        """Return the next state."""

    @abstractmethod
    def answer(self, state: S) -> Array:
        """Return the dictionary to report if the run ended now."""

    def going_on(self) -> AbstractSolver[S]:
        """Return the solver as it goes on from a dictionary that is nearly right."""
        return self

    @property
    @abstractmethod
    def reports_best(self) -> bool:
        """Whether the best dictionary that was measured is reported, if the answer is worse."""

    @property
    def measures(self) -> bool:
        """Whether steps measure the dictionary. If they do not, their lengths shrink."""
        return True

    def for_streams(self) -> AbstractStreamSolver | None:
        """Return the solver as it learns from streams, or None if it needs all rows at hand."""
        return None


class AbstractStreamSolver(AbstractSolver[S]):
    """A solver that learns from one mini-batch after another, and so from streams as well."""

    batch_size: int | str

    @abstractmethod
    def start(self, D: Array, seed: int) -> S:
        """Return the state before the first mini-batch."""

    @abstractmethod
    def absorb(self, problem: Problem, state: S, rows: Rows = None, *, epoch_rows: int) -> S:
        """Take one step with the given rows of the problem's source, or all of them.

        ``epoch_rows`` is the number of rows that count as an epoch.
        """

    @abstractmethod
    def remembered(self, state: S, count: int) -> float:
        """Return for how many rows the sums stand when so many rows have joined."""

    @property
    @abstractmethod
    def has_code_sums(self) -> bool:
        """Whether states have sums over codes, which are rescaled when atoms are."""

    @abstractmethod
    def rescaled(self, state: S, factors: Array | float) -> S:
        """Return the state with each atom multiplied by its factor, and codes divided by it."""

    @abstractmethod
    def at_batches_of(self, state: S, rows: int) -> S:
        """Return the state as if all mini-batches so far had had so many rows."""

    @abstractmethod
    def at_new_scale(self, state: S) -> S:
        """Return the state from which to go on when the scale of the data has changed."""

    def going_on_from(self, state: Any) -> S:
        """Return the state, or a new one with its dictionary if it is that of another solver."""
        fresh = self.start(state.D, state.seed)
        return state if type(state) is type(fresh) else fresh

    def for_streams(self) -> AbstractStreamSolver[S]:
        return self

    @property
    def measures(self) -> bool:
        return False

    def init(self, problem: Problem, D: Array, seed: int) -> S:
        checked_batch_size(self.batch_size, problem.n_samples, len(D))
        return self.start(D, seed)

    def step(self, problem: Problem, state: S) -> S:
        batch_size = checked_batch_size(self.batch_size, problem.n_samples, len(state.D))
        batch = problem.draw(batch_size, state.seed, state.step)
        return self.absorb(problem, state, batch, epoch_rows=problem.n_samples)

    def answer(self, state: S) -> Array:
        return state.D

    @property
    def reports_best(self) -> bool:
        return False


def rescaled_atoms(D: Array, factors: Array | float) -> tuple[Array, Array]:
    """Return a dictionary with each atom multiplied by its factor, and the factors as a column."""
    column = np.broadcast_to(np.asarray(factors, dtype=D.dtype), len(D))[:, None]
    return D * column, column


def checked_batch_size(batch_size: int | str, n_samples: int, n_components: int) -> int:
    """Return the size of mini-batches for n rows and k atoms.

    ``"auto"`` grows as n^⅔ like the paper's, but is at least 64 and two for each atom beyond 64, or a tenth
    of the rows if they are few.
    """
    if batch_size == "auto":
        return max(paper_batch_size(n_samples), smallest_batch(n_samples, n_components, 2))
    return valid_batch_size(int(batch_size), n_samples)


def valid_batch_size(batch_size: int, n_samples: int) -> int:
    """Return the batch size, or raise if there are not so many rows."""
    if batch_size > n_samples:
        raise ValueError(
            f"`batch_size` is {batch_size} but the data has {n_samples} rows. "
            f'Use at most {n_samples}, or `batch_size="auto"`.'
        )
    return batch_size


def smallest_batch(n_samples: int, n_components: int, rows_per_atom: int) -> int:
    """Return the smallest mini-batch worth its step: below it a step is hardly cheaper.

    A step works on the dictionary itself (DDᵀ, a sweep over the atoms), which counts beside the codes of 64
    rows from about 64 atoms on; so there are ``rows_per_atom`` more for each further atom. A mini-batch is
    at most a tenth of the rows.
    """
    return min(64 + rows_per_atom * max(n_components - 64, 0), -(-n_samples // 10))


def paper_batch_size(n_samples: int) -> int:
    """Return b = max(1, round(0.2 · n^⅔)), the paper's choice."""
    return max(1, round(0.2 * n_samples ** (2 / 3)))


def paper_inner_steps(n_samples: int) -> int:
    """Return m = max(1, round(0.5 · n^⅓)), the paper's choice."""
    return max(1, round(0.5 * n_samples ** (1 / 3)))


def check_auto_count(name: str, value: int | str) -> None:
    """Raise unless the value is ``"auto"`` or a whole number of at least 1."""
    if not is_auto(value):
        whole_number(name, value, low=1)


def check_coder(value: Coder) -> None:
    """Raise unless the value is a coder."""
    if not isinstance(value, Coder):
        raise TypeError(f"`coder` is {value!r}. Use a value such as vrmf.solvers.Coder(tol=1e-6).")


def check_auto_positive(name: str, value: float | str) -> None:
    """Raise unless the value is ``"auto"`` or a positive number."""
    if not is_auto(value):
        real_number(name, value, low=0, strict=True)


def rises(objective: float, before: float, dtype: np.dtype[Any]) -> bool:
    """Whether the objective is above its earlier value by more than rounding."""
    return objective > before + 64 * float(np.finfo(dtype).eps) * abs(before)
