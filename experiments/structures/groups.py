"""Groups of atoms that are active together (P2): codes with the right groups, against plain sparse codes.

Rows are made of two of ten groups of four atoms, with noise. Plain dictionary learning has no groups. Its
atoms are assigned to the true groups in the best way, four to each.
"""

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
from vrmf.estimators import AbstractFactorizer, DictionaryLearning, GroupDictionaryLearning

GROUPS, SIZE, FEATURES, ON, NOISE = 10, 4, 24, 2, 0.2
ATOMS = GROUPS * SIZE
ROWS = 600  #: to learn from; as many more to choose and to judge
MODELS = {"plain": DictionaryLearning, "groups": GroupDictionaryLearning}
STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)  #: alpha over the root mean square of the entries, for both
PICTURED = 40  #: rows in the picture of codes


class GroupData(NamedTuple):
    """Rows of few groups: as seen, without noise, their groups, and the atoms that made them."""

    X: Array
    clean: Array
    on: Array
    atoms: Array


def group_data(seed: int, n: int) -> GroupData:
    """Return rows made of ``ON`` groups each, with noise of ``NOISE`` times their size."""
    rng = np.random.default_rng([seed, 2])
    atoms = rng.standard_normal((ATOMS, FEATURES))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    on = rng.random((n, GROUPS)).argsort(axis=1) < ON
    clean = (rng.standard_normal((n, ATOMS)) * np.repeat(on, SIZE, axis=1)) @ atoms
    noise = NOISE * np.sqrt(np.mean(clean**2)) * rng.standard_normal(clean.shape)
    return GroupData(clean + noise, clean, on, atoms)


def model_of(name: str, strength: float, X: Array, seed: int) -> AbstractFactorizer:
    """Return a model whose alpha is a multiple of the root mean square of the entries."""
    options: dict[str, Any] = {"alpha": strength * float(np.sqrt(np.mean(X**2)))}
    if name == "groups":
        options["groups"] = np.arange(ATOMS).reshape(GROUPS, SIZE).tolist()
    return MODELS[name](ATOMS, random_state=seed, tol=1e-5, **options)


def owners(name: str, D: Array, atoms: Array) -> Array:
    """Return the true group of each learned atom, by how much of it lies in the group's span."""
    bases = [np.linalg.qr(group.T)[0] for group in atoms.reshape(GROUPS, SIZE, -1)]
    size = np.maximum(np.sum(D**2, axis=1), 1e-12)
    inside = np.stack([np.sum((D @ basis) ** 2, axis=1) / size for basis in bases], axis=1)
    if name == "groups":  # all atoms of a learned group have the same owner
        return np.repeat(assigned(inside.reshape(GROUPS, SIZE, GROUPS).mean(axis=1)), SIZE)
    return assigned(np.repeat(inside, SIZE, axis=1)) // SIZE


def refitted(H: Array, D: Array, X: Array) -> Array:
    """Return least-squares fits to rows on the active atoms, free of the penalty's shrinkage."""
    fits = np.zeros_like(X)
    for fit, active, row in zip(fits, H != 0, X, strict=True):
        fit[:] = row @ np.linalg.pinv(D[active]) @ D[active]
    return fits


def group_scores(H: Array, owner: Array, on: Array) -> dict[str, float]:
    """Return F1 of the groups with any active atom, and how often the two strongest are right."""
    size = np.stack([np.linalg.norm(H[:, owner == group], axis=1) for group in range(GROUPS)], axis=1)
    found = size > 0
    strongest = (-size).argsort(axis=1).argsort(axis=1) < ON
    return {
        "F1": float(2 * np.sum(found & on) / (found.sum() + on.sum())),
        "strongest": float(np.sum(strongest & on) / on.sum()),
    }


def measure(name: str, strength: float, seed: int, rows: int, results: Results) -> dict[str, Any]:
    """Fit one model to half of the rows; choose on a quarter and judge on the last one."""
    data = group_data(seed, 2 * rows)
    model = model_of(name, strength, data.X, seed)
    fit_codes(model, data.X[:rows])
    D, H = model.components_, model.transform(data.X[rows:])
    half = rows // 2
    fits, clean = refitted(H, D, data.X[rows:]), data.clean[rows:]
    record = {
        "model": name,
        "strength": strength,
        "seed": seed,
        "chosen by": distance(fits[:half], clean[:half]),
        "error": distance(fits[half:], clean[half:]),
        "active": float(np.mean(np.sum(H[half:] != 0, axis=1))),
        **group_scores(H[half:], owners(name, D, data.atoms), data.on[rows + half :]),
    }
    return plain(record, 4)


