"""Pictures: their content, their axes, and options that are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import vrmf

matplotlib.use("Agg")

plots: Any = vrmf.plots

X = load_digits().data[:200]
NAMES = [f"pixel {i}" for i in range(64)]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the figures that a test has opened."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def fitted(kind: Any = vrmf.NMF, data: Any = X, **options: Any) -> Any:
    return kind(**({"n_components": 5, "tol": 1e-3, "random_state": 0} | options)).fit(data)


def corrupted() -> Any:
    rng = np.random.default_rng(0)
    return rng.random((60, 1)) * np.ones(12) + (rng.random((60, 12)) < 0.05)


PICTURES: dict[str, Callable[..., Any]] = {
    "convergence": lambda model, ax: plots.convergence(model, ax=ax),
    "atoms": lambda model, ax: plots.atoms(model, ax=ax, image_shape=(8, 8)),
    "decomposition": lambda model, ax: plots.decomposition(model, X, ax=ax, image_shape=(8, 8)),
    "usage": lambda model, ax: plots.usage(model, X, ax=ax),
}


def test_what_is_no_axes_is_refused() -> None:
    model = vrmf.NMF(2, tol=0.1, random_state=0).fit(np.eye(5))
    with pytest.raises(TypeError, match=r"`ax` is 3\. Use axes of matplotlib, or None"):
        vrmf.plots.atoms(model, ax=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_into_the_given_axes(name: str) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    assert PICTURES[name](fitted(), right) is right
    assert right.child_axes and not left.child_axes and figure.axes == [left, right]
    figure.canvas.draw()
    boxes = [panel.get_tightbbox() for panel in right.child_axes]
    assert all(box.x0 >= left.get_position().x1 * figure.bbox.width for box in boxes)


@pytest.mark.parametrize("name", PICTURES)
def test_without_axes_a_new_figure_is_made(name: str) -> None:
    ax = PICTURES[name](fitted(), None)
    assert ax.get_figure().axes == [ax]
    ax.get_figure().canvas.draw()


@pytest.mark.parametrize("name", PICTURES)
def test_a_model_that_is_not_fitted_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PICTURES[name](vrmf.NMF(), None)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("k", [1, 2, 7])
def test_any_number_of_atoms_can_be_drawn(name: str, k: int) -> None:
    ax = PICTURES[name](fitted(n_components=k), Figure().subplots())
    ax.get_figure().canvas.draw()


# Convergence ------------------------------------------------------------------------------------------


def lines_of(panel: Any) -> list[Any]:
    return [line for line in panel.lines if len(line.get_xdata()) and line.get_linestyle() == "-"]


@pytest.mark.parametrize("x", ["passes", "seconds"])
def test_convergence_shows_what_the_history_knows(x: str) -> None:
    model = fitted()
    objective, stationarity = plots.convergence(model, ax=Figure().subplots(), x=x).child_axes
    known = np.isfinite(model.history_["objective"])
    (line,) = lines_of(objective)
    np.testing.assert_array_equal(line.get_ydata(), np.array(model.history_["objective"])[known])
    np.testing.assert_array_equal(line.get_xdata(), np.array(model.history_[x])[known])
    assert stationarity.get_yscale() == "log" and x in stationarity.get_xlabel()


def test_stages_have_lines_of_their_own_and_every_second_is_shaded() -> None:
    model = vrmf.RobustPCA(random_state=0).fit(corrupted())
    stages = set(model.history_["stage"])
    objective, _ = plots.convergence(model, ax=Figure().subplots()).child_axes
    assert len(stages) > 1 and len(objective.lines) == len(stages)
    assert len(objective.patches) == len(stages) // 2


def test_a_stream_has_no_history_and_says_so() -> None:
    model = vrmf.NMF(3, random_state=0).partial_fit(X)
    ax = plots.convergence(model, ax=Figure().subplots())
    assert not ax.child_axes and "200 rows seen" in ax.texts[0].get_text()


def test_a_history_of_one_step_can_be_drawn() -> None:
    model = fitted(solver="batch", max_iter=1, tol=0)
    plots.convergence(model, ax=Figure().subplots()).get_figure().canvas.draw()


def test_convergence_refuses_other_axes() -> None:
    with pytest.raises(ValueError, match=r"`x` is 'epochs'\. Use 'passes' or 'seconds'"):
        plots.convergence(fitted(), x="epochs")


# Atoms ------------------------------------------------------------------------------------------------


def test_atoms_are_images_where_the_shape_is_known() -> None:
    model = fitted()
    model.image_shape_ = (8, 8)
    panels = plots.atoms(model, ax=Figure().subplots()).child_axes
    for panel, atom in zip(panels, model.components_, strict=True):
        np.testing.assert_array_equal(panel.images[0].get_array(), atom.reshape(8, 8))
    np.testing.assert_array_equal([panel.get_title() for panel in panels], list("01234"))


def test_atoms_are_the_strongest_names_where_there_are_names() -> None:
    model = fitted(data=pandas.DataFrame(X, columns=NAMES))
    for panel, atom in zip(
        plots.atoms(model, ax=Figure().subplots(), top=4).child_axes, model.components_, strict=True
    ):
        shown = [label.get_text() for label in panel.get_yticklabels()]
        assert shown == [NAMES[i] for i in np.argsort(-atom, kind="stable")[:4]]


@pytest.mark.slow
def test_atoms_are_curves_else_over_names_that_are_numbers() -> None:
    places = np.linspace(400, 700, 64)
    cases: list[Any] = [(X, np.arange(64)), (pandas.DataFrame(X, columns=map(str, places)), places)]
    for data, expected in cases:
        model = fitted(data=data)
        for panel, atom in zip(
            plots.atoms(model, ax=Figure().subplots()).child_axes, model.components_, strict=True
        ):
            np.testing.assert_array_equal(panel.lines[1].get_ydata(), atom)
            np.testing.assert_allclose(panel.lines[1].get_xdata(), expected)


def test_the_most_used_atoms_are_drawn_if_there_are_too_many() -> None:
    model = fitted(n_components=9)
    energies = np.diag(model.transform(X).T @ model.transform(X)) * np.sum(model.components_**2, axis=1)
    ax = plots.atoms(model, ax=Figure().subplots(), image_shape=(8, 8), count=4)
    shown = [int(panel.get_title()) for panel in ax.child_axes]
    assert shown == sorted(np.argsort(-energies)[:4]) and "4 most used of 9" in ax.get_title()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"image_shape": (3, 4)}, r"`image_shape` is \(3, 4\), but a row has 64 features"),
        ({"image_shape": (4, 4, 4)}, r"Use \(height, width\)"),
        ({"names": ["a"]}, "`names` has 1 names for 64 features"),
        ({"count": 0}, "`count` is 0. Use at least 1"),
    ],
)
def test_bad_options_of_atoms_are_refused(options: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        plots.atoms(fitted(), **options)


def test_names_are_not_taken_for_formulas() -> None:
    names = ["$\\alpha", "a_$b$", "<script>", *NAMES[3:]]
    model = fitted(data=pandas.DataFrame(X, columns=names))
    model.components_ = np.eye(64)[:3]
    ax = plots.atoms(model, ax=Figure().subplots())
    ax.get_figure().canvas.draw()
    assert ax.child_axes[2].get_yticklabels()[0].get_text() == "<script>"


# Decompositions ---------------------------------------------------------------------------------------


def test_parts_with_outliers_are_those_of_the_decomposition() -> None:
    data = corrupted()
    model = vrmf.RobustPCA(random_state=0).fit(data)
    L, S = model.decompose(data)
    ax = plots.decomposition(model, data, ax=Figure().subplots(), rows=[7], image_shape=(3, 4))
    shown = [np.asarray(panel.images[0].get_array()).ravel() for panel in ax.child_axes]
    for image, part in zip(shown, (data, L, S, model.outlier_mask(data)), strict=True):
        np.testing.assert_allclose(image, part[7])


def test_parts_without_outliers_add_up() -> None:
    model = fitted()
    ax = plots.decomposition(model, X, ax=Figure().subplots(), rows=[0, -1], image_shape=(8, 8))
    assert [panel.get_title() for panel in ax.child_axes[:3]] == ["original", "reconstruction", "residual"]
    row, near, rest = (np.asarray(panel.images[0].get_array()) for panel in ax.child_axes[:3])
    np.testing.assert_allclose(near + rest, row)
    assert ax.child_axes[3].get_ylabel() == "row 199"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frame", "path"])
def test_rows_come_from_frames_and_files(kind: str, tmp_path: Any) -> None:
    frame = pandas.DataFrame(X, columns=NAMES)
    np.save(tmp_path / "rows.npy", X)
    data = frame if kind == "frame" else tmp_path / "rows.npy"
    model = fitted(data=data)
    ax = plots.decomposition(model, data, ax=Figure().subplots())
    assert len(ax.child_axes) == 6


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="`rows` has 200, but there are 200 rows"):
        plots.decomposition(fitted(), X, rows=[200])


# Usage ------------------------------------------------------------------------------------------------


def bars(panel: Any) -> Any:
    return np.array([bar.get_height() for bar in panel.patches])


def test_usage_of_the_fit_is_that_of_its_rows() -> None:
    model = fitted(tol=1e-6)
    ((told,), (energy, rows)) = (
        plots.usage(model, data, ax=Figure().subplots()).child_axes for data in (None, X)
    )
    np.testing.assert_allclose(bars(told), bars(energy), rtol=1e-6)
    H = model.transform(X)
    order = np.argsort(-np.sum(H**2, axis=0) * np.sum(model.components_**2, axis=1))
    np.testing.assert_allclose(bars(rows), 100 * np.mean(H != 0, axis=0)[order])
    assert np.isclose(bars(energy).sum(), 100) and np.all(np.diff(bars(energy)) <= 0)


def test_usage_names_atoms_without_use() -> None:
    model = fitted()
    model.components_ = np.vstack([model.components_, np.zeros(64)])
    model.formulation_ = vrmf.NMF(6, alpha=0.1, random_state=0).fit(X[:50]).formulation_
    ax = plots.usage(model, X, ax=Figure().subplots())
    assert "1 is not used" in ax.get_title()
    assert "give rows" in plots.usage(model, ax=Figure().subplots()).texts[0].get_text()


# The library ------------------------------------------------------------------------------------------

PROBE = """
import sys
sys.modules["matplotlib"] = None  # as if it were not installed
import numpy as np, vrmf
model = vrmf.NMF(2, max_iter=1, tol=0, n_jobs=1).fit(np.eye(4))
try:
    vrmf.plots.convergence(model)
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_matplotlib_is_imported_when_something_is_drawn() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    wanted = 'vrmf.plots needs the package matplotlib. Install it with pip: "vrmf[plots]".'
    assert done.stdout.strip() == wanted
