"""What all parts of coding.py share: our codes as a fit computes them, and comparisons of two times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import THREADS, Array, interleaved
from vrmf.block import Block
from vrmf.block_sums import CODES
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.sources import as_source
from vrmf.sources.companions import Carry, Companion
from vrmf.terms import Absent, AbstractRowTerm, Free

REPEATS = 5
CODER = Coder(tol=1e-7)

#: A comparison: its name, the peer, the ratio of times, and what else is known of it.
Result = dict[str, Any]


def codes_model(code: AbstractRowTerm, outliers: AbstractRowTerm | None = None) -> Formulation:
    """Return a formulation of which only the codes matter."""
    return Formulation(Free(), code, outliers or Absent())


def encode(
    model: Formulation, X: Array, D: Array, start: Array | None = None, coder: Coder = CODER
) -> Array:
    """Return the codes of all rows, computed block by block on two threads as a fit does."""
    atoms, source = Atoms(D), as_source(X, n_jobs=THREADS)
    known = None if start is None else Companion("codes", "start", start)
    found = source.companion("codes", 0, len(D))

    def of_block(block: Block) -> tuple[int, dict[str, Array]]:
        codes = model.encode(block, atoms, coder, block.companion(CODES))
        return int(np.sum(~codes.finished)), {CODES: codes.H}

    unfinished = source.reduce(of_block, carry=Carry.of(CODES, known, found))
    if unfinished:
        raise AssertionError(f"{unfinished} codes are unfinished")
    assert found.values is not None
    return found.values


def compare(name: str, wanted: float, contestants: dict[str, Callable[[], Any]], **facts: Any) -> Result:
    """Time our run, the first, against that of a peer, the second, which was run before."""
    peer = list(contestants)[1]
    return result(name, wanted, interleaved(contestants, REPEATS, ready=(peer,)), **facts)


def result(name: str, wanted: float, times: dict[str, float], **facts: Any) -> Result:
    """Return how many times faster the first is than the second, and print it."""
    (_, ours), (peer, theirs) = times.items()
    ratio = theirs / ours
    print(f"{name:50s} {ratio:7.1f}× (wanted {wanted:g}×)  {ours:.4f} s, {peer} {theirs:.4f} s", flush=True)
    return {"name": name, "peer": peer, "wanted": wanted, "ratio": ratio, "seconds": times, **facts}


def cold_and_warm(
    cold: Callable[[], Any], warm: Callable[[], Any], peer: Callable[[], Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return our times from zero and from known codes, each with that of SPAMS, which was run before."""
    runs = {"cold": cold, "warm": warm, "SPAMS lasso": peer}
    times = interleaved(runs, REPEATS, ready=("SPAMS lasso",))
    from_zero, from_known = (
        {"vrmf": times[kind], "SPAMS lasso": times["SPAMS lasso"]} for kind in ("cold", "warm")
    )
    return from_zero, from_known
