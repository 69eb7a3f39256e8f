"""Smooth atoms (P4): spectra learned from few counts, against NMF (P3), which is P4 without smoothness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.base import Experiment, Results, Scale, Step, plain
from experiments.structures.common import (
    assigned,
    distance,
    fit_codes,
    medians,
    records_with,
)
from experiments.tables import markdown
from vrmf.arrays import Array
from vrmf.estimators import NMF, AbstractFactorizer, SmoothDictionaryLearning

CHANNELS, SPECTRA = 200, 4
ROWS = {"fit": 60, "choose": 120, "judge": 120}
COUNTS = (100, 1000, 10000)  #: photons of a row: the fewer, the noisier
STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0)  #: smoothness over "auto"; 0 is NMF
PICTURED = 300  #: counts in the picture of atoms

#: The ridge over "auto", for both models. Atoms of flat spectra have small norms, and "auto" would shrink
#: their codes by a fifth, which is more than the differences of interest.
RIDGE_SHARE = 0.01


class Spectra(NamedTuple):
    """Rows of counts, their expectations, and the pure spectra."""

    X: Array
    clean: Array
    pure: Array


def spectra(seed: int, counts: int) -> Spectra:
    """Return counts of random mixtures of spectra with two or three bands each."""
    rng = np.random.default_rng([seed, 4])
    bands = rng.integers(2, 4, SPECTRA)
    pure = np.stack([sum(_band(rng) for _ in range(number)) for number in bands])
    pure /= pure.sum(axis=1, keepdims=True)
    clean = counts * rng.dirichlet(np.full(SPECTRA, 0.3), sum(ROWS.values())) @ pure
    return Spectra(rng.poisson(clean).astype(float), clean, pure)


def _band(rng: np.random.Generator) -> Array:
    height, place, width = rng.uniform(0.4, 1), rng.uniform(15, CHANNELS - 15), rng.uniform(4, 14)
    return np.asarray(height * np.exp(-0.5 * ((np.arange(CHANNELS) - place) / width) ** 2))


def model_of(strength: float, X: Array, seed: int) -> AbstractFactorizer:
    """Return a model with a multiple of the automatic smoothness, NMF for 0."""
    common: dict[str, Any] = {"alpha": RIDGE_SHARE / CHANNELS, "random_state": seed, "tol": 1e-3}
    if strength == 0:
        return NMF(SPECTRA, **common)
    auto = 0.1 * float(np.mean(X.sum(axis=1) ** 2)) / SPECTRA
    return SmoothDictionaryLearning(SPECTRA, smoothness=strength * auto, laplacian="chain", **common)


def measure(counts: int, strength: float, seed: int, results: Results) -> dict[str, Any]:
    """Fit one model; judge its atoms by the pure spectra and its fits by new rows."""
    data = spectra(seed, counts)
    choose, judge = ROWS["fit"], ROWS["fit"] + ROWS["choose"]
    model = model_of(strength, data.X[:choose], seed)
    fit_codes(model, data.X[:choose])
    fits = model.inverse_transform(model.transform(data.X[choose:]))
    atoms = matched(model.components_, data.pure)
    record = {
        "counts": counts,
        "strength": strength,
        "seed": seed,
        "chosen by": distance(fits[: ROWS["choose"]], data.X[choose:judge]),
        "error": distance(fits[ROWS["choose"] :], data.clean[judge:]),
        "atoms": float(np.median([distance(a, b) for a, b in zip(atoms, data.pure, strict=True)])),
    }
    return plain(record, 4)


def matched(D: Array, pure: Array) -> Array:
    """Return atoms in the order of the pure spectra that they resemble."""
    apart = np.linalg.norm(pure[:, None] - D[None], axis=2)
    return D[assigned(-apart)]


def chosen(results: Results, counts: int) -> float:
    """Return the smoothness (not 0) whose fits to the noisy rows kept for choosing are best."""
    choices = medians(records_with(results, "chosen by", counts=counts), "strength", "chosen by")
    return float(min((s for s in choices if s > 0), key=choices.__getitem__))


def picture(results: Results) -> dict[str, Any]:
    """Return pure, rough and smooth spectra; smoothness is that chosen for the nearest counts."""
    data = spectra(0, PICTURED)
    known = {record["counts"] for record in records_with(results, "atoms")}
    strength = chosen(results, min(known, key=lambda counts: abs(np.log(counts / PICTURED))))
    X = data.X[: ROWS["fit"]]
    curves = {"pure": data.pure}
    for name, value in (("NMF", 0.0), ("smooth", strength)):
        model = model_of(value, X, 0)
        fit_codes(model, X)
        curves[name] = matched(model.components_, data.pure)
    return {"curves": plain(curves, 4), "row": plain(X[0]), "picture strength": strength}


def steps(scale: Scale) -> Sequence[Step]:
    """Return a step for each noise, smoothness and seed, and one for the picture."""
    counts, seeds, strengths = (COUNTS[:2], 1, STRENGTHS[:4]) if scale.quick else (COUNTS, 3, STRENGTHS)
    fits = [
        Step(
            f"{photons} {strength} {seed}",
            partial(measure, photons, strength, seed),
            seconds=0.5 + strength / 30,
        )
        for photons in counts
        for seed in range(seeds)
        for strength in strengths
    ]
    return [*fits, Step("curves", picture, seconds=2)]


def draw(results: Results) -> dict[str, Figure]:
    """Draw the atoms over the pure spectra, and errors against smoothness at each level of noise."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False)[:, 0]
    strength = results["curves"]["picture strength"]
    top.suptitle(f"Spectra from {ROWS['fit']} rows of {PICTURED} counts; smoothness {strength:g} × auto")
    curves = {name: np.array(lines) for name, lines in results["curves"]["curves"].items()}
    for place, axes in enumerate(top.subplots(1, SPECTRA, sharey=True)):
        axes.plot(curves["NMF"][place], color="C1", linewidth=0.7, label="P3, NMF")
        axes.plot(curves["smooth"][place], color="C0", linewidth=1.6, label="P4, smooth")
        axes.plot(curves["pure"][place], color="black", linewidth=1.2, linestyle="--", label="pure")
        axes.set(xlabel="channel", yticks=[])
    top.axes[0].legend(fontsize="small")
    labels = {"atoms": "distance of atoms to pure spectra", "error": "distance of fits to clean new rows"}
    for axes, (quantity, label) in zip(bottom.subplots(1, 2), labels.items(), strict=True):
        _draw_against_smoothness(axes, results, quantity)
        axes.set(xlabel="smoothness / auto (0: NMF)", ylabel=label)
    return {"smooth": figure}


