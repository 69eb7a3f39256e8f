"""What the prox of a dictionary and the codes of a row cost, of which the paper says O(dk)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.base import Experiment, Results, Scale, Step
from experiments.tables import markdown
from experiments.theory.fits import fitted_slope
from experiments.theory.instances import NAMES
from vrmf import formulations
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.sources import single_threaded_blas
from vrmf.terms import chain_laplacian

#: The value of one size while the other varies.
FIXED_ATOMS, FIXED_FEATURES = 20, 400

#: Rows whose codes are computed together, and rows from which ψ counts its n.
N_ROWS, N_SAMPLES = 32, 1000

CODER = Coder(tol=1e-6)

#: Calls are repeated for these seconds in one measurement, since clocks are coarse.
SECONDS = 0.01

#: Formulations whose proxes and codes are timed. P2 has the ball of P1, or no set to project on. P4 has the
#: codes of P3, and P7 those of P5.
TIMED = {
    "prox": ("P1", "P3", "P4", "P5", "P6", "P7", "P8"),
    "codes": ("P1", "P2", "P3", "P5", "P6", "P8"),
}


def sized(name: str, d: int, k: int) -> Formulation:
    """Return a formulation for d features and k atoms, with the paper's weights 1/√d."""
    weight, rng = d**-0.5, np.random.default_rng(2)
    pairs = [[column, column + 1] for column in range(0, k, 2)]
    makers: dict[str, Callable[[], Formulation]] = {
        "P1": lambda: formulations.dictionary_learning(weight),
        "P2": lambda: formulations.group_dictionary_learning(pairs, [weight] * len(pairs)),
        "P3": lambda: formulations.nonnegative(weight),
        "P4": lambda: formulations.smooth_dictionary_learning(weight, 1.0, chain_laplacian(d)),
        "P5": lambda: formulations.robust_pca(weight, weight, N_SAMPLES),
        "P6": lambda: formulations.max_norm_decomposition(weight, weight, N_SAMPLES),
        "P7": lambda: formulations.low_rank_representation(
            weight, weight, formulations.basis_penalty(rng.random((20, d)), 1.0, N_SAMPLES)
        ),
        "P8": lambda: formulations.robust_nmf(weight, max_code=10 * d**0.5, max_outlier=1.0),
    }
    return makers[name]()


def generated(formulation: Formulation, d: int, k: int) -> tuple[Array, Array]:
    """Return rows of sparse factors, with outliers if the formulation has them, and a dictionary."""
    rng = np.random.default_rng(3)
    factors = rng.gamma(0.3, size=(k, d))
    X = rng.gamma(0.3, size=(N_ROWS, k)) @ factors
    X /= np.mean(X)
    if formulation.has_outliers:
        X += np.where(rng.random(X.shape) < 0.1, rng.uniform(-1, 1, size=X.shape), 0)
    return X, atoms_from_rows(formulation, factors + 0.1 * rng.random(factors.shape), norm=d**0.5)


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the time of a call, the median of some measurements, after a call that fills caches.

    This is processor time, which other programs on the machine do not change.
    """
    times = []
    with single_threaded_blas():
        work()
        began = time.perf_counter()
        work()
        calls = math.ceil(SECONDS / (time.perf_counter() - began))
        for _ in range(repeats):
            began = time.process_time()
            for _ in range(calls):
                work()
            times.append((time.process_time() - began) / calls)
    return float(np.median(times))


def prox_seconds(name: str, d: int, k: int, repeats: int) -> float:
    """Return the time of a prox of ψ near a dictionary."""
    formulation = sized(name, d, k)
    D = generated(formulation, d, k)[1]
    moved = D * (1 + 0.3 * np.random.default_rng(4).standard_normal(D.shape))
    return median_seconds(lambda: formulation.dictionary.prox(moved, 0.1), repeats)


def codes_seconds(name: str, d: int, k: int, repeats: int) -> float:
    """Return the time of the codes of one row, among N_ROWS; the Gram matrix of D is part of it."""
    formulation = sized(name, d, k)
    X, D = generated(formulation, d, k)
    return median_seconds(lambda: formulation.encode(X, Atoms(D), CODER), repeats) / N_ROWS


def cost(kind: str, name: str, quick: bool, results: Results) -> dict[str, list[float]]:
    """Return the times of a prox or of codes against d and against k."""
    timed = prox_seconds if kind == "prox" else codes_seconds
    widths = [2**power for power in (range(7, 12) if quick else range(6, 14))]
    counts = [6 * 2**power for power in (range(6) if quick else range(7))]
    repeats = 3 if quick else 5
    return {
        "d": widths,
        "k": counts,
        "over d": [timed(name, d, FIXED_ATOMS, repeats) for d in widths],
        "over k": [timed(name, FIXED_FEATURES, k, repeats) for k in counts],
    }


def cost_steps(scale: Scale) -> list[Step]:
    """One step for each prox, and for the codes of each formulation."""
    quick = scale.quick
    return [
        Step(f"{kind} {name}", partial(cost, kind, name, quick), 0.7 if quick else 2.5)
        for kind, names in TIMED.items()
        for name in names
    ]


def draw_cost(results: Results) -> dict[str, Figure]:
    """Draw times against d and k, with a line of slope 1 in each panel."""
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    titles = {"prox": "prox of the dictionary", "codes": "codes of a row"}
    for kind, line in zip(TIMED, figure.subplots(2, 2, sharey="row"), strict=True):
        for size, axes in zip("dk", line, strict=True):
            for name in TIMED[kind]:
                found = results[f"{kind} {name}"]
                color = f"C{int(name[1]) - 1}"
                axes.loglog(found[size], found[f"over {size}"], "o-", ms=3, color=color, label=name)
            sizes = np.array(found[size])
            least = min(results[f"{kind} {name}"][f"over {size}"][-1] for name in TIMED[kind])
            axes.loglog(sizes, least * sizes / sizes[-1], "k:", lw=1, label="slope 1")
            fixed = f"k = {FIXED_ATOMS}" if size == "d" else f"d = {FIXED_FEATURES}"
            axes.set(xlabel="features d" if size == "d" else "atoms k", title=f"{titles[kind]}, {fixed}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.grid(alpha=0.3)
        line[0].set_ylabel("seconds")
        line[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return {"cost": figure}


def cost_table(results: Results) -> str:
    """Return the exponents of the times over the upper half of the sizes."""
    lines = []
    for kind, names in TIMED.items():
        for name in names:
            found = results[f"{kind} {name}"]
            exponents = [fitted_slope(found[size][-4:], found[f"over {size}"][-4:]) for size in "dk"]
            times = [1e6 * found[f"over {size}"][-1] for size in "dk"]
            lines.append([kind, NAMES[name], *(f"{p:.2f}" for p in exponents), *times])
    d, k = found["d"][-1], found["k"][-1]
    header = ["", "", "exponent in d", "exponent in k", f"µs at d = {d}", f"µs at k = {k}"]
    return (
        f"{markdown(header, lines)}\n\nExponents are fitted to the four largest sizes; below them the cost "
        "of a call hides that of the arithmetic. Times are of the processor, on one thread. Factorisations "
        f"that a term keeps are made before the clock starts. Codes are those of one row among {N_ROWS} at "
        f"tolerance {CODER.tol:g}, so the number of iterations is part of the time."
    )


COST = Experiment(
    "cost",
    "The paper counts O(dk) operations for the prox of a dictionary and for the codes of a row.",
    cost_steps,
    draw_cost,
    cost_table,
)
