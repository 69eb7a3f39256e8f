"""Sparse codes of patches for dictionaries with more atoms than features, against SPAMS."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.coding_runs import Result, codes_model, cold_and_warm, encode, result
from benchmarks.common import THREADS, Array
from benchmarks.patches import SIZES, learned, nearby, patches, weight_for
from vrmf.terms import L1, AbstractRowTerm, NonNegative, Ridge

#: Nonzeros of a code on average, and how many times faster than SPAMS was wanted from zero codes.
NONZEROS = {5: 1.5, 10: 1.5, 20: 1.5, 40: 1.2}

#: How many times faster was wanted from the codes of a dictionary that differs by 1 %.
WANTED_WARM = 6.0

ROWS = 4000


def overcomplete() -> list[Result]:
    """Lasso codes of patches, cold and warm, against LARS of SPAMS."""
    results = []
    for images in ("faces", "samples"):
        for d, k in SIZES:
            X = patches(images, d, 20_000)
            D, rows = learned(X, k), X[:ROWS]
            for nonzeros, wanted in NONZEROS.items():
                weight = weight_for(rows[:400], D, nonzeros)
                name = f"{images} {d}, k={k}, {nonzeros} nonzeros"
                results += _against_spams(name, rows, D, L1(weight), wanted, {"lambda1": weight})
    return results


def overcomplete_others() -> list[Result]:
    """Nonnegative and elastic net codes of patches of faces, cold, against SPAMS."""
    results = []
    for d, k in SIZES:
        X = patches("faces", d, 20_000)
        D, rows = learned(X, k), X[:ROWS]
        for nonzeros in NONZEROS:
            weight = weight_for(rows[:400], D, nonzeros)
            cases: dict[str, tuple[AbstractRowTerm, dict[str, Any]]] = {
                "nonnegative": (L1(weight) + NonNegative(), {"lambda1": weight, "pos": True}),
                "elastic net": (L1(weight) + Ridge(0.1), {"lambda1": weight, "lambda2": 0.1}),
            }
            for kind, (code, options) in cases.items():
                name = f"{kind}, faces {d}, k={k}, {nonzeros} nonzeros of lasso"
                results.append(_against_spams(name, rows, D, code, 1.5, options)[0])
    return results


def _against_spams(
    name: str, X: Array, D: Array, code: AbstractRowTerm, wanted: float, options: dict[str, Any]
) -> list[Result]:
    """Return the comparisons from zero codes and from those of a dictionary that differs by 1 %."""
    import spams

    far, model = nearby(D), codes_model(code)
    start, rows, columns = encode(model, X, D), np.asfortranarray(X.T), np.asfortranarray(far.T)
    peer = lambda: spams.lasso(rows, D=columns, mode=2, numThreads=THREADS, **options)
    exact, ours = peer().toarray().T, encode(model, X, far)
    # SPAMS stops at k nonzeros, and nearly dependent atoms have different codes of nearly the same loss.
    # So losses are compared instead of codes.
    gap = np.mean(model.losses(X, far, ours)) / np.mean(model.losses(X, far, exact)) - 1
    facts = {"nonzeros": float(np.mean(np.count_nonzero(ours, axis=1))), "loss_over_theirs": float(gap)}
    times = cold_and_warm(lambda: encode(model, X, far), lambda: encode(model, X, far, start), peer)
    return [
        result(f"{name}, {kind}", bar, pair, **facts)
        for kind, bar, pair in zip(("cold", "warm"), (wanted, WANTED_WARM), times, strict=True)
    ]
