"""Fits of random problems, well-conditioned or not, by every estimator with its default solver."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import vrmf
from benchmarks.common import Array
from benchmarks.solver_runs import RANKING_CODER, rounded
from vrmf.problem import Problem
from vrmf.sources import as_source
from vrmf.terms import L1, NonNegative, UnitBall

EPOCHS = 5

#: A fit also stops after these seconds, which is no failure.
FIT_SECONDS = 5.0

#: Bounds on n · max(k, d) and, for each estimator, on n · k · max(k, d), so that a fit takes a few seconds.
ENTRIES = 3e7
WORK = {
    "DictionaryLearning": 3e8,
    "GroupDictionaryLearning": 5e7,
    "NMF": 1e8,
    "SmoothDictionaryLearning": 3e7,
    "RobustPCA": 5e7,
    "MaxNormDecomposition": 3e7,
    "LowRankRepresentation": 5e7,
    "RobustNMF": 5e6,
    "MatrixFactorization": 3e8,
    "MatrixFactorization, composed": 2e7,
}
NON_NEGATIVE = ("NMF", "SmoothDictionaryLearning")


@dataclass(frozen=True)
class Trial:
    """A random problem; the same seed makes the same data."""

    kind: str
    n: int
    d: int
    k: int
    scale: float
    sparse: bool  #: whether nine tenths of the entries are zero
    ill: bool  #: whether singular values fall to 10⁻⁸ of the first
    rows: str  #: "distinct", "twice" (each of them), or "three" (copies of three)
    seed: int

    @classmethod
    def draw(cls, seed: int) -> Trial:
        """Draw a problem that is not too large."""
        rng = np.random.default_rng(seed)
        kind, ill = str(rng.choice(list(WORK))), bool(rng.random() < 0.3)
        most = WORK[kind] * (0.1 if ill else 1)  # then codes take about ten times as long
        while True:
            n, d, k = (_log_uniform(rng, *ends) for ends in ((10, 100_000), (2, 500), (1, 300)))
            if n * max(k, d) <= ENTRIES and n * k * max(k, d) <= most:
                break
        return cls(
            kind=kind,
            n=n,
            d=d,
            k=k,
            scale=10 ** rng.uniform(-6, 6),
            sparse=bool(rng.random() < 0.3),
            ill=ill,
            rows=str(rng.choice(["distinct", "twice", "three"], p=[0.6, 0.2, 0.2])),
            seed=seed,
        )

    def data(self) -> Array:
        """Return the rows."""
        rng, n, d = np.random.default_rng([self.seed, 1]), self.n, self.d
        distinct = {"distinct": n, "twice": -(-n // 2), "three": 3}[self.rows]
        X = rng.standard_normal((distinct, d))
        if self.ill:
            directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
            sizes = np.geomspace(1, 1e-8, d)
            if self.kind in NON_NEGATIVE:  # factors with most of the decay
                X, directions = np.abs(X), np.abs(directions)
            X = (X * sizes) @ directions
        if self.sparse:
            X[rng.random(X.shape) >= 0.1] = 0
        X = self.scale * X[rng.permutation(np.arange(n) % distinct)]
        return np.abs(X) if self.kind in NON_NEGATIVE else X

    def model(self, X: Array) -> Any:
        """Return the estimator, for its data."""
        common: dict[str, Any] = {"max_iter": EPOCHS, "max_time": FIT_SECONDS, "random_state": 0}
        if self.kind != "MatrixFactorization, composed":
            return getattr(vrmf, self.kind)(self.k, **common)
        size = float(np.sqrt(np.mean(X**2))) or 1.0
        return vrmf.MatrixFactorization(
            self.k,
            code=L1(0.5 * size) + NonNegative(),
            dictionary=NonNegative() + UnitBall(),
            outliers=L1(size),
            **common,
        )

    def __str__(self) -> str:
        traits = ["sparse"] * self.sparse + ["ill-conditioned"] * self.ill + [f"rows {self.rows}"]
        shape = f"n={self.n} d={self.d} k={self.k} scale={self.scale:.1e}"
        return f"{self.kind} {shape}, {', '.join(traits)} (seed {self.seed})"


def robustness(count: int = 200, seed: int = 0) -> dict[str, Any]:
    """Fit random problems, and return what went wrong."""
    trials = [outcome(Trial.draw(1000 * seed + i)) for i in range(count)]
    failed = [trial for trial in trials if trial["failures"]]
    summary = {
        "count": count,
        "fine": count - len(failed),
        "failures": dict(Counter(text.split(":")[0] for trial in failed for text in trial["failures"])),
        "stops": dict(Counter(trial["stop"] for trial in trials)),
        "problems by estimator": dict(Counter(trial["problem"].split(" n=")[0] for trial in trials)),
        "longest, s": max(trial["seconds"] for trial in trials),
        "total, s": rounded(sum(trial["seconds"] for trial in trials), 4),
    }
    print(summary, flush=True)
    return {"summary": summary, "trials": trials}


def outcome(trial: Trial) -> dict[str, Any]:
    """Fit one problem and check the result."""
    X = trial.data()
    model, failures, stop = trial.model(X), [], "none"
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X)
        seconds = time.perf_counter() - began
        stop = model.stop_reason_.split(":")[0]
        failures = [*unexpected(caught), *complaints(model, X)]
    except Exception as error:  # any exception is a result
        seconds = time.perf_counter() - began
        failures = [f"exception: {error!r} at {_where(error)}"]
    if failures:
        print("\n  ".join([f"FAILED {trial}", *failures]), flush=True)
    return {"problem": str(trial), "failures": failures, "stop": stop, "seconds": rounded(seconds, 3)}


def unexpected(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the warnings, except those that the budget has ended or that all codes are zero.

    Zero codes are the best ones if a weight is large enough, so that warning is right.
    """
    others = [
        one
        for one in caught
        if not issubclass(one.category, ConvergenceWarning) and "All codes" not in str(one.message)
    ]
    return [
        f"warning: {one.category.__name__}, {one.message} ({Path(one.filename).name}:{one.lineno})"
        for one in others
    ]


def complaints(model: Any, X: Array) -> list[str]:
    """Return what is wrong with a fitted model."""
    D, wrong = model.components_, []
    if not np.all(np.isfinite(D)):
        wrong.append("components: not finite")
    elif not math.isfinite(model.formulation_.dictionary.value(D)):
        wrong.append("components: not feasible")
    if model.stop_reason_.startswith("diverged"):
        wrong.append(f"diverged: {model.stop_reason_}")
    start = next(model.iterate(X)).D
    problem = Problem(model.formulation_, as_source(X))
    first = problem.measure(problem.stats(start, RANKING_CODER), start).objective
    # If the start is as good as the answer, the noise of the opening may raise the objective by this much.
    if not model.objective_ <= (1 + 1e-5) * first:
        wrong.append(f"objective: {model.objective_:.10g} is above {first:.10g} at the start")
    return wrong


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _where(error: Exception) -> str:
    """Return the last calls before an error, with the names of files but not their folders."""
    frames = traceback.extract_tb(error.__traceback__)
    return " → ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-6:])
