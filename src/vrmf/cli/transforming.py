"""``vrmf transform``: the codes, low-rank parts, outliers and masks of rows in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from vrmf.arrays import Array
from vrmf.cli.common import errors_as_lines, force_option, model_argument, output_option, stopped
from vrmf.cli.exporting import feature_names
from vrmf.cli.reading import DataOptions, data_options, file_of, rows_in
from vrmf.cli.screen import Screen, output_options
from vrmf.estimators import AbstractFactorizer
from vrmf.estimators.masking import OutlierMasks
from vrmf.persistence.code_files import CodeTable, check_code_file, is_folder, write_codes
from vrmf.persistence.outputs import check_output
from vrmf.persistence.storage import load
from vrmf.sources import AbstractSource

#: What can be written besides the codes: names and descriptions.
PARTS = {
    "low_rank": "low-rank parts H D",
    "outliers": "outliers, which only models with outliers have",
    "mask": "mask, 1 where an entry is an outlier, else 0, which only models with outliers have",
}


def _part_options(command: Any) -> Any:
    for name, text in PARTS.items():
        option = f"--{name.replace('_', '-')}"
        command = output_option(None, f"File for the {text}.  [default: none]", option)(command)
    return command


@click.command(
    epilog="""
    \b
    Examples:
      vrmf transform model.vrmf cells.csv -o codes.csv
      vrmf transform video.vrmf video.npy --mask moved.npy --low-rank background.npy
    """
)
@model_argument
@click.argument("data")
@output_option(
    "codes.npy",
    "File for the codes: .npy, .csv, .parquet or .zarr. The last three name rows and components.",
)
@_part_options
@force_option
@data_options
@output_options
def transform(
    model: Path,
    data: str,
    output: Path,
    force: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Write the codes of the rows in DATA under the model in the file MODEL, chunk by chunk.

    DATA is whatever vrmf fit takes. Each file is there whole or not at all. An existing file is
    replaced with --force only, and MODEL and DATA never.
    """
    screen = Screen(as_json, quiet)
    parts: dict[str, Path | None] = {name: options.pop(name) for name in PARTS}
    places = {"output": output} | parts
    with errors_as_lines(debug):
        inputs: dict[str, Path | None] = {"the data": file_of(data), "the model": model}
        reading = DataOptions.taken_from(options)
        for name, place in places.items():
            if place is not None:
                _check_place(name, place, inputs, force)
                inputs |= {f"the file of --{name.replace('_', '-')}": place}
        estimator = load(model)
        _check_parts(estimator, parts)
        estimator.n_jobs = reading.jobs
        source = rows_in(data, reading.for_model(estimator))
        try:
            for name, place in places.items():
                if place is not None:
                    table, blocks = _part(estimator, source, name, force)
                    write_codes(place, blocks, table)
                    _tell(screen, name, place, table)
        except KeyboardInterrupt:
            raise stopped("the file that was being written is not there.") from None
    screen.finish()


def _check_place(name: str, place: Path, others: dict[str, Path | None], force: bool) -> None:
    option = f"--{name.replace('_', '-')}"
    check_code_file(option, place)
    check_output(option, place, others, overwrite=force, folder=is_folder(place))


def _check_parts(estimator: AbstractFactorizer, parts: dict[str, Path | None]) -> None:
    """Raise, before any work, if the model does not have what is wanted."""
    has = {"outliers": estimator.formulation_.has_outliers, "mask": isinstance(estimator, OutlierMasks)}
    for name, is_there in has.items():
        if parts[name] is not None and not is_there:
            raise ValueError(
                f"`--{name}` is given, but {type(estimator).__name__} has none. Use a model that has, "
                "such as robust-pca."
            )


def _part(
    estimator: Any, source: AbstractSource, name: str, force: bool
) -> tuple[CodeTable, Iterator[Array]]:
    """Return the description of a file, and its rows block by block."""
    dtype: np.dtype[Any] = source.dtype
    if name == "output":
        columns = tuple(map(str, estimator.get_feature_names_out()))
        blocks = estimator.code_blocks(source)
    elif name == "mask":
        columns, dtype = feature_names(estimator), np.dtype(bool)
        blocks = estimator.mask_blocks(source)
    else:
        columns = feature_names(estimator)
        blocks = estimator.part_blocks(source, name)
    table = CodeTable(source.n_samples, dtype, columns, source.row_names, source.row_label, force)
    return table, blocks


def _tell(screen: Screen, name: str, place: Path, table: CodeTable) -> None:
    n, width = table.shape
    what = "codes of {} numbers" if name == "output" else "rows of {} features"
    key = "codes" if name == "output" else name
    screen.fact(key, {"file": str(place.resolve()), "rows": n, "columns": width})
    screen.note(f"{n} {what.format(width)} in {place.resolve()}")
