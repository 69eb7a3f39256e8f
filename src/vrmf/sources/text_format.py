"""The format of a text, which is inferred from its first lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrmf.extras import library
from vrmf.sources.columns import are_whole, fault_in, index_in, width_without_empty
from vrmf.sources.headers import Header, header_in, is_number
from vrmf.sources.options import FileOptions

#: Possible separators of columns, the likeliest first.
SEPARATORS = (",", "\t", ";", "|", " ")

#: Bytes at the beginning of a text from which its format is inferred.
HEAD_BYTES = 2**20

#: Bound on the lines of these that are split.
HEAD_LINES = 200

#: The share of lines that must have the usual number of columns, for a separator to be taken.
CONSISTENT = 0.9

#: A separator is preferred to a likelier one if it gives so many times as many columns.
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
