"""Codes in single precision against double, both of this library."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.coding_huber import learned
from benchmarks.coding_runs import Result, codes_model, compare, encode
from benchmarks.common import Array, cbcl, mnist, moved, rows_as_atoms, synth
from vrmf.coding import Coder
from vrmf.formulations import Formulation
from vrmf.terms import L1, Box, GroupL2, NonNegative, Ridge, UnitBall

#: A tolerance that both precisions can reach.
COMMON_CODER = Coder(tol=1e-5)


def precision() -> list[Result]:
    """Single precision against double, ours against ours."""
    results = []
    for name, X, D, model in _cases():
        X4, D4 = X.astype(np.float32), D.astype(np.float32)
        starts = encode(model, X, D, coder=COMMON_CODER), encode(model, X4, D4, coder=COMMON_CODER)
        far, far4 = moved(D), moved(D4)
        for kind, start, start4 in (("cold", None, None), ("warm", *starts)):
            contestants = {
                "float32": lambda: encode(model, X4, far4, start4, COMMON_CODER),
                "float64": lambda: encode(model, X, far, start, COMMON_CODER),
            }
            results.append(compare(f"{name} {kind}, float32", 1.6, contestants))
    return results


def _cases() -> Iterator[tuple[str, Array, Array, Formulation]]:
    """Yield rows, a dictionary and a formulation, by name."""
    digits, faces, (rows, _) = mnist(20_000), cbcl(), synth(5_000)
    lasso = codes_model(L1(1 / 28))
    for k in (49, 100, 256):
        yield f"lasso k={k}", digits[: 10**6 // k], rows_as_atoms(digits, k), lasso
    atoms = rows_as_atoms(faces, 49, by_sum=True)
    ridge = 1e-3 * float(np.mean(np.sum(atoms**2, axis=1)))
    yield "nonnegative ridge k=49", faces, atoms, codes_model(NonNegative() + Ridge(ridge))
    sevens = [list(range(i, i + 7)) for i in range(0, 49, 7)]
    yield "group lasso", digits, rows_as_atoms(digits, 49), codes_model(GroupL2(sevens, [0.3] * 7))
    D = learned(rows, 0.05)
    yield "Huber + ridge", rows, D, codes_model(Ridge(0.05), L1(0.05))
    yield "Huber + unit ball", rows, 3 * D, codes_model(UnitBall(), L1(0.05))
    box = codes_model(Box(0.0, 100.0), L1(1.0) + Box(-1000.0, 1000.0))
    yield "Huber + box", rows, np.abs(D), box
