"""The number of atoms: the paper says that the performance of the methods is not sensitive to it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.paper import contest
from experiments.paper.contest import DEFAULT, LITERAL, SGD_PAPER, SMM_PAPER
from experiments.paper.drawing import STYLES, column
from experiments.paper.panels import Case, Panel, Size
from vrmf.comparing.measuring import curve

COUNTS, QUICK_COUNTS = (10, 25, 49, 100), (5, 10, 20)
ROWS, QUICK_ROWS = 400, 100
PANELS = (Panel("ODL", "CBCL"), Panel("ONMF", "CBCL"), Panel("ORPCA", "Yale B"))
CONTESTANTS = (LITERAL, SMM_PAPER, SGD_PAPER, DEFAULT)


@lru_cache(maxsize=1)
def _loaded(panel: Panel, size: Size) -> Case:
    return panel.load(size)


def compared(case: Case, n_components: int, seconds: float) -> dict[str, Any]:
    """Return the curves of all contestants for one number of atoms, and the best objective known.

    Each has the constants that end lowest for this number.
    """
    D, n = case.start(n_components=n_components), case.n_samples
    eta = contest.searched_step(case, D)["eta"]
    solvers = contest.others(n, contest.searched_sgd(case, D))
    curves = {LITERAL: contest.best_sweep([contest.swept(case, D, f * eta) for f in (0.5, 1.0, 2.0)])}
    for name in CONTESTANTS[1:]:
        curves[name] = curve(solvers[name](), case.problem, D, at=contest.grid(n))
    ends = contest.best_known(case.problem, D, 400.0, seconds)["f"]
    lowest = min(ends, *(float(np.min(found["f"])) for found in curves.values()))
    return {"title": case.title, "best": lowest, "curves": curves}


def _steps(scale: Scale) -> list[Step]:
    quick = scale.quick
    size = Size(quick, scale.synth_rows, QUICK_ROWS if quick else ROWS)
    return [
        Step(
            f"{panel.name}/{count}",
            lambda results, panel=panel, count=count: compared(  # type: ignore[misc]
                _loaded(panel, size), count, 1.0 if quick else 10.0
            ),
            (3.0 if quick else 25.0) * (2 if panel.model == "ORPCA" else 1),
        )
        for panel in PANELS
        for count in (QUICK_COUNTS if quick else COUNTS)
    ]


def _left(found: Any, contestant: str) -> float:
    """Return the part of the first gap that a contestant leaves at the end."""
    f = column(found["curves"][contestant], "f")
    return float((f[-1] - found["best"]) / (f[0] - found["best"]))


def _counts(results: Results, panel: Panel) -> list[int]:
    return sorted(int(key.rpartition("/")[2]) for key in results if key.startswith(f"{panel.name}/"))


def draw(results: Results) -> dict[str, Figure]:
    """Draw the gap over passes, a line of panels for each problem and a column for each k."""
    panels = [panel for panel in PANELS if _counts(results, panel)]
    if not panels:
        return {}
    widest = max(len(_counts(results, panel)) for panel in panels)
    figure = Figure(figsize=(2.8 * widest + 0.6, 2.5 * len(panels) + 0.6), layout="constrained")
    axes = figure.subplots(len(panels), widest, squeeze=False)
    for line, panel in zip(axes, panels, strict=True):
        for spot, count in zip(line, _counts(results, panel), strict=False):
            found = results[f"{panel.name}/{count}"]
            for name, curve_ in found["curves"].items():
                gap = column(curve_, "f") - found["best"]
                part = np.where(gap > 0, gap / gap[0], np.nan)
                spot.semilogy(column(curve_, "passes"), part, label=name, **STYLES[name])
            spot.set(xlabel="passes", title=f"{found['title']}, k = {count}")
            spot.title.set_fontsize(9)
            spot.grid(alpha=0.3)
        line[0].set_ylabel("part of the first gap")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return {"components": figure}


def table(results: Results) -> str:
    """Return the share of the first gap that each leaves after ten epochs, for each k."""
    lines = [f"| problem | k | {' | '.join(CONTESTANTS)} |", "|---|---|" + "---|" * len(CONTESTANTS)]
    for panel in PANELS:
        for count in _counts(results, panel):
            found = results[f"{panel.name}/{count}"]
            left = " | ".join(f"{_left(found, name):.2g}" for name in CONTESTANTS)
            lines.append(f"| {found['title']} | {count} | {left} |")
    return "\n".join([*lines, "", "Each entry is the part of the first gap that is left after ten epochs."])


COMPONENTS = Experiment(
    "components",
    "The performance of VR, SMM and SGD is not sensitive to the number of atoms k.",
    _steps,
    draw,
    table,
)
