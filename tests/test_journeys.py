"""The command line from the user's side: whole sequences of commands, pipes, terminals and odd files."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import Result

import vrmf
from command_line import run
from vrmf.scenes import moving_scene

#: Most run commands in processes of their own.
pytestmark = pytest.mark.slow

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shell(command: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would type it."""
    words = shlex.split(command, comments=True)
    assert words[0] == "vrmf"
    environment = os.environ | {"COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs a command in this process, where no process of its own is needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run_words(command: str, code: int = 0) -> Result:
        result = run(*shlex.split(command)[1:])
        assert result.exit_code == code, result.output
        return result

    return run_words


def cells(n: int = 150, genes: int = 60, parts: int = 3) -> pandas.DataFrame:
    """Return a table of cells whose genes are on together in a few programs."""
    rng = np.random.default_rng(0)
    programs = rng.gamma(0.3, size=(parts, genes))
    levels = rng.gamma(1.0, size=(n, parts)) @ programs
    frame = pandas.DataFrame(
        np.round(np.maximum(levels + 0.01 * rng.standard_normal(levels.shape), 0), 4),
        index=pandas.Index([f"cell{i}" for i in range(n)], name="cell"),
        columns=[f"gene{i}" for i in range(genes)],
    )
    frame.insert(0, "tissue", rng.choice(["liver", "lung"], n))
    return frame


def test_the_commands_of_the_readme_go_from_a_table_to_codes(tmp_path: Path) -> None:
    cells().to_csv(tmp_path / "cells.csv")
    (walk,) = re.findall(r"## From a table to an answer.*?```\n(.*?)```", README, re.DOTALL)
    said = {command.split()[1]: shell(command, tmp_path).stdout for command in walk.splitlines()}
    assert {"suggest", "fit", "report", "info", "export", "transform"} == said.keys()
    assert "<h1>NMF</h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nmf with 3 components" in said["suggest"] and "nmf with 3 components" in said["fit"]
    assert "by cell: cell0" in said["fit"] and "without 'tissue'" in said["fit"]
    atoms = pandas.read_csv(tmp_path / "components.csv", index_col=0)
    assert list(atoms.columns) == [f"gene{i}" for i in range(60)] and atoms.index.name == "component"
    codes = pandas.read_csv(tmp_path / "codes.csv", index_col="cell")
    assert list(codes.columns) == list(atoms.index) and list(codes.index[:2]) == ["cell0", "cell1"]
    clean = cells().drop(columns="tissue").to_numpy()
    assert np.linalg.norm(codes.to_numpy() @ atoms.to_numpy() - clean) < 0.02 * np.linalg.norm(clean)


def test_a_column_of_text_is_named_with_the_option_that_leaves_it_out(tmp_path: Path) -> None:
    cells().to_csv(tmp_path / "cells.csv")
    done = shell("vrmf fit cells.csv", tmp_path, code=1)
    assert len(done.stderr.splitlines()) == 1 and "'tissue' holds text" in done.stderr
    assert "--drop tissue" in done.stderr and not (tmp_path / "model.vrmf").exists()
    assert (
        "Traceback"
        in subprocess.run(
            [sys.executable, "-m", "vrmf", "fit", "cells.csv", "--debug"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        ).stderr
    )


def test_a_video_is_separated_by_fit_and_transform(tmp_path: Path) -> None:
    scene = moving_scene(40, seed=0)
    np.save(tmp_path / "video.npy", scene.frames.reshape(40, *scene.image_shape).astype(np.float32))
    said = json.loads(shell("vrmf fit video.npy --json --max-time 60 -o video.vrmf", tmp_path).stdout)
    assert said["model"] == "robust-pca" and said["image_shape"] == list(scene.image_shape)
    assert said["rank"] == 2 and said["noise"] == pytest.approx(scene.noise, rel=0.1)
    shell("vrmf transform video.vrmf video.npy --mask moved.npy --low-rank still.npy", tmp_path)
    moved = np.load(tmp_path / "moved.npy")
    assert moved.dtype == bool and np.mean(moved == scene.mask) > 0.99
    model = vrmf.load(tmp_path / "video.vrmf")
    np.testing.assert_allclose(
        np.load(tmp_path / "still.npy"), model.decompose(np.load(tmp_path / "video.npy").reshape(40, -1))[0]
    )


def test_a_folder_of_parquet_files_is_fitted_and_transformed(tmp_path: Path) -> None:
    frame, place = cells(), tmp_path / "samples"
    place.mkdir()
    frame[:80].to_parquet(place / "a.parquet")
    frame[80:].to_parquet(place / "b.parquet")
    done = shell("vrmf fit samples --model NMF -k 3 -o cells.vrmf", tmp_path, code=1)
    assert "--drop tissue" in done.stderr
    shell("vrmf fit samples --model NMF -k 3 -o cells.vrmf --drop tissue --quiet", tmp_path)
    shell("vrmf transform cells.vrmf samples -o codes.parquet", tmp_path)
    codes = pandas.read_parquet(tmp_path / "codes.parquet")
    assert list(codes.index) == list(frame.index) and codes.shape == (150, 3)


def test_a_budget_that_ends_too_soon_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((200, 20)))
    done = shell("vrmf fit rows.npy --model nmf -k 5 --max-iter 1", tmp_path, code=3)
    assert "Warning: NMF stopped before it was stationary" in done.stderr
    assert (tmp_path / "model.vrmf").exists()
    shell("vrmf fit rows.npy --model nmf -k 5 --max-iter 1 --tol 0 --force", tmp_path)


def test_names_of_models_are_taken_in_any_case_and_misspellings_corrected(
    tmp_path: Path, command: Callable[..., Result]
) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((50, 8)))
    for name in ("RobustPCA", "ROBUST-PCA", "robust_pca"):
        words = f"vrmf fit rows.npy --model {name} -k 2 --max-iter 2 --tol 0 --force --json"
        assert json.loads(command(words).stdout)["model"] == "robust-pca"
    done = command("vrmf fit rows.npy --model robustpac", code=2)
    assert "Did you mean robust-pca?" in done.stderr