def _draw_against_smoothness(axes: Any, results: Results, quantity: str) -> None:
    for colour, counts in enumerate(sorted({r["counts"] for r in records_with(results, "atoms")})):
        values = medians(records_with(results, "atoms", counts=counts), "strength", quantity)
        places = list(range(len(values)))
        axes.plot(places, list(values.values()), marker="o", color=f"C{colour}", label=f"{counts} counts")
        best = chosen(results, counts)
        ring = {"markersize": 12, "fillstyle": "none", "color": f"C{colour}"}
        axes.plot(list(values).index(best), values[best], "o", **ring)
        axes.set_xticks(places, [f"{strength:g}" for strength in values])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def table(results: Results) -> str:
    """Return both models' numbers at each level of noise."""
    lines = []
    for counts in sorted({record["counts"] for record in records_with(results, "atoms")}):
        records = records_with(results, "atoms", counts=counts)
        strength = chosen(results, counts)
        atoms, error = (medians(records, "strength", quantity) for quantity in ("atoms", "error"))
        lines.append([counts, atoms[0.0], atoms[strength], error[0.0], error[strength], f"{strength:g}"])
    header = ["counts", "atoms: NMF", "atoms: smooth", "rows: NMF", "rows: smooth", "smoothness / auto"]
    return (
        f"Distances of atoms to {SPECTRA} pure spectra and of fits to clean new rows, by the counts of a "
        f"row; medians over seeds, {ROWS['fit']} rows to learn from. Smoothness is the one of the grid "
        f"(ringed in the figure) that fits other *noisy* rows best.\n\n{markdown(header, lines)}\n"
    )


EXPERIMENT = Experiment(
    "smooth",
    "Smooth atoms (P4) are nearer to the truth than NMF's (P3) when the data are noisy.",
    steps,
    draw,
    table,
)
