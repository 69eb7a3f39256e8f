"""A suggestion: a value that prints as text, and makes the estimator.

>>> suggestion = Suggestion("nmf", 5, {}, ("No entry is negative.",), (), (), findings=None)
>>> suggestion.estimator(random_state=0)
NMF(n_components=5, random_state=0)
>>> print(suggestion)
nmf with 5 components
<BLANKLINE>
Why:
- No entry is negative.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.suggesting.findings import Findings

#: Characters in a line of text.
WIDTH = 88


@dataclass(frozen=True)
class Suggestion:
    """A model for some data, and why.

    Attributes
    ----------
    model : str
        The name of the model on the command line, a key of ``vrmf.estimators.ESTIMATORS``.
    n_components : int or None
        None if the model finds the number itself, as RobustPCA does.
    parameters : dict
        Further parameters that differ from their defaults. Weights that are not named are ``"auto"``.
    reasons : tuple of str
        Why this model, this number of components and these weights.
    doubts : tuple of str
        What is uncertain, and what to do about it.
    alternatives : tuple of (str, str)
        Other models by name, and when they are the better choice.
    findings : Findings
        The measured facts.
    """

    model: str
    n_components: int | None
    parameters: dict[str, Any]
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    alternatives: tuple[tuple[str, str], ...]
    findings: Findings

    def estimator(self, **overrides: Any) -> AbstractFactorizer:
        """Return the estimator, not fitted; parameters that are given replace those of the suggestion."""
        return ESTIMATORS[self.model](**self._arguments | overrides)

    @property
    def _arguments(self) -> dict[str, Any]:
        known = {} if self.n_components is None else {"n_components": self.n_components}
        return known | self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold."""
        values = asdict(self)
        values["alternatives"] = [{"model": name, "why": why} for name, why in self.alternatives]
        values["reasons"], values["doubts"] = list(self.reasons), list(self.doubts)
        values["parameters"] = _plain(values["parameters"])
        values["findings"] = _plain(values["findings"])
        return values

    def __str__(self) -> str:
        alternatives = [f"{name}: {why}" for name, why in self.alternatives]
        parts = [
            self._title(),
            *_section("Why", self.reasons),
            *_section("Not sure", self.doubts),
            *_section("Other models", alternatives),
        ]
        return "\n".join(parts)

    def _title(self) -> str:
        count = self.n_components
        told = "" if count is None else f" with {count} component{'s' if count != 1 else ''}"
        others = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.model}{told}{f', {others}' if others else ''}"


def _section(title: str, sentences: Iterable[str]) -> list[str]:
    """Return the lines of a heading and a list, or none if the list is empty."""
    wrap = textwrap.TextWrapper(WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    lines = [line for sentence in sentences for line in wrap.wrap(sentence)]
    return ["", f"{title}:", *lines] if lines else []


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with lists in place of tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
