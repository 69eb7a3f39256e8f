"""Lemma 1 of the paper, checked: the gradient of the loss and its Lipschitz constant."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.tables import markdown
from experiments.theory.instances import (
    FINEST_CODER,
    MAKERS,
    NAMES,
    NOT_STRONGLY_CONVEX,
    rows_of,
    small_problem,
    start,
)
from experiments.theory.lemma2 import row_gradients
from vrmf.arrays import Array
from vrmf.coding import Atoms
from vrmf.dictionaries import feasible
from vrmf.formulations import dictionary_learning
from vrmf.measurement import squared_norm
from vrmf.problem import Problem
from vrmf.theory import estimate_lipschitz, gradient_differences

#: Lengths of steps from D, relative to ‖D‖: for differences of the loss, and of gradients.
DIFFERENCE_STEPS = [10.0**-power for power in range(1, 10)]
DISTANCES = [10.0**-power for power in range(6)]

ANGLES = [1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3]
RIDGES = [0.0, 0.01, 0.1, 1.0]


def difference_errors(problem: Problem, D: Array, rng: np.random.Generator, n_directions: int) -> Array:
    """Return the error of the gradient against central differences of the loss, for each step size.

    It is the root mean square over rows and directions, relative to that of the slopes themselves.
    """
    X, gradients, formulation = rows_of(problem), row_gradients(problem, D), problem.formulation

    def losses(E: Array) -> Array:
        return formulation.losses(X, E, formulation.encode(X, Atoms(E), FINEST_CODER).H)

    errors, slopes = np.zeros(len(DIFFERENCE_STEPS)), 0.0
    for _ in range(n_directions):
        direction = rng.standard_normal(D.shape)
        direction *= np.linalg.norm(D) / np.linalg.norm(direction)
        slope = gradients @ np.ravel(direction)
        slopes += squared_norm(slope)
        for place, step in enumerate(DIFFERENCE_STEPS):
            change = losses(D + step * direction) - losses(D - step * direction)
            errors[place] += squared_norm(change / (2 * step) - slope)
    return np.sqrt(errors / slopes)


def pair_ratios(problem: Problem, D: Array, rng: np.random.Generator, n_pairs: int) -> list[float]:
    """Return the largest ‖∇ℓ(x, E) − ∇ℓ(x, F)‖ / ‖E − F‖ over rows and random pairs, by distance."""
    largest, size = [], float(np.linalg.norm(D))
    for distance in DISTANCES:
        ratios = []
        for _ in range(n_pairs):
            first, second = (rng.standard_normal(D.shape) for _ in range(2))
            E = feasible(problem.formulation, D + 0.1 * size * first / np.linalg.norm(first))
            F = feasible(problem.formulation, E + distance * size * second / np.linalg.norm(second))
            change = gradient_differences(problem, F, E, FINEST_CODER)
            ratios.append(float(np.max(change) / np.linalg.norm(F - E)))
        largest.append(max(ratios))
    return largest


def smoothness(name: str, quick: bool, results: Results) -> dict[str, Any]:
    """Return the error of the gradient and the Lipschitz ratios of a formulation."""
    problem = small_problem(name, 40 if quick else 100)
    D, rng = start(problem), np.random.default_rng(1)
    estimate = estimate_lipschitz(
        problem, D, radius=1e-3, n_pairs=10 if quick else 20, random_state=0, coder=FINEST_CODER
    )
    return {
        "errors": difference_errors(problem, D, rng, 2 if quick else 5),
        "ratios": pair_ratios(problem, D, rng, 3 if quick else 10),
        "estimate": estimate.worst,
    }


def near_dependent(quick: bool, results: Results) -> dict[str, list[float]]:
    """Return estimates of L as the angle of two atoms of P1 falls, for each ridge on the codes."""
    problem = small_problem("P1", 400 if quick else 1797)
    apart, found = start(problem), {}
    for ridge in RIDGES:
        ridged = replace(problem, formulation=dictionary_learning(0.1, ridge=ridge))
        found[f"{ridge:g}"] = [_estimate_at(ridged, apart, angle) for angle in ANGLES]
    return found


def _estimate_at(problem: Problem, D: Array, angle: float) -> float:
    """Return the estimate of L where the second atom is turned to that angle from the first."""
    first, second = D[0] / np.linalg.norm(D[0]), D[1]
    across = second - (second @ first) * first
    near = D.copy()
    near[0], near[1] = first, np.cos(angle) * first + np.sin(angle) * across / np.linalg.norm(across)
    # Pairs must not be much further apart than the two atoms are.
    radius = 0.1 * angle / float(np.linalg.norm(near))
    return estimate_lipschitz(problem, near, radius=radius, random_state=0, coder=FINEST_CODER).worst


def lemma1_steps(scale: Scale) -> list[Step]:
    """One step for each formulation, and one for atoms that are nearly dependent."""
    quick = scale.quick
    seconds = {"P8": 1.5 if quick else 10.0}
    steps = [Step(name, partial(smoothness, name, quick), seconds.get(name, 0.5)) for name in MAKERS]
    return [*steps, Step("near", partial(near_dependent, quick), 1.0 if quick else 4.0)]


def draw_lemma1(results: Results) -> dict[str, Figure]:
    """Draw errors of the gradient, Lipschitz ratios, and L for nearly dependent atoms."""
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    errors, ratios, near = figure.subplots(1, 3)
    for place, name in enumerate(MAKERS):
        found, style = results[name], {"color": f"C{place}", "marker": "osD^v<>x"[place], "ms": 3, "lw": 1}
        errors.loglog(DIFFERENCE_STEPS, found["errors"], label=name, **style)
        ratios.loglog(DISTANCES, np.array(found["ratios"]) / found["estimate"], label=name, **style)
    for ridge, worst in results["near"].items():
        near.loglog(ANGLES, worst, marker=".", label=f"ridge {ridge}")
    near.loglog(
        ANGLES, results["near"]["0"][-1] * ANGLES[-1] / np.array(ANGLES), "k:", lw=1, label="∝ 1/angle"
    )
    ratios.axhline(1.0, color="k", ls="--", lw=1, label="estimate")
    errors.set(xlabel="step / ‖D‖", ylabel="relative error", title="gradient − differences")
    ratios.set(
        xlabel="‖D − E‖ / ‖D‖", ylabel="largest ratio / estimate of L", title="change of the gradient"
    )
    near.set(xlabel="angle of two atoms", ylabel="estimate of L", title="P1, nearly dependent atoms")
    near.legend(fontsize=7)
    figure.legend(*ratios.get_legend_handles_labels(), loc="outside lower center", ncols=9, fontsize=8)
    for axes in (errors, ratios, near):
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.3)
    return {"lemma1": figure}


def lemma1_table(results: Results) -> str:
    """Return the smallest errors and the ratios of each formulation, and L for dependent atoms."""
    lines = []
    for name in MAKERS:
        found = results[name]
        lines.append(
            [
                NAMES[name],
                "fails" if name in NOT_STRONGLY_CONVEX else "holds",
                min(found["errors"]),
                min(found["ratios"]),
                max(found["ratios"]),
                found["estimate"],
            ]
        )
    header = ["", "(A4)", "smallest relative error", "smallest ratio", "largest ratio", "estimate of L"]
    worst = {name: max(results[name]["ratios"]) / results[name]["estimate"] for name in MAKERS}
    without = max(worst.pop(name) for name in NOT_STRONGLY_CONVEX)
    near = {ridge: f"{span[0]:.3g} to {span[-1]:.3g}" for ridge, span in results["near"].items()}
    return (
        f"{markdown(header, lines)}\n\nThe ratios are the largest over rows and random pairs, at each of "
        f"{len(DISTANCES)} distances from {DISTANCES[-1]:g} to {DISTANCES[0]:g} times ‖D‖, with atoms in "
        f"general position. They reach {max(worst.values()):.2g} times the estimate where (A4) holds, and "
        f"{without:.2g} times where it fails. As two atoms of P1 come together, from an angle of "
        f"{ANGLES[0]:g} to {ANGLES[-1]:g}, the estimate goes from {near.pop('0')}; with a ridge on codes, "
        "from " + ", ".join(f"{span} (ridge {ridge})" for ridge, span in near.items()) + "."
    )


LEMMA1 = Experiment(
    "lemma1",
    "Lemma 1: the loss is differentiable with gradient hᵀ(hD + r − x), and that is Lipschitz in D.",
    lemma1_steps,
    draw_lemma1,
    lemma1_table,
)
