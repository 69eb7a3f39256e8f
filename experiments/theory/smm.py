"""SMM as SGD with vanishing steps: its steps, how they shrink, and how ‖Γ‖² falls.

Let w stand for the rows in the sums after a mini-batch of b rows, Ā for their mean curvature and V for
the gradient of the mini-batch. If ψ is a ridge λ (or nothing), SMM's surrogate is minimised exactly by
solving (Ā + λ) D = B̄. The old D solved this for the old sums, and B̄ takes up b/w of Ā_batch D − V, so

    D_new = D − (b/w) (Ā + λ)⁻¹ (V + λD),

a stochastic gradient step in the metric of Ā, whose size b/w is 1/t after t mini-batches and about
(1 + ρ)/t with forgetting ρ.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.theory.fits import digits_problem, fitted_slope, moments
from vrmf.arrays import Array
from vrmf.comparing.measuring import JUDGING_CODER, curve
from vrmf.formulations import Formulation, nonnegative, robust_pca
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import SGD, SMM, AbstractSolver, Algorithm1
from vrmf.solvers.algorithm1 import Algorithm1State
from vrmf.solvers.sgd import SGDState
from vrmf.solvers.smm import SMMState
from vrmf.stats import Stats
from vrmf.terms import Trait
from vrmf.terms.sums import ridge_of

ROWS, ATOMS, BATCH = 500, 6, 13
FORGETTING = 5.0

#: In robust PCA ψ is a ridge, so the identity above is exact; in NMF atoms are bound to the simplex.
FORMULATIONS: dict[str, Formulation] = {
    "robust PCA": robust_pca(alpha=0.1, outlier_alpha=0.2, n_samples=ROWS),
    "NMF": nonnegative(alpha=1.0),
}
SOLVERS: dict[str, AbstractSolver] = {
    "SMM": SMM(batch_size=BATCH, reseed=False, coder=JUDGING_CODER),
    f"SMM, ρ = {FORGETTING:g}": SMM(
        batch_size=BATCH, forgetting=FORGETTING, reseed=False, coder=JUDGING_CODER
    ),
    "SGD": SGD(batch_size=BATCH, reseed=False, coder=JUDGING_CODER),
    "Algorithm 1": Algorithm1(batch_size=BATCH, coder=JUDGING_CODER),
}

REMARKS = (
    f"Digits, n = {ROWS}, k = {ATOMS}, b = {BATCH}, one seed. The size of a step of SMM is its length "
    "over that of the mini-batch's gradient mapping Γ; of SGD it is γ_t, of Algorithm 1 η. Slopes of "
    "sizes are over the last nine tenths of t; γ_t = β/(bt + n) has slope −1 once bt ≫ n. The identity, "
    "exact where ψ is a ridge λ, is D_new − D = −(b/w)(Ā + λ)⁻¹(V + λD); the difference to it is the "
    "largest of all steps that were looked at, relative to the step. The cosine is the median of that "
    "between steps and −Γ of their mini-batch. The late slope of ‖Γ‖² is over the later half of the "
    "measured passes, which are spaced evenly in logarithms."
)


def steps(scale: Scale) -> list[Step]:
    """Return for each problem and solver a step for the sizes of steps and one for ‖Γ‖²."""
    total, passes = (200, 10) if scale.quick else (1500, 200)
    found = []
    for name in FORMULATIONS:
        for kind in SOLVERS:
            sizes, falls = partial(_sizes, name, kind, total), partial(_fall, name, kind, passes)
            found.append(Step(f"{name}/{kind}/steps", sizes, 0.002 * total))
            found.append(Step(f"{name}/{kind}/stationarity", falls, 0.05 * passes))
    return found


def _sizes(name: str, kind: str, total: int, results: Results) -> dict[str, list[float]]:
    problem, D = digits_problem(FORMULATIONS[name], ROWS, ATOMS)
    return step_sizes(SOLVERS[kind], problem, D, total)


def _fall(name: str, kind: str, passes: int, results: Results) -> dict[str, list[float]]:
    problem, D = digits_problem(FORMULATIONS[name], ROWS, ATOMS)
    at = [0.0, *np.geomspace(0.1, passes, 40)]
    found = curve(SOLVERS[kind], problem, D, at=at)
    return {column: found[column] for column in ("passes", "stationarity")}


def step_sizes(solver: AbstractSolver, problem: Problem, D: Array, total: int) -> dict[str, list[float]]:
    """Return columns of what is measured of steps; ``t`` counts from 1."""
    wanted, before = {step + 1 for step in moments(total - 1, 60)}, None
    columns: dict[str, list[float]] = {"t": []}
    for current in iterate(solver, problem, D, seed=0):
        state = current.state
        if before is not None and state.step in wanted:
            columns["t"].append(state.step)
            for column, value in _of_step(problem, before, state).items():
                columns.setdefault(column, []).append(value)
        before = state
        if state.step == total:
            break
    return columns


def _of_step(problem: Problem, before: Any, after: Any) -> dict[str, float]:
    """Return the size of a step: η and γ as they are set, and as measured for SMM."""
    if isinstance(after, Algorithm1State):
        return {"size": after.step_size}
    if isinstance(after, SGDState):
        return {"size": after.scale / (before.solved + after.offset)}
    assert isinstance(after, SMMState)
    rows = problem.draw(BATCH, before.seed, before.step)
    return smm_step(problem, before.D, after, problem.stats(before.D, JUDGING_CODER, rows))


def smm_step(problem: Problem, D: Array, after: SMMState, batch: Stats) -> dict[str, float]:
    """Compare a step of SMM from D with the gradient of its mini-batch.

    ``size`` is the length of the step over that of the mini-batch's gradient mapping, ``weight`` is
    b/w, ``difference`` the relative distance to the identity above where ψ is a ridge, and ``cosine``
    that of the angle between the step and the mapping's descent.
    """
    assert after.gram is not None
    term, weight = problem.formulation.dictionary, batch.count / after.weight
    step, mapping = after.D - D, problem.mapping(batch, D, 1 / batch.largest_curvature)
    length, slope = float(np.linalg.norm(step)), float(np.linalg.norm(mapping))
    found = {
        "size": length / slope,
        "weight": weight,
        "cosine": -float(np.sum(step * mapping)) / (length * slope),
    }
    if Trait.QUADRATIC in term.traits:
        ridge = ridge_of(term)
        metric = after.gram / after.weight + ridge * np.eye(len(D))
        predicted = -weight * np.linalg.solve(metric, batch.gradient + ridge * D)
        found["difference"] = float(np.linalg.norm(step - predicted)) / length
    return found


def late(columns: Results, name: str, begin: float) -> tuple[Array, Array]:
    """Return t and the named column, from a share of the steps on."""
    t, values = np.array(columns["t"], dtype=float), np.array(columns[name], dtype=float)
    return t[t >= begin * t[-1]], values[t >= begin * t[-1]]


def draw(results: Results) -> dict[str, Figure]:
    """Draw sizes of steps above, and ‖Γ‖² below, a column for each problem."""
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    for column, name in zip(figure.subplots(2, 2).T, FORMULATIONS, strict=True):
        _draw_sizes(column[0], results, name)
        for kind in SOLVERS:
            found = results[f"{name}/{kind}/stationarity"]
            column[1].loglog(found["passes"][1:], found["stationarity"][1:], label=kind)
        column[1].set(xlabel="passes", ylabel="‖Γ‖²")
        column[1].legend(fontsize=8)
    return {"smm-as-sgd": figure}


def _draw_sizes(axes: Axes, results: Results, name: str) -> None:
    for kind in SOLVERS:
        found = results[f"{name}/{kind}/steps"]
        axes.loglog(found["t"], found["size"], label=kind)
    found = results[f"{name}/SMM/steps"]
    t, size = np.array(found["t"]), np.array(found["size"])
    axes.loglog(t, np.median(size * t) / t, "k:", lw=1, label="∝ 1/t")
    axes.set(title=name, xlabel="mini-batches t", ylabel="size of the step")
    axes.legend(fontsize=8)


def table(results: Results) -> str:
    """Tell the slopes of the sizes, the identity, and how far ‖Γ‖² fell."""
    lines = [
        "| problem | solver | slope of the step size | t · b/w at the end | difference to the identity "
        "| cosine | ‖Γ‖² at the end / start | late slope of ‖Γ‖² |",
        "| --- " * 8 + "|",
    ]
    for name in FORMULATIONS:
        for kind in SOLVERS:
            cells = [*_size_cells(results[f"{name}/{kind}/steps"]), *_fall_cells(results, name, kind)]
            lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + REMARKS


def _size_cells(found: Results) -> list[str]:
    slope = f"{fitted_slope(*late(found, 'size', 0.1)):.2f}"
    if "weight" not in found:
        return [slope, "", "", ""]
    weight = found["t"][-1] * found["weight"][-1]
    difference = f"{max(found['difference']):.0e}" if "difference" in found else ""
    return [slope, f"{weight:.2f}", difference, f"{np.median(found['cosine']):.2f}"]


def _fall_cells(results: Results, name: str, kind: str) -> list[str]:
    found = results[f"{name}/{kind}/stationarity"]
    passes, values = np.array(found["passes"]), np.array(found["stationarity"])
    slope = fitted_slope(passes[len(passes) // 2 :], values[len(passes) // 2 :])
    return [f"{values[-1] / values[0]:.1e}", f"{slope:.2f}"]


SMM_AS_SGD = Experiment(
    "smm-as-sgd",
    "SMM is SGD with vanishing steps, so both slow down; constant steps with variance reduction go on.",
    steps,
    draw,
    table,
)
