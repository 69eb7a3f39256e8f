"""VR against SMM and SGD with their best constants, and how ‖Γ‖² falls.

VR has its defaults. SMM and SGD have the constants that a search on seed 0 finds best, after 3 passes and
later; see solver_search.py. Objectives are computed from exact codes of all rows, off the clock.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.common import Array
from benchmarks.solver_problems import CASES, Case
from benchmarks.solver_runs import (
    Grid,
    Trace,
    measurements,
    objective_by,
    packed,
    polished,
    rounded,
    snapshots,
)
from benchmarks.solver_search import constants, tuned
from vrmf.comparing.measuring import Snapshot, Yardstick, warm_up, within_budget
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import VR, AbstractSolver, Batch

#: Shares of the first gap to f* whose times are reported. At the first two VR should be at most KEEPS_UP
#: times as slow as the best other solver, at the others faster.
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)
KEEPS_UP = 1.1

#: Snapshots are taken at passes that grow by RATIO. Each STRIDE-th is evaluated and drawn. Those between
#: are evaluated only to find when a level was reached.
RATIO = 1.08
STRIDE = 4

#: Shares of the first ‖Γ‖² whose passes are reported.
STATIONARITY_LEVELS = tuple(10.0**-power for power in range(1, 9))


@dataclass
class Curve:
    """A run, of which each STRIDE-th snapshot is drawn."""

    trace: Trace

    @property
    def coarse(self) -> list[int]:
        """The snapshots that are drawn."""
        count = len(self.trace.snapshots)
        return sorted({*range(0, count, STRIDE), count - 1})

    def first_at(self, level: float) -> Snapshot | None:
        """Return the first snapshot at or below a level, by bisection between those that are drawn."""
        above = -1
        for i in self.coarse:
            if self.trace.value(i) <= level:
                while i - above > 1:
                    middle = (above + i) // 2
                    above, i = (above, middle) if self.trace.value(middle) <= level else (middle, i)
                return self.trace.snapshots[i]
            above = i
        return None

    def on_file(self) -> dict[str, str]:
        """Return the curve in the form of the file."""
        passes, seconds, values = zip(*self.trace.points(self.coarse), strict=True)
        return {"passes": packed(passes), "seconds": packed(seconds, 4), "f": packed(values, 10)}


def panels(
    names: Iterable[str] | None = None,
    seeds: Iterable[int] = (0, 1, 2),
    passes: float | None = None,
    seconds: float = 6.0,
) -> dict[str, Any]:
    """Return the contest on each problem; ``passes`` are 60, or 30 for more than 3 000 rows."""
    results = {}
    for name in names or CASES:
        case = CASES[name]()
        limit = passes or (60 if case.problem.n_samples <= 3000 else 30)
        results[name] = panel(case, list(seeds), limit, seconds)
        print(f"{name}: {_told(results[name])}", flush=True)
    return results


def panel(case: Case, seeds: list[int], passes: float, seconds: float) -> dict[str, Any]:
    """Return the contest on one problem: constants, curves for each seed, medians and the verdict."""
    found = tuned(case.problem, case.start(0))
    contestants: dict[str, AbstractSolver] = {"VR": VR(), **found}
    for solver in contestants.values():
        warm_up(solver, case.problem, case.start(0))
    runs = [contest(case, contestants, seed, passes, seconds) for seed in seeds]
    medians = {
        target: {
            name: _medians([run["contestants"][name]["reached"][target] for run in runs])
            for name in contestants
        }
        for target in ("best", "own")
    }
    return {
        "rows": case.problem.n_samples,
        "levels": list(LEVELS),
        "constants": {name: constants(solver) for name, solver in found.items()},
        "medians": medians,
        "verdict": {target: verdict(table) for target, table in medians.items()},
        "seeds": runs,
    }


def contest(
    case: Case, contestants: dict[str, AbstractSolver], seed: int, passes: float, seconds: float
) -> dict[str, Any]:
    """Run all from the same start; return when each reached the levels, for its own f* and for the best."""
    D, curves, own = case.start(seed), {}, {}
    first = Yardstick.of(case.problem).measured(D)
    for name, solver in contestants.items():
        run = iterate(solver, case.problem, D, seed)
        taken = snapshots(run, passes, seconds, RATIO)
        yardstick = Yardstick.of(case.problem)
        trace = Trace(taken, objective_by(yardstick), {0: first.objective})
        curves[name] = curve = Curve(trace)
        seen = min(trace.value(i) for i in curve.coarse)
        end = polished(yardstick.problem, taken[-1].D, 1e-10 * first.stationarity)
        own[name] = min(seen, end)
    best = min(own.values())
    return {
        "seed": seed,
        "f0": rounded(first.objective, 10),
        "best": rounded(best, 10),
        "contestants": {
            name: {
                "own": rounded(own[name], 10),
                "reached": {
                    "best": reached(curve, first.objective, best),
                    "own": reached(curve, first.objective, own[name]),
                },
                "curve": curve.on_file(),
            }
            for name, curve in curves.items()
        },
    }


def reached(curve: Curve, first: float, lowest: float) -> dict[str, list[float | None]]:
    """Return the passes and seconds after which the gap was each part of the first gap."""
    found = [curve.first_at(lowest + level * (first - lowest)) for level in LEVELS]
    return {
        "passes": [None if at is None else rounded(at.passes) for at in found],
        "seconds": [None if at is None else rounded(at.seconds, 4) for at in found],
    }


def _medians(tables: list[dict[str, list[float | None]]]) -> dict[str, list[float | None]]:
    """Return the medians over seeds, where never is later than any time."""
    return {
        unit: [
            rounded(statistics.median(map(_or_never, values)))
            for values in zip(*(table[unit] for table in tables), strict=True)
        ]
        for unit in ("passes", "seconds")
    }


def verdict(table: dict[str, dict[str, list[float | None]]]) -> dict[str, list[bool | None]]:
    """Return for each level whether VR is as fast as it should be, None where no solver reached it."""
    verdicts: dict[str, list[bool | None]] = {}
    for unit in ("passes", "seconds"):
        verdicts[unit] = []
        for i, level in enumerate(LEVELS):
            at = {name: _or_never(rows[unit][i]) for name, rows in table.items()}
            ours = at.pop("VR")
            theirs = min(at.values())
            good = ours <= KEEPS_UP * theirs if level >= 1e-2 else ours < theirs
            verdicts[unit].append(None if math.isinf(ours) and math.isinf(theirs) else good)
    return verdicts


def _or_never(value: float | None) -> float:
    return math.inf if value is None else value


def _told(result: dict[str, Any]) -> str:
    table = result["medians"]["best"]
    times = "; ".join(f"{name} {rows['passes']} {rows['seconds']}" for name, rows in table.items())
    return f"{times}; {result['verdict']['best']}"


# ------------------------------------------------------------------ the certificate


def stationarity(
    names: Iterable[str] | None = None, passes: float = 500, seconds: float = 60.0
) -> dict[str, Any]:
    """Return the passes that VR and batch steps take until ‖Γ‖² has fallen to each part of its first.

    Batch gets three times the passes of VR and a third of its seconds.
    """
    results: dict[str, Any] = {}
    for name in names or CASES:
        case = CASES[name]()
        D = case.start(0)
        results[name] = {
            "VR": descent(VR(), case.problem, D, passes, seconds),
            "plain batch": descent(Batch(momentum=False), case.problem, D, 3 * passes, seconds / 3),
            "batch": descent(Batch(), case.problem, D, 3 * passes, seconds / 3),
        }
        told = {solver: result["passes to levels"] for solver, result in results[name].items()}
        print(f"{name}: {told}", flush=True)
    return results


def descent(
    solver: AbstractSolver, problem: Problem, D: Array, passes: float, seconds: float
) -> dict[str, Any]:
    """Return ‖Γ‖² along a run: as the solver measures it, and as measured here at a grid of passes."""
    yardstick, grid = Yardstick.of(problem), Grid(0.5, 1.15)
    first, last = yardstick.measured(D).stationarity, STATIONARITY_LEVELS[-1]
    points, clock = [(0.0, 1.0)], 0.0
    run = within_budget(iterate(solver, problem, D, 0), passes, seconds)
    for current, measured in measurements(run, yardstick, lambda current: grid.passed(current.passes)):
        points.append((current.passes, measured.stationarity / first))
        clock = current.seconds
        if points[-1][1] <= last:
            break
    needed = [next((p for p, part in points if part <= level), None) for level in STATIONARITY_LEVELS]
    drawn, thin = points[:1], Grid(0.5, 1.1)
    drawn += [point for point in points[1:-1] if thin.passed(point[0])] + points[-1:]
    return {
        "levels": list(STATIONARITY_LEVELS),
        "passes to levels": [rounded(p) for p in needed],
        "lowest": rounded(min(part for _, part in points)),
        "seconds": rounded(clock, 4),
        "curve": {
            "passes": packed(p for p, _ in drawn),
            "stationarity": packed((part for _, part in drawn), 4),
        },
    }
