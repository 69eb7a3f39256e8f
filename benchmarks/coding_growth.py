"""How the time of codes grows with the rows, features, atoms and the density."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.coding_runs import codes_model, encode
from benchmarks.common import Array, interleaved, mnist, moved, rows_as_atoms
from vrmf.formulations import Formulation
from vrmf.terms import L1

#: Rows, atoms, features and weights of the ℓ₁ penalty that are tried.
ROWS = (1875, 3750, 7500, 15_000, 30_000, 60_000)
ATOMS = (16, 32, 64, 128, 256, 512, 1000)
FEATURES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
WEIGHTS = np.geomspace(0.003, 3, 10)

REPEATS = 3

Curves = dict[str, list[dict[str, Any]]]


def growth() -> Curves:
    """Seconds of cold and warm codes as n, d, k and the density grow."""
    digits, rng, lasso = mnist(60_000), np.random.default_rng(0), codes_model(L1(1 / 28))
    D, more = rows_as_atoms(digits, 49), rows_as_atoms(digits, 100)
    curves: Curves = {
        "n": [{"at": n, **_measured(digits[:n], D, lasso)} for n in ROWS],
        "k": [{"at": k, **_measured(digits[:2000], rows_as_atoms(digits, k), lasso)} for k in ATOMS],
        "d": [],
        "density": [_measured(digits[:5000], more, codes_model(L1(weight))) for weight in WEIGHTS],
    }
    for d in FEATURES:
        X = rng.normal(size=(1000, 20)) @ rng.normal(size=(20, d)) + rng.normal(size=(1000, d))
        X /= d**0.5
        curves["d"].append({"at": d, **_measured(X, rows_as_atoms(X, 49), codes_model(L1(0.3)))})
    for point in curves["density"]:
        point["at"] = point["density"]
    for name, points in curves.items():
        print(name, {kind: round(slope(points, kind), 2) for kind in ("cold", "warm")}, flush=True)
    return curves


def _measured(X: Array, D: Array, model: Formulation) -> dict[str, float]:
    """Return the seconds of cold and warm codes, and the density of the codes."""
    start, far = encode(model, X, D), moved(D)
    runs = {"cold": lambda: encode(model, X, far), "warm": lambda: encode(model, X, far, start)}
    return {**interleaved(runs, REPEATS), "density": float(np.mean(start != 0))}


def slope(points: list[dict[str, Any]], kind: str) -> float:
    """Return the slope of log seconds against the log of the size, over the larger half of the sizes."""
    half = points[len(points) // 2 - 1 :]
    return float(np.polyfit(np.log([p["at"] for p in half]), np.log([p[kind] for p in half]), 1)[0])
