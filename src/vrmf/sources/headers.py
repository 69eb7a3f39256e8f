"""Whether the first line of a text holds names of columns, which may be numbers, such as wavelengths.

>>> rows = [["sample", "400.0", "401.5"], ["s0", "1.1", "2.2"], ["s1", "1.3", "2.1"]]
>>> header_in(rows, ".").name, header_in(rows[1:], ".").name
('names', 'none')
"""

from __future__ import annotations

import enum
import math
import re
from itertools import pairwise

#: Words for a missing number, in small letters, and signs for one where other entries are numbers.
MARKS = ("-", "--", ".", "n.a.")
MISSING = ("", "na", "n/a", "nan", "null", "none", "#n/a", "?", *MARKS)

#: What a column without a name is called.
UNNAMED = ("", "unnamed: 0")

#: Words that say of any name that it is that of a column of names of rows, and words that do so alone.
IDENTIFIERS = frozenset("id ids idx uid uuid guid identifier barcode".split())
ROW_WORDS = frozenset(
    "row rows rowname rownames index key name names label sample samples specimen patient subject "
    "participant person donor individual animal user customer client cell gene spectrum record".split()
)

#: A first line of numbers holds names only if it has at least so many, in about equal steps.
LEAST_NAMES = 4

#: And only if there are at least so many rows below it.
LEAST_ROWS = 5

#: Steps are about equal if the largest is at most so many times the smallest.
EVEN = 2.0

#: Numbers are far outside of the range of their column if they are so many times its width beyond it.
FAR_OUTSIDE = 1.0


class Header(enum.Enum):
    """What the first line is."""

    names = "names of columns"
    perhaps = "numbers like those of a header, which may be a row"
    none = "a row"


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell holds a number, or says that there is none."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return True
    return _value(cell, decimal) is not None


def _value(cell: str, decimal: str) -> float | None:
    try:
        value = float(cell.replace(",", ".") if decimal == "," else cell)
    except ValueError:
        return None
    return None if "_" in cell else value


def header_in(rows: list[list[str]], decimal: str) -> Header:
    """Return what the first line is.

    It holds names if something in it is no number where numbers follow, or if none of it is a number. If
    there are numbers and words in it where such follow, too, it holds names if the word above distinct
    names of rows says so, or if its numbers look like places on an axis and unlike those below.
    """
    first, body = rows[0], rows[1:]
    if not body:
        has_words = not all(is_number(cell, decimal) for cell in first)
        return Header.names if has_words else Header.none
    if first[0].strip() == "":
        return Header.names
    columns = [[row[i] for row in body if len(row) == len(first)] for i in range(len(first))]
    are_numbers = [all(is_number(cell, decimal) for cell in column) for column in columns]
    has_word = any(
        is_below and not is_number(cell, decimal) for cell, is_below in zip(first, are_numbers, strict=True)
    )
    if has_word or not any(is_number(cell, decimal) for cell in first):
        return Header.names
    if not are_numbers[0] and _names_rows(first[0].strip(), columns[0]):
        return Header.names
    return _axis_in(first, columns, are_numbers, decimal)


def _names_rows(word: str, column: list[str]) -> bool:
    """Whether a word stands above different names of rows: it says so, or all but the word have digits."""
    if len(column) < 2 or len({word, *column}) <= len(column):
        return False
    has_digit = [any(letter.isdigit() for letter in name) for name in (word, *column)]
    return names_rows(word) or (all(has_digit[1:]) and not has_digit[0])


def names_rows(name: str) -> bool:
    """Whether the name of a column says that it holds names of rows.

    >>> [names_rows(name) for name in ("ID", "patient_id", "CellID", "userid", "Sample", "row index", "")]
    [True, True, True, True, True, True, True]
    >>> [names_rows(name) for name in ("acid", "width", "cell count", "age", "key rate")]
    [False, False, False, False, False]
    """
    if name.lower() in UNNAMED:
        return True
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_]+", name)]
    known = [word in ROW_WORDS or word.removesuffix("id") in ROW_WORDS for word in words]
    return not IDENTIFIERS.isdisjoint(words) or (bool(words) and all(known))


def _axis_in(first: list[str], columns: list[list[str]], are_numbers: list[bool], decimal: str) -> Header:
    """Return what the numbers of a first line are: places on an axis if they only rise, or only fall.

    They are names if steps are about equal, and all are far outside of the ranges of their columns. They
    may be names if all are outside of these, or if all steps are equal.
    """
    used = [i for i, is_used in enumerate(are_numbers) if is_used]
    places = [_value(first[i], decimal) for i in used]
    known = [place for place in places if place is not None and math.isfinite(place)]
    steps = [after - before for before, after in pairwise(known)]
    is_whole = len(known) == len(places) and len(places) >= LEAST_NAMES - 1
    if not is_whole or not (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
        return Header.none
    beyond = [_beyond(place, columns[i], decimal) for place, i in zip(known, used, strict=True)]
    sizes = [abs(step) for step in steps]
    is_long = len(known) >= LEAST_NAMES and len(columns[0]) >= LEAST_ROWS
    if is_long and max(sizes) <= EVEN * min(sizes) and min(beyond) > FAR_OUTSIDE:
        return Header.names
    are_equal = len(known) >= LEAST_NAMES and max(sizes) - min(sizes) <= 1e-6 * max(sizes)
    return Header.perhaps if min(beyond) > 0 or are_equal else Header.none


def _beyond(place: float, column: list[str], decimal: str) -> float:
    """Return how far a number is outside of the range of a column, in widths of the range."""
    values = [value for cell in column if (value := _value(cell, decimal)) is not None and value == value]
    if not values:
        return 0.0
    low, high = min(values), max(values)
    outside = max(place - high, low - place)
    return outside / max(high - low, 1e-12 * max(abs(low), abs(high)), 1e-300) if outside > 0 else 0.0