def chosen(results: Results, name: str) -> float:
    """Return the strength of smallest median error on the rows kept for choosing."""
    choices = medians(records_with(results, "chosen by", model=name), "strength", "chosen by")
    return float(min(choices, key=choices.__getitem__))


def picture(rows: int, results: Results) -> dict[str, Any]:
    """Return codes of new rows by both models at the chosen strengths, atoms in order of true groups."""
    data = group_data(0, 2 * rows)
    seen = slice(rows, rows + PICTURED)
    order = np.lexsort(data.on[seen].T[::-1])[::-1]
    codes = {"true": np.repeat(data.on[seen], SIZE, axis=1)[order].astype(float)}
    for name in MODELS:
        model = model_of(name, chosen(results, name), data.X, 0)
        fit_codes(model, data.X[:rows])
        H = np.abs(model.transform(data.X[seen]))
        sorted_atoms = np.argsort(owners(name, model.components_, data.atoms), kind="stable")
        codes[name] = H[order][:, sorted_atoms]
    return {"codes": plain(codes, 3)}


def steps(scale: Scale) -> Sequence[Step]:
    """Return a step for each model, strength and seed, and one for the picture."""
    seeds, strengths = (1, STRENGTHS[1:4:2]) if scale.quick else (3, STRENGTHS)
    fits = [
        Step(f"{name} {strength} {seed}", partial(measure, name, strength, seed, ROWS), seconds=2)
        for seed in range(seeds)
        for name in MODELS
        for strength in strengths
    ]
    return [*fits, Step("codes", partial(picture, ROWS), seconds=4)]


def draw(results: Results) -> dict[str, Figure]:
    """Draw codes with the true groups marked, and error and F1 against the number of active atoms."""
    figure = Figure(figsize=(9, 6.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.15, 1])[:, 0]
    names = {"true": "groups that made the row", "plain": "P1, plain: |H|", "groups": "P2, groups: |H|"}
    for axes, (name, title) in zip(top.subplots(1, 3), names.items(), strict=True):
        codes = np.array(results["codes"]["codes"][name])
        axes.imshow(codes, cmap="gray_r", aspect="auto", vmax=np.quantile(codes, 0.98) or 1)
        for edge in range(1, GROUPS):
            axes.axvline(edge * SIZE - 0.5, color="C0", linewidth=0.5)
        axes.set(title=title, xlabel="atoms by true group", xticks=[], yticks=[])
    quantities = {
        "error": "error on new rows, refitted",
        "F1": "F1 of active groups",
        "strongest": "true groups among the strongest",
    }
    for axes, (quantity, label) in zip(bottom.subplots(1, 3), quantities.items(), strict=True):
        for name in MODELS:
            records = records_with(results, "error", model=name)
            active = medians(records, "strength", "active")
            values = medians(records, "strength", quantity)
            axes.plot(list(active.values()), list(values.values()), marker="o", label=name)
        axes.axvline(ON * SIZE, color="gray", linewidth=0.8, linestyle=":")
        axes.set(xlabel="active atoms of a row", ylabel=label)
        axes.grid(alpha=0.3)
    bottom.axes[0].legend()
    return {"groups": figure}


def table(results: Results) -> str:
    """Return the numbers at the strength that is best on rows kept for choosing."""
    lines = []
    for name in MODELS:
        strength = chosen(results, name)
        records = records_with(results, "error", model=name)
        told = [medians(records, "strength", q)[strength] for q in ("active", "error", "F1", "strongest")]
        lines.append([name, strength, *told])
    header = ["codes", "alpha / entry", "active atoms", "error, refitted", "F1 of groups", "strongest"]
    return (
        f"Rows of {ON} of {GROUPS} groups of {SIZE} atoms ({ON * SIZE} atoms), {NOISE:.0%} noise; medians "
        "over seeds. Both alphas have the smallest error on other clean rows, after a refit on the "
        "active atoms. The plain model's atoms are assigned to the true groups by an oracle. *Strongest*: "
        f"the share of true groups among the {ON} strongest of a row.\n\n{markdown(header, lines)}\n"
    )


EXPERIMENT = Experiment(
    "groups",
    "Group sparse codes (P2) find the groups that made a row; plain sparse codes (P1) spread over others.",
    steps,
    draw,
    table,
)
