"""The command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf._version import __version__
from vrmf.atomic import replacing
from vrmf.estimators import ESTIMATORS
from vrmf.solvers import SOLVERS

#: Seconds to wait for a scheduler of Dask and for the first of its workers.
PATIENCE = 10


@click.group(context_settings={"show_default": True})
@click.version_option(__version__, prog_name="vrmf")
def main() -> None:
    """Stochastic matrix factorization by variance reduction."""


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
    click.echo(f"{len(X)} digits of 8 × 8 pixels, {corrupted:.0%} of them corrupted; k = {components}\n")
    click.echo(f"{'model':<21}{'solver':<8}{'objective':>10}{'‖Γ‖²':>11}{'passes':>9}{'seconds':>9}")
    done = []
    for fit in demonstration.fits(X, passes, components, seed):
        model, seconds = fit.model, fit.model.history_["seconds"][-1]
        click.echo(
            f"{fit.problem:<21}{fit.solver:<8}{model.objective_:>10.5f}{model.stationarity_:>11.2e}"
            f"{model.n_passes_:>9.1f}{seconds:>9.2f}"
        )
        done.append(fit)
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


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn errors of the user's making, and warnings, into messages without a traceback."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ConvergenceWarning)
            yield
        for warning in warned:
            click.echo(f"Warning: {warning.message}", err=True)
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("stopped; with --checkpoint the same command goes on") from None


@main.command()
@click.argument("data")
@click.option("--model", type=click.Choice(tuple(ESTIMATORS)), required=True, help="What to fit.")
@click.option("-k", "--components", type=click.IntRange(min=1), required=True, help="Number of atoms.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("model.vrmf"),
    help="File for the model.",
)
@click.option("--solver", type=click.Choice(tuple(SOLVERS)), default="vr", help="Method.")
@click.option("--max-iter", type=click.IntRange(min=1), default=300, help="Largest number of epochs.")
@click.option("--max-time", type=click.FloatRange(min=0, min_open=True), help="Largest number of seconds.")
@click.option("--tol", type=click.FloatRange(min=0), default=1e-6, help="Relative stationarity to stop at.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Random seed.")
@click.option("--jobs", type=int, help="Threads.  [default: all cores]")
@click.option("--chunk-rows", type=click.IntRange(min=1), help="Rows read at once.  [default: about 32 MB]")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any other parameter of the model, as in --set alpha=0.5 or --set solver__batch_size=64; may be "
    "repeated. Values are read as JSON, else as words.",
)
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File in which the fit is kept while it runs; if it is there already, the fit goes on from it.",
)
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0),
    default=60.0,
    help="Seconds between saves of it.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Scheduler of Dask whose workers are to read DATA.")
@click.option("--verbose", is_flag=True, help="Print a line for every epoch.")
def fit(
    data: str,
    model: str,
    output: Path,
    scheduler: str | None,
    chunk_rows: int | None,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Fit a model to the rows in DATA and write it to a file.

    DATA is the path of a .npy, .zarr, .h5, .parquet, .arrow or .feather file, or of a folder of .parquet
    files; a data set inside of a file is named as in faces.h5::images. It is read chunk by chunk.
    """
    from vrmf import save

    with told_plainly():
        if not output.absolute().parent.is_dir():
            raise ValueError(f"{output.absolute().parent} does not exist. Use a folder that does.")
        estimator = ESTIMATORS[model](
            n_components=options["components"],
            solver=options["solver"],
            max_iter=options["max_iter"],
            max_time=options["max_time"],
            tol=options["tol"],
            random_state=options["seed"],
            n_jobs=options["jobs"],
            verbose=int(options["verbose"]),
            checkpoint=options["checkpoint"],
            checkpoint_every=options["checkpoint_every"],
        )
        estimator.set_params(**dict(map(_setting, settings)))
        with _client(scheduler) if scheduler else nullcontext():
            estimator.fit(_rows(data, chunk_rows, options["jobs"], lazily=bool(scheduler)))
        save(estimator, output)
    _tell(estimator)
    click.echo(f"model         {output.resolve()}")


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("data")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("codes.npy"),
    help="File for the codes.",
)
@click.option("--jobs", type=int, help="Threads.  [default: all cores]")
@click.option("--chunk-rows", type=click.IntRange(min=1), help="Rows read at once.  [default: about 32 MB]")
def transform(model: Path, data: str, output: Path, jobs: int | None, chunk_rows: int | None) -> None:
    """Write the codes of the rows in DATA under the model in the file MODEL, chunk by chunk.

    DATA is whatever vrmf fit takes. The codes are there whole or not at all.
    """
    from vrmf import load

    with told_plainly():
        estimator = load(model)
        estimator.n_jobs = jobs
        shape = _write_codes(estimator, _rows(data, chunk_rows, jobs), output)
    click.echo(f"{shape[0]} codes of {shape[1]} numbers in {output.resolve()}")


def _setting(text: str) -> tuple[str, Any]:
    """Return the name and the value in NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"`--set` is {text!r}. Use NAME=VALUE, such as alpha=0.5.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _rows(data: str, chunk_rows: int | None, jobs: int | None, lazily: bool = False) -> Any:
    """Return what an estimator takes for the rows in a file: a source, or a dask array."""
    from vrmf.sources import as_source
    from vrmf.sources.lazy import dask_array

    return dask_array(data, chunk_rows) if lazily else as_source(data, jobs, chunk_rows=chunk_rows)


@contextmanager
def _client(address: str) -> Iterator[None]:
    """Hold a connection to a scheduler of Dask that has workers."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('A scheduler needs distributed. Install it with pip: "vrmf[dask]".') from error
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise OSError(
            f"No scheduler of Dask answers at {address!r}. Use the address that `dask scheduler` prints."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise OSError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address}."
            ) from error
        yield


def _tell(estimator: Any) -> None:
    """Print how a fit ended."""
    click.echo(f"objective     {estimator.objective_:.6g}")
    click.echo(f"stationarity  {estimator.relative_stationarity_:.3g} of the objective")
    click.echo(f"passes        {estimator.n_passes_:.1f}")
    click.echo(f"seconds       {estimator.history_['seconds'][-1]:.2f}")
    click.echo(f"stopped       {estimator.stop_reason_}")


def _write_codes(estimator: Any, source: Any, output: Path) -> tuple[int, int]:
    """Write the codes of a source's rows into a .npy file, block by block."""
    shape = (source.n_samples, len(estimator.components_))
    header = {"descr": source.dtype.str, "fortran_order": False, "shape": shape}
    with replacing(output) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in estimator.code_blocks(source):
            file.write(np.ascontiguousarray(block, dtype=source.dtype).data)
    return shape
