"""The checkpoint of a fit: its file, and the fingerprint that identifies the fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.persistence.atomic import check_place, remove_leftovers
from vrmf.persistence.checkpoint import Checkpoint
from vrmf.persistence.declared import types_in
from vrmf.persistence.fingerprint import data_fingerprint, described
from vrmf.solvers import AbstractSolver
from vrmf.sources import AbstractSource

#: Parameters that do not change the iterates, so that a fit may go on with others.
FREE = (
    "n_jobs",
    "verbose",
    "max_iter",
    "max_time",
    "tol",
    "checkpoint",
    "checkpoint_every",
)


def checkpoint_of(
    model: Any, source: AbstractSource, solver: AbstractSolver, warm: Array | None
) -> Checkpoint:
    """Return the checkpoint of a fit; raise if no file can be written there.

    ``warm`` is the dictionary of the last fit, if this one starts from it.
    """
    path = Path(model.checkpoint)
    check_place("checkpoint", path)
    remove_leftovers(path)
    params = model.get_params(deep=False)
    fingerprint = {
        "parameters": _parameters(model, solver, warm),
        "data": data_fingerprint(source),
    }
    kinds = types_in([solver, *params.values()])
    return Checkpoint(path, float(model.checkpoint_every), fingerprint, tuple(kinds))


def _parameters(model: Any, solver: AbstractSolver, warm: Array | None) -> dict[str, Any]:
    """Return the fingerprints of all parameters on which the iterates depend."""
    params = {name: value for name, value in model.get_params(deep=True).items() if name not in FREE}
    parents = {name.partition("__")[0] for name in params if "__" in name}
    told = {"estimator": described(type(model).__name__, type(model).__name__)}
    for name, value in params.items():
        if name == "solver":
            # By name or by value, it is the same solver.
            told[name] = described(type(solver).__name__, type(solver).__name__)
        elif name == "random_state":
            told[name] = _random_state(value)
        elif name in parents:  # its options follow, each by its own name
            told[name] = described(type(value).__name__, type(value).__name__)
        else:
            told[name] = described(value, name=name)
    told["the starting dictionary"] = described(warm, None if warm is not None else "not given")
    return told


def _random_state(value: Any) -> dict[str, Any]:
    """Return the fingerprint of a seed, or of the kind of what seeds are drawn from."""
    if isinstance(value, int | np.integer):
        return described(int(value))
    kind = "None" if value is None else f"a {type(value).__name__}"
    return described(kind, kind)
