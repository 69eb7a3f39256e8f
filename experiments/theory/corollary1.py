"""Corollary 1: samples that Algorithm 1 needs for ‖Γ‖² ≤ ε grow as n^⅔, with the paper's b and m."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.theory.fits import doublings, fitted_slope
from vrmf.arrays import Array
from vrmf.comparing.measuring import JUDGING_CODER, Yardstick, within_budget
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import VR, AbstractSolver, Algorithm1, Batch
from vrmf.solvers.base import paper_batch_size, paper_inner_steps
from vrmf.sources import as_source
from vrmf.terms import Ridge, UnitBall

FORMULATION = Formulation(UnitBall(), Ridge(0.1))
FEATURES, ATOMS = 30, 8
EPSILON = 1e-6

#: The most passes of a run.
LIMIT = 3000

#: ‖Γ‖² is measured whenever the samples have grown by this share, and less often far from ε.
RESOLUTION = 0.02

#: What the curves against n are called, and the exponents that the paper expects of them.
SOLVERS = {"literal": "Algorithm 1, b and m of the paper", "batch": "batch", "default": "VR() by default"}
EXPECTED = {"literal": "2/3", "batch": "1", "default": "none given"}


def generated(rows: int, seed: int) -> tuple[Problem, Array]:
    """Return a problem on rows near a subspace, and its start: more rows contain the fewer ones."""
    rng = np.random.default_rng([seed, 0])
    basis = rng.standard_normal((ATOMS, FEATURES)) * np.linspace(1, 0.5, ATOMS)[:, None]
    start = atoms_from_rows(FORMULATION, _rows(basis, ATOMS, seed, 1))
    return Problem(FORMULATION, as_source(_rows(basis, rows, seed, 2), n_jobs=1)), start


def _rows(basis: Array, count: int, *key: int) -> Array:
    normal = np.random.default_rng(key).standard_normal((count, ATOMS + FEATURES))
    X = normal[:, :ATOMS] @ basis + 0.8 * normal[:, ATOMS:]
    return X / np.sqrt(FEATURES)


def samples_to_reach(
    epsilon: float, solver: AbstractSolver, problem: Problem, D: Array, seed: int
) -> int | None:
    """Return how many codes are solved until ‖Γ‖² ≤ ε; those that measure it are not counted."""
    judge, due = Yardstick.of(problem), 0.0
    for current in within_budget(iterate(solver, problem, D, seed), passes=LIMIT):
        if current.state.solved >= due:
            excess = judge.measured(current.D).stationarity / epsilon
            if excess <= 1:
                return current.state.solved
            due = current.state.solved * max(1 + RESOLUTION, excess**0.03)
    return None


def steps(scale: Scale) -> list[Step]:
    """Return a step for the common step size, one for each solver and n, one for each b and m."""
    sizes, seeds = (doublings(500, 4000), 1) if scale.quick else (doublings(250, 16_000), 5)
    factors = (0.25, 1, 4) if scale.quick else (0.125, 0.25, 0.5, 1, 2, 4, 8)
    common = {"sizes": sizes, "seeds": seeds, "factors": factors}
    found = [Step("setup", lambda results: common | start_of(sizes[-1]), 0.1)]
    for name in SOLVERS:
        for n in sizes:
            seconds = seeds * (0.2 + 1e-4 * n)
            found.append(Step(f"{name}/{n}", partial(_against_n, name, n), seconds))
    for factor in factors:
        for letter in ("b", "m"):
            seconds = seeds * 1e-4 * sizes[-1]
            found.append(Step(f"{letter}/{factor:g}", partial(_around, letter, factor), seconds))
    return found


def start_of(n: int) -> dict[str, float]:
    """Return η = 1/λ_max(A), which all runs share, and ‖Γ‖² at the start of the first data."""
    problem, D = generated(n, seed=0)
    stats = problem.stats(D, JUDGING_CODER)
    return {"eta": 1 / stats.largest_curvature, "first": problem.measure(stats, D).stationarity}


def _against_n(name: str, n: int, results: Results) -> list[int | None]:
    eta = results["setup"]["eta"]
    solvers: dict[str, AbstractSolver[Any]] = {
        "literal": Algorithm1(step_size=eta),
        "batch": Batch(step_size=eta, momentum=False),
        "default": VR(),
    }
    return _over_seeds(solvers[name], n, results)


def _around(letter: str, factor: float, results: Results) -> list[int | None]:
    n, eta = results["setup"]["sizes"][-1], results["setup"]["eta"]
    b, m = paper_batch_size(n), paper_inner_steps(n)
    if letter == "b":
        b = max(1, round(factor * b))
    else:
        m = max(1, round(factor * m))
    return _over_seeds(Algorithm1(step_size=eta, batch_size=b, inner_steps=m), n, results)


def _over_seeds(solver: AbstractSolver, n: int, results: Results) -> list[int | None]:
    return [
        samples_to_reach(EPSILON, solver, *generated(n, seed), seed)
        for seed in range(results["setup"]["seeds"])
    ]


def mean(found: Sequence[float | None]) -> float:
    """Return the mean over seeds, NaN if a run did not reach ε."""
    return float(np.mean([np.nan if value is None else value for value in found]))


def against_n(results: Results, name: str) -> list[float]:
    """Return the mean samples of a solver for each n."""
    return [mean(results[f"{name}/{n}"]) for n in results["setup"]["sizes"]]


def around(results: Results, letter: str) -> list[float]:
    """Return the mean passes for each multiple of the paper's b or m, at the largest n."""
    n = results["setup"]["sizes"][-1]
    return [mean(results[f"{letter}/{factor:g}"]) / n for factor in results["setup"]["factors"]]