def test_a_suggestion_for_scripts_has_a_command_that_runs(tmp_path: Path) -> None:
    assert "_VRMF_COMPLETE" in shell("vrmf completion bash", tmp_path).stdout
    cells().to_csv(tmp_path / "cells.csv")
    said = json.loads(shell("vrmf suggest cells.csv --drop tissue --json", tmp_path).stdout)
    assert said["suggestion"]["model"] == "nmf" and said["rows"] == 150
    shell(said["command"] + " --max-iter 3 --tol 0", tmp_path)


@pytest.mark.parametrize("verb", ["suggest", "bench"])
def test_data_without_rows_are_refused_in_one_line(
    verb: str, tmp_path: Path, command: Callable[..., Result]
) -> None:
    np.save(tmp_path / "empty.npy", np.zeros((0, 5)))
    done = command(f"vrmf {verb} empty.npy", code=1)
    assert done.stderr.splitlines() == [
        "Error: empty.npy has 0 rows and 5 features. Use at least one of each."
    ]


@pytest.mark.parametrize("verb", ["suggest", "fit", "bench"])
def test_sizes_beyond_all_bounds_are_refused_in_one_line(
    verb: str, tmp_path: Path, command: Callable[..., Result]
) -> None:
    frame = cells().drop(columns="tissue")
    frame.iloc[7] = 1e308
    frame.to_csv(tmp_path / "cells.csv")
    done = command(f"vrmf {verb} cells.csv --json", code=1)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: The data are of size 1.0e+308. In float64 use sizes between")


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    names = [
        "red\x1b[31m",
        "two\nlines",
        "tab\tular",
        "bell\x07\r",
        "c1\x9b2J",
        "back\u202ewards",
        "[bold]",
    ]
    data = np.random.default_rng(0).random((60, 3)) @ np.random.default_rng(1).random((3, len(names)))
    pandas.DataFrame(data, columns=names).to_parquet(tmp_path / "rows.parquet")
    said = shell("vrmf fit rows.parquet --model nmf -k 2 -o m.vrmf", tmp_path).stdout
    said += shell("vrmf info m.vrmf", tmp_path).stdout + shell("vrmf suggest rows.parquet", tmp_path).stdout
    table = shell("vrmf export m.vrmf --top 7", tmp_path).stdout
    assert {line.count("\t") for line in table.splitlines()} == {2} and len(table.splitlines()) == 15
    for shown in ("red\\x1b[31m", "two\\nlines", "tab\\tular"):
        assert shown in said and shown in table
    assert "bell\\x07\\r" in table and "c1\\x9b2J" in table and "back\\u202ewards" in table
    assert not set("\x1b\x07\r\x9b\u202e") & set(said + table) and "[bold]" in table
    said = shell("vrmf export m.vrmf --top 7 --json", tmp_path).stdout
    assert {row["feature"] for row in json.loads(said)["top"]} == set(names)
    done = shell("vrmf fit rows.parquet --drop nothing", tmp_path, code=1)
    assert len(done.stderr.splitlines()) == 1 and "\x1b" not in done.stderr


