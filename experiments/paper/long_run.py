"""Ten times as many epochs as the paper runs: whether the order of the methods changes with time."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.paper import contest
from experiments.paper.contest import DEFAULT, LITERAL, SGD_PAPER, SMM_FORGETS, SMM_PAPER
from experiments.paper.drawing import STYLES, column, curves_of, part_of_gap
from experiments.paper.figures import constants_steps, loaded_case, size_of
from experiments.paper.panels import Panel, Size
from vrmf.comparing.measuring import curve

PANELS = (Panel("ODL", "CBCL"), Panel("ONMF", "CBCL"))
CONTESTANTS = (LITERAL, SMM_PAPER, SMM_FORGETS, SGD_PAPER, DEFAULT)

#: Epochs of Algorithm 1 in all, and those after which dictionaries are judged; of a quick run a fifth.
EPOCHS = 100
JUDGED = (0, 1, 2, 4, 7, 10, 20, 40, 70, 100)


def _long(panel: Panel, size: Size, name: str, results: Results) -> dict[str, Any]:
    """Return the curve of a contestant with the constants that are best for ten epochs."""
    case = loaded_case(panel, size)
    fifth = 5 if size.quick else 1
    ends = contest.literal_epochs(case.n_samples, EPOCHS // fifth)
    at = [ends[epoch] for epoch in sorted({judged // fifth for judged in JUDGED})]
    if name == LITERAL:
        solver: Any = contest.literal(curves_of(results, panel.name)[LITERAL]["eta"])
    else:
        solver = contest.others(case.n_samples, results[f"{panel.name}/search SGD"])[name]()
    return {"title": case.title} | curve(solver, case.problem, case.start(), at=at)


def _steps(scale: Scale) -> list[Step]:
    size = size_of(scale)
    steps = []
    for panel in PANELS:
        steps += constants_steps(panel, size)
        steps += [
            Step(
                f"{panel.name}/long/{name}",
                lambda results, panel=panel, name=name: _long(panel, size, name, results),  # type: ignore[misc]
                1.0 if size.quick else 15.0,
            )
            for name in CONTESTANTS
        ]
    return steps


def _curves(results: Results, panel: Panel) -> dict[str, Any]:
    return {name: results[f"{panel.name}/long/{name}"] for name in CONTESTANTS}


def _best(results: Results, panel: Panel) -> float:
    ends = [min(found["f"]) for found in _curves(results, panel).values()]
    return min(ends + [results[key]["f"] for key in (f"{panel.name}/best",) if key in results])


def draw(results: Results) -> dict[str, Figure]:
    """Draw the gap to the best value known, and ‖Γ‖², over passes, both on logarithmic axes."""
    figure = Figure(figsize=(4.2 * len(PANELS), 6), layout="constrained")
    axes = figure.subplots(2, len(PANELS), squeeze=False)
    for (above, below), panel in zip(axes.T, PANELS, strict=True):
        best = _best(results, panel)
        for name, found in _curves(results, panel).items():
            passes = column(found, "passes")
            above.loglog(passes, part_of_gap(found, best), label=name, **STYLES[name])
            below.loglog(passes, column(found, "stationarity"), **STYLES[name])
            above.set_title(found["title"])
        below.set_xlabel("passes")
        for spot in (above, below):
            spot.grid(alpha=0.3)
    axes[0][0].set_ylabel("part of the first gap")
    axes[1][0].set_ylabel("‖Γ‖²")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return {"long": figure}


def table(results: Results) -> str:
    """Return the gap and ‖Γ‖² at the end."""
    lines = ["| problem | contestant | passes | part of the first gap | ‖Γ‖² |", "|---|---|---|---|---|"]
    for panel in PANELS:
        best = _best(results, panel)
        for name, found in _curves(results, panel).items():
            left = (found["f"][-1] - best) / (found["f"][0] - best)
            lines.append(
                f"| {found['title']} | {name} | {found['passes'][-1]:.0f} | {left:.2g} "
                f"| {found['stationarity'][-1]:.2g} |"
            )
    return "\n".join(lines)


LONG_RUN = Experiment(
    "long",
    "SMM and SGD, whose steps vanish, make minute progress after many samples; the constant step of VR "
    "goes on to a much higher accuracy.",
    _steps,
    draw,
    table,
    shared="panels",
)
