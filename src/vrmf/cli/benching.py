"""``vrmf bench``: our solvers and other libraries on the rows in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vrmf.cli.common import ModelName, errors_as_lines, force_option, output_option
from vrmf.cli.fitting import chosen, settings_in
from vrmf.cli.reading import DataOptions, check_finite, data_options, file_of, rows_in, tell_data
from vrmf.cli.screen import Screen, output_options
from vrmf.comparing import Comparison, compare
from vrmf.extras import library
from vrmf.persistence.outputs import check_output
from vrmf.plots import comparison
from vrmf.solvers import SOLVERS
from vrmf.standard_output import has_lost_its_reader

#: Endings of files for pictures.
PICTURES = (".png", ".svg", ".pdf")


@click.command(
    epilog="""
    \b
    Examples:
      vrmf bench cells.csv
      vrmf bench cells.csv --model nmf -k 12 --seconds 30 -o cells.png
      vrmf bench patches.npy --model dictionary-learning -k 100 --solver vr --solver smm
    """
)
@click.argument("data")
@click.option("--model", type=ModelName(), help="What is fitted, in any case.  [default: as suggested]")
@click.option(
    "-k",
    "--components",
    "n_components",
    type=click.IntRange(min=1),
    help="Number of atoms.  [default: as suggested]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    help="Seconds for each solver.",
)
@click.option(
    "--solver",
    "solvers",
    type=click.Choice(tuple(SOLVERS)),
    multiple=True,
    help="Solver of ours that takes part; may be repeated.  [default: all]",
)
@click.option("--peers/--no-peers", default=True, help="Whether other libraries take part.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any other parameter of the model, as in --set alpha=0.5; may be repeated.  [default: none]",
)
@click.option("--seed", "random_state", type=click.IntRange(min=0), default=0, help="Random seed.")
@output_option(None, "Picture to draw, .png, .svg or .pdf.  [default: none]")
@force_option
@data_options
@output_options
def bench(
    data: str,
    model: str | None,
    n_components: int | None,
    solvers: tuple[str, ...],
    settings: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Compare our solvers with other libraries that are installed, on the rows in DATA.

    Others are scikit-learn, SPAMS (spams-bin), gensim and hyperspy, where they solve the problem of the
    model. All work one after the other on the same rows with the same weights and threads, from the same
    dictionary where they take one. The objective and the error of their dictionaries are measured by exact
    codes, off the clock. Rows beyond 512 MB are left out.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug):
        reading = DataOptions.taken_from(options)
        if output is not None:
            _check_picture(output, data, force)
        parameters = settings_in(settings, model)
        rows = rows_in(data, reading)
        check_finite(tell_data(screen, data, rows), rows, model)
        model, k, suggested = chosen(screen, model, n_components, rows)
        found = compare(
            model,
            rows,
            k,
            solvers=solvers or tuple(SOLVERS),
            n_jobs=reading.jobs,
            parameters=suggested | parameters,
            tell=lambda name: _announce(screen, f"{name}: {options['seconds']:g} s", output),
            **options,
        )
        _tell(screen, found)
        if output is not None:
            _draw(found, output)
        picture = None if output is None else str(output.resolve())
        screen.fact("picture", picture, picture)
    screen.finish()


def _check_picture(output: Path, data: str, force: bool) -> None:
    """Raise if no picture can be drawn into the file."""
    check_output("--output", output, {"the data": file_of(data)}, overwrite=force)
    if output.suffix.lower() not in PICTURES:
        raise ValueError(f"`--output` is {str(output)!r}. Use a name that ends in {', '.join(PICTURES)}.")
    library("matplotlib.figure", "--output")


def _announce(screen: Screen, text: str, output: Path | None) -> None:
    """Print which contestant is next; end the command if nothing reads its output and none is drawn."""
    if output is None and has_lost_its_reader():
        raise click.exceptions.Exit(0)
    screen.doing(text)


def _tell(screen: Screen, found: Comparison) -> None:
    """Print the problem, the results of all contestants, and how they were run."""
    weights = ", ".join(f"{name} {value:.4g}" for name, value in found.weights.items())
    screen.title("Comparison")
    screen.fact("weights", found.weights, weights or "none")
    screen.fact("rows_learned_from", found.n_samples, str(found.n_samples), label="learned from")
    screen.fact("rows_measured", found.n_measured, str(found.n_measured), label="measured on")
    screen.fact("threads", found.threads, str(found.threads))
    table = found.table()
    screen.table("solvers", list(table[0]), [list(row.values()) for row in table])
    screen.fact("curves", [vars(curve) for curve in found.curves])
    for curve in found.curves:
        if curve.note:
            screen.note(f"{curve.name}: {curve.note}.")
    if all(curve.is_ours for curve in found.curves) and not found.missing:
        screen.note("No other library took part.")
    screen.fact("not_installed", found.missing)
    if found.missing:
        screen.note(f"Not installed, and would take part: {', '.join(found.missing)}.")


def _draw(found: Comparison, output: Path) -> None:
    """Draw the comparison into a file."""
    figure = library("matplotlib.figure", "--output").Figure(figsize=(9, 4), layout="constrained")
    comparison(found, ax=figure.subplots())
    figure.savefig(output, dpi=150)
