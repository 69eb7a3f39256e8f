"""The command line: it does what its help says, and everything in it is documented."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from distributed import LocalCluster

import vrmf
from command_line import run
from estimator_cases import rows
from inputs import KINDS, PATHS
from vrmf.cli import fitting, main, warming
from vrmf.cli.common import UNFINISHED
from vrmf.coding import Coder
from vrmf.estimators import inference
from vrmf.solvers import SOLVERS, VR
from vrmf.sources import as_source
from vrmf.sources.cluster import WINDOW
from vrmf.sources.lazy import dask_array


@pytest.mark.slow
def test_the_demonstration_finds_what_moves_compares_solvers_and_writes_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    result = CliRunner().invoke(main, ["demo", "-o", str(folder), "--passes", "4", "-k", "3"])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    (f_measure,) = [float(line[-1]) for line in lines if line[:1] == ["F-measure"]]
    assert 0.95 < f_measure <= 1
    found, true = next(line[-2:] for line in lines if line[:1] == ["rank"])
    assert found == true == "2"
    noise, true_noise = next(map(float, line[-2:]) for line in lines if line[:1] == ["noise"])
    assert abs(noise / true_noise - 1) < 0.03
    robust, plain = map(float, re.findall(r"([\d.]+)% by", result.output))
    assert robust < 0.2 * plain
    for model in ("dictionary learning", "NMF"):
        for solver in ("vr", "smm", "sgd"):
            (row,) = [line for line in lines if line[:-4] == [*model.split(), solver]]
            objective, stationarity, passes, seconds = map(float, row[-4:])
            assert objective > 0 and stationarity > 0 and 3.9 <= passes <= 4.2 and seconds > 0
    assert str(folder) in result.output.replace("\n", "")
    assert {path.name for path in folder.iterdir()} == {"video.png", "atoms.png", "convergence.png"}
    for picture in folder.iterdir():
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_bad_options_are_refused() -> None:
    result = CliRunner().invoke(main, ["demo", "--frames", "5"])
    assert result.exit_code == 2 and "x>=20" in result.output


def test_the_command_prints_the_version() -> None:
    assert vrmf.__version__ in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize("name", main.commands)
def test_every_command_and_option_has_a_help_text_and_is_in_the_readme(name: str) -> None:
    command = main.commands[name]
    assert command.help
    assert f"vrmf {name}" in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    shown = " ".join(CliRunner().invoke(main, [name, "--help"], terminal_width=10_000).output.split())
    assert "Examples: vrmf" in shown or f"vrmf {name}" in shown.partition("Examples:")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help
            told = shown.partition(option.help.split("  [")[0])[2].partition(" --")[0]
            assert option.is_flag or "[default: " in told, option.name
        else:
            assert option.name and option.name.upper() in command.help


@pytest.mark.slow
def test_kernels_are_compiled_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "ESTIMATORS", {"nmf": vrmf.NMF, "robust-pca": vrmf.RobustPCA})
    said = json.loads(run("warmup", "--json").stdout)
    assert said.keys() == documented_fields()["warmup"]
    assert 0 <= said["compiling_seconds"] <= said["seconds"]


# Fits from files ---------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", rows(80))
    return tmp_path / "rows.npy"


def test_a_fit_and_its_codes_are_those_of_the_estimator(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "nmf.vrmf"
    result = run(
        *("fit", data, "--model", "nmf", "-k", 3, "-o", place, "--max-iter", 3, "--tol", 0, "--seed", 4),
        *("--jobs", 1, "--chunk-rows", 30, "--set", "alpha=0.5", "--set", "solver__batch_size=20"),
    )
    assert result.exit_code == 0, result.output
    expected = vrmf.NMF(3, max_iter=3, tol=0, random_state=4, n_jobs=1, alpha=0.5, solver=VR(batch_size=20))
    expected.fit(as_source(data, chunk_rows=30))
    model = vrmf.load(place)
    np.testing.assert_array_equal(model.components_, expected.components_)
    told = dict(line.split(maxsplit=1) for line in result.output.splitlines() if " " in line)
    assert float(told["objective"]) == pytest.approx(model.objective_, rel=1e-5)
    stationarity, *unit = told["stationarity"].split()
    assert float(stationarity) == pytest.approx(model.relative_stationarity_, rel=1e-2)
    assert unit == ["of", "the", "objective"]
    assert float(told["passes"]) > 3 and float(told["seconds"]) > 0
    assert told["stopped"] == model.stop_reason_ and told["model"].endswith("nmf.vrmf")

    result = run("transform", place, data, "-o", tmp_path / "codes.npy", "--chunk-rows", 25, "--jobs", 1)
    assert result.exit_code == 0 and "80 codes of 3 numbers" in result.output, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), expected.transform(np.load(data)))
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy", "nmf.vrmf", "codes.npy"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_command_fits_by_every_solver(solver: str, data: Path, tmp_path: Path) -> None:
    words = ("-k", 2, "--solver", solver, "--max-iter", 2, "--verbose", "-o", tmp_path / "model.vrmf")
    result = run("fit", data, "--model", "robust-pca", *words)
    assert result.exit_code == UNFINISHED and "objective" in result.output, result.output
    assert vrmf.load(tmp_path / "model.vrmf").solver == solver


def test_a_spent_budget_warns_without_a_traceback(data: Path, tmp_path: Path) -> None:
    result = run("fit", data, "--model", "nmf", "-k", 3, "--max-iter", 1, "-o", tmp_path / "model.vrmf")
    assert (
        result.exit_code == UNFINISHED and "Warning: NMF stopped before it was stationary" in result.stderr
    )


def test_a_transformation_warns_of_unfinished_codes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = vrmf.RobustPCA(3, max_iter=2, tol=0, random_state=0, n_jobs=1).fit(np.load(data))
    vrmf.save(model, tmp_path / "model.vrmf")
    words = ("transform", tmp_path / "model.vrmf", data, "-o", tmp_path / "codes.npy", "--chunk-rows", 25)
    assert "Warning" not in run(*words).stderr
    monkeypatch.setattr(inference, "EXACT", Coder(tol=1e-8, max_iter=1, method="gradient"))
    result = run(*words, "--force")
    assert result.exit_code == 0 and (tmp_path / "codes.npy").exists()
    assert re.search(r"Warning: \d+ of 80 codes stopped at a relative error of up to", result.stderr)


WRONG = {
    "missing data": (["none.npy"], "none.npy does not exist. Use"),
    "unknown data": (["rows.doc"], "rows.doc is of an unknown kind. Use one of"),
    "unknown parameter": (["rows.npy", "--set", "beta=1"], "'beta' is not a parameter of NMF. Use one of"),
    "a parameter with a slip": (["none.npy", "--set", "aplha=1"], "Did you mean alpha?"),
    "no rows": (["empty.npy"], "empty.npy has 0 rows and 5 features. Use at least one of each."),
    "no value": (["rows.npy", "--set", "alpha"], "`--set` is 'alpha'. Use NAME=VALUE"),
    "wrong value": (["rows.npy", "--set", "alpha=-1"], "`alpha` is -1. Use"),
    "a word": (["rows.npy", "--set", "init=nowhere"], "nowhere"),
    "a long name": (
        ["rows.npy", "-o", "m" * 300],
        "`--output` is a path of 300 letters, which is too long",
    ),
    "no folder": (["rows.npy", "-o", "nowhere/model.vrmf"], "there is no folder"),
    "negative rows": (["negative.npy"], "row 2 is -1. Use"),
    "no scheduler": (["rows.npy", "--scheduler", "tcp://127.0.0.1:9"], "No scheduler of Dask answers at"),
    "no address": (["rows.npy", "--scheduler", "what://ever"], "No scheduler of Dask answers at"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_of_a_fit_are_one_message_without_a_traceback(
    case: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    monkeypatch.setattr(fitting, "CLUSTER_SECONDS", 0.5)
    Path("rows.doc").write_text("1,2")
    np.save("empty.npy", np.zeros((0, 5)))
    np.save("negative.npy", np.array([[1.0], [1.0], [-1.0]]))
    words, message = WRONG[case]
    result = run("fit", *words, "--model", "nmf", "-k", 1)
    assert result.exit_code == 1 and message in result.stderr, result.output
    assert "Traceback" not in result.output and not Path("model.vrmf").exists()


@pytest.mark.parametrize("command", ["suggest", "fit", "bench", "transform"])
def test_bad_options_of_a_file_are_refused_in_one_line(command: str, data: Path, tmp_path: Path) -> None:
    vrmf.save(vrmf.NMF(2, tol=0.1, random_state=0).fit(rows(80)), tmp_path / "model.vrmf")
    model = [tmp_path / "model.vrmf"] if command == "transform" else []
    for options, message in {
        ("--separator", "ab"): "`separator` is 'ab'. Use one sign, such as ';' or a tab.",
        ("--separator", ""): "`separator` is ''. Use one sign, such as ';' or a tab.",
        (
            "--separator",
            "comma",
            "--decimal",
            ",",
        ): "`separator` and `decimal` are both ','. Use two signs.",
        ("--drop", "a", "--drop", "a"): "`drop` names 'a' twice. Use it once.",
        ("--drop", "a", "--index", "a"): "'a' is both `index` and in `drop`. Use one of them.",
    }.items():
        result = run(command, *model, data, *options)
        assert result.exit_code == 1 and result.stderr == f"Error: {message}\n"


def test_an_error_comes_without_warnings(tmp_path: Path) -> None:
    frame = pandas.DataFrame(rows(80), columns=list("abcdef"))
    vrmf.save(vrmf.NMF(2, tol=0.1, random_state=0).fit(frame), tmp_path / "model.vrmf")
    bad = rows(80)
    bad[70, 0] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    np.save(tmp_path / "good.npy", rows(80))
    words = ("transform", tmp_path / "model.vrmf")
    result = run(*words, tmp_path / "bad.npy", "-o", tmp_path / "codes.npy")
    assert result.exit_code == 1 and re.fullmatch("Error: The entry in row 70, .*\n", result.stderr)
    result = run(*words, tmp_path / "good.npy", "-o", tmp_path / "codes.npy")
    assert result.exit_code == 0 and re.fullmatch("Warning: .* valid feature names.*\n", result.stderr)
    result = run(*words, "d" * 300)
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["fit", "bench"])
@pytest.mark.parametrize("model", ["nmf", "robust-pca"])
def test_more_components_than_memory_holds_are_refused_at_once(
    command: str, model: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    result = run(command, data, "--model", model, "-k", 100_000_000)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert re.match(
        r"Error: `n_components` \(-k\) is 100000000. For 6 features a fit needs 1.6e\+08 GB", line
    )


def test_errors_of_a_transformation_leave_no_file(data: Path, tmp_path: Path) -> None:
    vrmf.save(vrmf.NMF(2, tol=0.1, random_state=0).fit(rows(80)), tmp_path / "model.vrmf")
    bad = rows(80)
    bad[70, 0] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    np.save(tmp_path / "wide.npy", rows(80, d=9))
    for name, message in {
        "bad": "row 70, column 0 of the data",
        "wide": "X has 9 features, but NMF is",
    }.items():
        result = run(
            *("transform", tmp_path / "model.vrmf", tmp_path / f"{name}.npy", "-o", tmp_path / "codes.npy")
        )
        assert result.exit_code == 1 and message in result.stderr, result.output
    result = run("transform", data, data)
    assert result.exit_code == 1 and "is not a model file of vrmf" in result.stderr
    assert not [path for path in tmp_path.iterdir() if "codes" in path.name]


# Lazy arrays and clusters ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PATHS)
def test_a_lazy_array_has_the_rows_and_chunks_of_the_file(kind: str, tmp_path: Path) -> None:
    X = rows(50)
    path = KINDS[kind].make(X, tmp_path)
    for chunk_rows in (None, 20):
        lazy = dask_array(path, chunk_rows)
        bounds = as_source(path, chunk_rows=chunk_rows).layout.bounds
        np.testing.assert_array_equal(np.cumsum([0, *lazy.chunks[0]]), bounds)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), X)


@pytest.mark.slow
def test_a_fit_on_a_cluster_is_that_of_the_same_chunks_in_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "CLUSTER_SECONDS", 2)
    words = ["--model", "nmf", "-k", 3, "--max-iter", 2, "--tol", 0, "--chunk-rows", 30, "--jobs", 1]
    words += ["-o", tmp_path / "model.vrmf"]
    options = {
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
        "host": "127.0.0.1",
        "protocol": "tcp://",
    }
    with LocalCluster(n_workers=0, threads_per_worker=1, silence_logs=50, **options) as cluster:
        result = run("fit", data, *words, "--scheduler", cluster.scheduler_address)
        assert result.exit_code == 1 and "has no workers. Start one: dask worker" in result.stderr
        cluster.scale(1)
        result = run("fit", data, *words, "--scheduler", cluster.scheduler_address)
    assert result.exit_code == 0, result.output
    expected = vrmf.NMF(3, max_iter=2, tol=0, random_state=0, n_jobs=1)
    expected.fit(as_source(np.load(data), chunk_rows=30, sampling="blocks", window=WINDOW))
    np.testing.assert_array_equal(vrmf.load(tmp_path / "model.vrmf").components_, expected.components_)


# The page ----------------------------------------------------------------------------------------


def documented_fields() -> dict[str, set[str]]:
    """Return the fields that docs/command_line.md says each command prints."""
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    fields: dict[str, set[str]] = {}
    commands: list[str] = []
    for line in page.partition("| command | field |")[2].partition("\n## ")[0].splitlines()[2:]:
        if line.startswith("|"):
            first, names, _ = line.strip("|").split("|", 2)
            commands = [name.strip() for name in first.split(",")] if first.strip() else commands
            for command in commands:
                fields.setdefault(command, set()).update(re.findall(r"`([a-z_]+)`", names))
    return fields


@pytest.mark.slow
def test_fields_for_scripts_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frames = rng.random((60, 2)) @ rng.random((2, 35)) + 0.05 * rng.standard_normal((60, 35))
    np.save("video.npy", np.where(rng.random(frames.shape) < 0.03, 5, frames).reshape(60, 5, 7))
    with open("table.csv", "w") as file:
        file.write("a,b,c,d\n" + "".join(f"{x},{x * 2},{1 - x},{x + 1}\n" for x in rng.random(40).round(3)))
    seen: dict[str, set[str]] = {}
    for words in (
        "suggest table.csv",
        "suggest video.npy",
        "fit table.csv -k 2 -o table.vrmf --max-iter 2 --tol 0",
        "fit video.npy --model robust-pca -o video.vrmf",
        "info table.vrmf",
        "info video.vrmf",
        "export video.vrmf --top 2 --components atoms.csv",
        "transform video.vrmf video.npy -o c.npy --low-rank l.npy --outliers o.npy --mask m.npy",
        "bench video.npy --no-peers --seconds 0.05 --solver vr -o seconds.png",
    ):
        command, *rest = words.split()
        ran = CliRunner().invoke(main, [command, *rest, "--json"])
        assert ran.exit_code == 0, ran.output
        seen.setdefault(command, set()).update(json.loads(ran.stdout))
    documented = documented_fields()
    assert set(documented) == {*seen, "warmup"}, "the fields of warmup are in the test of kernels"
    for command, names in seen.items():
        assert names == documented[command], command


# Imports and interrupts --------------------------------------------------------------------------


def test_the_package_imports_what_is_asked_for_only_and_then_shows_all_of_it() -> None:
    code = """
