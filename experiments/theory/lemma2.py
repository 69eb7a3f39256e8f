"""Lemma 2 of the paper, checked: V is unbiased, and its variance is at most α(n, b) L² ‖D − D⁰‖²."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import scipy.sparse
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step
from experiments.tables import markdown
from experiments.theory.fits import fitted_slope
from experiments.theory.instances import (
    FINEST_CODER,
    NAMES,
    rows_of,
    small_problem,
    start,
)
from vrmf.arrays import Array
from vrmf.coding import Atoms
from vrmf.measurement import squared_norm
from vrmf.problem import Problem
from vrmf.running.loop import iterate
from vrmf.solvers import Algorithm1
from vrmf.solvers.algorithm1 import Algorithm1State
from vrmf.solvers.base import paper_batch_size
from vrmf.theory import estimate_lipschitz, sampling_factor

PROBLEMS = ("P1", "P5")

#: Epochs of Algorithm 1 whose steps are examined.
EPOCHS = (0, 1, 3, 10)

#: Batches are drawn by :meth:`Problem.sample` with this seed, which no run uses.
SEED = 7


def row_gradients(problem: Problem, D: Array) -> Array:
    """Return the gradient hᵀ(hD + r − x) of each row's loss, as rows of length kd."""
    X = rows_of(problem)
    H = problem.formulation.encode(X, Atoms(D), FINEST_CODER).H
    residual = problem.formulation.residual(X, D, H)[0]
    return (H[:, :, None] * residual[:, None, :]).reshape(len(X), -1)


