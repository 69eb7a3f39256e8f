"""Low-rank representation (P7): clustering rows of several subspaces by their codes, despite outliers.

Codes of rows of independent subspaces, made orthonormal, have inner products of 0 between subspaces; their
fourth powers, of rows scaled to 1, are the affinity for spectral clustering. What P7 adds to robust PCA is
its basis: with a small library of clean rows, here ten of each subspace, the penalty in their directions is
small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import confusion_matrix

from experiments.base import Experiment, Results, Scale, Step, plain
from experiments.structures.common import assigned, fit_codes, medians, records_with
from experiments.tables import markdown
from vrmf.arrays import Array
from vrmf.datasets import fetch_yaleb
from vrmf.estimators import AbstractFactorizer, LowRankRepresentation, RobustPCA

CLASSES, DIMENSIONS, FEATURES, EACH, LIBRARY = 5, 4, 60, 40, 10
SHARES = (0.1, 0.2, 0.3, 0.4)
PICTURED = 0.3  #: share of outliers whose affinities are drawn
FACES, FACE_DIMENSIONS = 5, 9  #: subjects, and the rank of one subject's face under all lights


class Rows(NamedTuple):
    """Rows to cluster, a library of clean rows of the same classes (or none), and the classes."""

    X: Array
    library: Array
    classes: Array
    rank: int


def union_of_subspaces(seed: int, share: float) -> Rows:
    """Return rows of random subspaces, a share of their entries replaced by gross ones."""
    rng = np.random.default_rng([seed, 7])
    bases = [np.linalg.qr(rng.standard_normal((FEATURES, DIMENSIONS)))[0].T for _ in range(CLASSES)]
    clean, library = (
        np.concatenate([rng.standard_normal((number, DIMENSIONS)) @ basis for basis in bases])
        for number in (EACH, LIBRARY)
    )
    noise = 0.05 * clean.std()
    X = clean + noise * rng.standard_normal(clean.shape)
    X = np.where(rng.random(X.shape) < share, rng.uniform(-3, 3, X.shape), X)
    library = library + noise * rng.standard_normal(library.shape)
    return Rows(X, library, np.repeat(np.arange(CLASSES), EACH), CLASSES * DIMENSIONS)


def faces() -> Rows:
    """Return Extended Yale B faces of a few subjects at half their width and height."""
    images = fetch_yaleb()
    assert images.labels is not None
    few = np.isin(images.labels, np.unique(images.labels)[:FACES])
    X = images.X[few].reshape(-1, *images.image_shape)[:, ::2, ::2].reshape(int(few.sum()), -1)
    return Rows(X, X[:0], images.labels[few], FACES * FACE_DIMENSIONS)


def principal_codes(data: Rows, seed: int) -> Array:
    """Return the left singular vectors of the rows: PCA without centring."""
    return np.linalg.svd(data.X, full_matrices=False)[0][:, : data.rank]


def robust_codes(data: Rows, seed: int, library: bool = False) -> Array:
    """Return codes of robust PCA; with the library, its rows are learned from as well."""
    X = np.concatenate([data.X, data.library]) if library else data.X
    return fit_codes(_model(RobustPCA, data, seed), X)[: len(data.X)]


def representation_codes(data: Rows, seed: int, library: bool = False) -> Array:
    """Return codes of the low-rank representation over the library, or over rows of the data."""
    return fit_codes(
        _model(LowRankRepresentation, data, seed, basis=data.library if library else None), data.X
    )


def _model(
    kind: Callable[..., AbstractFactorizer], data: Rows, seed: int, **options: Any
) -> AbstractFactorizer:
    return kind(data.rank, random_state=seed, tol=1e-5, **options)


#: How rows are coded, by name; all weights are "auto".
CODES: dict[str, Callable[[Rows, int], Array]] = {
    "PCA": principal_codes,
    "robust PCA": robust_codes,
    "P7, basis from the data": representation_codes,
}
CODES_WITH_LIBRARY: dict[str, Callable[[Rows, int], Array]] = {
    "robust PCA, library as rows": partial(robust_codes, library=True),
    "P7, library as basis": partial(representation_codes, library=True),
}


def affinity(H: Array) -> Array:
    """Return fourth powers of the cosines between rows of the orthonormalised codes."""
    U, sizes, _ = np.linalg.svd(H, full_matrices=False)
    U = U[:, sizes > 1e-6 * sizes[0]]
    U = U / np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1e-12)
    return np.asarray((U @ U.T) ** 4)


def accuracy(found: Array, classes: Array) -> float:
    """Return the share of rows in the right class, under the best naming of the clusters."""
    _, numbers = np.unique(classes, return_inverse=True)
    table = confusion_matrix(numbers, found)
    return float(table[np.arange(len(table)), assigned(table)].sum() / len(found))


def clustered(A: Array, data: Rows) -> float:
    """Return the accuracy of spectral clustering by an affinity."""
    number = len(np.unique(data.classes))
    found = SpectralClustering(number, affinity="precomputed", random_state=0).fit_predict(A)
    return accuracy(found, data.classes)


def by_means(data: Rows) -> float:
    """Return the accuracy of k-means on the rows themselves."""
    means = KMeans(len(np.unique(data.classes)), n_init=10, random_state=0)
    return accuracy(means.fit_predict(data.X), data.classes)


def measure(name: str, share: float, seed: int, results: Results) -> dict[str, Any]:
    """Cluster rows of subspaces; the affinity is stored where it is drawn."""
    data = union_of_subspaces(seed, share)
    record: dict[str, Any] = {"method": name, "share": share, "seed": seed}
    if name == "k-means":
        return plain({**record, "accuracy": by_means(data)}, 4)
    A = affinity((CODES | CODES_WITH_LIBRARY)[name](data, seed))
    record["accuracy"] = clustered(A, data)
    if seed == 0 and share == PICTURED:
        record["affinity"] = np.round(A[::4, ::4], 2)
    return plain(record, 4)


def measure_faces(results: Results) -> dict[str, Any]:
    """Cluster subjects of Yale B, if the images are available."""
    try:
        data = faces()
    except OSError as error:
        return {"missing": f"{error}"}
    found = {name: clustered(affinity(code(data, 0)), data) for name, code in CODES.items()}
    return {"faces": plain({"k-means": by_means(data), **found}, 4)}


def steps(scale: Scale) -> Sequence[Step]:
    """Return a step for each method, share of outliers and seed, and one for faces."""
    shares, seeds = ((0.2, PICTURED), 1) if scale.quick else (SHARES, 3)
    fits = [
        Step(f"{name} {share} {seed}", partial(measure, name, share, seed), seconds=1)
        for share in shares
        for seed in range(seeds)
        for name in ("k-means", *CODES, *CODES_WITH_LIBRARY)
    ]
    return fits if scale.quick else [*fits, Step("Yale B", measure_faces, seconds=20)]


def draw(results: Results) -> dict[str, Figure]:
    """Draw affinities in the order of the true classes, and accuracy against the share of outliers."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.15, 1.3])[:, 0]
    shown = records_with(results, "affinity")
    top.suptitle(f"Affinities of rows in order of their subspaces, {PICTURED:.0%} outliers\n")
    for axes, record in zip(top.subplots(1, len(shown)), shown, strict=True):
        axes.imshow(np.array(record["affinity"]), cmap="gray_r", vmin=0, vmax=0.5)
        edges = np.arange(1, CLASSES) * len(record["affinity"]) / CLASSES - 0.5
        for line in (axes.axvline, axes.axhline):
            for edge in edges:
                line(edge, color="C0", linewidth=0.4)
        axes.set(xticks=[], yticks=[], xlabel=f"accuracy {record['accuracy']:.0%}")
        axes.set_title(record["method"].replace(", ", "\n"), fontsize="small")
    axes = bottom.subplots()
    for name in ("k-means", *CODES, *CODES_WITH_LIBRARY):
        values = medians(records_with(results, "accuracy", method=name), "share", "accuracy")
        style = "--" if name in CODES_WITH_LIBRARY else "-"
        axes.plot(list(values), list(values.values()), style, marker="o", label=name)
    axes.axhline(1 / CLASSES, color="gray", linestyle=":", linewidth=0.8)
    axes.set(xlabel="share of outliers in all entries", ylabel="accuracy", ylim=(0, 1.05))
    axes.grid(alpha=0.3)
    bottom.legend(loc="outside right center", fontsize="small")
    return {"low-rank": figure}


def table(results: Results) -> str:
    """Return accuracies for generated rows, and for faces where they were available."""
    shares = sorted({record["share"] for record in records_with(results, "accuracy")})
    yale = results.get("Yale B", {})
    lines = []
    for name in ("k-means", *CODES, *CODES_WITH_LIBRARY):
        values = medians(records_with(results, "accuracy", method=name), "share", "accuracy")
        lines.append([name, *(values[share] for share in shares), yale.get("faces", {}).get(name, "")])
    note = f" Yale B is missing: {yale['missing']}" if "missing" in yale else ""
    header = ["clusters by", *(f"{share:.0%} outliers" for share in shares), f"Yale B, {FACES} subjects"]
    return (
        f'Accuracy, medians over seeds, all weights "auto"; {CLASSES} subspaces of dimension {DIMENSIONS} '
        f"in {FEATURES}, {EACH} rows each; the library has {LIBRARY} clean rows of each.{note}\n\n"
        f"{markdown(header, lines)}\n"
    )


EXPERIMENT = Experiment(
    "low-rank",
    "Codes of the low-rank representation (P7) tell subspaces apart despite outliers, given a clean basis.",
    steps,
    draw,
    table,
)
