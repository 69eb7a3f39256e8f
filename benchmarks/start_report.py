"""Tables and the figure of starts.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.reporting import save
from benchmarks.start_scores import POOR, RULES, above

HALVES = {"tuning": False, "held out": True}


def report(results: dict[str, Any], folder: Path) -> None:
    """Write starts.md and starts.svg."""
    models = list(dict.fromkeys(map(model_of, results["cases"])))
    lines = [
        "# Starts: how often a fit ends in a poor local minimum",
        "",
        f"Fits more than {POOR:.0%} above the best known objective, of all fits (three seeds for each data "
        f"set), and how far the worst one is above it. Fits have the default budget. "
        "One half of the data sets chose the default, the other half "
        "judges it. It is not quite untouched: after a look at both, the sample of a start was raised "
        "from 1000 to 2000 rows, because of fits to all digits, of which both halves have some. Made by "
        "`benchmarks/starts.py`.",
        "",
        "![Shares of fits by their distance to the best known objective](starts.svg)",
        "",
        "| model | half | data sets | " + " | ".join(f'`"{rule}"`' for rule in RULES) + " |",
        "|---|---|---|" + "---|" * len(RULES),
    ]
    for model in models:
        for half, held_out in HALVES.items():
            cases = of(results, model, held_out)
            lines.append(f"| {model} | {half} | {len(cases)} | " + " | ".join(summary(cases)) + " |")
    lines += ["", "## Every data set", "", "Percent above the best known objective, for each seed.", ""]
    for model in models:
        lines += [f"### {model}", "", "| data set | n, d, k | " + " | ".join(RULES) + " |"]
        lines += ["|---|---|" + "---|" * len(RULES)]
        lines += [row(key, found) for key, found in results["cases"].items() if model_of(key) == model]
        lines.append("")
    if "seconds" in results:
        lines += ["## Seconds to choose a start", "", "| problem | " + " | ".join(RULES) + " |"]
        lines += ["|---|" + "---|" * len(RULES)]
        for problem, seconds in results["seconds"].items():
            lines.append(f"| {problem} | " + " | ".join(f"{seconds[rule]:.3f}" for rule in RULES) + " |")
    (folder / "starts.md").write_text("\n".join(lines).rstrip() + "\n")
    draw(results, models, folder / "starts.svg")


def model_of(key: str) -> str:
    """Return the model that a result is of."""
    return key.split(" | ")[0]


def of(results: dict[str, Any], model: str, held_out: bool | None = None) -> list[dict[str, Any]]:
    """Return the results of a model, on one half of the data sets or on all."""
    return [
        found
        for key, found in results["cases"].items()
        if model_of(key) == model and held_out in (None, found["held out"])
    ]


def excesses(cases: list[dict[str, Any]], rule: str) -> np.ndarray:
    """Return the relative distances of all fits by a rule to the best known objectives."""
    return np.array([value for found in cases if rule in found["fits"] for value in above(found, rule)])


def summary(cases: list[dict[str, Any]]) -> list[str]:
    cells = []
    for rule in RULES:
        values = excesses(cases, rule)
        if len(values) == 0:
            cells.append("–")
            continue
        poor = int(np.sum(values > POOR))
        cells.append(f"{poor} of {len(values)} ({poor / len(values):.1%}), worst {np.max(values):.1%}")
    return cells


def row(key: str, found: dict[str, Any]) -> str:
    cells = [
        " / ".join(f"{100 * value:.1f}" for value in above(found, rule)) if rule in found["fits"] else "–"
        for rule in RULES
    ]
    name = key.split(" | ")[1] + (" (held out)" if found["held out"] else "")
    return f"| {name} | {', '.join(map(str, found['shape']))} | " + " | ".join(cells) + " |"


def draw(results: dict[str, Any], models: list[str], path: Path) -> None:
    """Draw, for each rule, the share of fits beyond each distance to the best known objective."""
    figure, spots = plt.subplots(
        1, len(models), figsize=(3.4 * len(models), 2.8), sharey=True, squeeze=False, layout="constrained"
    )
    for spot, model in zip(spots[0], models, strict=True):
        for rule in RULES:
            values = np.sort(excesses(of(results, model), rule))
            if len(values):
                share = 1 - np.arange(1, len(values) + 1) / len(values)
                spot.step(np.maximum(100 * values, 1e-2), 100 * share, where="post", label=rule)
        spot.axvline(100 * POOR, color="grey", linewidth=0.8)
        spot.axhline(5, color="grey", linewidth=0.8, linestyle=":")
        spot.set(xscale="log", title=model, xlabel="percent above the best", ylim=(0, 60))
    spots[0, 0].set_ylabel("percent of fits beyond")
    spots[0, 0].legend(fontsize=7)
    save(figure, path)
