"""What each mechanism of the default VR gains: the same runs with one of them switched off.

The gap to the best objective seen is compared after equal numbers of passes, as a share of the first gap.
The tables have medians over seeds. VR has no options for this, so constants are replaced and methods are
overridden here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest import mock

from benchmarks.common import Array
from benchmarks.solver_problems import CASES, Case
from benchmarks.solver_runs import rounded, snapshots
from vrmf.comparing.measuring import Yardstick, warm_up
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import VR, opening, vr
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.vr import Pace, VRState

PROBLEMS = ("ODL CBCL", "ODL MNIST", "ONMF CBCL")

#: The passes after which gaps are compared.
AFTER = (2.0, 6.0, 20.0)


class PlainSteps(VR):
    """Steps D ← prox(D − V/λ_max(A)) instead of preconditioned ones."""

    def _descend(
        self, problem: Problem, state: VRState, anchor: Anchor, V: Array, b: int, m: int
    ) -> tuple[Array, Array]:
        point = problem.prox_step(state.D, V, min(1.0, state.pace.length) / anchor.largest_curvature)
        return point, point


class FixedLength(VR):
    """Steps of the same length in all epochs, without momentum."""

    def _judge(self, pace: Pace, old: Anchor, new: Anchor) -> tuple[Anchor, Pace]:
        better, judged = super()._judge(pace, old, new)
        return better, replace(judged, length=1.0)


Variant = tuple[Callable[[], VR], Callable[[], AbstractContextManager[Any]]]


def _with(module: ModuleType, **constants: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.multiple(module, **constants)


def _without_samples() -> AbstractContextManager[Any]:
    return mock.patch.object(Problem, "sample", lambda problem, count, seed: None)


VARIANTS: dict[str, Variant] = {
    "default": (VR, nullcontext),
    "no opening, no samples": (lambda: VR(opening=False), nullcontext),
    "no samples": (VR, _without_samples),
    "opening without forgetting": (VR, _with(opening, FORGETTING=0.0)),
    "plain steps": (PlainSteps, nullcontext),
    "no cooling": (VR, _with(vr, cooling=lambda inner, steps: 1.0)),
    "no momentum": (VR, _with(vr, MOST_MOMENTUM=0.0)),
    "fixed reach": (FixedLength, nullcontext),
    "no cache of codes": (lambda: VR(cache_megabytes=0), nullcontext),
    "exact codes throughout": (VR, _with(vr, LOOSEST=0.0)),
    "half the batch size": (lambda: VR(batch_size=32), nullcontext),
    "four times the batch size": (lambda: VR(batch_size=256), nullcontext),
}


def ablation(seeds: tuple[int, ...] = (0, 1, 2)) -> dict[str, Any]:
    """Return, for each problem and variant, the median gaps after some passes and the seconds taken."""
    results = {}
    for name in PROBLEMS:
        case = CASES[name]()
        warm_up(VR(), case.problem, case.start(seeds[0]))
        runs = {variant: [_run(case, *VARIANTS[variant], seed) for seed in seeds] for variant in VARIANTS}
        firsts = [Yardstick.of(case.problem).measured(case.start(seed)).objective for seed in seeds]
        # The best objective is that of a longer run of the default, or of a variant that is lower.
        best = [_best(case, seed, [run[i] for run in runs.values()]) for i, seed in enumerate(seeds)]
        results[name] = {
            variant: {
                "gaps": [
                    rounded(
                        statistics.median(_gap(run[i][j], firsts[i], best[i]) for i in range(len(seeds)))
                    )
                    for j in range(len(AFTER))
                ],
                "seconds": rounded(statistics.median(one[-1] for one in run), 3),
            }
            for variant, run in runs.items()
        }
        print(name, results[name], flush=True)
    return results


def _gap(value: float, first: float, best: float) -> float:
    return (value - best) / (first - best)


def _run(
    case: Case, make: Callable[[], VR], patched: Callable[[], AbstractContextManager[Any]], seed: int
) -> list[float]:
    """Return the objectives after some passes, and the seconds that all of them took."""
    with patched():
        taken = snapshots(iterate(make(), case.problem, case.start(seed), seed), AFTER[-1], 30.0, 1.04)
    yardstick = Yardstick.of(case.problem)
    ends = [max((s for s in taken if s.passes <= 1.02 * after), key=lambda s: s.passes) for after in AFTER]
    return [yardstick.measured(end.D).objective for end in ends] + [taken[-1].seconds]


def _best(case: Case, seed: int, runs: list[list[float]]) -> float:
    taken = snapshots(iterate(VR(), case.problem, case.start(seed), seed), 120, 40.0, 1.5)
    return min(Yardstick.of(case.problem).measured(taken[-1].D).objective, *(min(r[:-1]) for r in runs))
