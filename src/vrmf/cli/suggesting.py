"""``vrmf suggest``: a model, a number of components and weights for the rows in a file."""

from __future__ import annotations

import shlex
from typing import Any

import click

from vrmf.cli.common import errors_as_lines
from vrmf.cli.reading import DataOptions, data_options, gaps_in, rows_in, tell_data
from vrmf.cli.screen import Screen, output_options
from vrmf.sources import AbstractSource
from vrmf.suggesting import suggest as suggestion_for

#: Columns with missing entries that are left out at most.
MOST_GAPS = 5


@click.command(
    epilog="""
    \b
    Examples:
      vrmf suggest cells.csv
      vrmf suggest video.npy --json
    """
)
@click.argument("data")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Random seed of the sample.")
@data_options
@output_options
def suggest(data: str, seed: int, as_json: bool, quiet: bool, debug: bool, **options: Any) -> None:
    """Propose a model, a number of components and weights for the rows in DATA, with reasons.

    It is based on a sample of the rows. Doubts are listed, too.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug):
        reading = DataOptions.taken_from(options)
        rows = rows_in(data, reading)
        read = tell_data(screen, data, rows)
        found = suggestion_for(rows, random_state=seed)
        screen.title("Suggestion")
        screen.fact("suggestion", found.to_dict())
        screen.note(*str(found).split("\n"))
        k = [] if found.n_components is None else ["-k", str(found.n_components)]
        settings = [
            word for name, value in found.parameters.items() for word in ("--set", f"{name}={value}")
        ]
        words = ["vrmf", "fit", data, *reading.words(), "--model", found.model, *k, *settings]
        if read.is_finite:
            command = shlex.join(words)
            screen.fact("command", command, command, label="fit it by")
        else:
            screen.fact("command", None, _without_gaps(words, gaps_in(data, rows), rows), label="fit it by")
    screen.finish()


def _without_gaps(words: list[str], gaps: list[str], rows: AbstractSource) -> str:
    """Return in words what to do before a fit, which takes no missing or infinite entries."""
    told = (
        "no command yet, since a fit takes no missing or infinite entries: fill them in first, or leave "
        "out their rows, in a copy of the file"
    )
    if not gaps or len(gaps) > min(MOST_GAPS, rows.n_features // 2):
        return f"{told}."
    drops = [word for name in gaps for word in ("--drop", name)]
    return f"{told}; or leave out the columns that have some: {shlex.join([*words, *drops])}"
