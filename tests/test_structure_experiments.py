"""The experiments on structures: a small part of each is computed, drawn and put into a table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import numpy as np
import pytest

from experiments.base import Experiment, Scale, Step, plain
from experiments.structures import STRUCTURES, groups, max_norm, smooth
from experiments.structures import low_rank as segmentation
from experiments.structures.common import assigned, distance, medians, records_with
from experiments.tables import markdown

BY_NAME = {experiment.name: experiment for experiment in STRUCTURES}

#: Which of the quick steps are computed here: enough for the figure and the table.
FEW: dict[str, Callable[[Step], bool]] = {
    "groups": lambda step: "0.2" not in step.key,
    "smooth": lambda step: step.key.startswith("1000 ") or step.key == "curves",
    "max-norm": lambda step: "equal" in step.key,
    "low-rank": lambda step: " 0.3 " in step.key,
}


def quick_results(experiment: Experiment, wanted: Callable[[Step], bool]) -> dict[str, object]:
    """Return the results of the wanted quick steps, as a file would give them back."""
    results: dict[str, object] = {}
    for step in experiment.steps(Scale(quick=True)):
        if wanted(step):
            results[step.key] = json.loads(json.dumps(plain(step.compute(results)), allow_nan=False))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_a_quick_run_has_figures_and_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "ROWS", 120)
    experiment = BY_NAME[name]
    results = quick_results(experiment, FEW[name])
    for figure in experiment.draw(results).values():
        assert figure.get_figwidth() <= 9
        figure.savefig(os.devnull, format="png", dpi=30)
    assert "|---|" in experiment.table(results)
    assert "nan" not in experiment.table(results)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", BY_NAME)
def test_keys_are_unique(name: str, quick: bool) -> None:
    keys = [step.key for step in BY_NAME[name].steps(Scale(quick=quick))]
    assert len(keys) == len(set(keys))


def test_data_are_the_same_twice_and_differ_by_seed() -> None:
    for make in (
        lambda seed: groups.group_data(seed, 20).X,
        lambda seed: smooth.spectra(seed, 100).X,
        lambda seed: max_norm.corrupted(seed, max_norm.Case(True, True), 0.1)[0],
        lambda seed: segmentation.union_of_subspaces(seed, 0.1).X,
    ):
        assert np.array_equal(make(0), make(0))
        assert not np.array_equal(make(0), make(1))


@pytest.mark.parametrize("name", max_norm.CASES)
def test_outliers_fall_where_they_should(name: str) -> None:
    case = max_norm.CASES[name]
    X, low_rank = max_norm.corrupted(0, case, 0.1)
    hit = np.abs(X - low_rank) > 0.3
    assert 0.07 < hit.mean() < 0.11  # some outliers are near what they replace
    assert np.linalg.matrix_rank(low_rank) == max_norm.RANK
    assert hit[:, max_norm.FEATURES // 4 :].any() != case.crowded


@pytest.mark.parametrize("name", groups.MODELS)
def test_the_true_atoms_name_the_true_groups(name: str) -> None:
    data = groups.group_data(0, 50)
    H = np.repeat(data.on, groups.SIZE, axis=1).astype(float)
    owner = groups.owners(name, data.atoms, data.atoms)
    assert groups.group_scores(H, owner, data.on) == {"F1": 1.0, "strongest": 1.0}
    assert distance(groups.refitted(H, data.atoms, data.clean), data.clean) < 1e-12


@pytest.mark.slow
def test_clean_subspaces_are_clustered_without_an_error() -> None:
    data = segmentation.union_of_subspaces(0, 0.0)
    A = segmentation.affinity(segmentation.principal_codes(data, 0))
    assert segmentation.clustered(A, data) == 1.0


def test_accuracy_does_not_depend_on_names_of_clusters() -> None:
    classes = np.array([5, 5, 7, 7, 7, 9])
    assert segmentation.accuracy(np.array([2, 2, 0, 0, 0, 1]), classes) == 1
    assert segmentation.accuracy(np.array([2, 2, 0, 0, 1, 1]), classes) == pytest.approx(5 / 6)


def test_the_table_says_why_there_are_no_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("no network")

    monkeypatch.setattr(segmentation, "fetch_yaleb", refuse)
    names = ("k-means", *segmentation.CODES, *segmentation.CODES_WITH_LIBRARY)
    results: dict[str, object] = {name: {"method": name, "share": 0.3, "accuracy": 0.5} for name in names}
    results["Yale B"] = segmentation.measure_faces(results)
    assert "no network" in BY_NAME["low-rank"].table(results)


def test_matched_atoms_are_in_the_order_of_the_spectra() -> None:
    pure = smooth.spectra(0, 100).pure
    order = np.random.default_rng(0).permutation(len(pure))
    assert np.array_equal(smooth.matched(pure[order], pure), pure)


def test_assignment_medians_and_tables() -> None:
    assert assigned(np.array([[4.0, 3.0], [5.0, 1.0]])).tolist() == [1, 0]
    records = {"a": {"x": 1, "y": 2.0}, "b": {"x": 1, "y": 4.0}, "c": {"z": 0}}
    assert medians(records_with(records, "y", x=1), "x", "y") == {1: 3.0}
    assert markdown(["a"], [[0.12345]]).splitlines()[-1] == "| 0.123 |"
