"""What the columns of a text hold: names of rows, numbers, nothing at all, or text by mistake.

>>> names, columns = ("patient_id", "a", ""), [["9", "4", "7"], ["1.5", "<LOD", "-"], ["", "", ""]]
>>> index_in(names, columns, FileOptions(), has_header=True), width_without_empty(names, columns)
(0, 2)
>>> fault_in(names, [*columns[:1], ["1", "2", "-"], columns[2]], ".") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vrmf.sources.headers import MARKS, MISSING, is_number, names_rows
from vrmf.sources.options import FileOptions

#: A number with a decimal comma.
WITH_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")

#: What a column without a name is called; pandas counts them.
NAMELESS = re.compile(r"(unnamed: \d+)?", re.IGNORECASE)

#: The share of entries, without those that are missing, that are numbers where text is a mistake.
MOSTLY = 0.5


def index_in(
    names: Sequence[str], columns: list[list[str]], options: FileOptions, has_header: bool
) -> int | None:
    """Return the column of names of rows: the first, if it says so or holds different words."""
    if options.index is not None:
        return None if options.index is False else names.index(options.index)
    first = [cell.strip() for cell in columns[0]]
    if names[0] in (*options.drop, *(options.only or ())) or len(columns) == 1:
        return None
    if len(set(first)) < len(first):
        return None
    if all(is_number(cell, options.decimal) for cell in first):
        # Numbers that were filtered or shuffled need not count.
        return 0 if has_header and names_rows(names[0]) and are_whole(first) else None
    return None if any(is_number(cell, decimal) for cell in first for decimal in ".,") else 0


def are_whole(cells: list[str]) -> bool:
    """Whether cells hold whole numbers without a sign."""
    return all(cell.strip().isdecimal() for cell in cells)


def width_without_empty(names: Sequence[str], columns: list[list[str]]) -> int:
    """Return the number of columns without the last ones that have neither a name nor an entry.

    A separator at the end of each line makes one.
    """
    width = len(names)
    while (
        width > 1 and NAMELESS.fullmatch(names[width - 1]) and not any(map(str.strip, columns[width - 1]))
    ):
        width -= 1
    return width


def fault_in(names: Sequence[str], columns: list[list[str]], decimal: str) -> str | None:
    """Return what is wrong if a feature holds text, and what to do about it; None if all are numbers."""
    texts, slips = [], []
    for name, column in zip(names, columns, strict=True):
        wrong = [cell for cell in column if not is_number(cell, decimal)]
        if wrong and WITH_COMMA.fullmatch(wrong[0]):
            return (
                f"the column {name!r} holds {wrong[0]!r}. If that is a decimal comma, use "
                'decimal="," (--decimal ,); signs between thousands have to be removed.'
            )
        marks = [cell for cell in column if cell.strip().lower() in MARKS]
        there = [cell for cell in column if cell.strip().lower() not in MISSING]
        numbers = len(there) - len(wrong)
        if wrong and numbers > MOSTLY * len(there):
            slips.append((name, wrong))
        elif wrong or (marks and not numbers):
            texts.append((name, (wrong or marks)[0]))
    if texts:
        return _text_in(texts, len(names))
    return _slips_in(slips) if slips else None


def _text_in(texts: list[tuple[str, str]], width: int) -> str:
    """Say that columns hold text."""
    name, wrong = texts[0]
    if 1 < len(texts) == width:
        return f"no column holds numbers; {name!r} holds {wrong!r}. Use a table of numbers."
    more = len(texts) - 1
    others = f", and so {'does 1 other' if more == 1 else f'do {more} others'}" if more else ""
    drops = " ".join(f"--drop {shell(name)}" for name, _ in texts[:5])
    return (
        f"the column {name!r} holds text, such as {wrong!r}{others}. Leave it out "
        f"({drops}), or take it for the names of rows (--index {shell(name)})."
    )


def _slips_in(slips: list[tuple[str, list[str]]]) -> str:
    """Say that some entries are text among numbers."""
    name, (wrong, *_) = slips[0]
    count = sum(len(cells) for _, cells in slips)
    entries = "1 entry" if count == 1 else f"{count} entries"
    which = (
        "1 column that otherwise holds" if len(slips) == 1 else f"{len(slips)} columns that otherwise hold"
    )
    is_one_kind = len({cell.strip() for _, cells in slips for cell in cells}) == 1
    what = f"are {wrong!r}" if is_one_kind and count > 1 else f"hold text, such as {wrong!r}"
    what = what.replace("hold", "holds") if count == 1 else what
    return (
        f"{entries} of {which} numbers {what} in the column {name!r}. Put a number there, or leave "
        "such entries empty if they are missing."
    )


def shell(name: str) -> str:
    """Return a name as a shell takes it."""
    return name if re.fullmatch(r"[\w.+-]+", name) else f'"{name}"'
