"""What a notebook shows of a fitted model: a table and two small curves, as HTML without any library.

Colours are those of the notebook's theme, light or dark. Whatever comes from the user or the data is
escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

from vrmf.estimators.sparkline import sparkline
from vrmf.estimators.summary import Parameter, resolved_parameters
from vrmf.solvers import SOLVERS, AbstractSolver

STYLE = """<style>
.vrmf-model {font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.45; color: inherit;
  background: transparent; border: 1px solid rgba(128, 128, 128, .45); border-radius: 6px;
  padding: .7em 1em; max-width: 760px;}
.vrmf-model .name {font-weight: 600; font-size: 15px;}
.vrmf-model .quiet, .vrmf-model th, .vrmf-model summary {opacity: .75;}
.vrmf-model .body {display: flex; flex-wrap: wrap; gap: .4em 2.2em; align-items: flex-start;
  margin: .6em 0;}
.vrmf-model table {border-collapse: collapse; background: transparent; color: inherit; margin: 0;
  border: 0;}
.vrmf-model th, .vrmf-model td {text-align: left; vertical-align: top; padding: .1em 1.2em .1em 0;
  background: transparent; color: inherit; border: 0; font-weight: normal; font-size: 13px;}
.vrmf-model tr {background: transparent !important;}
.vrmf-model td {font-variant-numeric: tabular-nums; overflow-wrap: break-word;}
.vrmf-model .set {font-weight: 600;}
.vrmf-model summary {cursor: pointer;}
.vrmf-model svg {display: block; margin-bottom: .3em;}
</style>"""

#: Letters of a value, and names of features, that are shown at most.
MOST_LETTERS, MOST_NAMES = 90, 5

#: The figures that are shown: attributes and labels. What a model does not have is left out.
FIGURES = {
    "objective_": "objective",
    "reconstruction_error_": "reconstruction error",
    "relative_stationarity_": "relative stationarity",
    "rank_": "rank",
    "noise_": "noise",
    "dual_norm_": "dual norm",
    "n_iter_": "epochs",
    "n_passes_": "passes",
}


class FittedHTML:
    """The HTML that a notebook shows: scikit-learn's diagram before a fit, and its results afterwards.

    Whether there is any is decided by scikit-learn, as by ``sklearn.set_config(display="text")``.
    """

    def _repr_html_inner(self) -> str:
        if hasattr(self, "components_"):
            return fitted_html(self)
        return super()._repr_html_inner()  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def fitted_html(model: Any) -> str:
    """Return the HTML of a fitted model.

    >>> import vrmf
    >>> model = vrmf.NMF(n_components=2, random_state=0, tol=1e-3).fit(np.eye(4))
    >>> "Stationary" in fitted_html(model)
    True
    """
    return (
        f'<div class="vrmf-model">{STYLE}'
        f'<div><span class="name">{escape(type(model).__name__)}</span> '
        f'<span class="quiet">{escape(size_in_words(model))}</span></div>'
        f"<div>{escape(sentence(str(model.stop_reason_)))}</div>"
        f'<div class="body">{_table(figures_of(model))}<div>{_curves(model)}</div></div>'
        f"{_parameters(model)}</div>"
    )


def size_in_words(model: Any) -> str:
    """Say how many atoms, rows and features there are, and what the first features are called."""
    atoms, features = np.shape(model.components_)
    names = [str(name) for name in getattr(model, "feature_names_in_", [])[: MOST_NAMES + 1]]
    shown = ", ".join([*map(_short, names[:MOST_NAMES]), *["…"] * (len(names) > MOST_NAMES)])
    size = f"{_count(atoms, 'atom')}, {_count(features, 'feature')}"
    size = f"{size} ({shown})" if names else size
    return f"{size}, {_count(model.n_samples_seen_, 'row')} seen"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def figures_of(model: Any) -> Iterable[tuple[str, str]]:
    """Yield what is known of the fit: names and numbers."""
    for attribute, name in FIGURES.items():
        value = getattr(model, attribute, None)
        if isinstance(value, int | float | np.number) and math.isfinite(value):
            yield name, _number(value)
    seconds = model.history_.get("seconds", [])
    if seconds:
        yield "seconds", _number(seconds[-1])


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int | np.integer) else f"{float(value):.4g}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(lines)}</table>"


def _curves(model: Any) -> str:
    """Return the curves of the objective and of the relative stationarity, if there are any."""
    history = model.history_
    tol = float(model.tol) if isinstance(model.tol, int | float) and model.tol > 0 else None
    return "".join(
        sparkline(name, history["passes"], history[column], history["stage"], line)
        for column, name, line in (
            ("objective", "objective", None),
            ("relative_stationarity", "relative stationarity", tol),
        )
        if column in history and "stage" in history
    )


def _parameters(model: Any) -> str:
    """Return the parameters that were set or resolved, and the others folded away."""
    told: list[str] = []
    others: list[str] = []
    for name, parameter in resolved_parameters(model).items():
        resolved = resolved_words(model, name, parameter)
        is_told = not parameter.is_default or resolved is not None
        (told if is_told else others).append(_parameter(name, parameter, resolved))
    folded = f"<details><summary>{len(others)} parameters at their defaults</summary>"
    return f"<table>{''.join(told)}</table>{folded}<table>{''.join(others)}</table></details>"


def _parameter(name: str, parameter: Parameter, resolved: str | None) -> str:
    emphasis = "" if parameter.is_default else " class=set"
    found = "" if resolved is None else f"→ {escape(resolved)}"
    given = escape(value_in_words(parameter.given))
    return f"<tr><th>{escape(name)}</th><td{emphasis}>{given}</td><td>{found}</td></tr>"


def resolved_words(model: Any, name: str, parameter: Parameter) -> str | None:
    """Return the value chosen for an automatic parameter, None if it is as it was given."""
    in_use = {"n_components": len(model.components_), "solver": model.solver_}
    given, found = parameter.given, in_use.get(name, parameter.value)
    if isinstance(given, str) and given in SOLVERS and found == SOLVERS[given]():
        return None  # the name says it all
    shown = value_in_words(found)
    return None if shown == value_in_words(given) else shown


def value_in_words(value: Any) -> str:
    """Return a value in a few letters."""
    if isinstance(value, float | np.floating):
        return _number(value)
    if isinstance(value, AbstractSolver):
        return _short(_changed_options(value))
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"{type(value).__name__} of shape {tuple(shape)}"
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > MOST_NAMES:
        return f"{type(value).__name__} of {len(value)}"
    return _short(repr(value))


def _changed_options(solver: AbstractSolver) -> str:
    """Return a solver with the options that are not at their defaults."""
    options = {field.name: getattr(solver, field.name) for field in fields(solver)}  # type: ignore[arg-type]
    default = type(solver)()
    changed = [f"{name}={v!r}" for name, v in options.items() if v != getattr(default, name)]
    return f"{type(solver).__name__}({', '.join(changed)})"


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
