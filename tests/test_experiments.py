"""Experiments: stored results are not computed again, and figures need nothing but stored results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from experiments import runner
from experiments.__main__ import main
from experiments.base import Experiment, Results, Scale, Step, Store, plain
from experiments.catalogue import GROUPS, chosen
from experiments.paper import components, contest, drawing, figures, start
from experiments.paper.panels import PANELS, Case, Panel, Size
from vrmf.comparing.measuring import curve, snapshots, within_budget
from vrmf.running.history import Iterate
from vrmf.running.loop import iterate
from vrmf.solvers import SMM, VR, Algorithm1

EVERY = [experiment for group in GROUPS.values() for experiment in group]
QUICK = Scale(quick=True)
TINY = Size(quick=True, most_rows=60)

every_experiment = pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.name)


# ------------------------------------------------------------------ the store


def counting(calls: list[str], fails_at: str = "") -> Experiment:
    """Return an experiment of three steps that writes down which of them are computed."""

    def step(key: str) -> Step:
        def compute(results: Results) -> list[str]:
            if key == fails_at:
                raise KeyboardInterrupt
            calls.append(key)
            return list(results)

        return Step(key, compute)

    def draw(results: Results) -> dict[str, Figure]:
        return {"counting": Figure(figsize=(1, 1))} if results else {}

    return Experiment(
        "counting", "It counts.", lambda scale: [*map(step, "abc")], draw, lambda r: str(len(r))
    )


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce([counting(calls, fails_at="c")], tmp_path, QUICK, "command")
    assert calls == ["a", "b"]
    page = runner.reproduce([counting(calls)], tmp_path, QUICK, "command")
    assert calls == ["a", "b", "c"]
    kept = json.loads((tmp_path / "counting.json").read_text("utf-8"))
    assert kept["results"] == {"a": [], "b": ["a"], "c": ["a", "b"]} and set(kept["seconds"]) == set("abc")
    assert kept["made"]["command"] == "command" and kept["made"]["versions"]["vrmf"]
    text = page.read_text("utf-8")
    assert "It counts." in text and "counting.svg" in text and (tmp_path / "counting.svg").exists()


def test_figures_are_drawn_from_what_is_stored_and_nothing_is_computed(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(ValueError, match="holds no complete results"):
        runner.reproduce([counting(calls)], tmp_path, QUICK, "command", compute=False)
    runner.reproduce([counting(calls)], tmp_path, QUICK, "command")
    picture = (tmp_path / "counting.svg").read_bytes()
    runner.reproduce([counting(calls)], tmp_path, QUICK, "command", compute=False)
    assert calls == ["a", "b", "c"] and (tmp_path / "counting.svg").read_bytes() == picture


def test_results_of_another_scale_are_not_mixed(tmp_path: Path) -> None:
    runner.reproduce([counting([])], tmp_path, QUICK, "command")
    with pytest.raises(ValueError, match=r"quick.*another folder"):
        runner.reproduce([counting([])], tmp_path, Scale(), "command")


def test_a_file_that_holds_something_else_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "counting.json"
    path.write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"counting\.json does not hold results.*Move it away"):
        Store.open(path, {"scale": "quick"})
    assert path.read_text() == "[1, 2]"


def test_results_are_what_json_can_hold() -> None:
    mixed = {"a": np.float64(1 / 3), 2: np.arange(2), "c": (np.nan, True, None, "text", np.inf)}
    assert plain(mixed, 3) == {"a": 0.333, "2": [0, 1], "c": [None, True, None, "text", None]}
    with pytest.raises(TypeError, match="object"):
        plain(object())


@every_experiment
@pytest.mark.parametrize("scale", [QUICK, Scale(), Scale(synth_rows=5000)], ids=str)
def test_steps_have_keys_of_their_own_and_expected_times(experiment: Experiment, scale: Scale) -> None:
    steps = experiment.steps(scale)
    assert len({step.key for step in steps}) == len(steps) > 0
    assert all(step.seconds > 0 for step in steps) and experiment.claim.endswith(".")


# ------------------------------------------------------------------ curves


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.delenv("VRMF_DATA", raising=False)
    return Panel("ORPCA", "Synth").load(TINY)


def test_a_curve_agrees_with_an_independent_pass(case: Case) -> None:
    D, problem = case.start(n_components=4), case.problem
    found = curve(
        SMM(batch_size=10),
        problem,
        D,
        at=[0, 0.5, 2],
        observers={"norm": lambda D: float(np.linalg.norm(D))},
    )
    ends = [it for it, _ in zip(iterate(SMM(batch_size=10), problem, D, 0), range(13), strict=False)][12].D
    exact = problem.measure(problem.stats(ends, contest.JUDGING_CODER), ends)
    assert found["passes"] == [0, 0.5, 2]
    assert found["f"][-1] == pytest.approx(exact.objective, rel=1e-9)
    assert found["stationarity"][-1] == pytest.approx(exact.stationarity, rel=1e-3)
    assert found["norm"][-1] == pytest.approx(np.linalg.norm(ends))
    assert all(np.diff(found["seconds"]) > 0)


def test_snapshots_are_the_first_beyond_their_passes(case: Case) -> None:
    taken = snapshots(SMM(batch_size=15), case.problem, case.start(), at=[0, 0.3, 0.4, 1])
    assert [snapshot.passes for snapshot in taken] == [0, 0.5, 1]


def test_a_curve_agrees_with_the_report_of_a_fit(case: Case) -> None:
    """Amid an epoch that will be taken back, that is the last anchor."""
    D = case.start(n_components=4)
    found = curve(VR(), case.problem, D, at=[0, *np.linspace(2, 20, 30)])
    assert np.all(np.diff(found["f"][5:]) <= 1e-9 * found["f"][0])


def test_a_run_that_diverges_is_watched_no_longer(case: Case) -> None:
    def growing() -> Iterator[Iterate]:
        for it in iterate(SMM(batch_size=10), case.problem, case.start(), 0):
            yield replace(it, D=it.D * 1e12 if it.step > 3 else it.D)

    assert [it.step for it in within_budget(growing(), passes=5)] == [0, 1, 2, 3]


# ------------------------------------------------------------------ the paper's figures


def test_the_epochs_of_algorithm_1_cost_what_the_paper_counts(case: Case) -> None:
    n = case.n_samples
    b, m = Algorithm1().epoch_shape(n)
    ends = contest.literal_epochs(n, epochs=3)
    assert ends == pytest.approx([0, *((1 + 2 * b * m / n) * s for s in (1, 2, 3))])
    taken = snapshots(contest.literal(1.0), case.problem, case.start(n_components=4), at=ends)
    assert [snapshot.passes for snapshot in taken] == pytest.approx(ends)


@pytest.mark.slow
def test_searches_find_the_best_of_what_they_tried(case: Case) -> None:
    D = case.start(n_components=4)
    step, sgd = contest.searched_step(case, D), contest.searched_sgd(case, D)
    tried = {factor: f for factor, f in step["tried"].items() if np.isfinite(f)}
    assert step["factor"] == min(tried, key=lambda factor: tried[factor])
    last = [entry for entry in sgd["tried"] if entry["passes"] > contest.TRIAL_PASSES]
    assert len(last) == 2 and sgd["first step"] == min(last, key=lambda entry: entry["f"])["first step"]


def test_references_are_below_where_they_start(case: Case) -> None:
    D = case.start(n_components=4)
    first = case.problem.measure(case.problem.stats(D, contest.JUDGING_CODER), D).objective
    for find in (contest.reference, contest.best_known):
        assert find(case.problem, D, 30.0, 5.0)["f"] < first


def test_a_sweep_prefers_what_came_to_its_end() -> None:
    curves: list[dict[str, Any]] = [
        {"passes": [0, 12], "f": [3, 2]},
        {"passes": [0, 5], "f": [3, 1]},
        {"passes": [0, 12], "f": [3, None]},
    ]
    assert contest.best_sweep(curves) == curves[0]


def test_spams_is_left_out_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    monkeypatch.setitem(sys.modules, "spams", None)
    assert contest.spams_curve(case, case.start()) is None


def test_digits_stand_in_for_images_that_are_not_at_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VRMF_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)
    found = Panel("ODL", "MNIST").load(TINY)
    assert found.title == "ODL, digits for MNIST" and found.X.shape == (60, 64)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_starts_are_feasible(panel: Panel) -> None:
    loaded = panel.load(TINY)
    for D in (loaded.start(), loaded.ones()):
        assert np.isfinite(loaded.problem.formulation.dictionary.value(D)) and len(D) == 49
    assert start.rank(loaded.ones()) == 1


def test_the_expressed_variance_of_a_subspace() -> None:
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((20, 3)))[0]
    assert figures.expressed_variance(U @ np.linalg.qr(rng.random((3, 3)))[0], U) == pytest.approx(1)
    assert figures.expressed_variance(np.linalg.qr(np.hstack([U, rng.random((20, 4))]))[0], U) == (
        pytest.approx(1)
    )
    assert figures.expressed_variance(np.linalg.svd(U)[0][:, 3:6], U) == pytest.approx(0, abs=1e-12)


def test_observers_of_the_subspace_see_the_truth_and_what_hides_it(case: Case) -> None:
    assert case.truth is not None
    observers = figures.subspace_observers(case)
    told = {name: observe(case.truth) for name, observe in observers.items()}
    assert told["EV"] == pytest.approx(1) and told["leading EV"] == pytest.approx(1)
    assert told["angle"] == pytest.approx(0, abs=1e-5)
    noise = 1000 * np.random.default_rng(7).standard_normal((5, case.X.shape[1]))
    hidden = {name: observe(np.vstack([noise, case.truth])) for name, observe in observers.items()}
    assert hidden["EV"] == pytest.approx(1) and hidden["leading EV"] < 0.7


def test_equal_atoms_stay_equal_with_the_codes_of_the_paper() -> None:
    loaded = Panel("ODL", "CBCL").load(Size(quick=True, most_rows=60))
    found = curve(
        contest.literal(0.1, method="bsum"),
        loaded.problem,
        loaded.ones(n_components=6),
        at=contest.literal_epochs(60, 3),
        observers=start.OBSERVERS,
    )
    assert found["rank"] == [1, 1, 1, 1] and found["f"][-1] < found["f"][0]


def fake_curve(end: float, **more: Any) -> dict[str, Any]:
    columns = {"passes": [0, 6, 12], "seconds": [0, 1, 2], "f": [5, 3, end], "stationarity": [1, 0.1, 0.01]}
    return {"title": "a title", "eta": 0.5} | columns | more


def fake_results(scale: Scale, experiment: Experiment) -> dict[str, Any]:
    """Return results of the right shape, without computing anything."""
    subspace = {"EV": [0.1, 0.5, 1], "leading EV": [0.1, 0.5, 0.9], "angle": [90, 60, 5], "rank": [1, 1, 2]}
    shapes: dict[str, Callable[[], Any]] = {
        "search step": lambda: {"eta": 0.5},
        "search SGD": lambda: {"first step": 0.5, "offset": 1.0},
        "reference": lambda: {"f": 2.0, "part of first": 1e-9, "passes": 100},
        "best": lambda: {"f": 1.0},
        "SPAMS": lambda: None,
    }
    return {
        step.key: shapes.get(step.key.rpartition("/")[2], lambda: fake_curve(1.5, **subspace))()
        for step in experiment.steps(scale)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure1", "figure2", "figure3", "long", "start"])
def test_the_figures_of_the_paper_are_drawn_and_have_a_table(name: str, tmp_path: Path) -> None:
    (experiment,) = chosen([name])
    results = fake_results(QUICK, experiment)
    for picture, figure in experiment.draw(results).items():
        figure.savefig(tmp_path / f"{picture}.png", dpi=20)
    assert experiment.table(results).startswith("|")
    assert "a title" in experiment.table(results) or name in ("figure3", "start")


def test_the_table_shows_when_levels_were_reached() -> None:
    results = fake_results(QUICK, chosen(["figure1"])[0])
    results["ODL CBCL/VR"] = fake_curve(1.0)
    table = drawing.table_figure1(results)
    (line,) = [line for line in table.splitlines() if "| VR |" in line and "12, 12, 12" in line]
    assert "2, 2, 2" in line and "| 0 |" in line


@pytest.mark.slow
def test_numbers_of_atoms_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRMF_DATA", raising=False)
    found = components.compared(Panel("ONMF", "CBCL").load(TINY), 5, 0.5)
    assert set(found["curves"]) == set(components.CONTESTANTS)
    results = plain({"ONMF CBCL/5": found})
    assert set(components.draw(results)) == {"components"}
    line = components.table(results).splitlines()[2]
    assert all(0 <= float(part) <= 1 for part in line.split("|")[3:-1])


# ------------------------------------------------------------------ the command


def test_experiments_are_chosen_by_name_and_by_group() -> None:
    assert chosen([]) == EVERY
    assert chosen(["theory"]) == list(GROUPS["theory"])
    assert [e.name for e in chosen(["groups", "lemma1"])] == ["groups", "lemma1"]
    result = CliRunner().invoke(main, ["figure9"])
    assert (
        result.exit_code == 2 and "no experiment 'figure9'" in result.output and "lemma2" in result.output
    )


@pytest.mark.slow
def test_the_command_runs_and_draws(tmp_path: Path) -> None:
    options = ["lemma1", "--quick", "-o", str(tmp_path)]
    first = CliRunner().invoke(main, options)
    assert first.exit_code == 0 and str(tmp_path) in first.output.replace("\n", ""), first.output
    assert (tmp_path / "lemma1.svg").read_text("utf-8").startswith("<?xml")
    drawn = CliRunner().invoke(main, [*options, "--draw"])
    assert drawn.exit_code == 0
    refused = CliRunner().invoke(main, ["lemma1", "-o", str(tmp_path)])
    assert refused.exit_code == 2 and "another folder" in refused.output


def test_a_full_run_without_data_says_where_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(**options: Any) -> None:
        raise OSError("CBCL is not in the folder VRMF_DATA")

    monkeypatch.setitem(sys.modules["experiments.paper.panels"].LOADERS, "CBCL", lambda size: refuse())
    figures.loaded_case.cache_clear()
    result = CliRunner().invoke(main, ["figure3", "-o", str(tmp_path)])
    assert result.exit_code == 1 and "CBCL is not in the folder VRMF_DATA" in result.output
    assert os.listdir(tmp_path) == []
