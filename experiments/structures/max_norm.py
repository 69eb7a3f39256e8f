"""Max-norm (P6) against the nuclear norm (P5, robust PCA): low rank under outliers in all features or few.

Codes of P6 lie in a ball, so it suits rows of equal size; both kinds are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import subspace_angles

from experiments.base import Experiment, Results, Scale, Step, plain
from experiments.structures.common import distance, fit_codes, medians, records_with
from experiments.tables import markdown
from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary
from vrmf.estimators import AbstractFactorizer, MaxNormDecomposition, RobustPCA
from vrmf.sources import as_source

ROWS, FEATURES, RANK, ATOMS = 200, 40, 3, 6


class Case(NamedTuple):
    """Where outliers are, and the sizes of rows and features."""

    crowded: bool  #: whether outliers are in a quarter of the features only
    equal: bool  #: whether rows of both factors have equal norms, which suits the max-norm


CASES = {
    "uneven, spread": Case(crowded=False, equal=False),
    "uneven, crowded": Case(crowded=True, equal=False),
    "equal, spread": Case(crowded=False, equal=True),
    "equal, crowded": Case(crowded=True, equal=True),
}
SHARES = (0.05, 0.1, 0.2)
MODELS = {"robust PCA": RobustPCA, "max-norm": MaxNormDecomposition}
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  #: alpha over "auto", for both
CHOOSING_SEED = 100  #: of the data on which strengths are chosen; those that judge are small


def corrupted(seed: int, case: Case, share: float) -> tuple[Array, Array]:
    """Return a matrix with a share of entries replaced by gross ones, and its low-rank part."""
    rng = np.random.default_rng([seed, 6])
    factors = [rng.standard_normal((length, RANK)) for length in (ROWS, FEATURES)]
    if case.equal:
        factors = [RANK**0.5 * factor / np.linalg.norm(factor, axis=1, keepdims=True) for factor in factors]
    low_rank = factors[0] @ factors[1].T / RANK**0.5
    chance = np.full(FEATURES, share)
    if case.crowded:
        chance = np.where(np.arange(FEATURES) < FEATURES // 4, 4 * share, 0)
    hit = rng.random(low_rank.shape) < chance
    seen = low_rank + 0.05 * rng.standard_normal(low_rank.shape)
    return np.where(hit, rng.uniform(-5, 5, low_rank.shape), seen), low_rank


def model_of(name: str, strength: float, X: Array, seed: int) -> AbstractFactorizer:
    """Return a model with a multiple of its automatic alpha; the weight of outliers is the same in both."""
    outlier_alpha = 0.3 * DataSummary.of(as_source(X)).spread
    n, d = X.shape
    auto = {"robust PCA": 0.5 * max(n, d) ** 0.5 * outlier_alpha, "max-norm": n * d**0.5 / 100}
    return MODELS[name](
        ATOMS, alpha=strength * auto[name], outlier_alpha=outlier_alpha, random_state=seed, tol=1e-5
    )


def recovered(name: str, strength: float, seed: int, case: str, share: float) -> dict[str, float]:
    """Return how far the low-rank part and its row space are from the true ones."""
    X, truth = corrupted(seed, CASES[case], share)
    model = model_of(name, strength, X, seed)
    found = fit_codes(model, X) @ model.components_
    spaces = [np.linalg.svd(L, full_matrices=False)[2][:RANK].T for L in (found, truth)]
    return {
        "error": distance(found, truth),
        "angle": float(np.degrees(np.max(subspace_angles(*spaces)))),
    }


def choose(
    name: str, case: str, share: float, strengths: Sequence[float], results: Results
) -> dict[str, Any]:
    """Return the strength of smallest error on data of their own."""
    errors = [recovered(name, s, CHOOSING_SEED, case, share)["error"] for s in strengths]
    return {
        "strength": strengths[int(np.argmin(errors))],
        "tried": plain(dict(zip(strengths, errors, strict=True)), 4),
    }


def measure(name: str, case: str, share: float, seed: int, results: Results) -> dict[str, Any]:
    """Judge one model at the strength chosen for such data."""
    strength = results[f"{name} {case} {share} choice"]["strength"]
    found = recovered(name, strength, seed, case, share)
    return plain({"model": name, "case": case, "share": share, "seed": seed, **found}, 4)


def steps(scale: Scale) -> Sequence[Step]:
    """Return for each model, case and share a step that chooses a strength, and one for each seed."""
    cases, shares, seeds = (list(CASES)[1::2], SHARES[1:], 1) if scale.quick else (list(CASES), SHARES, 3)
    strengths = STRENGTHS[3:6:2] if scale.quick else STRENGTHS
    made = []
    for case in cases:
        for share in shares:
            for name in MODELS:
                key = f"{name} {case} {share}"
                made.append(Step(f"{key} choice", partial(choose, name, case, share, strengths), seconds=2))
                for seed in range(seeds):
                    judge = partial(measure, name, case, share, seed)
                    made.append(Step(f"{key} {seed}", judge, seconds=0.4))
    return made


def draw(results: Results) -> dict[str, Figure]:
    """Draw error and angle against the share of outliers, for each case."""
    cases = [case for case in CASES if records_with(results, "error", case=case)]
    figure = Figure(figsize=(max(5.0, 2.25 * len(cases)), 5), layout="constrained")
    figure.suptitle("Sizes of rows and features; outliers, crowded on a\nquarter of the features or not")
    labels = {"error": "‖L − L₀‖ / ‖L₀‖", "angle": "angle of row spaces (°)"}
    grid = figure.subplots(len(labels), len(cases), squeeze=False, sharey="row", sharex=True)
    for line, (quantity, label) in zip(grid, labels.items(), strict=True):
        line[0].set_ylabel(label)
        for axes, case in zip(line, cases, strict=True):
            for name in MODELS:
                values = medians(records_with(results, "error", model=name, case=case), "share", quantity)
                axes.semilogy(list(values), list(values.values()), marker="o", label=name)
            axes.grid(alpha=0.3)
    for axes, case in zip(grid[0], cases, strict=True):
        axes.set_title(case)
    for axes in grid[-1]:
        axes.set_xlabel("share of outliers")
    grid[0][0].legend()
    return {"max-norm": figure}


def table(results: Results) -> str:
    """Return errors and angles of both models, and how often each has the smaller error."""
    lines, wins = [], dict.fromkeys(MODELS, 0)
    for case in CASES:
        found = {
            (name, q): medians(records_with(results, "error", model=name, case=case), "share", q)
            for name in MODELS
            for q in ("error", "angle")
        }
        for share in found["max-norm", "error"]:
            lines.append([case, share, *(values[share] for values in found.values())])
            wins[min(MODELS, key=lambda name: found[name, "error"][share])] += 1
    header = [
        "sizes, outliers",
        "share",
        *(f"{name}: {q}" for name in MODELS for q in ("error", "angle")),
    ]
    return (
        f"Rank {RANK} with {ATOMS} atoms, {ROWS} × {FEATURES}; medians over seeds; alpha of both from the "
        f'same grid around "auto", chosen on data of another seed. Smaller error: {_told(wins)}.\n\n'
        f"{markdown(header, lines)}\n"
    )


def _told(wins: dict[str, int]) -> str:
    return ", ".join(f"{name} in {count} of {sum(wins.values())} cases" for name, count in wins.items())


EXPERIMENT = Experiment(
    "max-norm",
    "Under outliers the max-norm (P6) suits rows and features of equal size; robust PCA (P5) suits others.",
    steps,
    draw,
    table,
)
