"""Every parameter of every estimator, solver and term refuses bad values with an error that names it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import vrmf
from estimator_cases import NAMES, make, rows
from vrmf.cli import main
from vrmf.estimators import ESTIMATORS
from vrmf.solvers import SOLVERS, Coder
from vrmf.terms import L1, Box, GroupL2, MaxColumnNorm, NonNegative, Quadratic, Ridge, Sum

X = rows()

#: Values that few parameters can mean, by a word for each.
VALUES: dict[str, Any] = {
    "word": "no",
    "false": "False",
    "negative": -1,
    "negative fraction": -0.5,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "list": [1, 2],
    "dict": {"a": 1},
    "function": len,
    "array": np.ones(3),
}

#: Which of these a parameter does mean.
MEANT: dict[str, set[str]] = {
    "n_jobs": {"negative"},
    "max_time": {"fraction"},
    "tol": {"fraction"},
    "checkpoint": {"word", "false"},
    "checkpoint_every": {"fraction"},
    "alpha": {"fraction"},
    "outlier_alpha": {"fraction"},
    "dictionary_alpha": {"fraction"},
    "smoothness": {"fraction"},
    "max_code": {"fraction"},
    "max_outlier": {"fraction"},
    "ridge": {"fraction"},
    "step_size": {"fraction"},
    "scale": {"fraction"},
    "offset": {"fraction"},
    "tau": {"fraction"},
    "forgetting": {"fraction"},
    "cache_megabytes": {"fraction"},
    "group_weights": {"list"},
}

PARAMETERS = [(name, each) for name in NAMES for each in ESTIMATORS[name]._get_param_names()]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, where checkpoints with odd names are written."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_estimators_refuse_values_without_a_meaning(name: str, parameter: str) -> None:
    for word, value in VALUES.items():
        if word in MEANT.get(parameter, set()):
            continue
        with warnings.catch_warnings(), pytest.raises((ValueError, TypeError)) as caught:
            warnings.simplefilter("ignore")
            make(name, **{parameter: value}).fit(X)
            pytest.fail(f"{parameter}={value!r} was taken")
        assert f"`{parameter}`" in str(caught.value), f"{value!r}: {caught.value}"


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_refuse_values_without_a_meaning(name: str) -> None:
    kind: Any = SOLVERS[name]
    for field in dataclasses.fields(kind):
        for word, value in VALUES.items():
            if word in MEANT.get(field.name, set()):
                continue
            with pytest.raises((ValueError, TypeError), match=f"`{field.name}`"):
                vrmf.NMF(2, solver=kind(**{field.name: value}), max_iter=1, tol=0).fit(X)


#: A constructor of one parameter, the parameter, and which of the values it does mean.
TERMS: dict[str, tuple[Callable[..., Any], str, set[str]]] = {
    "L1": (L1, "weight", {"fraction"}),
    "Ridge": (Ridge, "weight", {"fraction"}),
    "MaxColumnNorm": (MaxColumnNorm, "weight", {"fraction"}),
    "Quadratic": (lambda value: Quadratic(np.eye(2), value), "weight", {"fraction"}),
    "Box, low": (lambda value: Box(value, 2.0), "low", {"negative", "negative fraction", "fraction"}),
    "Box, high": (
        lambda value: Box(-2.0, value),
        "high",
        {"negative", "negative fraction", "fraction", "infinite"},
    ),
    "Quadratic, matrix": (
        lambda value: Quadratic(value),
        "matrix",
        {*VALUES} - {"word", "dict", "function"},
    ),
    "Sum, terms": (
        lambda value: Sum(value),
        "terms",
        {*VALUES} - {"negative", "fraction", "nan", "function"},
    ),
    "Sum": (lambda value: Sum((NonNegative(), L1(1.0)), value), "iterative", set()),
    "GroupL2, groups": (GroupL2, "groups", set()),
    "GroupL2, weights": (lambda value: GroupL2([[0], [1]], value), "weights", {"list"}),
    "Coder, tol": (lambda value: Coder(tol=value), "tol", {"fraction"}),
    "Coder, max_iter": (lambda value: Coder(max_iter=value), "max_iter", set()),
    "Coder, method": (lambda value: Coder(method=value), "method", set()),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_refuse_values_without_a_meaning(name: str) -> None:
    term, parameter, meant = TERMS[name]
    for word, value in VALUES.items():
        if word not in meant:
            with pytest.raises((ValueError, TypeError), match=f"`{parameter}[`[]"):
                term(value)


# The command line -----------------------------------------------------------------------------------


def told(*words: object) -> str:
    np.save("rows.npy", X)
    command = [
        "fit",
        "rows.npy",
        "--model",
        "group-dictionary-learning",
        "-k",
        "2",
        "--max-iter",
        "1",
        "--tol",
        "0",
    ]
    result = CliRunner().invoke(main, [*command, "--force", *map(str, words)])
    assert (result.exit_code == 0) == ("objective  " in result.output), result.output
    return "" if result.exit_code == 0 else result.output.replace("\n", " ")


@pytest.mark.parametrize("spelling", ["False", "false"])
def test_truth_values_are_read_as_such(spelling: str) -> None:
    assert told("--set", f"center={spelling}", "--set", f"solver__reseed={spelling}") == ""
    model: Any = vrmf.load("model.vrmf")
    assert model.center is False and not hasattr(model, "mean_") and model.solver_.reseed is False


@pytest.mark.parametrize("setting", ["center=no", "bounded=0", "solver__reseed=off", "n_jobs=0"])
def test_other_spellings_are_refused(setting: str) -> None:
    name = setting.partition("=")[0].removeprefix("solver__")
    assert "Use " in (message := told("--set", setting)) and name in message


def test_a_parameter_with_an_option_is_not_set_twice() -> None:
    assert "Use -k." in told("--set", "n_components=3")
    assert "Use --jobs." in told("--set", "n_jobs=1")
    assert "given twice" in told("--set", "alpha=1", "--set", "alpha=2")
    assert "`n_jobs` is 0" in told("--jobs", 0)