def piped(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in bash, with the vrmf of this environment."""
    command = command.replace("vrmf ", f"{shlex.quote(sys.executable)} -m vrmf ", 1)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_names_of_files_that_are_no_utf8_are_read_or_refused(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((60, 8))
    np.save(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.npy"), X)
    for name in (b"/bad\xff.csv", b"/bad\xff.parquet"):
        Path(os.fsdecode(os.fsencode(tmp_path) + name)).write_bytes(b"a,b\n1,2\n3,5\n")
    fit = "vrmf fit $'bad\\xff.npy' --model nmf -k 2 --tol 0 --max-iter 2"
    done = piped(f"{fit} -o $'m\\xff.vrmf'", tmp_path)
    assert done.returncode == 0 and "Data in bad\\xff.npy" in done.stdout and "m\\xff.vrmf" in done.stdout
    done = piped(f"{fit} -o $'n\\xff.vrmf' --json", tmp_path)
    assert vrmf.load(json.loads(done.stdout)["file"]).n_iter_ == 2
    for ending in ("csv", "parquet"):
        done = piped(f"vrmf suggest $'bad\\xff.{ending}'", tmp_path)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr
        told = f"Error: bad\\xff.{ending} cannot be read: its name is no text in UTF-8"
        assert done.returncode == 0 or done.stderr.startswith(told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    vrmf.save(vrmf.NMF(2, tol=0.1, random_state=0).fit(np.eye(5)), tmp_path / "m.vrmf")
    for command in ("info m.vrmf", "info m.vrmf --json", "completion bash"):
        done = piped(f"vrmf {command} > /dev/full", tmp_path)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "No space left on device" in line


def test_a_reader_that_is_gone_ends_a_command_quietly(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 4000))
    np.save(tmp_path / "rows.npy", X)
    vrmf.save(vrmf.NMF(5, max_iter=2, tol=0, random_state=0).fit(X), tmp_path / "m.vrmf")
    for command in ("export m.vrmf --top 4000", "info m.vrmf", "info m.vrmf --json"):
        done = piped(f"vrmf {command} | head -c 1", tmp_path)
        assert done.stderr == "" and done.returncode == 0
    done = piped("vrmf bench rows.npy --model nmf -k 2 --seconds 30 | head -c 1", tmp_path)
    assert done.stderr == "" and done.returncode == 0


@pytest.mark.parametrize("end", ["| head -c 1", "2>&1 | head -c 1", ">&-", "<&- >&- 2>&-"])
def test_a_command_that_writes_files_writes_them_whoever_reads_what_it_prints(
    end: str, tmp_path: Path
) -> None:
    X = np.random.default_rng(0).random((30, 8))
    np.save(tmp_path / "rows.npy", X)
    fit = "fit rows.npy --model nmf -k 2 --verbose"
    for words, file, code in (
        (f"{fit} --max-iter 300 --tol 0 -o a.vrmf", "a.vrmf", 0),
        (f"{fit} --max-iter 1 -o b.vrmf", "b.vrmf", 3),
        ("transform a.vrmf rows.npy -o codes.npy", "codes.npy", 0),
        ("export a.vrmf --components atoms.npy --top 8", "atoms.npy", 0),
    ):
        done = piped(f"vrmf {words} {end}", tmp_path)
        assert done.returncode == code and (tmp_path / file).exists(), done.stderr
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert vrmf.load(tmp_path / "a.vrmf").n_iter_ == 300


def test_output_in_any_encoding_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    frame = pandas.DataFrame(np.random.default_rng(0).random((40, 5)), columns=list("Äabcd"))
    vrmf.save(vrmf.NMF(2, max_iter=2, tol=0, random_state=0).fit(frame), tmp_path / "m.vrmf")
    said = shell("vrmf info m.vrmf", tmp_path).stdout
    assert "\\xc4, a, b, ..." in said and "Usage of atoms" in said
    assert "\\xc4" in shell("vrmf export m.vrmf --top 5", tmp_path).stdout
    said = shell("vrmf info m.vrmf --json", tmp_path).stdout
    assert said.isascii() and json.loads(said)["feature_names"] == list(frame.columns)


def test_what_does_not_apply_is_null_for_scripts(tmp_path: Path, command: Callable[..., Result]) -> None:
    X = np.random.default_rng(0).random((60, 8))
    np.save(tmp_path / "rows.npy", X)
    for name, known in {"nmf": set(), "robust-nmf": {"noise"}, "robust-pca": {"rank", "noise"}}.items():
        words = f"vrmf fit rows.npy --model {name} -k 2 --max-iter 3 --tol 0 --force --json"
        said = json.loads(command(words).stdout)
        assert {field for field in ("rank", "noise") if said[field] is not None} == known
    words = "vrmf bench rows.npy --model nmf -k 2 --seconds 0.1 --solver smm --no-peers --json"
    assert json.loads(command(words).stdout)["picture"] is None


def test_a_missing_entry_is_named_alike_by_all_commands(
    tmp_path: Path, command: Callable[..., Result]
) -> None:
    frame = cells().drop(columns="tissue")
    frame.iloc[3, 2] = np.nan
    frame.to_csv(tmp_path / "cells.csv")
    for verb in ("fit", "bench"):
        for wanted in ("--model nmf -k 2", ""):
            done = command(f"vrmf {verb} cells.csv {wanted}", code=1)
            assert f"row 3, column 2 ({frame.columns[2]!r})" in done.stderr
            assert "Suggest" not in done.stdout


def test_with_a_missing_entry_only_a_fit_that_works_is_proposed(
    tmp_path: Path, command: Callable[..., Result]
) -> None:
    frame = cells().drop(columns="tissue")
    frame.iloc[3, 2] = np.nan
    frame.to_csv(tmp_path / "cells.csv")
    said = command("vrmf suggest cells.csv").stdout
    assert "fill them in first" in said
    assert json.loads(command("vrmf suggest cells.csv --json").stdout)["command"] is None
    proposed = " ".join(said.partition("that have some: ")[2].split())
    assert f"--drop {frame.columns[2]}" in proposed
    command(f"{proposed} --max-iter 2 --tol 0")
    frame.iloc[3, :] = np.inf
    frame.to_csv(tmp_path / "cells.csv")
    assert "vrmf fit" not in command("vrmf suggest cells.csv").stdout
