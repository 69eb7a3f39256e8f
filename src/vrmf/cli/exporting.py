"""``vrmf export``: atoms as a table, and their strongest features."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from vrmf.cli.common import errors_as_lines, force_option, model_argument, output_option
from vrmf.cli.screen import Screen, output_options
from vrmf.estimators import AbstractFactorizer
from vrmf.persistence.code_files import CodeTable, check_code_file, is_folder, write_codes
from vrmf.persistence.outputs import check_output
from vrmf.persistence.storage import load


@click.command(
    epilog="""
    \b
    Examples:
      vrmf export model.vrmf --components atoms.csv
      vrmf export model.vrmf --top 20
    """
)
@model_argument
@output_option(
    None,
    "File for the atoms, one in each row: .npy, .csv, .parquet or .zarr.  [default: none]",
    "--components",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help="List so many features of each atom, the largest first.  [default: none]",
)
@force_option
@output_options
def export(
    model: Path,
    components: Path | None,
    top: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Write the atoms of the model in the file MODEL as a table, or list their strongest features.

    Columns have the names of the features. An existing file is replaced with --force only, and MODEL never.
    """
    screen = Screen(as_json, quiet)
    if components is None and top is None:
        raise click.UsageError("Nothing to export. Use --components FILE or --top NUMBER.")
    with errors_as_lines(debug):
        if components is not None:
            check_code_file("--components", components)
            others: dict[str, Path | None] = {"the model": model}
            check_output("--components", components, others, overwrite=force, folder=is_folder(components))
        estimator = load(model)
        names = list(map(str, estimator.get_feature_names_out()))
        if top is not None:
            rows = strongest(estimator, names, top)
            screen.table("top", ("component", "feature", "weight"), rows)
        if components is not None:
            D = estimator.components_
            features = feature_names(estimator)
            table = CodeTable(len(D), D.dtype, features, lambda i, j: names[i:j], "component", force)
            write_codes(components, iter([D]), table)
            screen.fact(
                "file",
                str(components.resolve()),
                f"{len(D)} atoms of {D.shape[1]} features in {components.resolve()}",
                label="components",
            )
    screen.finish()


def feature_names(estimator: AbstractFactorizer) -> tuple[str, ...]:
    """Return the names of the features, x0, x1, … where they have none."""
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return tuple(f"x{i}" for i in range(estimator.n_features_in_))
    return tuple(map(str, known))


def strongest(estimator: AbstractFactorizer, names: list[str], top: int) -> list[tuple[str, str, float]]:
    """Return the largest entries of each atom by size, with the names of their features."""
    features, found = feature_names(estimator), []
    for name, atom in zip(names, estimator.components_, strict=True):
        order = np.argsort(-np.abs(atom), kind="stable")[:top]
        found += [(name, features[i], float(atom[i])) for i in order]
    return found
