"""Checks of values in files against the declared types of their fields."""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from typing import Any

import numpy as np

from vrmf.terms.base import AbstractTerm


def declared_types(kind: type) -> set[type]:
    """Return the dataclasses that a value may hold by the types of its fields, with its own.

    >>> from vrmf.solvers.smm import SMMState
    >>> sorted(each.__name__ for each in declared_types(SMMState))
    ['Measurement', 'SMMState', 'Usage', 'WorstRows']
    """
    found: set[type] = set()
    waiting: list[Any] = [kind]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in found:
            found.add(hint)
            with contextlib.suppress(NameError):  # a name that only a type checker knows
                waiting.extend(typing.get_type_hints(hint).values())
        waiting.extend(typing.get_args(hint))
    return found


def check_declared(value: Any) -> None:
    """Raise if a field of a dataclass, or of one inside of it, is not of its declared type.

    >>> from vrmf.solvers.smm import SMMState
    >>> check_declared(SMMState(D=np.eye(2), seed="word"))
    Traceback (most recent call last):
    TypeError: `seed` of SMMState is 'word'
    """
    for name, hint in typing.get_type_hints(type(value)).items():
        part = getattr(value, name)
        if not _is_of(part, hint):
            raise TypeError(f"`{name}` of {type(value).__name__} is {part!r}")
        if dataclasses.is_dataclass(part) and not isinstance(part, AbstractTerm):
            check_declared(part)


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as files need to know; of containers only the kind counts."""
    origin = typing.get_origin(hint)
    if hint is Any or origin is typing.ClassVar:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, each) for each in typing.get_args(hint))
    if hint in (float, int):
        kinds = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool)
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":  # no words among numbers
        return False
    return isinstance(value, origin or hint)


def types_in(value: Any) -> set[type]:
    """Return the classes of the dataclass values in a value."""
    if isinstance(value, dict):
        return types_in(list(value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(types_in, value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return set()
    return {type(value)} | types_in([getattr(value, f.name) for f in dataclasses.fields(value)])
