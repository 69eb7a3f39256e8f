"""The experiments on rates: the parts they use, and figures and tables of small runs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.base import Experiment, Scale, plain
from experiments.theory import THEORY, corollary1, theorem1, theorem2
from experiments.theory import smm as smm_as_sgd
from experiments.theory.fits import (
    digits_problem,
    fitted_slope,
    mappings_along,
    moments,
    running_means,
)
from vrmf.comparing.measuring import JUDGING_CODER
from vrmf.formulations import nonnegative
from vrmf.running.loop import iterate
from vrmf.solvers import SMM, Algorithm1, Batch

QUICK = Scale(quick=True)


def compute(experiment: Experiment, keys: list[str]) -> dict[str, Any]:
    """Return what the steps of a quick run find whose keys are given, in their order."""
    results: dict[str, Any] = {}
    for step in experiment.steps(QUICK):
        if step.key in keys:
            results[step.key] = plain(step.compute(results))
    return results


@pytest.mark.parametrize("experiment", THEORY[5:], ids=lambda experiment: experiment.name)
def test_keys_are_unique(experiment: Experiment) -> None:
    for scale in (QUICK, Scale()):
        keys = [step.key for step in experiment.steps(scale)]
        assert len(set(keys)) == len(keys)


def test_running_means_of_all_iterates_are_their_means() -> None:
    values = np.random.default_rng(0).random(20)
    found = running_means(range(20), list(values), at=[1, 5, 20])
    np.testing.assert_allclose(found, [np.mean(values[:count]) for count in (1, 5, 20)])


def test_mappings_are_taken_at_the_given_steps() -> None:
    problem, D = digits_problem(nonnegative(1.0), rows=60, atoms=3)
    run = [current.D for current in itertools.islice(iterate(Batch(), problem, D, 0), 5)]
    found = mappings_along(iter(run), problem, [0, 2, 4], eta=0.1)
    expected = [problem.stationarity(problem.stats(E, JUDGING_CODER), E, 0.1) for E in run[::2]]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_moments_begin_at_zero_and_end_at_the_last() -> None:
    found = moments(1000, 30)
    assert found[0] == 0 and found[-1] == 1000 and len(found) <= 31


@pytest.mark.parametrize("forgetting", [0.0, 5.0])
def test_steps_of_smm_are_gradient_steps_in_its_metric(forgetting: float) -> None:
    problem, D = digits_problem(smm_as_sgd.FORMULATIONS["robust PCA"], rows=100, atoms=3)
    smm = SMM(batch_size=smm_as_sgd.BATCH, forgetting=forgetting, reseed=False, coder=JUDGING_CODER)
    found = smm_as_sgd.step_sizes(smm, problem, D, total=40)
    assert max(found["difference"]) < 1e-9
    assert found["t"][-1] * found["weight"][-1] == pytest.approx(1 + forgetting, rel=0.2)
    assert forgetting or fitted_slope(found["t"], found["weight"]) == pytest.approx(-1)


def test_steps_without_error_are_those_of_algorithm_1() -> None:
    problem, D = digits_problem(nonnegative(1.0), rows=60, atoms=3)
    literal = Algorithm1(batch_size=5, inner_steps=3, step_size=0.1, coder=JUDGING_CODER)
    ours = theorem2.erring_steps(
        problem, D, eta=0.1, seed=4, error=lambda step: np.zeros_like(D), batch=5, inner=3
    )
    theirs = (current.D for current in iterate(literal, problem, D, 4))
    for mine, other in itertools.islice(zip(ours, theirs, strict=False), 8):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("fresh", [True, False])
def test_errors_have_the_norm_that_is_asked_for(fresh: bool) -> None:
    falling = theorem2.Falling(power=0.5, fresh=fresh, size=2.0)
    first, ninth = (falling.error((3, 4), step, seed=1) for step in (0, 8))
    assert np.linalg.norm(first) == pytest.approx(2) and np.linalg.norm(ninth) == pytest.approx(2 / 3)
    assert np.allclose(first, 3 * ninth) != fresh


def test_errors_that_fall_fast_leave_the_bound_as_it_is() -> None:
    slopes = [theorem2.Falling(power).slope_of_bound for power in (0.0, 0.25, 0.75)]
    assert slopes == [0, -0.5, -1] and theorem2.Falling(size=0.0).slope_of_bound == -1


def test_labels_tell_the_tolerance_of_codes() -> None:
    for name, options in theorem2.CODES.items():
        kind, _, told = theorem2.label_of(name).partition("codes to ")
        assert kind or float(told) == options["coder"].tol


def test_more_rows_contain_the_fewer_ones_and_share_the_start() -> None:
    (few, D), (many, E) = (corollary1.generated(rows, seed=3) for rows in (20, 50))
    np.testing.assert_array_equal(D, E)
    rows = np.arange(20)
    one, other = few.stats(D, JUDGING_CODER, rows), many.stats(D, JUDGING_CODER, rows)
    np.testing.assert_allclose(one.gradient, other.gradient)


def test_samples_are_counted_until_the_goal_is_reached() -> None:
    problem, D = corollary1.generated(200, seed=0)
    eta = 1 / problem.stats(D, JUDGING_CODER).largest_curvature
    batch = Batch(step_size=eta, momentum=False)
    loose, tight = (corollary1.samples_to_reach(goal, batch, problem, D, 0) for goal in (1e-1, 1e-3))
    assert loose is not None and tight is not None
    assert 0 < loose < tight and tight % 200 == 0


@pytest.mark.slow
def test_theorem1_holds_in_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem1, "LONG", 100)
    results = compute(theorem1.THEOREM1, ["NMF", "NMF/theorem/0"])
    known, run = results["NMF"], results["NMF/theorem/0"]
    totals, values = theorem1.running_means_of([run], theorem1.INNER)
    assert known["holds"] and np.all(values[0] < theorem1.bound(known, np.array(totals)))
    keys = [step.key for step in theorem1.THEOREM1.steps(QUICK)]
    _draws_and_tells(theorem1.THEOREM1, {key: run if "/" in key else known for key in keys})


def test_theorem2_is_drawn_from_its_results() -> None:
    run = {"step": [0, 10, 64], "stationarity": [1.0, 0.5, 0.1]}
    constants = {"eta": 0.1, "size": 1.0, "holds": True}
    keys = [step.key for step in theorem2.THEOREM2.steps(QUICK)]
    _draws_and_tells(theorem2.THEOREM2, {key: run if "/" in key else constants for key in keys})


def test_corollary1_is_drawn_from_its_results_even_where_a_run_did_not_arrive() -> None:
    steps = corollary1.COROLLARY1.steps(QUICK)
    results: dict[str, Any] = {"setup": plain(steps[0].compute({}))}
    results |= {step.key: [1000 + 7 * i] for i, step in enumerate(steps[1:])}
    results["m/0.25"] = [None]
    _draws_and_tells(corollary1.COROLLARY1, results)
    assert "nan" in corollary1.COROLLARY1.table(results)


def test_smm_as_sgd_is_drawn_from_its_results() -> None:
    sizes = {"t": [1, 10, 100], "size": [1.0, 0.1, 0.01], "weight": [1.0, 0.1, 0.01], "cosine": [0.5] * 3}
    falls = {"passes": [0.0, 1.0, 2.0, 4.0], "stationarity": [1.0, 0.5, 0.2, 0.1]}
    keys = [step.key for step in smm_as_sgd.SMM_AS_SGD.steps(QUICK)]
    results = {key: sizes if key.endswith("steps") else falls for key in keys}
    _draws_and_tells(smm_as_sgd.SMM_AS_SGD, results)


def _draws_and_tells(experiment: Experiment, results: dict[str, Any]) -> None:
    figures = experiment.draw(results)
    assert list(figures) == [experiment.name]
    assert all(
        isinstance(figure, Figure) and figure.get_size_inches()[0] <= 9 for figure in figures.values()
    )
    assert experiment.table(results).startswith("| ")
