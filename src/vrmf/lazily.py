"""Properties that are computed once, without a lock.

``functools.cached_property`` holds a lock for all instances while it computes one (in Python 3.11): threads
wait for each other, and a process that is forked meanwhile waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class computed_once(Generic[Owner, Value]):
    """A property of values that never change; threads that ask at the same time may compute it twice.

    >>> class Circle:
    ...     radius = 1.0
    ...
    ...     @computed_once
    ...     def area(self):
    ...         print("computing")
    ...         return 3.14 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> computed_once[Owner, Value]: ...

    @overload
    def __get__(self, instance: Owner, owner: type[Any]) -> Value: ...

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        if instance is None:
            return self
        value = self.compute(instance)
        vars(instance)[self.name] = value  # which is found first from now on
        return value
