"""``vrmf info``, and the results that ``vrmf fit`` prints at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from vrmf.cli.common import errors_as_lines, model_argument
from vrmf.cli.screen import Screen, output_options, short
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.estimators.summary import resolved_parameters, usage
from vrmf.persistence.storage import load

#: Atoms whose usage is shown.
MOST_ATOMS = 20

NAMES = {kind.__name__: name for name, kind in ESTIMATORS.items()}

#: Fitted figures: attribute, label, and how it is put in words.
FIGURES = (
    ("objective_", "objective", "{:.6g}"),
    ("reconstruction_error_", "error", "{:.4g} of the norm of the data"),
    ("relative_stationarity_", "stationarity", "{:.3g} of the objective"),
    ("rank_", "rank", "{}"),
    ("noise_", "noise", "{:.4g}"),
    ("n_iter_", "epochs", "{}"),
    ("n_passes_", "passes", "{:.1f}"),
)


def tell_outcome(screen: Screen, estimator: AbstractFactorizer) -> None:
    """Print the results of a fit."""
    for attribute, label, words in FIGURES:
        value = getattr(estimator, attribute, None)
        known = not (value is None or (isinstance(value, float) and np.isnan(value)))
        screen.fact(attribute.rstrip("_"), value, words.format(value) if known else None, label=label)
    seconds = estimator.history_["seconds"]
    if seconds:
        screen.fact("seconds", seconds[-1], f"{seconds[-1]:.2f}")
    screen.fact("stop_reason", estimator.stop_reason_, estimator.stop_reason_, label="stopped")


@click.command(
    epilog="""
    \b
    Examples:
      vrmf info model.vrmf
      vrmf info model.vrmf --json
    """
)
@model_argument
@output_options
def info(model: Path, as_json: bool, quiet: bool, debug: bool) -> None:
    """Describe the model in the file MODEL: the data, the parameters, the quality, and why the fit stopped.

    Automatic parameters are shown with the values that were chosen.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug):
        estimator = load(model)
        if not hasattr(estimator, "components_"):
            raise ValueError(f"{model} holds a model that was not fitted. Fit it first.")
        _tell_model(screen, model, estimator)
        screen.title("Fit")
        tell_outcome(screen, estimator)
        _tell_usage(screen, estimator)
    screen.finish()


def _tell_model(screen: Screen, path: Path, estimator: Any) -> None:
    """Print the model, its data and its parameters."""
    k, d = estimator.components_.shape
    screen.title(f"Model in {path}")
    screen.fact("model", NAMES[type(estimator).__name__], NAMES[type(estimator).__name__])
    screen.fact("n_components", k, f"{k} of {short(d)} features", label="components")
    screen.fact("features", d)
    screen.fact("rows", estimator.n_samples_seen_, f"{short(estimator.n_samples_seen_)} seen")
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        shown = ", ".join(map(str, names[:3])) + (", …" if len(names) > 3 else "")
        screen.fact("feature_names", list(names), shown, label="features")
    shape = getattr(estimator, "image_shape_", None)
    if shape is not None:
        screen.fact("image_shape", list(shape), f"{shape[0]} × {shape[1]} pixels", label="images")
    screen.fact("dtype", str(estimator.components_.dtype), str(estimator.components_.dtype))
    screen.title("Parameters")
    found = resolved_parameters(estimator)
    screen.fact("parameters", {name: each.value for name, each in found.items()})
    for name, each in found.items():
        if each.is_notable:
            screen.note(f"{name:<16}{each.words}")


def _tell_usage(screen: Screen, estimator: AbstractFactorizer) -> None:
    """Print how much each atom is used, the most used first."""
    shares = usage(estimator)
    if shares is None:
        return
    order = np.argsort(-shares, kind="stable")
    names = estimator.get_feature_names_out()
    shown = order if screen.as_json else order[:MOST_ATOMS]
    screen.title("Usage of atoms, as shares of the squared codes times those of the atoms")
    screen.table("usage", ("component", "share"), [(str(names[i]), float(shares[i])) for i in shown])
    if len(shown) < len(order):
        screen.note(f"… and {len(order) - len(shown)} more")
