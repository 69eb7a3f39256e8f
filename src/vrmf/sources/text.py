"""Tables in text: .csv and .tsv files, also compressed.

How the text is cut into columns is found out from its first lines. Then it is read once, block by block,
into memory or, if it is large, into a temporary file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrmf.extras import library
from vrmf.sources.columns import are_whole, fault_in, index_in, shell, width_without_empty
from vrmf.sources.headers import MISSING, Header, header_in, is_number
from vrmf.sources.options import FileOptions
from vrmf.sources.spool import Spool
from vrmf.sources.tables import AbstractTable, NamedTable

#: Signs that may stand between columns, the likeliest first.
SEPARATORS = (",", "\t", ";", "|", " ")

#: What is looked at to find out how a text is cut, and lines of it.
HEAD_BYTES, HEAD_LINES = 2**20, 200

#: Bytes of a text that are read at once.
BLOCK_BYTES = 2**25

#: Texts above this size are read from Parquet much faster.
LARGE_BYTES = 2**28

#: The share of lines that must have the usual number of columns, for a separator to be taken.
CONSISTENT = 0.9

#: A separator is taken for a likelier one if it makes so many times as many columns.
CLEARLY = 1.5


@dataclass(frozen=True)
class TextFormat:
    """How a text is cut into columns, and what these are."""

    separator: str
    encoding: str
    has_header: bool
    names: tuple[str, ...]  #: of all columns
    width: int  #: the number of columns, but for the last ones if they have neither a name nor an entry
    index: int | None  #: the column of names of rows
    features: tuple[int, ...]  #: the columns that are features, in their order
    has_quotes: bool
    comments: int  #: lines before the first that is read
    is_doubted: bool = False  #: whether the first line, which is read as numbers, may hold names
    index_is_guessed: bool = False  #: whether names of rows are numbers, and nobody said so

    def remarks(self) -> tuple[str, ...]:
        """Return in words what was found."""
        names = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon"}
        told = [f"separator {names.get(self.separator, self.separator)}"]
        told.append("names of columns in the first line" if self.has_header else "no names of columns")
        if self.is_doubted:
            told[-1] += ", though the first line may hold some (then say --header)"
        if self.index is not None:
            name = self.names[self.index]
            told.append(f"names of rows in the {f'column {name!r}' if name else 'first column'}")
            told[-1] += ", which holds numbers (--no-index makes it a feature)" * self.index_is_guessed
        if self.encoding != "utf-8":
            told.append(f"encoding {self.encoding}")
        dropped = sorted({*range(self.width)} - {self.index, *self.features})
        if dropped:
            told.append("without " + ", ".join(repr(self.names[i]) for i in dropped))
        if empty := len(self.names) - self.width:
            told.append(
                f"without the last {f'{empty} columns' if empty > 1 else 'column'}, empty and nameless"
            )
        return tuple(told)


def text_table(path: Path, options: FileOptions) -> AbstractTable:
    """Return the table in a text, of which the first lines say how it is cut."""
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


# How a text is cut -------------------------------------------------------------------------------


def text_format(path: Path, options: FileOptions) -> TextFormat:
    """Return how a text is cut into columns, or raise if it holds text where numbers should be."""
    text, encoding, comments = _head(path)
    separator = options.separator or _separator(path, text, options.decimal)
    rows = [row for row in _cut(text, separator) if row]
    by_r = _completed_header(rows, options.decimal)
    seems = header_in(rows, options.decimal)
    has_header = seems is Header.names if options.header is None else options.header
    width = len(rows[0])
    names = tuple(name.strip() for name in rows[0]) if has_header else tuple(map(str, range(width)))
    body = rows[1:] if has_header else rows
    if not body:
        raise ValueError(f"{path} has names of columns, but no rows.")
    columns = [[row[i] for row in body if len(row) == width] for i in range(width)]
    width = width_without_empty(names if has_header else [""] * width, columns)
    options.check_names(names[:width], has_names=has_header)
    _check_names(path, names[:width])
    index = index_in(names[:width], columns[:width], options, has_header)
    index = 0 if by_r and options.index is None else index
    others = () if index is None else (names[index],)
    features = tuple(names.index(name) for name in options.features(names[:width], others))
    _check_numbers(path, names, columns, features, options.decimal)
    return TextFormat(
        separator,
        encoding,
        has_header,
        names,
        width,
        index,
        features,
        has_quotes='"' in text,
        comments=comments,
        is_doubted=options.header is None and seems is Header.perhaps,
        index_is_guessed=index is not None and options.index is None and are_whole(columns[index]),
    )


def _completed_header(rows: list[list[str]], decimal: str) -> bool:
    """Add the name that the first line lacks, if it has one column less, and return whether R wrote it.

    R names no column of names of rows. Else all lines but the first may end in a separator.
    """
    first, *body = rows
    widths = [len(row) for row in body or rows]
    usual = max(widths, key=widths.count)
    if len(first) != usual - 1 or all(is_number(cell, decimal) for cell in first):
        return False
    by_r = any(row[-1].strip() for row in body if len(row) == usual)
    rows[0] = ["", *first] if by_r else [*first, ""]
    return by_r


def _head(path: Path) -> tuple[str, str, int]:
    """Return the first lines of a text, how they are encoded, and how many comments come before."""
    with library("pyarrow", path).input_stream(str(path), compression="detect") as stream:
        data = stream.read(HEAD_BYTES)
    if len(data) == HEAD_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
        raise ValueError(f"{path} is no text in UTF-8. Save it as UTF-8, as spreadsheets do on demand.")
    try:
        text, encoding = data.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data.decode("latin-1"), "latin-1"
    lines = text.splitlines(keepends=True)
    comments = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "".join(lines[comments:])
    if not text.strip():
        raise ValueError(f"{path} is empty. Use a file with a row of numbers for each sample.")
    return text, encoding, comments


def _cut(text: str, separator: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return [row for _, row in zip(range(HEAD_LINES), rows, strict=False)]


def _separator(path: Path, text: str, decimal: str) -> str:
    """Return the sign that cuts most lines into the same number of columns, more than one."""
    best, most = None, 0.0
    for separator in SEPARATORS:
        first, *others = [len(row) for row in _cut(text, separator) if row]
        widths = others or [first]
        usual = max(set(widths), key=widths.count)
        share = widths.count(usual) / len(widths)
        # R leaves out the name of the column that holds the names of rows.
        fits = first == usual or 2 < usual == first + 1
        if (
            fits
            and separator != decimal
            and usual > 1
            and share >= CONSISTENT
            and share * usual > CLEARLY * most
        ):
            best, most = separator, share * usual
    if best is None:
        if all(is_number(line, ".") or i == 0 for i, line in enumerate(text.splitlines()[:HEAD_LINES])):
            return ","  # one column
        raise ValueError(
            f"{path} cannot be cut into columns: its lines have different numbers of commas, tabs and "
            "semicolons. Use separator=... (--separator) for the sign between its columns."
        )
    return best


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ValueError(f"{path}: the column {twice!r} occurs twice. Use a name of its own for each.")


def _check_numbers(
    path: Path, names: Sequence[str], columns: list[list[str]], features: Sequence[int], decimal: str
) -> None:
    """Raise if a feature holds text."""
    fault = fault_in([names[i] for i in features], [columns[i] for i in features], decimal)
    if fault is not None:
        raise ValueError(f"{path}: {fault}")


# Reading -----------------------------------------------------------------------------------------


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
    """Return what is wrong with a line, in terms of the file."""
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
