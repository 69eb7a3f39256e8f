"""A warm pass over MNIST: its time, and the share of each part."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.coding_runs import CODER, REPEATS
from benchmarks.common import THREADS, Array, interleaved, mnist, moved, rows_as_atoms
from vrmf import formulations
from vrmf.arrays import row_squares
from vrmf.coding import Atoms
from vrmf.coding.base import error_scale
from vrmf.coding.forms import form_of
from vrmf.coding.system import System
from vrmf.problem import Problem
from vrmf.sources import as_source, single_threaded_blas
from vrmf.terms import L1

#: The weight of the ℓ₁ penalty on codes.
WEIGHT = 1 / 28


def anchor_pass() -> list[dict[str, Any]]:
    """A warm pass of P1 over MNIST 60 000 (codes, sums, loss), against the matrix products in it."""
    results = []
    for dtype in (np.float64, np.float32):
        X = mnist(60_000, dtype)
        D = rows_as_atoms(X, 49)
        problem = Problem(formulations.dictionary_learning(WEIGHT), as_source(X, n_jobs=THREADS))
        known, store = (problem.room_for_codes("codes", number, 49) for number in (0, 1))
        problem.stats(D, CODER, store=known)
        H, D2 = known.values, moved(D)
        assert H is not None
        runs = {
            "warm pass": lambda: problem.stats(D2, CODER, known=known, store=store),
            "products": lambda: (X @ D.T, H.T @ X, H @ D, H.T @ H),
        }
        times = interleaved(runs, REPEATS)
        ratio = times["warm pass"] / times["products"]
        print(f"warm pass {dtype.__name__}: {ratio:.2f}× its matrix products (wanted ≤ 4)", flush=True)
        shares = part_shares(X, D2, H)
        results.append(
            {"dtype": dtype.__name__, "ratio": ratio, "wanted": 4, "seconds": times, "shares": shares}
        )
    return results


@dataclass
class Clock:
    """The seconds that each part of some work took in all."""

    seconds: dict[str, float] = field(default_factory=dict)

    def timed(self, part: str, work: Callable[[], Any]) -> Any:
        """Return what some work returns, and add its time to that of a part."""
        begin = time.perf_counter()
        value = work()
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begin
        return value


def part_shares(X: Array, D: Array, start: Array) -> dict[str, float]:
    """Return the share of each part in the time of a warm pass on one thread."""
    form, model, clock = form_of(L1(WEIGHT)), formulations.dictionary_learning(WEIGHT), Clock()
    timed = clock.timed
    with single_threaded_blas():
        atoms = Atoms(D)
        system = System.of(atoms, 0.0)
        timed("Gram matrix and inverse", lambda: system.inverse)
        for i in range(0, len(X), 512):
            rows, P = X[i : i + 512], start[i : i + 512].copy()
            allowed = CODER.reachable_tol(X.dtype) * timed(
                "norms of rows", lambda: error_scale(atoms, row_squares(rows))
            )
            C = timed("XDᵀ", lambda: rows @ D.T)
            force = timed("optimality, twice", lambda: C - P @ system.A)
            _, free = timed("optimality, twice", lambda: form.conditions(P, force, system))
            timed("Newton steps", lambda: form.newton(P, force, free, system, allowed, 100))
            timed("optimality, twice", lambda: form.conditions(P, C - P @ system.A, system))
            residual = timed("HD − X", lambda: model.residual(rows, D, P)[0])
            timed("Hᵀ(HD − X)", lambda: P.T @ residual)
            timed("HᵀH", lambda: P.T @ P)
            timed("loss", lambda: (row_squares(residual), row_squares(P), model.code.row_values(P)))
    total = sum(clock.seconds.values())
    return {part: seconds / total for part, seconds in clock.seconds.items()}
