"""``vrmf transform``: the codes of rows in a file."""

from __future__ import annotations

from pathlib import Path

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
from vrmf.code_files import CodeTable, check_code_file, is_folder, write_codes
from vrmf.outputs import check_output
from vrmf.storage import load


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("data")
@output_option(
    "codes.npy",
    "File for the codes: .npy, .csv, .parquet or .zarr. The last three name rows and components.",
)
@force_option
@jobs_option
@chunk_rows_option
def transform(
    model: Path, data: str, output: Path, force: bool, jobs: int | None, chunk_rows: int | None
) -> None:
    """Write the codes of the rows in DATA under the model in the file MODEL, chunk by chunk.

    DATA is whatever vrmf fit takes. The codes are there whole or not at all. An existing file is
    replaced with --force only, and MODEL and DATA never.
    """
    inputs = {"the data": file_of(data), "the model": model}
    with told_plainly():
        check_code_file("--output", output)
        check_output("--output", output, inputs, overwrite=force, folder=is_folder(output))
        estimator = load(model)
        estimator.n_jobs = jobs
        source = rows_in(data, chunk_rows, jobs)
        names = tuple(map(str, estimator.get_feature_names_out()))
        table = CodeTable(source.n_samples, source.dtype, names, source.row_names, source.row_label, force)
        try:
            write_codes(output, estimator.code_blocks(source), table)
        except KeyboardInterrupt:
            raise stopped("no codes were written.") from None
    click.echo(f"{table.shape[0]} codes of {table.shape[1]} numbers in {output.resolve()}")
