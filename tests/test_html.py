"""What notebooks show of a model."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vrmf
from estimator_cases import rows
from vrmf.estimators.sparkline import MOST_POINTS, sparkline

X = np.abs(rows(60))
EVIL = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """Reads HTML, and checks that what is opened is closed."""

    VOID = ("line", "path", "circle", "polyline")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def html_of(model: Any) -> str:
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    # Diagrams of scikit-learn have numbers that count them.
    assert re.sub(r"-id-\d+", "", bundle["text/html"]) == re.sub(r"-id-\d+", "", model._repr_html_())
    return str(bundle["text/html"])


def test_a_fitted_model_shows_the_results_of_its_fit() -> None:
    model = vrmf.NMF(3, random_state=0, tol=1e-4).fit(X)
    told = Tags(html_of(model))
    assert {"svg", "table", "details"} <= told.seen
    for part in (
        f"3 atoms, {X.shape[1]} features, 60 rows seen",
        model.stop_reason_[1:],
        f"reconstruction error{model.reconstruction_error_:.4g}",
        f"relative stationarity{model.relative_stationarity_:.4g}",
        "tol0.0001",
    ):
        assert part in told.text, part


@pytest.mark.slow
def test_automatic_parameters_are_shown_with_their_values() -> None:
    model = vrmf.RobustPCA(random_state=0).fit(X)
    told = Tags(html_of(model)).text
    for part in (
        f"alpha'auto'→ {model.alpha_:.4g}",
        f"outlier_alpha'auto'→ {model.outlier_alpha_:.4g}",
        f"rank{model.rank_}",
        f"noise{model.noise_:.4g}",
        f"n_componentsNone→ {len(model.components_)}",
    ):
        assert part in told, part


def test_solvers_are_shown_with_the_options_that_were_changed() -> None:
    assert "→ VR" not in Tags(html_of(vrmf.NMF(2, random_state=0, tol=1e-2).fit(X))).text
    model = vrmf.NMF(2, random_state=0, tol=1e-2, solver=vrmf.solvers.VR(batch_size=20)).fit(X)
    assert "solverVR(batch_size=20)" in Tags(html_of(model)).text
    streamed = vrmf.NMF(2, random_state=0).partial_fit(X)
    assert "solver'vr'→ SMM(forgetting=5.0)" in Tags(html_of(streamed)).text


@pytest.mark.parametrize("where", ["columns", "parameter", "reason"])
def test_what_comes_from_the_user_is_escaped(where: str) -> None:
    data = pandas.DataFrame(X, columns=[EVIL, *(f"{EVIL}{i}" for i in range(1, X.shape[1]))])
    model = vrmf.NMF(2, random_state=0, tol=1e-2).fit(data if where == "columns" else X)
    if where == "parameter":
        model.set_params(checkpoint=EVIL)
    if where == "reason":
        model.stop_reason_ = EVIL
    html = html_of(model)
    assert "<script" not in html and "&lt;script&gt;" in html
    assert "script" not in Tags(html).seen


def test_before_a_fit_there_is_the_diagram_of_scikit_learn() -> None:
    assert "sk-top-container" in html_of(vrmf.NMF()) and "vrmf-model" not in html_of(vrmf.NMF())
    pipeline = make_pipeline(StandardScaler(), vrmf.RobustPCA(2, alpha=1.0, outlier_alpha=1.0, tol=1e-2))
    assert "sk-top-container" in pipeline.fit(X)._repr_html_()


def test_text_is_shown_where_scikit_learn_is_set_to_it() -> None:
    model = vrmf.NMF(2, random_state=0, tol=1e-2).fit(X)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]


@pytest.mark.parametrize(
    "model",
    [
        vrmf.NMF(2, random_state=0).partial_fit(X),
        vrmf.NMF(1, random_state=0, max_iter=1, tol=0).fit(X[:1]),
        vrmf.NMF(2, random_state=0, max_iter=1, tol=0, solver="smm").fit(X.astype(np.float32)),
        vrmf.NMF(2, init=X[:2] / X[:2].sum(axis=1)[:, None], max_iter=2, tol=0).fit(X),
    ],
    ids=["stream", "one row", "unmeasured", "array as a parameter"],
)
def test_every_model_has_its_html(model: Any) -> None:
    told = Tags(html_of(model))
    assert "nan" not in told.text and "inf" not in told.text


def test_html_survives_saving(tmp_path: Any) -> None:
    model = vrmf.NMF(2, random_state=0, tol=1e-2).fit(X)
    vrmf.save(model, tmp_path / "m")
    assert html_of(vrmf.load(tmp_path / "m")) == html_of(model)


def points(svg: str) -> list[list[tuple[float, float]]]:
    lines = re.findall(r'polyline points="([^"]*)"', svg)
    return [[tuple(map(float, corner.split(","))) for corner in line.split()] for line in lines]  # type: ignore[misc]


def test_a_curve_lies_in_its_frame_and_falls_as_values_do() -> None:
    (line,) = points(sparkline("f", range(1000), [1 / (1 + i) for i in range(1000)], [0] * 1000))
    xs, ys = map(np.array, zip(*line, strict=True))
    assert len(line) <= MOST_POINTS and np.all(np.diff(xs) >= 0) and np.all(np.diff(ys) >= 0)
    assert xs.min() >= 0 and ys.min() >= 0 and xs.max() <= 230 and ys.max() <= 52


def test_stages_are_lines_of_their_own_and_what_is_unknown_is_left_out() -> None:
    nan = float("nan")
    svg = sparkline("<f>", range(6), [nan, 3.0, 2.0, nan, 5.0, 4.0], [0, 0, 0, 1, 1, 1])
    assert [len(line) for line in points(svg)] == [2, 2] and "&lt;f&gt;" in svg and "<f>" not in svg
