"""The command line, run inside the process of a test."""

from __future__ import annotations

from click.testing import CliRunner, Result

from vrmf.cli import main


def run(*words: object) -> Result:
    """Run a command of vrmf with the given words."""
    return CliRunner().invoke(main, [str(word) for word in words])