def pairs_along_a_run(problem: Problem, D: Array) -> list[tuple[int, Array, Array]]:
    """Return (epoch, dictionary, its anchor) after the first, middle and last steps of some epochs."""
    solver, pairs = Algorithm1(), []
    m = solver.epoch_shape(problem.n_samples)[1]
    for current in takewhile(
        lambda now: now.step <= m * (EPOCHS[-1] + 1), iterate(solver, problem, D, seed=0)
    ):
        epoch, inner = divmod(current.step - 1, m)
        if epoch in EPOCHS and inner in (0, m // 2, m - 1):
            assert isinstance(current.state, Algorithm1State) and current.state.anchor is not None
            pairs.append((epoch, current.state.D, current.state.anchor.D))
    return pairs


def batch_means(problem: Problem, rows: Array, batch_size: int, n_draws: int, *key: int) -> Array:
    """Return the means of ``rows`` over batches drawn without replacement, shape (n_draws, kd)."""
    batches = [problem.draw(batch_size, SEED, *key, draw).rows for draw in range(n_draws)]
    places = np.arange(n_draws + 1) * batch_size
    weights = np.full(n_draws * batch_size, 1 / batch_size)
    chosen = scipy.sparse.csr_array(
        (weights, np.concatenate(batches), places), shape=(n_draws, problem.n_samples)
    )
    return np.asarray(chosen @ rows)


def variances(
    problem: Problem, D: Array, anchor: Array, sizes: list[int], n_draws: int, key: int
) -> list[dict[str, float]]:
    """Return the measured variance of V for each batch size, and the terms of Lemma 2."""
    n, change = problem.n_samples, row_gradients(problem, D) - row_gradients(problem, anchor)
    center = np.mean(change, axis=0)
    spread = squared_norm(change - center) / n
    points = []
    for b in sizes:
        means = batch_means(problem, change, b, n_draws, key, b)
        factor = sampling_factor(n, b)
        points.append(
            {
                "b": b,
                "scale": factor * squared_norm(D - anchor),
                "variance": squared_norm(means - center) / n_draws,
                "formula": factor * spread,
            }
        )
    return points


def bias(problem: Problem, D: Array, anchor: Array, counts: list[int]) -> list[float]:
    """Return ‖mean of V over N draws − ∇g(D)‖ / ‖∇g(D)‖ for each N, with the paper's batch size.

    ∇g(D) comes from a pass of its own. Each N is tried ten times with new draws, and the root mean
    square is returned.
    """
    change = row_gradients(problem, D) - row_gradients(problem, anchor)
    at_anchor = np.ravel(problem.stats(anchor, FINEST_CODER).gradient)
    gradient = np.ravel(problem.stats(D, FINEST_CODER).gradient)
    b, tries, chunk = paper_batch_size(problem.n_samples), 10, 500
    errors = []
    for count in counts:
        squares = 0.0
        for attempt in range(tries):
            total = np.zeros(len(gradient))
            for first in range(0, count, chunk):
                n_draws = min(chunk, count - first)
                means = batch_means(problem, change, b, n_draws, count, attempt, first)
                total += np.sum(means, axis=0)
            squares += squared_norm(total / count + at_anchor - gradient)
        errors.append(float(np.sqrt(squares / tries) / np.linalg.norm(gradient)))
    return errors


def measure(name: str, quick: bool, results: Results) -> dict[str, Any]:
    """Return variances and biases of V along a run, and an estimate of L there."""
    problem = small_problem(name, 300 if quick else 1797)
    D = start(problem)
    pairs = pairs_along_a_run(problem, D)
    sizes = [1, 4, 16, 64, 256] if quick else [1, 4, 16, 64, 256, 1024]
    points = []
    for place, (epoch, current, anchor) in enumerate(pairs):
        for point in variances(problem, current, anchor, sizes, 100 if quick else 400, place):
            points.append({"epoch": epoch, **point})
    n_pairs = 10 if quick else 20
    estimates = [
        estimate_lipschitz(problem, E, n_pairs=n_pairs, random_state=0).worst for E in (D, pairs[-1][1])
    ]
    counts = [1, 10, 100] if quick else [1, 10, 100, 1000, 5000]
    return {
        "n": problem.n_samples,
        "estimate": max(estimates),
        "points": points,
        "draws": counts,
        "bias": bias(problem, *pairs[2][1:], counts),
    }


def lemma2_steps(scale: Scale) -> list[Step]:
    """One step for each problem."""
    quick = scale.quick
    return [Step(name, partial(measure, name, quick), 1.0 if quick else 15.0) for name in PROBLEMS]


def draw_lemma2(results: Results) -> dict[str, Figure]:
    """Draw the variance against its bound, its exact value, and the bias against the draws."""
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    (*scatters,), (ratio, unbiased) = figure.subplots(2, 2)
    for place, (name, axes) in enumerate(zip(PROBLEMS, scatters, strict=True)):
        found = results[name]
        _draw_scatter(axes, found, NAMES[name])
        sizes, exact = _exactness(found)
        ratio.semilogx(
            np.array(sizes) * 1.15 ** (2 * place - 1), exact, "ox"[place], ms=4, alpha=0.6, label=name
        )
        unbiased.loglog(found["draws"], found["bias"], "o-", ms=4, label=f"{name}, b = {_paper_b(found)}")
    counts = np.array(results[PROBLEMS[0]]["draws"])
    unbiased.loglog(counts, results[PROBLEMS[0]]["bias"][0] / np.sqrt(counts), "k:", label="∝ N^(−1/2)")
    ratio.axhline(1.0, color="k", lw=0.8)
    ratio.set(
        xlabel="batch size b (shifted a little apart)",
        ylabel="variance / exact value",
        title="exact value: α(n, b) × population variance",
    )
    unbiased.set(xlabel="draws N", ylabel="‖mean of V − ∇g‖ / ‖∇g‖", title="bias")
    for axes in (ratio, unbiased):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    return {"lemma2": figure}


def _draw_scatter(axes: Any, found: dict[str, Any], title: str) -> None:
    """Draw the variance against α(n, b)‖D − D⁰‖², with the bound as a line."""
    points, markers = found["points"], "osD^"
    for epoch, marker in zip(EPOCHS, markers, strict=True):
        chosen = [point for point in points if point["epoch"] == epoch]
        axes.loglog(
            [point["scale"] for point in chosen],
            [point["variance"] for point in chosen],
            marker,
            ms=4,
            alpha=0.7,
            label=f"epoch {epoch}",
        )
    ends = np.array([min(point["scale"] for point in points), max(point["scale"] for point in points)])
    axes.loglog(ends, found["estimate"] ** 2 * ends, "k--", lw=1, label="bound, estimated L")
    axes.set(xlabel="α(n, b) ‖D − D⁰‖²", ylabel="variance of V", title=title)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _exactness(found: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Return the batch sizes and the measured variances over the formula's."""
    points = found["points"]
    return [point["b"] for point in points], [point["variance"] / point["formula"] for point in points]


def _paper_b(found: dict[str, Any]) -> int:
    return paper_batch_size(found["n"])


def lemma2_table(results: Results) -> str:
    """Return how far below the bound the variance is, its exact value, and how the bias falls."""
    lines = []
    for name in PROBLEMS:
        found = results[name]
        tight = [point["variance"] / (found["estimate"] ** 2 * point["scale"]) for point in found["points"]]
        exact = _exactness(found)[1]
        lines.append(
            [
                NAMES[name],
                found["estimate"],
                f"{sum(part <= 1 for part in tight)} of {len(tight)}",
                max(tight),
                f"{np.mean(exact):.3f} ({min(exact):.3f} to {max(exact):.3f})",
                fitted_slope(found["draws"], found["bias"]),
                found["bias"][-1],
            ]
        )
    header = [
        "",
        "estimate of L",
        "points below the bound",
        "largest variance / bound",
        "variance / exact value, mean (range)",
        "exponent of the bias in N",
        "relative bias at the largest N",
    ]
    return markdown(header, lines)


LEMMA2 = Experiment(
    "lemma2",
    "Lemma 2: V is unbiased, and its variance is at most α(n, b) L² ‖D − D⁰‖².",
    lemma2_steps,
    draw_lemma2,
    lemma2_table,
)
