"""Nested parameters: options of solvers and terms by names such as ``solver__step_size``."""

from __future__ import annotations

import dataclasses
from typing import Any

from vrmf.solvers import SOLVERS, AbstractSolver
from vrmf.terms import AbstractTerm


class NestedParameters:
    """``get_params`` and ``set_params`` that reach into frozen values, and into a solver's name.

    A value is never changed: setting one of its options replaces it by a new value.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of solvers and terms if ``deep``."""
        names = self._get_param_names()  # type: ignore[attr-defined]
        params = {name: getattr(self, name) for name in names}
        if not deep:
            return params
        for name in names:
            value = _composed(name, params[name])
            for field in [] if value is None else dataclasses.fields(value):
                params[f"{name}__{field.name}"] = getattr(value, field.name)
        return params

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; ``a__b`` sets the option b of the value a."""
        known = self.get_params(deep=False)
        options: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, option = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}. "
                    f"Use one of {', '.join(sorted(known))}."
                )
            if option:
                options.setdefault(name, {})[option] = value
            else:
                setattr(self, name, value)
        for name, changes in options.items():
            value = _composed(name, getattr(self, name))
            fields = [] if value is None else [field.name for field in dataclasses.fields(value)]
            for option in changes:
                if option not in fields:
                    raise ValueError(
                        f"{option!r} is not an option of {name}={getattr(self, name)!r}. "
                        f"Use one of {', '.join(fields) or 'none: it has no options'}."
                    )
            setattr(self, name, dataclasses.replace(value, **changes))
        return self


def _composed(name: str, value: Any) -> Any:
    """Return the frozen value behind a parameter, or None if it has no options."""
    if name == "solver" and isinstance(value, str) and value in SOLVERS:
        return SOLVERS[value]()
    return value if isinstance(value, AbstractSolver | AbstractTerm) else None
