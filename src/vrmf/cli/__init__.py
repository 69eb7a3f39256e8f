"""The command line."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from vrmf._version import __version__
from vrmf.cli.fitting import fit
from vrmf.cli.transforming import transform


@click.group(context_settings={"show_default": True})
@click.version_option(__version__, prog_name="vrmf")
def main() -> None:
    """Stochastic matrix factorization by variance reduction."""


main.add_command(fit)
main.add_command(transform)


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    help="Folder for the pictures.",
)
@click.option("--corrupted", type=click.FloatRange(0, 0.5), default=0.1, help="Share of pixels to corrupt.")
@click.option("--passes", type=click.IntRange(min=2), default=12, help="Passes of each fit.")
@click.option("-k", "--components", type=click.IntRange(min=1), default=16, help="Number of atoms.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Random seed.")
def demo(output: Path, corrupted: float, passes: int, components: int, seed: int) -> None:
    """Fit corrupted digits with three solvers; print a table and draw pictures."""
    from vrmf import demo as demonstration

    X, clean = demonstration.corrupted_digits(corrupted, seed)
    click.echo(f"{len(X)} digits of 8 × 8 pixels, {corrupted:.0%} of them corrupted; k = {components}")
    click.echo("Compiling what is not compiled yet, off the clock.\n")
    demonstration.compile_kernels(X, components)
    click.echo(f"{'model':<21}{'solver':<8}{'objective':>10}{'‖Γ‖²':>11}{'passes':>9}{'seconds':>9}")
    done = []
    for fitted in demonstration.fits(X, passes, components, seed):
        model, seconds = fitted.model, fitted.model.history_["seconds"][-1]
        click.echo(
            f"{fitted.problem:<21}{fitted.solver:<8}{model.objective_:>10.5f}{model.stationarity_:>11.2e}"
            f"{model.n_passes_:>9.1f}{seconds:>9.2f}"
        )
        done.append(fitted)
    low_rank = done[0].model.decompose(X)[0]
    before, after = (float(np.linalg.norm(Z - clean) / np.linalg.norm(clean)) for Z in (X, low_rank))
    click.echo(f"\nDistance to the clean digits: {before:.0%} before, {after:.0%} after robust PCA.")
    paths = demonstration.write_pictures(done, X, clean, output)
    click.echo(f"Pictures in {output.resolve()}: {', '.join(path.name for path in paths)}")


@main.command()
@click.argument("what", nargs=-1)
@click.option("--quick", is_flag=True, help="Everything small, in under ten minutes.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results and figures; what it holds already is not computed again."
    "  [default: reproduction, or reproduction-quick]",
)
@click.option(
    "--synth-rows",
    type=click.IntRange(min=1000),
    default=100_000,
    help="Rows of the data set Synth; the paper has 100 000, which takes hours.",
)
@click.option("--draw", is_flag=True, help="Only draw the figures of results that are there.")
def reproduce(what: tuple[str, ...], quick: bool, output: Path | None, synth_rows: int, draw: bool) -> None:
    """Repeat the paper's experiments and check its theory.

    WHAT names experiments or groups of them: paper (figure1, figure2, figure3, long, start, components),
    structures (groups, smooth, max-norm, low-rank) and theory. All of them if it is left out. An
    interrupted run goes on where it stopped when it is started again.
    """
    from vrmf import experiments
    from vrmf.experiments import runner

    folder = output or Path("reproduction-quick" if quick else "reproduction")
    words = ["vrmf reproduce", *what, "--quick" if quick else f"--synth-rows {synth_rows}"]
    try:
        page = runner.reproduce(
            experiments.chosen(what),
            folder,
            experiments.Scale(quick, synth_rows),
            command=" ".join(words),
            compute=not draw,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("stopped; the same command goes on from here") from None
    click.echo(f"{page} shows what was found, with its figures beside it.")
