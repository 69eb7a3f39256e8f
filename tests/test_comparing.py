"""Comparisons of solvers and libraries: the same problem for all, measured apart from its clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import vrmf
from estimator_cases import corrupted, rows
from manual_clock import ManualClock
from vrmf.cli import main
from vrmf.coding import Coder
from vrmf.comparing import Comparison, Curve, compare, comparison, contestants, peers
from vrmf.comparing.contestants import Contestant, Snapshot, learner_of_batches, learner_of_steps
from vrmf.plots import comparison as draw
from vrmf.problem import Problem
from vrmf.sources import as_source

X = rows(300, 12)

#: What the measured dictionaries differ by from those of a fit that runs to its end.
NEAR = 1e-3


def compared(model: str, data: Any = X, **options: Any) -> Comparison:
    return compare(model, data, **({"n_components": 3, "seconds": 0.3} | options))


@pytest.mark.parametrize("model", ["nmf", "dictionary-learning", "smooth-dictionary-learning"])
def test_our_objectives_are_those_of_the_estimators(model: str) -> None:
    found = compared(model, solvers=["vr"], peers=False, seconds=5.0)
    fitted = vrmf.estimators.ESTIMATORS[model](3, random_state=0).fit(X)
    for curve in found.curves:
        assert curve.objective[-1] == pytest.approx(fitted.objective_, rel=NEAR)
        assert curve.error[-1] == pytest.approx(fitted.reconstruction_error_, rel=10 * NEAR)
        assert np.all(np.diff(curve.seconds) > 0)
    assert found.best == min(min(curve.objective) for curve in found.curves)


@pytest.mark.slow
@pytest.mark.parametrize("model", peers.PEERS)
def test_others_solve_the_same_problem(model: str) -> None:
    """Other libraries end at most 2 % below our objective and at most a factor of 4 above."""
    data = corrupted(X) if model.startswith("robust") else X
    found = compared(model, data, solvers=["vr"], seconds=2.0)
    ours, *others = found.curves
    assert len(others) + len(found.missing) >= 1
    for other in others:
        assert not other.note.startswith("it failed"), other.note
        assert (1 - 0.02) * ours.objective[-1] <= other.objective[-1] <= 4 * ours.objective[-1], other.name
        assert len(other.seconds) == len(other.objective) == len(other.error)


def test_all_get_the_start_the_weights_and_the_threads_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[peers.Setting] = []

    def look(setting: peers.Setting) -> Contestant:
        seen.append(setting)
        return Contestant("looks", "", lambda budget: iter([Snapshot(0.0, setting.start)]))

    monkeypatch.setitem(peers.PEERS, "nmf", [("sklearn", "looks", look)])
    found = compared("nmf", solvers=["batch"], n_jobs=1, parameters={"alpha": 0.1})
    first = next(vrmf.NMF(3, alpha=0.1, random_state=0).iterate(X))
    np.testing.assert_allclose(seen[0].start, first.D)
    assert seen[0].weights["alpha"] == found.weights["alpha"] == 0.1 and seen[0].threads == 1
    measured = Problem(first.stage.formulation, as_source(X))
    start = measured.measure(measured.stats(first.D, Coder(tol=1e-9)), first.D)
    assert found.curves[1].objective == [pytest.approx(start.objective, rel=1e-9)]
    codes = seen[0].start_codes()
    assert np.linalg.norm(X - codes @ first.D) <= 1.001 * np.linalg.norm(X) * found.curves[1].error[0]


def test_a_library_that_fails_is_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(setting: Any) -> Contestant:
        raise AttributeError("no such\nfunction")

    def late(setting: Any) -> Contestant:
        def run(budget: float) -> Iterator[Snapshot]:
            yield Snapshot(0.1, setting.start)
            raise ValueError("it fell over")

        return Contestant("late", "", run)

    known = [("sklearn", "early", early), ("numpy", "late", late), ("no_such_package", "gone", late)]
    monkeypatch.setitem(peers.PEERS, "nmf", known)
    found = compared("nmf", solvers=["vr"], seconds=0.1)
    assert [curve.note for curve in found.curves[1:]] == [
        "it failed with AttributeError: no such function",
        "it failed with ValueError: it fell over",
    ]
    assert found.missing == ["no_such_package"] and found.table()[1]["objective"] is None
    assert draw(found, ax=Figure().subplots()).child_axes


def test_an_error_of_ours_is_raised() -> None:
    with pytest.raises(ValueError, match="Negative values"):
        compared("nmf", -X)


# Clocks ------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(contestants, "time", clock)
    return clock


def test_learners_of_batches_stop_at_their_budget_and_only_learning_counts(clock: ManualClock) -> None:
    def learn(model: list[Any], batch: int) -> list[Any]:
        clock.now += 1.0
        model.append(batch)
        return model

    def dictionary(model: list[Any]) -> Any:
        clock.now += 5.0  # off the clock
        return np.full((1, 1), float(len(model)))

    def batches() -> Iterator[int]:
        return iter(range(3))

    taken = learner_of_batches("x", "", list, learn, dictionary, batches, 1).snapshots(20.0)
    assert taken[-1].seconds == taken[-1].D[0, 0] == 20.0


def test_learners_of_steps_begin_anew_with_more_steps_within_their_budget(clock: ManualClock) -> None:
    asked: list[int] = []

    def fit(steps: int) -> Any:
        asked.append(steps)
        clock.now += 2.0 * steps
        return np.eye(2)

    taken = learner_of_steps("x", "", fit, 1).snapshots(100.0)
    assert asked[0] == 1 and np.all(np.diff(asked) > 0)
    assert 90.0 <= taken[-1].seconds <= 100.0


def test_a_dictionary_that_is_not_finite_ends_a_run() -> None:
    bad = learner_of_steps("x", "", lambda steps: np.full((1, 1), np.nan), 1)
    assert bad.snapshots(0.1) == []


def test_seconds_to_a_value_are_those_after_which_it_holds_for_good() -> None:
    curve = Curve("x", "", True, [1.0, 2.0, 3.0, 4.0], [5.0, 1.0, 3.0, 1.0], [1.0] * 4)
    assert curve.reached(1.0) == 4.0 and curve.reached(3.0) == 2.0 and curve.reached(0.5) is None


def test_rows_beyond_the_bounds_are_left_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MOST_BYTES", 100 * X.shape[1] * X.itemsize)
    monkeypatch.setattr(comparison, "MOST_MEASURED", 40)
    found = compared("nmf", solvers=["vr"], peers=False, seconds=0.1)
    assert found.n_samples == 100 and found.n_measured == 40


# On the command line -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_prints_a_table_and_draws_a_picture(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    data, picture = str(tmp_path / "rows.npy"), tmp_path / "seconds.png"
    words = [
        "bench",
        data,
        "--model",
        "NMF",
        "-k",
        "3",
        "--seconds",
        "0.1",
        "--solver",
        "vr",
        "--solver",
        "sgd",
    ]
    ran = CliRunner().invoke(main, [*words, "-o", str(picture)])
    assert ran.exit_code == 0, ran.output
    lines = [line.split("\t") for line in ran.stdout.splitlines() if "\t" in line]
    assert lines[0] == ["solver", "objective", "error", "seconds", "seconds to 1 %"]
    assert [line[0] for line in lines[1:4]] == ["vrmf, vr", "vrmf, sgd", "scikit-learn NMF"]
    assert "vrmf, vr: 0.1 s" in ran.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = CliRunner().invoke(main, [*words, "-o", str(picture)])
    assert again.exit_code == 1 and "--force" in again.output


def test_the_command_prints_json_for_scripts(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    words = [
        "bench",
        str(tmp_path / "rows.npy"),
        "--no-peers",
        "--seconds",
        "0.1",
        "--solver",
        "vr",
        "--json",
    ]
    ran = CliRunner().invoke(main, words)
    found = json.loads(ran.stdout)
    assert ran.exit_code == 0 and ran.stderr == ""
    assert found["suggestion"]["model"] == found["model"] and found["missing"] == 0
    (curve,) = found["curves"]
    assert found["solvers"][0]["objective"] == curve["objective"][-1]
    assert set(found["solvers"][0]) == {"solver", "objective", "error", "seconds", "seconds to 1 %"}


def test_the_command_refuses_before_it_works(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    data = str(tmp_path / "rows.npy")
    for words, told in [
        (["-o", str(tmp_path / "seconds.jpg")], "Use a name that ends in .png, .svg, .pdf"),
        (["--solver", "adam"], "'adam' is not one of"),
        (["--set", "alpha"], "Use NAME=VALUE"),
        (["--seconds", "0"], "0.0 is not in the range"),
    ]:
        ran = CliRunner().invoke(main, ["bench", data, "--model", "nmf", "-k", "2", *words])
        assert ran.exit_code in (1, 2) and told in ran.output
