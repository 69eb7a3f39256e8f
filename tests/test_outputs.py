"""Outputs never replace inputs, and replace other files only with --force."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import zarr
from click.testing import Result

import vrmf
from command_line import run
from estimator_cases import rows
from interruptions import interrupted_before
from vrmf.persistence import atomic
from vrmf.persistence.code_files import FORMATS
from vrmf.persistence.outputs import check_output
from vrmf.solvers import VR

FIT = ("--model", "nmf", "-k", 2, "--max-iter", 1, "--tol", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", rows(30))
    return tmp_path / "rows.npy"


@pytest.fixture
def model(tmp_path: Path, data: Path) -> Path:
    place = tmp_path / "model.vrmf"
    assert run("fit", data, *FIT, "-o", place).exit_code == 0
    return place


def unchanged(result: Result, words: str, *files: tuple[Path, bytes]) -> None:
    """Assert that a command failed with these words, and left files as they were."""
    assert result.exit_code == 1 and words in result.output.replace("\n", " "), result.output
    for path, content in files:
        assert path.read_bytes() == content


# Inputs are never replaced --------------------------------------------------------------------------

LINKS = {
    "the same path": lambda path: path,
    "another spelling": lambda path: path.parent / "." / "x" / ".." / path.name,
    "a symbolic link": lambda path: _link(path, os.symlink),
    "a hard link": lambda path: _link(path, os.link),
}


def _link(path: Path, link: Any) -> Path:
    place = path.with_name(f"link-to-{path.stem}.npy")
    link(path, place)
    return place


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_result_never_replaces_the_data(
    link: str, force: tuple[str, ...], data: Path, model: Path
) -> None:
    (data.parent / "x").mkdir()
    before = data.read_bytes()
    place = LINKS[link](data)
    unchanged(run("fit", data, *FIT, "-o", place, *force), "which is the data", (data, before))
    unchanged(run("transform", model, data, "-o", place, *force), "which is the data", (data, before))


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_codes_never_replace_the_model(force: tuple[str, ...], data: Path, model: Path) -> None:
    named = model.with_suffix(".npy")
    model.rename(named)
    before = named.read_bytes()
    unchanged(run("transform", named, data, "-o", named, *force), "which is the model", (named, before))


def test_a_result_never_lies_inside_of_the_data(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    frame = pandas.DataFrame(rows(30), columns=[f"f{i}" for i in range(rows().shape[1])])
    frame.to_parquet(folder / "part.parquet")
    result = run("transform", model, folder, "-o", folder / "codes.parquet")
    unchanged(result, "lies inside of the data")
    assert [path.name for path in folder.iterdir()] == ["part.parquet"]


def test_a_link_in_the_folder_of_the_data_is_the_file_to_which_it_leads(
    tmp_path: Path, model: Path
) -> None:
    (tmp_path / "table").mkdir()
    target = tmp_path / "target.parquet"
    columns = [f"f{i}" for i in range(rows().shape[1])]
    pandas.DataFrame(rows(30), columns=columns).to_parquet(target)
    (tmp_path / "table" / "part.parquet").symlink_to(target)
    before = target.read_bytes()
    for words in (("transform", model, tmp_path / "table"), ("fit", tmp_path / "table", *FIT)):
        unchanged(run(*words, "-o", target, "--force"), "to which the data lead", (target, before))


def test_a_checkpoint_does_not_lie_inside_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    pandas.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}).to_parquet(tmp_path / "table" / "part.parquet")
    result = run(
        "fit", tmp_path / "table", *FIT, "-o", tmp_path / "m", "--checkpoint", tmp_path / "table" / "c"
    )
    unchanged(result, "which lies inside of the data")
    assert [path.name for path in (tmp_path / "table").iterdir()] == ["part.parquet"]


def test_a_model_is_not_written_over_its_checkpoint(data: Path, tmp_path: Path) -> None:
    for _ in range(2):
        result = run("fit", data, *FIT, "-o", tmp_path / "both", "--checkpoint", tmp_path / "both")
        unchanged(result, "which is the checkpoint")
        assert not (tmp_path / "both").exists()


@pytest.mark.parametrize("kind", ["the data", "a model", "another file"])
def test_a_checkpoint_never_replaces_something_else(kind: str, data: Path, model: Path) -> None:
    place = {"the data": data, "a model": model, "another file": data.with_name("notes.txt")}[kind]
    place.touch()
    before = place.read_bytes()
    with pytest.raises(ValueError, match="is not a checkpoint of vrmf"):
        vrmf.NMF(2, checkpoint=place).fit(data)
    assert place.read_bytes() == before


# Other files only when asked ------------------------------------------------------------------------


def test_a_file_is_replaced_with_force_only_and_keeps_its_mode(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "old.vrmf"
    place.write_text("precious")
    place.chmod(0o600)
    unchanged(run("fit", data, *FIT, "-o", place), "which exists. Use --force", (place, b"precious"))
    assert run("fit", data, *FIT, "-o", place, "--force").exit_code == 0
    assert vrmf.load(place).components_.shape[0] == 2
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_a_link_leads_to_counts(data: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    unchanged(run("fit", data, *FIT, "-o", link), "which exists", (target, b"precious"))
    assert run("fit", data, *FIT, "-o", link, "--force").exit_code == 0
    assert link.is_symlink() and vrmf.load(target).n_iter_ == 1


def test_a_link_that_leads_nowhere_is_not_followed_unasked(data: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    unchanged(run("fit", data, *FIT, "-o", link), "which exists")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_pipes_and_folders_stay_what_they_are(force: tuple[str, ...], data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        assert run("fit", data, *FIT, "-o", tmp_path / name, *force).exit_code == 1
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and (tmp_path / "folder").is_dir()
    with pytest.raises(ValueError, match="a folder or a device"):
        vrmf.save(vrmf.NMF(2), tmp_path / "pipe")


def test_whether_a_place_can_be_written_is_known_before_the_work(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError("Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(vrmf.NMF, "fit", lambda *args: pytest.fail("the work had begun"))
    result = run("fit", data, *FIT, "-o", tmp_path / "m")
    unchanged(result, "no file can be written there (Permission denied)")
    unchanged(run("fit", data, *FIT, "-o", tmp_path / "no" / "m"), "there is no folder")


def test_save_replaces_unless_told_otherwise(tmp_path: Path) -> None:
    place = tmp_path / "m"
    vrmf.save(vrmf.NMF(2), place)
    place.chmod(0o640)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        vrmf.save(vrmf.NMF(3), place, overwrite=False)
    assert vrmf.load(place).n_components == 2
    vrmf.save(vrmf.NMF(3), place)
    assert vrmf.load(place).n_components == 3 and stat.S_IMODE(place.stat().st_mode) == 0o640
    vrmf.save(vrmf.NMF(4), tmp_path / "new", overwrite=False)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_that_comes_into_being_meanwhile_stays_and_the_result_is_beside_it(
    suffix: str, data: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = data.with_name(f"codes{suffix}")
    blocks = vrmf.NMF.code_blocks

    def meanwhile(self: Any, rows: Any) -> Any:
        yield from blocks(self, rows)
        place.mkdir() if suffix == ".zarr" else place.write_text("precious")

    monkeypatch.setattr(vrmf.NMF, "code_blocks", meanwhile)
    result = run("transform", model, data, "-o", place)
    assert result.exit_code == 1 and f"codes-2{suffix}" in result.output.replace("\n", "")
    assert not any(place.iterdir()) if suffix == ".zarr" else place.read_text() == "precious"
    assert len(read_codes(place.with_name(f"codes-2{suffix}"))) == 30


def test_two_fits_with_the_same_output_lose_no_model(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fit = tmp_path / "m.vrmf", vrmf.NMF.fit

    def meanwhile(self: Any, rows: Any) -> Any:
        vrmf.save(fit(self, rows), place)  # the other one is done first
        return self

    monkeypatch.setattr(vrmf.NMF, "fit", meanwhile)
    result = run("fit", data, *FIT, "-o", place)
    assert result.exit_code == 1 and "m-2.vrmf" in result.output.replace("\n", "")
    assert vrmf.load(tmp_path / "m-2.vrmf").n_iter_ == vrmf.load(place).n_iter_ == 1


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    with atomic.replacing_folder(place) as folder:
        (folder / "zarr.json").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic.replacing_folder(place) as folder:
        (folder / "zarr.json").write_text("half")
        raise ZeroDivisionError
    assert (place / "zarr.json").read_text() == "old" and os.listdir(tmp_path) == ["a.zarr"]
    with atomic.replacing_folder(place) as folder:
        (folder / "zarr.json").write_text("new")
    assert (place / "zarr.json").read_text() == "new" and os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("kind", ["a folder", "a group", "a file", "something else"])
def test_what_is_no_array_is_never_replaced_by_one(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "my.zarr"
    if kind == "a group":
        zarr.open_group(place, mode="w").create_array("x", shape=(2,), dtype=float)
    elif kind == "a file":
        place.write_text("precious")
    else:
        place.mkdir()
        (place / "zarr.json").write_text("[1]") if kind == "something else" else None
    with pytest.raises(ValueError, match="which is no zarr array"):
        check_output("-o", place, {}, overwrite=True, folder=True)


# Formats of codes -----------------------------------------------------------------------------------


def read_codes(path: Path, row_names: bool = False) -> Any:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return zarr.open_array(path, mode="r")[...]
    frame = pandas.read_csv(path) if path.suffix == ".csv" else None
    frame = pandas.read_parquet(path) if frame is None else frame
    return frame.set_index("cell") if row_names and "cell" in frame else frame


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_in_the_format_that_the_suffix_names(suffix: str, dtype: Any, tmp_path: Path) -> None:
    X = rows(70).astype(dtype)
    np.save(tmp_path / "rows.npy", X)
    estimator = vrmf.NMF(3, max_iter=1, tol=0, random_state=0).fit(X)
    vrmf.save(estimator, tmp_path / "m")
    place = tmp_path / f"codes{suffix}"
    for force in ((), ("--force",)):
        words = ("transform", tmp_path / "m", tmp_path / "rows.npy", "-o", place, "--chunk-rows", 16)
        result = run(*words, *force)
        assert result.exit_code == 0, result.output
        codes = read_codes(place)
        np.testing.assert_array_equal(np.asarray(codes, dtype=dtype), estimator.transform(X))
        if suffix in (".csv", ".parquet"):
            assert list(codes.columns) == ["nmf0", "nmf1", "nmf2"]
    assert run(*words).exit_code == 1  # it is there


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".zarr"])
def test_codes_have_the_names_of_their_rows(suffix: str, tmp_path: Path) -> None:
    X = rows(20)
    names = [f'no. {i}, "a"\r' for i in range(20)]
    index = pandas.Index(names, name="cell")
    frame = pandas.DataFrame(X, index=index, columns=[f"g{i}" for i in range(X.shape[1])])
    frame.to_parquet(tmp_path / "rows.parquet")
    vrmf.save(vrmf.NMF(2, max_iter=1, tol=0, random_state=0).fit(frame), tmp_path / "m")
    place = tmp_path / f"codes{suffix}"
    result = run("transform", tmp_path / "m", tmp_path / "rows.parquet", "-o", place)
    assert result.exit_code == 0, result.output
    if suffix == ".zarr":
        attributes: Any = zarr.open_array(place, mode="r").attrs
        assert list(attributes["row_names"]) == names
        assert list(attributes["feature_names"]) == ["nmf0", "nmf1"]
        return
    codes = read_codes(place, row_names=True)
    assert list(codes.index) == names and list(codes.columns) == ["nmf0", "nmf1"]
    assert codes.index.name == "cell"


@pytest.mark.parametrize("name", ["codes.xlsx", "codes", "codes.npz", "codes.h5"])
def test_other_suffixes_are_refused_before_the_work(
    name: str, data: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vrmf.NMF, "code_blocks", lambda *args: pytest.fail("the work had begun"))
    result = run("transform", model, data, "-o", data.with_name(name))
    unchanged(result, "Use a file that ends in .npy, .csv, .parquet, .zarr")


def test_codes_that_fail_leave_nothing(data: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        yield np.zeros((16, 2))
        raise OSError("the disk is gone")

    monkeypatch.setattr(vrmf.NMF, "code_blocks", failing)
    before = sorted(os.listdir(data.parent))
    for suffix in FORMATS:
        result = run("transform", model, data, "-o", data.with_name(f"codes{suffix}"))
        assert result.exit_code == 1 and "the disk is gone" in result.output
    assert sorted(os.listdir(data.parent)) == before


# Interrupts -----------------------------------------------------------------------------------------


def test_an_interrupted_fit_keeps_the_best_dictionary() -> None:
    X = rows(300)
    model = vrmf.NMF(3, random_state=0, solver=VR(opening=False))
    with interrupted_before(29, VR, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.stop_reason_.startswith("interrupted")
    best = np.nanmin(model.history_["objective"])
    assert model.objective_ == best and model.objective(X) == pytest.approx(best, rel=1e-3)
    model.partial_fit(X[:10])


def test_an_interrupt_while_a_file_is_written_is_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    model, place = vrmf.NMF(2, max_iter=1, tol=0, random_state=0).fit(rows()), tmp_path / "m"
    monkeypatch.setattr(np.lib.format, "write_array", interrupt)
    with pytest.raises(KeyboardInterrupt):
        vrmf.save(model, place)
    with pytest.raises(KeyboardInterrupt):
        vrmf.NMF(2, max_iter=1, tol=0, checkpoint=tmp_path / "c").fit(rows())
    assert not list(tmp_path.iterdir())


def test_an_interrupted_command_writes_the_best_model_and_says_so(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "m.vrmf"
    with interrupted_before(7, VR, KeyboardInterrupt):
        result = run("fit", data, "--model", "nmf", "-k", 2, "-o", place)
    assert result.exit_code == 130, result.output
    assert f"is in {place}" in result.output.replace("\n", "")
    assert vrmf.load(place).stop_reason_.startswith("interrupted")


def test_an_interrupt_before_the_first_measurement_prints_no_nan(data: Path, tmp_path: Path) -> None:
    with interrupted_before(0, VR, KeyboardInterrupt):
        result = run("fit", data, *FIT, "-o", tmp_path / "m")
    assert result.exit_code == 130 and "nan" not in result.stderr, result.output
    assert "the best model so far is in" in result.stderr


def test_an_interrupt_before_the_first_step_leaves_no_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(vrmf.NMF, "_start", interrupt)
    result = run("fit", data, *FIT, "-o", tmp_path / "m")
    assert result.exit_code == 130 and "no dictionary yet" in result.output
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_real_interrupt_from_the_keyboard_saves_the_best_model(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((20_000, 64)))
    words = ["fit", "rows.npy", "--model", "dictionary-learning", "-k", "30", "--tol", "0", "--verbose"]
    # A shell starts jobs in the background with interrupts ignored, and the tests may be such a job.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{listen}; from vrmf.cli import main; main()", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    assert any("epoch" in line for line in process.stdout), "it ended before its first epoch"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error and "best model so far" in error
    assert np.isfinite(vrmf.load(tmp_path / "model.vrmf").objective_)
