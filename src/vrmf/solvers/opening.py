"""A short run of SMM, which brings VR near to a solution before its first pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.problem import Problem
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.base import smallest_batch, valid_batch_size
from vrmf.solvers.smm import SMM, SMMState

# What these numbers gain was measured: docs/solvers.md.

#: Mini-batches that SMM takes, in at most OPENING_PASSES passes over the data.
OPENING_STEPS = 80
OPENING_PASSES = 2

#: So many mini-batches make the first step, which tells whether SMM is of use.
FIRST_BATCH = 2

#: How fast SMM forgets its first mini-batches.
FORGETTING = 5.0

#: Rows of a mini-batch for each atom beyond 64, at least.
ROWS_PER_ATOM = 2


@dataclass(frozen=True)
class Opening:
    """The run of SMM before the first anchor."""

    batch_size: int | str
    reseed: bool
    coder: Coder

    def start(self, D: Array, seed: int) -> SMMState:
        """Return the state before the first step."""
        return self._smm.start(D, seed)

    def step(self, problem: Problem, state: SMMState) -> tuple[SMMState, bool]:
        """Return the state after one more step, and whether that was the last one.

        Where the start is so good that its gradient is lost in noise, no step is taken, and it is over.
        """
        n, b, is_first = problem.n_samples, self._batch(problem.n_samples, len(state.D)), state.step == 0
        batch = problem.draw(min(n, FIRST_BATCH * b) if is_first else b, state.seed, state.step)
        stats = problem.stats(state.D, self.coder, batch)
        if is_first and Anchor.of(problem, state.D, stats).is_exhausted:
            return replace(state, solved=stats.count), True
        state = self._smm.absorb_sums(problem, state, stats, epoch_rows=n)
        return state, state.solved >= min(OPENING_STEPS * b, OPENING_PASSES * n)

    def rows_seen(self, n_samples: int, n_components: int) -> int:
        """Return about how many rows a whole run learns from."""
        return OPENING_STEPS * self._batch(n_samples, n_components)

    @property
    def _smm(self) -> SMM:
        return SMM(forgetting=FORGETTING, reseed=self.reseed, coder=self.coder)

    def _batch(self, n_samples: int, n_components: int) -> int:
        if self.batch_size != "auto":
            return valid_batch_size(int(self.batch_size), n_samples)
        return smallest_batch(n_samples, n_components, ROWS_PER_ATOM)
