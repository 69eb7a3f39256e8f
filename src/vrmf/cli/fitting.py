"""``vrmf fit``: a model of the rows in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from vrmf.cli.common import (
    chunk_rows_option,
    file_of,
    force_option,
    jobs_option,
    output_option,
    rows_in,
    stopped,
    told_plainly,
)
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.outputs import check_apart, check_output
from vrmf.solvers import SOLVERS
from vrmf.storage import write_model

#: Seconds to wait for a scheduler of Dask and for the first of its workers.
PATIENCE = 10

#: Parameters of models that have an option of their own, which `--set` must not contradict.
OPTIONS = {
    "n_components": "-k",
    "solver": "--solver",
    "max_iter": "--max-iter",
    "max_time": "--max-time",
    "tol": "--tol",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "verbose": "--verbose",
    "checkpoint": "--checkpoint",
    "checkpoint_every": "--checkpoint-every",
}

#: Words for values that JSON spells otherwise.
WORDS = {"True": True, "False": False, "None": None}


@click.command()
@click.argument("data")
@click.option("--model", type=click.Choice(tuple(ESTIMATORS)), required=True, help="What to fit.")
@click.option(
    "-k",
    "--components",
    "n_components",
    type=click.IntRange(min=1),
    help="Number of atoms; for robust-pca an upper bound of the rank, which may be left out.",
)
@output_option("model.vrmf", "File for the model.")
@force_option
@click.option("--solver", type=click.Choice(tuple(SOLVERS)), default="vr", help="Method.")
@click.option("--max-iter", type=click.IntRange(min=1), default=300, help="Largest number of epochs.")
@click.option("--max-time", type=click.FloatRange(min=0, min_open=True), help="Largest number of seconds.")
@click.option("--tol", type=click.FloatRange(min=0), default=1e-6, help="Relative stationarity to stop at.")
@click.option("--seed", "random_state", type=click.IntRange(min=0), default=0, help="Random seed.")
@jobs_option
@chunk_rows_option
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any other parameter of the model, as in --set alpha=0.5 or --set solver__batch_size=64; may be "
    "repeated. Values are read as JSON, or as True, False and None, else as words.",
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
    force: bool,
    scheduler: str | None,
    chunk_rows: int | None,
    jobs: int | None,
    settings: tuple[str, ...],
    verbose: bool,
    **options: Any,
) -> None:
    """Fit a model to the rows in DATA and write it to a file.

    DATA is the path of a .npy, .zarr, .h5, .parquet, .arrow or .feather file, or of a folder of .parquet
    files; a data set inside of a file is named as in faces.h5::images. It is read chunk by chunk.

    An existing file is replaced with --force only, and DATA never. After Ctrl-C the file holds the best
    model so far, and the exit code is 130.
    """
    if options["n_components"] is None and model != "robust-pca":
        raise click.UsageError("Missing option '-k' / '--components'. Only robust-pca finds it by itself.")
    with told_plainly():
        others = {"the data": file_of(data), "the checkpoint": options["checkpoint"]}
        check_output("--output", output, others, overwrite=force)
        if options["checkpoint"] is not None:
            check_apart("--checkpoint", options["checkpoint"], "the data", file_of(data))
        estimator = ESTIMATORS[model](**options, n_jobs=jobs, verbose=int(verbose))
        estimator.set_params(**_settings(settings))
        with _client(scheduler) if scheduler else nullcontext():
            rows = rows_in(data, chunk_rows, jobs, lazily=bool(scheduler))
            try:
                estimator.fit(rows)
            except KeyboardInterrupt:
                _keep(estimator, output, force)
                raise stopped(_whereabouts(estimator, output, options["checkpoint"])) from None
        _keep(estimator, output, force)
    _tell(estimator)
    click.echo(f"model         {output.resolve()}")


def _keep(estimator: AbstractFactorizer, output: Path, force: bool) -> None:
    """Write the model, if there is one; a file that another command has written meanwhile stays."""
    if hasattr(estimator, "components_"):
        write_model(estimator, output, overwrite=force)


def _whereabouts(estimator: AbstractFactorizer, output: Path, checkpoint: Path | None) -> str:
    """Say where the model of an interrupted fit is."""
    told = f"With {checkpoint} the same command goes on." if checkpoint and checkpoint.exists() else ""
    if not hasattr(estimator, "components_"):
        return f"there is no dictionary yet. {told}".rstrip()
    error = estimator.relative_stationarity_
    return f"the best model so far, of relative stationarity {error:.1e}, is in {output}. {told}".rstrip()


def _settings(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of parameters by name, from texts like NAME=VALUE."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, value = _setting(text)
        if name in OPTIONS:
            raise ValueError(f"`--set {name}` has an option of its own. Use {OPTIONS[name]}.")
        if name in settings:
            raise ValueError(f"`--set {name}` is given twice. Use it once.")
        settings[name] = value
    return settings


def _setting(text: str) -> tuple[str, Any]:
    """Return the name and the value in NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"`--set` is {text!r}. Use NAME=VALUE, such as alpha=0.5.")
    if value in WORDS:
        return name, WORDS[value]
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


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
