"""Laws of the experiments on the paper's lemmas, on problems smaller than those of a quick run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from experiments.base import Experiment, Scale, plain
from experiments.theory import THEORY, costs, lemma2
from experiments.theory import steps as theory_steps
from experiments.theory.instances import FINEST_CODER, MAKERS, rows_of, small_problem, start
from experiments.theory.lemma1 import (
    ANGLES,
    DIFFERENCE_STEPS,
    DISTANCES,
    RIDGES,
    difference_errors,
    near_dependent,
    pair_ratios,
)
from vrmf.theory import gradient_differences

QUICK = Scale(quick=True)

every_formulation = pytest.mark.parametrize("name", MAKERS)


@every_formulation
def test_starts_are_feasible_and_problems_as_large_as_asked(name: str) -> None:
    problem = small_problem(name, 30)
    D = start(problem)
    assert np.isfinite(problem.formulation.dictionary.value(D))
    assert len(rows_of(problem)) == 30


@every_formulation
def test_the_gradient_agrees_with_differences_of_the_loss(name: str) -> None:
    problem = small_problem(name, 15)
    errors = difference_errors(problem, start(problem), np.random.default_rng(0), n_directions=1)
    assert np.min(errors) < 1e-7
    assert np.argmin(errors) not in (0, len(errors) - 1)  # too long a step, or rounding


def test_row_gradients_are_those_of_the_sums_and_of_the_theory() -> None:
    problem = small_problem("P5", 20)
    D = start(problem)
    E = D + 0.1 * np.random.default_rng(0).standard_normal(D.shape)
    here, there = (lemma2.row_gradients(problem, at) for at in (D, E))
    np.testing.assert_allclose(
        np.mean(here, axis=0), np.ravel(problem.stats(D, FINEST_CODER).gradient), atol=1e-9
    )
    np.testing.assert_allclose(
        np.linalg.norm(here - there, axis=1), gradient_differences(problem, D, E, FINEST_CODER), atol=1e-7
    )


def test_ratios_of_pairs_are_of_the_same_order_at_all_distances() -> None:
    problem = small_problem("P3", 15)
    ratios = pair_ratios(problem, start(problem), np.random.default_rng(0), n_pairs=1)
    assert len(ratios) == len(DISTANCES)
    assert max(ratios) < 10 * min(ratios)


def test_a_ridge_bounds_the_gradient_of_nearly_dependent_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.theory.lemma1.RIDGES", [0.0, 0.1])
    monkeypatch.setattr("experiments.theory.lemma1.ANGLES", [1e-1, 1e-3])
    found = near_dependent(True, {})
    assert found["0"][1] > 10 * found["0"][0]
    assert found["0.1"][1] < 3 * found["0.1"][0]


def test_batch_means_give_v_of_the_solver() -> None:
    problem = small_problem("P1", 40)
    (_, D, anchor), *_ = lemma2.pairs_along_a_run(problem, start(problem))
    change = lemma2.row_gradients(problem, D) - lemma2.row_gradients(problem, anchor)
    rows = problem.source.draw(6, lemma2.SEED, 5, 0)
    ours = lemma2.batch_means(problem, change, 6, 1, 5)[0]
    theirs = problem.slope_change(D, anchor, FINEST_CODER, rows).gradient
    np.testing.assert_allclose(ours, np.ravel(theirs), atol=1e-9)


def test_variances_are_the_exact_ones_and_the_bias_falls_with_the_draws() -> None:
    problem = small_problem("P5", 60)
    pairs = lemma2.pairs_along_a_run(problem, start(problem))
    _, D, anchor = pairs[2]
    for point in lemma2.variances(problem, D, anchor, [1, 10, 60], n_draws=400, key=0):
        assert point["variance"] == pytest.approx(point["formula"], rel=0.2, abs=1e-20)
    few, many = lemma2.bias(problem, D, anchor, [1, 100])
    assert many < few / 5


def test_tuned_steps_are_longer_than_those_allowed() -> None:
    found = theory_steps.tune("P1", True, {})
    assert min(found["f"]) < found["f_start"]
    assert found["tuned"] > 5 * found["allowed"]
    assert found["theta"] < 2


@pytest.mark.slow
def test_only_p2_as_printed_grows_on() -> None:
    last = {name: theory_steps.growth(name, "default", True, {})["norm"][-1] for name in ("P2", "P5")}
    assert last["P2"] > 3 * last["P5"]


@pytest.mark.parametrize("name", MAKERS)
def test_timed_formulations_accept_their_data(name: str) -> None:
    assert costs.prox_seconds(name, 32, 6, repeats=1) > 0
    assert costs.codes_seconds(name, 32, 6, repeats=1) > 0


def _made_up() -> dict[str, Any]:
    """Return invented results of each experiment, of the right shape."""
    widths, f = [64, 128, 256, 512], [3.0, 2.0, 1.0, None]
    smooth = {"errors": DIFFERENCE_STEPS, "ratios": [1.0 + place for place in DISTANCES], "estimate": 3.0}
    point = {"b": 1, "scale": 0.1, "variance": 0.2, "formula": 0.21}
    variance = {
        "n": 100,
        "estimate": 5.0,
        "points": [{**point, "scale": 0.1 * (1 + epoch), "epoch": epoch} for epoch in lemma2.EPOCHS],
        "draws": [1, 10],
        "bias": [1.0, 0.3],
    }
    tuned = {"steps": widths, "f": f, "tuned": 256, "f_start": 4.0, "unit": 100, "allowed": 70}
    tuned |= {"shape": [100, 4, 2], "estimate": 2.0, "theta": 0.1}
    run = {"passes": [0, 1, 2, 4, 8], "norm": [1.0, 2.0, 3.0, 3.1, 3.2]}
    times = {"d": widths, "k": widths, "over d": [1e-3] * 4, "over k": [1e-3] * 4}
    return {
        "lemma1": dict.fromkeys(MAKERS, smooth) | {"near": {f"{ridge:g}": ANGLES for ridge in RIDGES}},
        "lemma2": dict.fromkeys(lemma2.PROBLEMS, variance),
        "steps": dict.fromkeys(theory_steps.TUNED, tuned),
        "bounded": dict.fromkeys((step.key for step in theory_steps.bounded_steps(QUICK)), run),
        "cost": dict.fromkeys((step.key for step in costs.cost_steps(QUICK)), times),
    }


@pytest.mark.parametrize("experiment", THEORY[:5], ids=lambda experiment: experiment.name)
def test_figures_and_tables_come_from_stored_results(experiment: Experiment) -> None:
    results = json.loads(json.dumps(plain(_made_up()[experiment.name])))
    assert {step.key for step in experiment.steps(QUICK)} == set(results)
    assert [step.key for step in experiment.steps(QUICK)] == [
        step.key for step in experiment.steps(Scale())
    ]
    figures = experiment.draw(results)
    assert list(figures) == [experiment.name]
    for figure in figures.values():
        figure.canvas.draw()
        assert figure.get_figwidth() <= 9
        assert all(axes.get_xlabel() for axes in figure.axes)
    assert "|---|" in experiment.table(results)
