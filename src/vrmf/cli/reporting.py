"""``vrmf report``: a page that shows a model, and the rows of a file under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vrmf.cli.common import errors_as_lines, force_option, model_argument, output_option
from vrmf.cli.reading import DataOptions, data_options, file_of, rows_in
from vrmf.cli.screen import Screen, output_options
from vrmf.persistence.outputs import check_output
from vrmf.persistence.storage import load


class ImageShape(click.ParamType):
    """Height and width, and 3 for colours, with x between them."""

    name = "shape"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Return the numbers."""
        sides = str(value).lower().replace("×", "x").split("x")
        if len(sides) in (2, 3) and all(side.isdecimal() and int(side) > 0 for side in sides):
            return tuple(int(side) for side in sides)
        self.fail(f"{value!r} is no shape of an image. Use one such as 28x28 or 28x28x3.", param, ctx)

    def get_metavar(self, param: Any, ctx: Any = None) -> str:
        return "HEIGHTxWIDTH"


@click.command(
    epilog="""
    \b
    Examples:
      vrmf report model.vrmf cells.csv
      vrmf report digits.vrmf digits.npy --image-shape 28x28 -o digits.html
    """
)
@model_argument
@click.argument("data")
@output_option("report.html", "File for the page.")
@click.option(
    "--image-shape",
    type=ImageShape(),
    help="The shape of rows that are images, such as 28x28, or 28x28x3 for colours.  [default: that of the "
    "data of the fit, if known]",
)
@force_option
@data_options
@output_options
def report(
    model: Path,
    data: str,
    output: Path,
    image_shape: tuple[int, ...] | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Write a page about the model in the file MODEL and the rows in DATA, to look at in a browser.

    The page needs no network: all is inside of it. It says how good the fit is and what calls for
    attention, and shows the convergence, the atoms, their usage, and rows with their parts.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug):
        inputs: dict[str, Path | None] = {"the data": file_of(data), "the model": model}
        reading = DataOptions.taken_from(options)
        check_output("--output", output, inputs, overwrite=force)
        estimator = load(model)
        estimator.n_jobs = reading.jobs
        source = rows_in(data, reading.for_model(estimator))
        page = estimator.report(source, image_shape)
        page.save(output, overwrite=force)
        screen.fact("report", {"file": str(output.resolve()), "bytes": len(page.html.encode())})
        screen.note(f"A page of {len(page.html.encode()) / 1e6:.1f} MB in {output.resolve()}")
    screen.finish()
