"""The command ``python -m experiments``."""

from __future__ import annotations

from pathlib import Path

import click

from experiments import runner
from experiments.base import Scale
from experiments.catalogue import chosen

#: The name of the command, which is stored with results.
COMMAND = "python -m experiments"


@click.command(
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    epilog=f"""
    \b
    Examples:
      {COMMAND} --quick
      {COMMAND} figure1 theory
    """,
)
@click.argument("what", nargs=-1)
@click.option("--quick", is_flag=True, help="Small versions of all experiments, in under ten minutes.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results and figures. Results that it has are not computed again."
    "  [default: reproduction, or reproduction-quick]",
)
@click.option(
    "--synth-rows",
    type=click.IntRange(min=1000),
    default=100_000,
    help="Rows of the data set Synth; the paper has 100 000, which takes hours.",
)
@click.option("--draw", is_flag=True, help="Only draw the figures of stored results.")
def main(what: tuple[str, ...], quick: bool, output: Path | None, synth_rows: int, draw: bool) -> None:
    """Repeat the paper's experiments and check its theory.

    WHAT names experiments or groups of them: paper (figure1, figure2, figure3, long, start, components),
    structures (groups, smooth, max-norm, low-rank) and theory. All of them if it is left out. An
    interrupted run resumes when it is started again.
    """
    folder = output or Path("reproduction-quick" if quick else "reproduction")
    words = [COMMAND, *what, "--quick" if quick else f"--synth-rows {synth_rows}"]
    try:
        page = runner.reproduce(
            chosen(what), folder, Scale(quick, synth_rows), command=" ".join(words), compute=not draw
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("stopped; the same command goes on from here") from None
    click.echo(f"{page} shows what was found, with its figures beside it.")


if __name__ == "__main__":
    main(prog_name=COMMAND)
