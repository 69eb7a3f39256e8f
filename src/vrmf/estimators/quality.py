"""How well the codes of some rows are solved, and the warning where some are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrmf.callers import level_of_caller
from vrmf.coding import Coder, Codes
from vrmf.stats import Stats

T = TypeVar("T")


@dataclass(frozen=True)
class CodeQuality:
    """How many codes there are, how many stopped short of the tolerance, and the largest error."""

    count: int = 0
    unfinished: int = 0
    error: float = 0.0  #: the largest relative error of a code

    @classmethod
    def of(cls, codes: Codes) -> CodeQuality:
        """Return the quality of some codes."""
        unfinished = int(np.sum(~codes.finished))
        return cls(len(codes.H), unfinished, float(np.max(codes.error, initial=0.0)))

    @classmethod
    def of_stats(cls, stats: Stats) -> CodeQuality:
        """Return the quality of the codes in the sums over some rows."""
        return cls(stats.count, stats.unfinished, stats.code_error)

    def __add__(self, other: CodeQuality) -> CodeQuality:
        return CodeQuality(
            self.count + other.count,
            self.unfinished + other.unfinished,
            max(self.error, other.error),
        )

    def warn(self, coder: Coder, dtype: np.dtype[Any]) -> None:
        """Warn of codes that the coder has not finished, if there are any."""
        told = self.sentence(coder, dtype)
        if told is not None:
            warnings.warn(told, ConvergenceWarning, stacklevel=level_of_caller())

    def sentence(self, coder: Coder, dtype: np.dtype[Any]) -> str | None:
        """Return what is to be said of codes that the coder has not finished, None if there are none."""
        if not self.unfinished:
            return None
        return (
            f"{self.unfinished} of {self.count} codes stopped at a relative error of up to "
            f"{self.error:.1e}, above the tolerance {coder.reachable_tol(dtype):.1e}. A ridge on codes "
            "helps."
        )


def with_warning(
    results: Iterable[tuple[T, CodeQuality]], coder: Coder, dtype: np.dtype[Any]
) -> Iterator[T]:
    """Yield the results without the quality of their codes, and warn of unfinished ones at the end."""
    quality = CodeQuality()
    for result, part in results:
        quality += part
        yield result
    quality.warn(coder, dtype)