import sys, vrmf
assert not {"numpy", "sklearn", "numba", "click"} & set(sys.modules)
assert {"NMF", "plots", "suggest"} <= set(vrmf.__all__) <= set(dir(vrmf))
from vrmf import *
assert vrmf.sources.open_table and vrmf.NMF is NMF is vrmf.estimators.NMF and vrmf.suggest is suggest
assert all(hasattr(vrmf, name) for name in vrmf.__all__)
for name in ("nothing", "_nothing"):
    assert not hasattr(vrmf, name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_threads_may_ask_for_different_parts_of_the_package_first() -> None:
    code = """
import threading, vrmf
names, failed = ["NMF", "plots", "suggest", "load", "theory"], []
barrier = threading.Barrier(len(names))
def ask(name):
    barrier.wait()
    try:
        getattr(vrmf, name)
    except Exception as error:
        failed.append((name, error))
threads = [threading.Thread(target=ask, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
assert not hasattr(vrmf, "no.such") and not hasattr(vrmf, "cli.fitting")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6])
def test_an_interrupt_at_any_moment_ends_a_command_quietly(seconds: float, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((300, 30)))
    # A shell starts jobs in the background with interrupts ignored, and the tests may be such a job. The
    # interpreter itself takes a moment to start, and says so here.
    code = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vrmf.__main__ import main
print("started", file=sys.stderr, flush=True)
main()
"""
    words = ["bench", "rows.npy", "--model", "nmf", "-k", "2", "--seconds", "600", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None and process.stderr.readline() == "started\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error in ("", "Stopped: nothing is kept of what was under way.\n")
