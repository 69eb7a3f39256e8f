"""How a file is to be read, where that can't be told from the file."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


class NoSuchColumn(ValueError):
    """A column that is named, or that a model needs, is not in a file."""


@dataclass(frozen=True)
class FileOptions:
    """Options for reading a file; what is None is inferred from the file.

    The command line has an option of the same name for each but ``only``, which a model tells.
    """

    drop: tuple[str, ...] = ()  #: columns that are no features
    index: str | Literal[False] | None = None  #: the column with the names of rows; False is none
    separator: str | None = None  #: between the columns of a text
    decimal: str = "."  #: the sign between the digits of a number in a text
    header: bool | None = None  #: whether the first line of a text holds names
    only: tuple[str, ...] | None = None  #: the features, in their order; other columns are left out

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ValueError(f"`decimal` is {self.decimal!r}. Use a point or a comma.")
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise ValueError(f"`separator` is {self.separator!r}. Use one sign, such as ';' or a tab.")
        if self.separator is not None and self.separator == self.decimal:
            raise ValueError(f"`separator` and `decimal` are both {self.decimal!r}. Use two signs.")
        twice = [name for name in self.drop if self.drop.count(name) > 1]
        if twice:
            raise ValueError(f"`drop` names {twice[0]!r} twice. Use it once.")
        if self.index is not None and self.index in self.drop:
            raise ValueError(f"{self.index!r} is both `index` and in `drop`. Use one of them.")

    def check_names(self, names: Sequence[str], has_names: bool = True) -> None:
        """Raise if a column that is named is not there; without a header columns are called by numbers."""
        hint = "" if has_names else NO_NAMES
        index = () if self.index is None or self.index is False else (self.index,)
        for what, wanted in (("drop", self.drop), ("index", index)):
            for name in wanted:
                if name not in names:
                    raise NoSuchColumn(
                        f"`{what}` names {name!r}, which is no column. {hint or _alike(name, names)}"
                    )

        missing = [name for name in self.only or () if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise NoSuchColumn(
                f"There is no column {missing[0]!r}{more}, which the model was fitted with. "
                f"{hint or _alike(missing[0], names)}"
            )

    def features(self, names: Sequence[str], others: Collection[str | None]) -> tuple[str, ...]:
        """Return the names of the columns that are features; ``others`` are known not to be."""
        if self.only is not None:
            return self.only
        return tuple(name for name in names if name not in others and name not in self.drop)

    def check_unused(self, path: object, *, but: Iterable[str] = ()) -> None:
        """Raise if an option is given that has no meaning for this kind of file."""
        for name, default in vars(FileOptions()).items():
            if name != "only" and getattr(self, name) != default and name not in but:
                raise ValueError(f"`{name}` says nothing of {path}, {_REASONS[name]}. Leave it out.")


#: What to do if a text seems to have no names of columns, but they are asked for.
NO_NAMES = (
    "The file seems to have no names of columns: its first line was read as numbers. If it holds names, "
    "use header=True (--header); else columns are called 0, 1, …"
)

_REASONS = {
    "drop": "whose columns have no names",
    "index": "whose columns have no names",
    "separator": "which is no text",
    "decimal": "which is no text",
    "header": "which is no text",
}


def _alike(name: str, names: Sequence[str]) -> str:
    """Return advice on which name may be meant."""
    if close := difflib.get_close_matches(name, names, n=1):
        return f"Did you mean {close[0]!r}?"
    shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
    return f"Use one of {shown}."
