"""The command line: it does what its help says, and everything in it is documented."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import vrmf
from vrmf.cli import main


def test_the_demonstration_prints_a_table_and_writes_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    result = CliRunner().invoke(main, ["demo", "-o", str(folder), "--passes", "4", "-k", "3"])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    for model in ("robust PCA", "dictionary learning"):
        for solver in ("vr", "smm", "sgd"):
            (row,) = [line for line in lines if line[:3] == [*model.split(), solver]]
            objective, stationarity, passes, seconds = map(float, row[3:])
            assert objective > 0 and stationarity > 0 and 3.9 <= passes <= 4.2 and seconds > 0
    assert str(folder) in result.output.replace("\n", "")
    for name in ("atoms.png", "decomposition.png", "convergence.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_bad_options_are_refused() -> None:
    result = CliRunner().invoke(main, ["demo", "--corrupted", "0.9"])
    assert result.exit_code == 2 and "0<=x<=0.5" in result.output


def test_the_version() -> None:
    assert vrmf.__version__ in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize("name", main.commands)
def test_every_command_and_option_has_a_help_text_and_is_in_the_readme(name: str) -> None:
    command = main.commands[name]
    assert command.help
    assert f"vrmf {name}" in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help
        else:
            assert option.name and option.name.upper() in command.help
