"""How commands read the rows in a file, and how they describe them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.cli.screen import Screen, short
from vrmf.estimators import ESTIMATORS
from vrmf.sources import AbstractSource, RowCheck, as_source
from vrmf.sources.files import INSIDE, open_table, takes_drop
from vrmf.sources.lazy import dask_array
from vrmf.sources.options import FileOptions

#: Words for signs that are hard to type.
SIGNS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how DATA is to be read."""
    for option in (
        click.option(
            "--chunk-rows", type=click.IntRange(min=1), help="Rows read at once.  [default: about 32 MB]"
        ),
        click.option("--jobs", type=int, help="Threads.  [default: all cores]"),
        click.option(
            "--header/--no-header",
            default=None,
            help="Whether the first line of a text holds names of columns.  [default: found out]",
        ),
        click.option(
            "--decimal", type=click.Choice([".", ","]), default=".", help="Decimal sign of a text."
        ),
        click.option(
            "--separator",
            metavar="SIGN",
            help="Sign between the columns of a text; tab and space as words.  [default: found out]",
        ),
        click.option(
            "--index", metavar="NAME", help="Column that holds the names of rows.  [default: found out]"
        ),
        click.option("--no-index", is_flag=True, help="No column holds names of rows: all are features."),
        click.option(
            "--drop",
            metavar="NAME",
            multiple=True,
            help="Column to leave out; may be repeated.  [default: none]",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class DataOptions:
    """The options that say how to read rows."""

    file: FileOptions
    chunk_rows: int | None
    jobs: int | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> DataOptions:
        """Remove these options from all options of a command, and return them."""
        separator, index = options.pop("separator"), options.pop("index")
        if options.pop("no_index"):
            if index is not None:
                raise click.UsageError("--index and --no-index contradict each other. Use one of them.")
            index = False
        file = FileOptions(
            drop=tuple(options.pop("drop")),
            index=index,
            separator=SIGNS.get(separator, separator),
            decimal=options.pop("decimal"),
            header=options.pop("header"),
        )
        return cls(file, options.pop("chunk_rows"), options.pop("jobs"))

    def words(self) -> list[str]:
        """Return these options of a file as words of a command line."""
        file, words = self.file, [word for name in self.file.drop for word in ("--drop", name)]
        words += ["--no-index"] if file.index is False else []
        for option, value in (("--index", file.index), ("--separator", file.separator)):
            words += [option, value] if isinstance(value, str) else []
        words += [] if file.decimal == "." else ["--decimal", file.decimal]
        return words + ([] if file.header is None else ["--header" if file.header else "--no-header"])

    def for_model(self, estimator: Any) -> DataOptions:
        """Return the options by which a file gives the features that a model knows by their names."""
        names = getattr(estimator, "feature_names_in_", None)
        if names is None:
            return self
        return replace(self, file=replace(self.file, only=tuple(map(str, names))))


def file_of(data: str) -> Path:
    """Return the file in which data are, without the name of a data set inside of it."""
    return Path(data) if Path(data).exists() else Path(data.partition(INSIDE)[0])


def rows_in(data: str, options: DataOptions, lazily: bool = False) -> AbstractSource:
    """Return the source of the rows in a file, here or on the workers of a cluster."""
    table = open_table(Path(data), options.file)
    if not lazily:
        return as_source(table, options.jobs, chunk_rows=options.chunk_rows)
    if options.file != FileOptions() or table.remarks:
        raise ValueError(
            f"{data} cannot be read by the workers of a cluster like this. Use a copy as .parquet, .zarr, "
            ".h5 or .npy."
        )
    return as_source(dask_array(data, options.chunk_rows)).named(table.feature_names)


@dataclass(frozen=True)
class Range:
    """The smallest and the largest entry of some rows, and how many are missing."""

    low: float
    high: float
    missing: int

    @property
    def is_finite(self) -> bool:
        """Whether no entry is missing or infinite."""
        return not self.missing and math.isfinite(self.low) and math.isfinite(self.high)

    def __add__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high), self.missing + other.missing)

    @classmethod
    def of(cls, block: Block) -> Range:
        """Return the range of a block of rows."""
        X = block.dense
        is_missing = np.isnan(X)
        there = np.where(is_missing, np.nan, X)
        if is_missing.all():
            return cls(np.inf, -np.inf, int(is_missing.sum()))
        return cls(float(np.nanmin(there)), float(np.nanmax(there)), int(is_missing.sum()))


def tell_data(screen: Screen, data: str, source: AbstractSource) -> Range:
    """Print what was read: rows, features and their names, precision, range, missing entries.

    Returns the range, which shows whether there are entries that no model takes.
    """
    n, d = source.n_samples, source.n_features
    if n == 0 or d == 0:
        raise ValueError(f"{data} has {n} rows and {d} features. Use at least one of each.")
    found = source.read_as(check=None, mean=None).reduce(Range.of)
    names, label = source.feature_names, source.row_names(0, min(3, source.n_samples))
    screen.title(f"Data in {data}")
    screen.fact("rows", source.n_samples, _counted(source.n_samples, label, source.row_label))
    screen.fact("features", source.n_features, _counted(source.n_features, names, ""))
    if source.image_shape is not None:
        height, width = source.image_shape
        screen.fact("image_shape", [height, width], f"{height} × {width} pixels")
    screen.fact("read_as", list(source.remarks), "; ".join(source.remarks) if source.remarks else None)
    screen.fact("dtype", str(source.dtype), str(source.dtype))
    screen.fact("range", [found.low, found.high], f"{short(found.low)} to {short(found.high)}")
    total = source.n_samples * source.n_features
    share = f" of {short(total)} ({found.missing / total:.2%})" if found.missing else ""
    screen.fact("missing", found.missing, f"{short(found.missing)}{share}")
    return found


def check_finite(found: Range, source: AbstractSource, model: str | None) -> None:
    """Raise if an entry is missing or infinite, which no model takes, and name it."""
    if not found.is_finite:
        who = "A fit" if model is None else ESTIMATORS[model].__name__
        check = RowCheck(who, feature_names=source.feature_names)
        source.read_as(check=check, mean=None).reduce(len)


def gaps_in(data: str, source: AbstractSource) -> list[str]:
    """Return the columns with missing or infinite entries, if columns of the file may be left out."""
    names = source.feature_names
    if names is None or not takes_drop(Path(data)):
        return []
    counts = source.read_as(check=None, mean=None).reduce(_gaps)
    return [name for name, count in zip(names, counts, strict=True) if count]


def _gaps(block: Block) -> Array:
    return np.asarray(np.sum(~np.isfinite(block.dense), axis=0))


def _counted(count: int, names: Any, label: str) -> str:
    """Return a number with the first names of what it counts."""
    if not names:
        return short(count)
    shown = ", ".join(str(name) for name in names[:3]) + (", …" if count > 3 else "")
    return f"{short(count)}, {f'by {label}: ' if label and label != 'row' else ''}{shown}"
