"""The format of a text, which is inferred from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrmf.extras import library
from vrmf.sources.headers import INDEX_NAMES, UNNAMED, Header, header_in, is_number
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

#: A number with a decimal comma.
WITH_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class TextFormat:
    """How the lines of a text are split into columns, and what these hold."""

    separator: str
    encoding: str
    has_header: bool
    names: tuple[str, ...]  #: of all columns
    index: int | None  #: the column of names of rows
    features: tuple[int, ...]  #: the columns that are features, in their order
    has_quotes: bool
    comments: int  #: lines before the first that is read
    is_doubted: bool = False  #: whether the first line, which is read as numbers, may hold names

    def remarks(self) -> tuple[str, ...]:
        """Return descriptions of what was inferred."""
        names = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon"}
        told = [f"separator {names.get(self.separator, self.separator)}"]
        told.append("names of columns in the first line" if self.has_header else "no names of columns")
        if self.is_doubted:
            told[-1] += ", though the first line may hold some (then say --header)"
        if self.index is not None:
            name = self.names[self.index]
            told.append(f"names of rows in the {f'column {name!r}' if name else 'first column'}")
        if self.encoding != "utf-8":
            told.append(f"encoding {self.encoding}")
        dropped = sorted({*range(len(self.names))} - {self.index, *self.features})
        if dropped:
            told.append("without " + ", ".join(repr(self.names[i]) for i in dropped))
        return tuple(told)


def text_format(path: Path, options: FileOptions) -> TextFormat:
    """Return the format of a text, or raise if it holds words where numbers should be."""
    text, encoding = _head(path)
    lines = text.splitlines(keepends=True)
    comments = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "".join(lines[comments:])
    if not text.strip():
        raise ValueError(f"{path} is empty. Use a file with a row of numbers for each sample.")
    separator = options.separator or _separator(path, text, options.decimal)
    rows = [row for row in _cut(text, separator) if row]
    body_width = max(map(len, rows[1:] or rows), key=[len(row) for row in rows[1:] or rows].count)
    if len(rows[0]) == body_width - 1 and not all(is_number(cell, options.decimal) for cell in rows[0]):
        rows[0] = ["", *rows[0]]  # as R writes names of columns
        short_header = True
    else:
        short_header = False
    seems = header_in(rows, options.decimal)
    has_header = seems is Header.names if options.header is None else options.header
    width = len(rows[0])
    names = tuple(name.strip() for name in rows[0]) if has_header else tuple(map(str, range(width)))
    body = rows[1:] if has_header else rows
    if not body:
        raise ValueError(f"{path} has names of columns, but no rows.")
    options.check_names(names, has_names=has_header)
    _check_names(path, names)
    columns = [[row[i] for row in body if len(row) == width] for i in range(width)]
    index = _index(names, columns, options, has_header, short_header)
    others = () if index is None else (names[index],)
    features = tuple(names.index(name) for name in options.features(names, others))
    is_doubted = options.header is None and seems is Header.perhaps
    found = TextFormat(
        separator, encoding, has_header, names, index, features, '"' in text, comments, is_doubted
    )
    _check_numbers(path, found, columns, options.decimal)
    return found


def _head(path: Path) -> tuple[str, str]:
    """Return whole lines from the beginning of a text, and how they are encoded."""
    with library("pyarrow", path).input_stream(str(path), compression="detect") as stream:
        data = stream.read(HEAD_BYTES)
    if len(data) == HEAD_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
        raise ValueError(f"{path} is no text in UTF-8. Save it as UTF-8, as spreadsheets do on demand.")
    try:
        return data.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _cut(text: str, separator: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return [row for _, row in zip(range(HEAD_LINES), rows, strict=False)]


def _separator(path: Path, text: str, decimal: str) -> str:
    """Return the separator that splits most lines into the same number of columns, more than one."""
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


def _index(
    names: Sequence[str],
    columns: list[list[str]],
    options: FileOptions,
    has_header: bool,
    short_header: bool,
) -> int | None:
    """Return the column of names of rows: the first, if it says so or holds different words."""
    if options.index is not None:
        return names.index(options.index)
    first = [cell.strip() for cell in columns[0]]
    if short_header:
        return 0
    if names[0] in options.drop or len(columns) == 1:
        return None
    are_distinct = len(set(first)) == len(first)
    if all(is_number(cell, options.decimal) for cell in first):
        are_whole = all(cell.isdecimal() for cell in first)
        if has_header and names[0].lower() in UNNAMED and are_whole and are_distinct:
            return 0  # an index that was filtered or shuffled need not count
        counts = [str(int(first[0]) + i) for i in range(len(first))] if first[0].isdecimal() else None
        return 0 if has_header and names[0].lower() in INDEX_NAMES and first == counts else None
    is_word = not any(is_number(cell, decimal) for cell in first for decimal in ".,")
    return 0 if are_distinct and is_word else None


def _check_numbers(path: Path, found: TextFormat, columns: list[list[str]], decimal: str) -> None:
    """Raise if a feature is text, and say what to do about it."""
    texts: list[tuple[str, str]] = []
    for i in found.features:
        wrong = next((cell for cell in columns[i] if not is_number(cell, decimal)), None)
        if wrong is not None and WITH_COMMA.fullmatch(wrong):
            raise ValueError(
                f"{path}: the column {found.names[i]!r} holds {wrong!r}. If that is a decimal comma, use "
                'decimal="," (--decimal ,); signs between thousands have to be removed.'
            )
        if wrong is not None:
            texts.append((found.names[i], wrong))
    if len(texts) == 1 or 0 < len(texts) < len(found.features):
        names = [name for name, _ in texts]
        others = f", and so do {len(names) - 1} others" if len(names) > 1 else ""
        drops = " ".join(f"--drop {in_shell(name)}" for name in names[:5])
        raise ValueError(
            f"{path}: the column {names[0]!r} holds text, such as {texts[0][1]!r}{others}. Leave it out "
            f"({drops}), or take it for the names of rows (--index {in_shell(names[0])})."
        )
    if texts:
        raise ValueError(
            f"{path}: no column holds numbers; {texts[0][0]!r} holds {texts[0][1]!r}. Use a table of "
            "numbers."
        )


def in_shell(name: str) -> str:
    """Return a name as it is written in a shell."""
    return name if re.fullmatch(r"[\w.+-]+", name) else f'"{name}"'
