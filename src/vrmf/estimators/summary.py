"""Summaries of a fitted model: the values of automatic parameters, and the usage of atoms."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_norms


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model, and its value in a fit."""

    given: Any
    value: Any  #: the value in use; as given, where nothing is automatic
    is_default: bool

    @property
    def is_notable(self) -> bool:
        """Whether it was changed from its default, or was chosen automatically."""
        return not self.is_default or self.value is not self.given

    @property
    def words(self) -> str:
        """The value in use, followed by the given one if that is another."""
        value = f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        return value if self.value is self.given else f"{value} ({self.given!r})"


def resolved_parameters(model: Any) -> dict[str, Parameter]:
    """Return the parameters of a fitted model by name, with the values chosen for automatic ones.

    >>> import numpy as np, vrmf
    >>> model = vrmf.NMF(2, max_iter=2, tol=0, random_state=0).fit(np.ones((5, 3)))
    >>> found = resolved_parameters(model)
    >>> found["alpha"].given, found["alpha"].value == model.alpha_, found["tol"].is_default
    ('auto', True, False)
    """
    defaults = inspect.signature(type(model)).parameters
    found = {}
    for name, given in model.get_params(deep=False).items():
        value = given
        if name != "solver" and (isinstance(given, str) or given is None):
            value = getattr(model, f"{name}_", given)
        default = defaults[name].default
        found[name] = Parameter(given, value, given is default or (_is_plain(given) and given == default))
    return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def usage(model: Any) -> Array | None:
    """Return the share of each atom in Σ h² ‖d‖² over the rows of the fit, or None if it is not known.

    >>> import numpy as np, vrmf
    >>> model = vrmf.NMF(2, max_iter=5, random_state=0, tol=1e-2).fit(np.eye(4))
    >>> round(float(usage(model).sum()), 6)
    1.0
    """
    state = model.stream_.state
    if state.code_sums is None:
        return None
    sizes = np.diag(state.code_sums.gram).astype(np.float64) * np.square(row_norms(state.D))
    return np.asarray(sizes / (np.sum(sizes) or 1.0))
