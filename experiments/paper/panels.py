"""The eight problems of the paper's Figure 1, with the starts from which they are solved.

Weights are the paper's, λ = 1/√d. It leaves M and M′ of robust NMF open: here codes are at most 100
and outliers at most as large as the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

from vrmf import datasets, formulations
from vrmf.arrays import Array
from vrmf.dictionaries import atoms_from_rows
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import as_source

ATOMS = 49
LARGEST_CODE = 100.0

#: Entries of rows that become atoms are clipped to this, so that outliers do not dominate an atom.
SYNTH_REACH, IMAGE_REACH = 5.0, 1.0


@dataclass(frozen=True)
class Size:
    """How large the data of an experiment are."""

    quick: bool = False
    synth_rows: int = 100_000  #: of Synth, unless quick
    most_rows: int | None = None  #: the most rows; None for as many as the paper


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, what they are called in a title, and the true dictionary where it is known."""

    X: Array
    name: str
    truth: Array | None = None


@dataclass(frozen=True)
class Panel:
    """A formulation on a data set."""

    model: str  #: the paper's name of the formulation
    data: str  #: the name of the data set

    @property
    def name(self) -> str:
        """The name under which results are kept."""
        return f"{self.model} {self.data}"

    def load(self, size: Size) -> Case:
        """Return the problem over the data."""
        data = LOADERS[self.data](size)
        model = MODELS[self.model](data.X)
        reach = IMAGE_REACH if data.truth is None else SYNTH_REACH
        problem = Problem(model, as_source(data.X))
        return Case(f"{self.model}, {data.name}", problem, data.X, reach, data.truth)


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and its starts."""

    title: str
    problem: Problem
    X: Array
    reach: float  #: to which size entries of rows are clipped when they become atoms
    truth: Array | None = None  #: the dictionary that made the data, where it is known

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.X)

    def start(self, seed: int = 0, n_components: int = ATOMS) -> Array:
        """Return rows of the data as atoms, made feasible."""
        order = np.random.default_rng(seed).permutation(len(self.X))
        rows = self.X[order[np.any(self.X[order] != 0, axis=1)][:n_components]]
        return self._feasible(np.clip(rows, -self.reach, self.reach))

    def ones(self, n_components: int = ATOMS) -> Array:
        """Return the paper's start, all ones, rescaled where that is infeasible."""
        return self._feasible(np.ones((n_components, self.X.shape[1])))

    def _feasible(self, rows: Array) -> Array:
        formulation = self.problem.formulation
        if np.isfinite(formulation.dictionary.value(rows)):
            return np.ascontiguousarray(rows)
        return np.ascontiguousarray(atoms_from_rows(formulation, rows))


def _weight(X: Array) -> float:
    return float(X.shape[1] ** -0.5)


MODELS: dict[str, Callable[[Array], Formulation]] = {
    "ODL": lambda X: formulations.dictionary_learning(_weight(X)),
    "ONMF": lambda X: formulations.nonnegative(_weight(X)),
    "ORPCA": lambda X: formulations.robust_pca(_weight(X), _weight(X), len(X)),
    "ORNMF": lambda X: formulations.robust_nmf(_weight(X), LARGEST_CODE, float(np.max(np.abs(X)))),
}

#: Rows of a quick run, and columns of its Synth.
QUICK_ROWS, QUICK_COLUMNS = 200, 100


def _synth(outlier_share: float, name: str) -> Callable[[Size], Data]:
    def load(size: Size) -> Data:
        rows = min(QUICK_ROWS if size.quick else size.synth_rows, size.most_rows or size.synth_rows)
        columns = QUICK_COLUMNS if size.quick else 400
        synth = datasets.load_synth(rows, columns, outlier_share=outlier_share, random_state=0)
        return Data(synth.X, name, synth.dictionary)

    return load


def _images(fetch: Callable[..., datasets.Images], name: str) -> Callable[[Size], Data]:
    def load(size: Size) -> Data:
        if not size.quick:
            return Data(fetch().X[: size.most_rows], name)
        rows = min(QUICK_ROWS, size.most_rows or QUICK_ROWS)
        try:
            return Data(fetch(download_if_missing=False).X[:rows], name)
        except OSError:  # a quick run needs no network
            return Data(load_digits().data[:rows] / 16, f"digits for {name}")

    return load


LOADERS: dict[str, Callable[[Size], Data]] = {
    "CBCL": _images(datasets.fetch_cbcl, "CBCL"),
    "MNIST": _images(datasets.fetch_mnist, "MNIST"),
    "Synth": _synth(0.1, "Synth"),
    "Synth 0.3": _synth(0.3, "Synth, 30 % outliers"),
    "Yale B": _images(datasets.fetch_yaleb, "Yale B"),
}

#: In the order of the paper's Figure 1.
PANELS: tuple[Panel, ...] = tuple(
    Panel(model, data)
    for model, names in {
        "ODL": ("CBCL", "MNIST"),
        "ONMF": ("CBCL", "MNIST"),
        "ORPCA": ("Synth", "Yale B"),
        "ORNMF": ("Synth", "Yale B"),
    }.items()
    for data in names
)