def draw(results: Results) -> dict[str, Figure]:
    """Draw samples against n, and against b and m at the largest n."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_sizes(left, results)
    factors = results["setup"]["factors"]
    for letter, marker in (("b", "o"), ("m", "s")):
        right.loglog(factors, around(results, letter), f"{marker}-", ms=4, label=f"{letter} varies")
    right.set_xticks(factors, [f"{factor:g}" for factor in factors])
    right.xaxis.minorticks_off()
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("{x:g}")
    right.tick_params(which="minor", labelsize=7)
    right.axvline(1, color="0.7", lw=1, zorder=0)
    right.set(xlabel="multiple of the paper's b or m", ylabel=f"passes to ‖Γ‖² ≤ {EPSILON:g}")
    right.set_title(f"n = {results['setup']['sizes'][-1]}", fontsize=10)
    right.legend(fontsize=8)
    return {"corollary1": figure}


def _draw_sizes(axes: Axes, results: Results) -> None:
    sizes = np.array(results["setup"]["sizes"], dtype=float)
    for name, label in SOLVERS.items():
        samples = against_n(results, name)
        slope = fitted_slope(sizes, samples)
        axes.loglog(sizes, samples, "o-", ms=4, label=f"{label}: n^{slope:.2f}")
    for name, power, text in (("literal", 2 / 3, "∝ n^⅔"), ("batch", 1.0, "∝ n")):
        start = against_n(results, name)[0]
        style = "k:" if name == "literal" else "k--"
        axes.loglog(sizes, start * (sizes / sizes[0]) ** power, style, lw=1, label=text)
    axes.set_ylim(top=20 * axes.get_ylim()[1])
    axes.set_xticks(sizes, [f"{n:g}" for n in sizes])
    axes.xaxis.minorticks_off()
    axes.set(xlabel="n", ylabel=f"samples to ‖Γ‖² ≤ {EPSILON:g}")
    axes.legend(fontsize=8, loc="upper left")


def table(results: Results) -> str:
    """Return samples, exponents and the passes for each b and m."""
    known = results["setup"]
    sizes = known["sizes"]
    lines = [
        "| solver | " + " | ".join(f"n = {n}" for n in sizes) + " | exponent | paper |",
        "| --- " * (len(sizes) + 3) + "|",
    ]
    for name, label in SOLVERS.items():
        samples = against_n(results, name)
        cells = [f"{value:.3g}" for value in samples]
        lines.append(
            f"| {label} | {' | '.join(cells)} | {fitted_slope(sizes, samples):.2f} | {EXPECTED[name]} |"
        )
    lines += [
        "",
        "| passes at the largest n | " + " | ".join(f"×{factor:g}" for factor in known["factors"]) + " |",
    ]
    lines.append("| --- " * (len(known["factors"]) + 1) + "|")
    for letter in ("b", "m"):
        lines.append(
            f"| {letter} varies | " + " | ".join(f"{value:.3g}" for value in around(results, letter)) + " |"
        )
    return "\n".join(lines) + "\n\n" + _remarks(known)


def _remarks(known: Results) -> str:
    n = known["sizes"][-1]
    return (
        f"Samples until ‖Γ‖² ≤ {EPSILON:g} (it is {known['first']:.2g} at a start), means over "
        f"{known['seeds']} seed(s); generated rows with d = {FEATURES}, k = {ATOMS}. ‖Γ‖² is measured "
        f"off the count, near the end whenever it has grown by {RESOLUTION:.0%}. Algorithm 1 and batch "
        f"have the constant η = {known['eta']:.3g} for all n, which is 1/λ_max(A) at a start. At n = {n} "
        f"the paper's b is {paper_batch_size(n)} and its m is {paper_inner_steps(n)}. nan: a run did not "
        f"reach ε in {LIMIT} passes."
    )


COROLLARY1 = Experiment(
    "corollary1",
    "Corollary 1: Algorithm 1 needs O(n^⅔/ε) samples for an ε-stationary point.",
    steps,
    draw,
    table,
)
