"""Tables in text: .csv and .tsv files, also compressed.

A text is read once, block by block, into memory or, if it is large, into a temporary file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from vrmf.extras import library
from vrmf.sources.columns import shell
from vrmf.sources.headers import MISSING
from vrmf.sources.options import FileOptions
from vrmf.sources.spool import Spool
from vrmf.sources.tables import AbstractTable, NamedTable
from vrmf.sources.text_format import TextFormat, text_format

#: Bytes of a text that are read at once.
BLOCK_BYTES = 2**25

#: Above this size, in bytes, users are told that Parquet is read much faster.
LARGE_BYTES = 2**28


def text_table(path: Path, options: FileOptions) -> AbstractTable:
    """Return the table in a text, whose format is inferred from the first lines."""
    found = text_format(path, options)
    X, row_names = _read(path, found, options.decimal)
    label = found.names[found.index] if found.index is not None else ""
    table = NamedTable(
        X,
        tuple(found.names[i] for i in found.features) if found.has_header else None,
        row_names,
        label if label.lower() not in ("", "unnamed: 0") else "row",
    )
    hint = ("a copy in Parquet is read sooner",) if path.stat().st_size > LARGE_BYTES else ()
    table.remarks = (*found.remarks(), *hint)
    return table


def _read(path: Path, found: TextFormat, decimal: str) -> tuple[Any, list[str] | None]:
    """Return the features of all rows, and the names of these."""
    pyarrow = library("pyarrow", path)
    numbers = [str(i) for i in found.features]
    words = None if found.index is None else str(found.index)
    row_names: list[Any] = []
    with Spool(len(numbers), np.dtype(np.float64)) as spool:
        try:
            for batch in _batches(path, found, decimal, numbers, words):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in numbers]
                spool.add(np.stack(columns, axis=1) if columns else np.empty((batch.num_rows, 0)))
                row_names += [] if words is None else batch.column(words).to_pylist()
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: {_in_words(str(error), found)}") from error
        return spool.rows(), None if words is None else [str(name) for name in row_names]


def _batches(path: Path, found: TextFormat, decimal: str, numbers: list[str], words: str | None) -> Any:
    """Return the reader of a text, whose columns are called by their numbers."""
    pyarrow, text = library("pyarrow", path), library("pyarrow.csv", path)
    kinds = dict.fromkeys(numbers, pyarrow.float64())
    kinds |= {} if words is None else {words: pyarrow.string()}
    spellings = {spelling for word in MISSING for spelling in (word, word.upper(), word.capitalize())}
    spellings |= {"NaN", "N/A"}
    spellings |= {
        f"{before}{word}{after}" for word in spellings for before in ("", " ") for after in ("", " ")
    }
    return text.open_csv(
        pyarrow.input_stream(str(path), compression="detect"),
        read_options=text.ReadOptions(
            skip_rows=found.comments,
            column_names=[str(i) for i in range(len(found.names))],
            skip_rows_after_names=int(found.has_header),
            block_size=BLOCK_BYTES,
            encoding=found.encoding,
            use_threads=False,  # so that errors tell the line
        ),
        parse_options=text.ParseOptions(delimiter=found.separator, newlines_in_values=found.has_quotes),
        convert_options=text.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            decimal_point=decimal,
            null_values=sorted(spellings),
        ),
    )


def _in_words(error: str, found: TextFormat) -> str:
    """Return the error of the parser of Arrow in terms of the lines and columns of the file."""
    if match := re.search(r"CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", error, re.DOTALL):
        column, row, value = match.groups()
        line = f" in line {row}" if row else ""
        name = found.names[int(column)]
        return (
            f"the column {name!r} holds {value!r}{line}, which is no number. Mend it, or leave the column "
            f"out (--drop {shell(name)})."
        )
    if match := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", error):
        row, wanted, got = match.groups()
        line = f"line {row}" if row else "a line"
        return f"{line} has {got} columns, where {wanted} are expected. Mend it, or check the separator."
    return error
