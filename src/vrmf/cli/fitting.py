"""``vrmf fit``: a model of the rows in a file."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from vrmf.cli.common import (
    UNFINISHED,
    ModelName,
    errors_as_lines,
    force_option,
    output_option,
    stopped,
)
from vrmf.cli.describing import tell_outcome
from vrmf.cli.progress import progress
from vrmf.cli.reading import DataOptions, check_finite, data_options, file_of, rows_in, tell_data
from vrmf.cli.screen import Screen, output_options
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.persistence.outputs import check_apart, check_output
from vrmf.persistence.storage import write_model
from vrmf.solvers import SOLVERS
from vrmf.sources import AbstractSource
from vrmf.suggesting import Suggestion, suggest
from vrmf.suggesting.rules import counted

#: Seconds to wait for a scheduler of Dask and for the first of its workers.
CLUSTER_SECONDS = 10

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


@click.command(
    epilog="""
    \b
    Examples:
      vrmf fit cells.csv                                  # model and -k are suggested
      vrmf fit cells.csv --model nmf -k 12 -o cells.vrmf
      vrmf fit video.npy --model robust-pca --max-time 600 -o video.vrmf
      vrmf fit samples/ --drop patient --drop tissue      # a folder of .parquet files
      vrmf fit faces.h5::images -k 49 --set alpha=0.1 --set solver__batch_size=512
    """
)
@click.argument("data")
@click.option("--model", type=ModelName(), help="What to fit, in any case.  [default: as suggested]")
@click.option(
    "-k",
    "--components",
    "n_components",
    type=click.IntRange(min=1),
    help="Number of atoms; for robust-pca an upper bound of the rank.  [default: as suggested]",
)
@output_option("model.vrmf", "File for the model.")
@force_option
@click.option("--solver", type=click.Choice(tuple(SOLVERS)), default="vr", help="Method.")
@click.option("--max-iter", type=click.IntRange(min=1), default=300, help="Largest number of epochs.")
@click.option(
    "--max-time",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest number of seconds.  [default: none]",
)
@click.option("--tol", type=click.FloatRange(min=0), default=1e-6, help="Relative stationarity to stop at.")
@click.option("--seed", "random_state", type=click.IntRange(min=0), default=0, help="Random seed.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any other parameter of the model, as in --set alpha=0.5 or --set solver__batch_size=64; may be "
    "repeated. Values are read as JSON, or as True, False and None, else as words.  [default: none]",
)
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File in which the fit is stored while it runs; if it is there already, the fit goes on from it.  "
    "[default: none]",
)
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0),
    default=60.0,
    help="Seconds between saves of it.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Scheduler of Dask whose workers are to read DATA.  [default: none]",
)
@click.option("--verbose", is_flag=True, help="Print a line for every epoch, instead of a bar.")
@data_options
@output_options
def fit(
    data: str,
    model: str | None,
    output: Path,
    force: bool,
    scheduler: str | None,
    settings: tuple[str, ...],
    verbose: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Fit a model to the rows in DATA and write it to a file.

    DATA is a table (.csv, .tsv, also .gz; .parquet, .arrow, .feather), an array (.npy, .npz, .mat, .zarr,
    .h5), or a folder of .parquet files or images. A data set in a file is named as in faces.h5::images. An
    array of three dimensions is a video, whose frames become rows. What is larger than memory is read chunk
    by chunk.

    Without --model, or without -k, they are suggested by a look at DATA.

    On a terminal a bar shows the progress. An existing file is replaced with --force only, and DATA never.

    Exit codes: 0 if the fit is stationary or settled (or --tol is 0); 3 if the budget ended before, when
    the model is written; 130 after Ctrl-C, when the file holds the best model so far; 1 for errors; 2 for
    wrong options.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug):
        reading = DataOptions.taken_from(options)
        others = {"the data": file_of(data), "the checkpoint": options["checkpoint"]}
        check_output("--output", output, others, overwrite=force)
        if options["checkpoint"] is not None:
            check_apart("--checkpoint", options["checkpoint"], "the data", file_of(data))
        wanted = settings_in(settings, model)
        with _client(scheduler) if scheduler else nullcontext():
            rows = rows_in(data, reading, lazily=bool(scheduler))
            check_finite(tell_data(screen, data, rows), rows, model)
            estimator = _estimator(screen, model, rows, options)
            estimator.set_params(n_jobs=reading.jobs, verbose=int(verbose and not as_json), **wanted)
            try:
                with progress(estimator, is_wanted=not (verbose or quiet or as_json)):
                    estimator.fit(rows)
            except KeyboardInterrupt:
                _write_if_fitted(estimator, output, force)
                raise stopped(_where_the_model_is(estimator, output, options["checkpoint"])) from None
        _write_if_fitted(estimator, output, force)
    screen.title("Fit")
    tell_outcome(screen, estimator)
    screen.fact("file", str(output.resolve()), str(output.resolve()), label="model")
    screen.finish()
    if estimator.stop_reason_.startswith("budget") and estimator.tol > 0:
        raise click.exceptions.Exit(UNFINISHED)


def _estimator(
    screen: Screen, model: str | None, rows: AbstractSource, options: dict[str, Any]
) -> AbstractFactorizer:
    """Return the estimator that the options name, or what is suggested for the data."""
    model, k, parameters = chosen(screen, model, options["n_components"], rows)
    return ESTIMATORS[model](**(options | {"n_components": k})).set_params(**parameters)


def chosen(
    screen: Screen, model: str | None, k: int | None, rows: AbstractSource
) -> tuple[str, int | None, dict[str, Any]]:
    """Return model, number of components and parameters: those of the options, or what is suggested."""
    parameters: dict[str, Any] = {}
    if model is None or (k is None and model != "robust-pca"):
        suggestion = suggest(rows)
        screen.fact("suggestion", suggestion.to_dict())
        if model is None:
            screen.title("Suggested")
            screen.note(*str(suggestion).split("\n"))
            model, parameters = suggestion.model, dict(suggestion.parameters)
            k = suggestion.n_components if k is None else k
        else:
            k = _count(suggestion)
            screen.note(f"Suggested: {counted(k, 'component')}, as many as stand out of the noise.")
    screen.fact("model", model, model)
    screen.fact("n_components", k, "as the data call for" if k is None else str(k), label="components")
    return model, k, parameters


def _count(suggestion: Suggestion) -> int:
    """Return the number of components that is suggested, also for another model."""
    found = suggestion.findings
    assert found is not None
    return suggestion.n_components or max(1, found.rank)


def _write_if_fitted(estimator: AbstractFactorizer, output: Path, force: bool) -> None:
    """Write the model, if there is one; a file that another command wrote meanwhile is not replaced."""
    if hasattr(estimator, "components_"):
        write_model(estimator, output, overwrite=force)


def _where_the_model_is(estimator: AbstractFactorizer, output: Path, checkpoint: Path | None) -> str:
    """Return in words where the model of an interrupted fit is."""
    told = f"With {checkpoint} the same command goes on." if checkpoint and checkpoint.exists() else ""
    if not hasattr(estimator, "components_"):
        return f"there is no dictionary yet. {told}".rstrip()
    error = estimator.relative_stationarity_
    quality = "" if math.isnan(error) else f", of relative stationarity {error:.1e},"
    return f"the best model so far{quality} is in {output}. {told}".rstrip()


def settings_in(texts: tuple[str, ...], model: str | None) -> dict[str, Any]:
    """Return the values of parameters by name, from texts like NAME=VALUE; None is any model."""
    settings: dict[str, Any] = {}
    kinds = ESTIMATORS.values() if model is None else [ESTIMATORS[model]]
    known = sorted({name for kind in kinds for name in kind._get_param_names()} - set(OPTIONS))
    for text in texts:
        name, value = _setting(text)
        if name in OPTIONS:
            raise ValueError(f"`--set {name}` has an option of its own. Use {OPTIONS[name]}.")
        if name in settings:
            raise ValueError(f"`--set {name}` is given twice. Use it once.")
        if (first := name.partition("__")[0]) not in (*known, "solver"):
            close = difflib.get_close_matches(first, known, n=1)
            advice = f"Did you mean {close[0]}?" if close else f"Use one of {', '.join(known)}."
            what = "any model" if model is None else ESTIMATORS[model].__name__
            raise ValueError(f"{first!r} is not a parameter of {what}. {advice}")
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
    """Connect to a scheduler of Dask that has workers, while the context lasts."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('A scheduler needs distributed. Install it with pip: "vrmf[dask]".') from error
    try:
        client = Client(address, timeout=CLUSTER_SECONDS)
    except (OSError, ValueError) as error:
        raise OSError(
            f"No scheduler of Dask answers at {address!r}. Use the address that `dask scheduler` prints."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CLUSTER_SECONDS)
        except TimeoutError as error:
            raise OSError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address}."
            ) from error
        yield
