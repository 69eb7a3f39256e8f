"""Laws of reports: what they say is true, what comes from data is escaped, and nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import json
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from click.testing import CliRunner
from PIL import Image

import vrmf
from estimator_cases import corrupted, every_estimator, fitted, rows
from tables import FORMULATIONS
from vrmf.arrays import Array
from vrmf.cli import main
from vrmf.estimators.cautions import CAUTIONS
from vrmf.estimators.row_figures import RowFigures
from vrmf.formulations import Formulation
from vrmf.report.contents import RowParts
from vrmf.report.rows import MOST_PIXELS, shown_rows
from vrmf.report.wording import formula_of
from vrmf.terms import L1, AbstractRowTerm, Sum, UnitBall

X = corrupted(rows())
EVIL = "</script><script>alert(1)</script>"


class Page(HTMLParser):
    """Reads a page: its text, its scripts and the attributes of its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        {"script": self.scripts, "style": self.styles}.get(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside == "style":
            self.styles[-1] += data
        else:
            self.text += data

    def data(self, name: str) -> Any:
        """Return what the page holds for its script under a name."""
        scripts = [attrs for tag, attrs in self.elements if tag == "script"]
        place = [attrs.get("id") for attrs in scripts].index(f"{name}-data")
        return json.loads(self.scripts[place])

    @property
    def policy(self) -> str:
        found = [a for tag, a in self.elements if tag == "meta" and "http-equiv" in a]
        return str(found[0]["content"])


def page_of(model: Any, data: Any = X, **options: Any) -> Page:
    return Page(model.report(data, **options).html)


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ------------------------------------------------------------------ what it says


@every_estimator
def test_every_model_has_a_report_that_says_its_fit(name: str) -> None:
    model = fitted(name)
    page = page_of(model)
    assert type(model).__name__ in page.text and model.stop_reason_ in page.text
    assert f"{model.objective_:.4g}" in page.text
    for formula, meaning in formula_of(model.formulation_):
        assert formula in page.text and meaning in page.text


def test_the_usage_of_atoms_is_that_of_the_codes() -> None:
    model = fitted("dictionary-learning")
    H = model.transform(X)
    energy = np.sum((H**2)[:, :, None] * (model.components_**2)[None], axis=(0, 2))
    bars = page_of(model).data("charts")["usage"]["data"]["values"]
    assert [bar["energy"] for bar in bars] == sorted((bar["energy"] for bar in bars), reverse=True)
    for bar in bars:
        assert bar["energy"] == pytest.approx(energy[bar["atom"]] / energy.sum())
        assert bar["rows"] == pytest.approx(np.mean(H[:, bar["atom"]] != 0))


@pytest.mark.parametrize("name", ["robust-pca", "nmf"])
def test_unusual_rows_have_much_in_outliers_or_a_large_share_unexplained(name: str) -> None:
    model = fitted(name)
    low_rank, outliers = model.decompose(X)
    rest = outliers if model.formulation_.has_outliers else X - low_rank
    unusual = np.sum(rest**2, axis=1)
    unusual /= 1 if model.formulation_.has_outliers else np.sum(X**2, axis=1)
    points = page_of(model).data("charts")["energies"]["data"]["values"]
    np.testing.assert_allclose([point["energy"] for point in points], unusual)


@pytest.mark.parametrize("name", ["robust-pca", "dictionary-learning"])
def test_curves_of_a_row_are_its_parts(name: str) -> None:
    model = fitted(name)
    low_rank, outliers = model.decompose(X)
    for row in page_of(model).data("rows"):
        number = int(re.findall(r"row (\d+)", row["label"])[0])
        rest = outliers[number] if model.formulation_.has_outliers else X[number] - low_rank[number]
        for part, expected in (("original", X[number]), ("low_rank", low_rank[number]), ("rest", rest)):
            shown = [value[part] for value in row["values"]]
            np.testing.assert_allclose(shown, expected, rtol=1e-4, atol=1e-12)


def test_images_of_a_row_are_its_parts() -> None:
    model = fitted("dictionary-learning")
    shown = page_of(model, image_shape=(2, 3)).data("rows")
    numbers = [int(re.findall(r"row (\d+)", row["label"])[0]) for row in shown]
    low, high = X[numbers].min(), X[numbers].max()
    for number, row in zip(numbers, shown, strict=True):
        greys = np.asarray(pixels(row["original"]), dtype=float).ravel()
        np.testing.assert_allclose(greys, 255 * (X[number] - low) / (high - low), atol=0.6)
    assert numbers == sorted(numbers) and len(numbers) >= 20


def pixels(address: str) -> Any:
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


def test_features_with_names_are_listed_by_name() -> None:
    frame = pandas.DataFrame(
        X, columns=[f"gene {i}" for i in range(6)], index=list("abcdefghijklmnopqrstuvwx")
    )
    model = vrmf.RobustPCA(random_state=0, n_components=3).fit(frame)
    page = page_of(model, frame)
    row = page.data("rows")[0]
    assert row["label"] == "a (row 0)" and all(line[0].startswith("gene ") for line in row["table"])
    largest = np.argmax(np.abs(model.decompose(frame)[1][0]))
    assert row["table"][0][0] == f"gene {largest}"


def test_features_that_are_named_by_numbers_are_a_curve() -> None:
    frame = pandas.DataFrame(X, columns=[f"{400 + 10 * i}" for i in range(6)])
    model = vrmf.NMF(3, random_state=0, max_iter=3, tol=0).fit(frame)
    values = page_of(model, frame).data("rows")[0]["values"]
    assert [value["place"] for value in values] == [400, 410, 420, 430, 440, 450]


def test_convergence_is_the_history_without_what_was_not_measured() -> None:
    model = fitted("dictionary-learning")
    drawn = page_of(model).data("charts")["objective"]["data"]["values"]
    history = model.history_
    known = [i for i, value in enumerate(history["objective"]) if np.isfinite(value)]
    assert [point["value"] for point in drawn] == [history["objective"][i] for i in known]
    assert [point["seconds"] for point in drawn] == [history["seconds"][i] for i in known]


@pytest.mark.parametrize("kind", ["sparse", "frame", "file", "float32", "lazy", "source"])
def test_any_kind_of_data_gives_the_report_of_the_array(kind: str, tmp_path: Path) -> None:
    model = fitted("dictionary-learning")
    np.save(tmp_path / "x.npy", X)
    lazy: Any = pytest.importorskip("dask.array") if kind == "lazy" else None
    data = {
        "sparse": lambda: scipy.sparse.csr_array(X),
        "frame": lambda: pandas.DataFrame(X).to_numpy(),
        "file": lambda: tmp_path / "x.npy",
        "float32": lambda: X.astype(np.float32),
        "lazy": lambda: lazy.from_array(X, chunks=(5, -1)),
        "source": lambda: vrmf.sources.as_source(X),
    }[kind]()
    points = page_of(model, data).data("charts")["energies"]["data"]["values"]
    expected = page_of(model).data("charts")["energies"]["data"]["values"]
    np.testing.assert_allclose(
        [point["energy"] for point in points], [point["energy"] for point in expected], rtol=1e-4
    )


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_formulation_is_told_in_words(name: str) -> None:
    said = formula_of(FORMULATIONS[name](np.random.default_rng(0))[0])
    assert said[0][0].startswith("½‖x − hD") and all(meaning for _, meaning in said)
    assert name == "user" or not any("of your own" in meaning for _, meaning in said)


class Cauchy(AbstractRowTerm):
    """A term that no report knows."""

    def row_values(self, Z: Array) -> Array:
        return np.sum(np.log1p(Z**2), axis=1)

    def prox(self, Z: Array, step: float) -> Array:
        return Z / (1 + step)


def test_a_term_of_ones_own_is_named() -> None:
    said = formula_of(Formulation(UnitBall(), Sum((L1(0.1), Cauchy()), iterative=True)))
    assert ("+ Cauchy(h)", "a penalty or constraint of your own on the codes h") in said


# ------------------------------------------------------------------ how large it is


def test_many_rows_are_sampled_and_the_report_says_so() -> None:
    large = np.tile(X, (4200, 1))
    report = fitted("robust-pca").report(large)
    assert f"computed from 10000 of the\n  {len(large)} rows" in report.html
    assert "10\N{THIN SPACE}000 of 100\N{THIN SPACE}800 rows in this report" in report.html
    assert len(report.html) < 3e6


def test_images_of_any_size_fit_into_the_page() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 300 * 200))
    model = vrmf.DictionaryLearning(2, max_iter=1, tol=0, random_state=0).fit(noise)
    report = model.report(noise, image_shape=(300, 200))
    assert len(report.html) < 1.2e6 + 2 * MOST_PIXELS + 1.4e6


# ------------------------------------------------------------------ what it warns of


def warned(model: Any, data: Any = X) -> str:
    html = model.report(data).html
    return html[html.index('id="warnings-title"') : html.index('<section id="fit"')]


def test_a_sound_fit_has_no_warnings() -> None:
    clean = rows(200, 12)
    assert "No warnings" in warned(vrmf.NMF(3, random_state=0).fit(clean), clean)


def test_each_warning_has_a_fit_that_it_is_about() -> None:
    clean, rng = rows(200, 12), np.random.default_rng(0)
    spiked = np.where(rng.random(clean.shape) < 0.002, clean + 100, clean)
    k = 5
    options: dict[str, Any] = {"random_state": 0, "tol": 1e-3}

    def sparse(alpha: float) -> Any:
        return vrmf.DictionaryLearning(k, alpha=alpha, **options).fit(clean)

    with pytest.warns(UserWarning):
        short = vrmf.DictionaryLearning(k, max_iter=1, tol=1e-9, random_state=0).fit(clean)
        empty = sparse(1e3)
    noise, uneven = rng.random((50, 12)), clean * np.where(np.arange(12) == 4, 1e3, 1.0)
    cases: dict[str, tuple[Any, Any, str]] = {
        "stopped_short": (short, clean, "before it was finished"),
        "nothing_used": (empty, clean, "All codes are zero"),
        "too_small_a_weight": (sparse(1e-9), clean, "not sparse"),
        "too_many_outliers": (
            vrmf.RobustPCA(2, alpha=1e4, outlier_alpha=1e-3, **options).fit(clean),
            clean,
            "more than can be told",
        ),
        "little_explained": (vrmf.NMF(1, **options).fit(noise), noise, "of the variance"),
        "as_many_as_data": (vrmf.NMF(12, **options).fit(clean), clean, "so many fit any data"),
        "one_main_feature": (
            vrmf.NMF(3, **options).fit(uneven),
            uneven,
            "Feature 4 has 100% of the variance",
        ),
        "missed_outliers": (vrmf.NMF(3, **options).fit(clean), spiked, "much farther"),
        "rank_at_its_limit": (
            vrmf.LowRankRepresentation(random_state=0).fit(rows(150, 40, rank=14)),
            rows(150, 40, rank=14),
            "largest that n_components allows",
        ),
    }
    for name, (model, data, words) in cases.items():
        assert words in warned(model, data), name
    others = {"unused_atoms", "too_large_a_weight", "crowded_features"}  # below
    assert set(cases) | others == {caution.__name__ for caution in CAUTIONS}


def told(caution: str, codes: Array, mask: Array | None = None) -> str | None:
    """Return what a caution says of a model and rows with some codes, or a mask."""
    ones = np.ones((len(codes), 4))
    outliers = None if mask is None else ones * mask
    parts = RowParts(np.arange(len(codes)), None, len(codes), codes, ones, ones, outliers, mask)
    (found,) = (each for each in CAUTIONS if each.__name__ == caution)
    return found(fitted("dictionary-learning"), parts, RowFigures.of(parts))


def test_atoms_rows_and_features_of_which_nothing_is_left_are_counted() -> None:
    codes, mask = np.ones((10, 3)), np.zeros((10, 4), dtype=bool)
    assert told("unused_atoms", codes) is None and told("crowded_features", codes, mask) is None
    codes[:, 1] = 1e-9
    assert str(told("unused_atoms", codes)).startswith("1 atom is not used")
    codes[:2] = 0
    assert "20% of the rows" in str(told("too_large_a_weight", codes))
    mask[:7, 2] = True
    assert "of feature 2 are outliers" in str(told("crowded_features", codes, mask))


def test_what_components_explain_does_not_count_what_outliers_take() -> None:
    noise = np.random.default_rng(0).standard_normal((200, 10))
    model = vrmf.RobustPCA(2, alpha=1e4, outlier_alpha=1e-3, random_state=0, tol=1e-3).fit(noise)
    html = model.report(noise).html
    shown = re.findall(r'tile-value">([^<]*)</span> <span class="tile-name">([^<]*)<', html)
    explained = next(value for value, name in shown if name == "explained by the components")
    assert explained == "0 %" or explained.startswith("−")
    assert model.explained_variance_ratio(noise) > 0.99


@pytest.mark.parametrize("data", [np.tile(np.arange(6.0), (9, 1)), np.ones((1, 6)), np.zeros((3, 6))])
def test_rows_without_variance_have_the_figure_of_the_method(data: Array) -> None:
    model = fitted("nmf")
    expected = model.explained_variance_ratio(data)
    assert f'tile-value">{100 * expected:.0f} %</span>' in model.report(data).html


def test_narrow_peaks_are_drawn() -> None:
    peaks = np.zeros((30, 5000))
    peaks[np.arange(30), 11 * np.arange(30) + 7] = 1.0
    model = vrmf.DictionaryLearning(2, max_iter=1, tol=0, random_state=0).fit(peaks)
    for row in page_of(model, peaks).data("rows"):
        assert max(value["original"] for value in row["values"]) == 1.0


def test_codes_that_stop_short_are_a_warning_of_the_report() -> None:
    model = fitted("dictionary-learning")
    assert "codes stopped" not in warned(model)
    flat = vrmf.DictionaryLearning(3, alpha=1e-12, max_iter=2, tol=0, random_state=0).fit(X)
    flat.components_ = np.vstack([flat.components_[0]] * 2 + [flat.components_[1]])
    flat.report(X)  # whatever its codes, it comes without a warning of Python


# ------------------------------------------------------------------ what it holds


def test_the_page_loads_nothing_and_allows_only_its_own_script() -> None:
    page = page_of(fitted("robust-pca"), image_shape=(2, 3))
    for tag, attrs in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form"), tag
        assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
        for name in ("src", "href", "action"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    assert sha256(page.scripts[-1]) in page.policy and sha256(page.styles[0]) in page.policy
    assert "unsafe" not in page.policy and "default-src 'none'" in page.policy


def test_what_comes_from_data_is_escaped() -> None:
    names = [f"{EVIL} {i}" for i in range(6)]
    frame = pandas.DataFrame(
        X, columns=names, index=[f"<img src=x onerror=alert(2)> {i}" for i in range(len(X))]
    )
    model = vrmf.RobustPCA(2, random_state=0).fit(frame)
    model.stop_reason_ = f"budget {EVIL}"
    html = model.report(frame).html
    assert "alert(1)" in html and "<script>alert" not in html and "<img src=x" not in html
    page = Page(html)
    assert len(page.scripts) == 3 and "Skip to" in page.text


def test_images_have_words_and_headings_an_order() -> None:
    page = page_of(fitted("robust-pca"), image_shape=(2, 3))
    assert all(attrs.get("alt") for tag, attrs in page.elements if tag == "img")
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert ("html", {"lang": "en"}) in page.elements


def test_rows_that_are_shown_are_spread_and_have_those_with_most_outliers() -> None:
    rng = np.random.default_rng(0)
    nothing = rng.random((500, 4))
    parts = RowParts(np.arange(500), None, 500, nothing, nothing, nothing, nothing.copy(), None)
    parts.outliers[123] = 50  # type: ignore[index]
    shown = shown_rows(parts)
    assert 123 in shown and shown[0] == 0 and shown[-1] == 499 and shown == sorted(set(shown))


def test_reports_in_threads_leave_warnings_alone() -> None:
    model, show = fitted("nmf"), warnings.showwarning
    with ThreadPoolExecutor(4) as pool:
        pages = [done.html for done in pool.map(lambda _: model.report(X), range(12))]
    assert len(set(pages)) == 1 and warnings.showwarning is show
    with pytest.warns(UserWarning, match="still heard"):
        warnings.warn("still heard", UserWarning, stacklevel=1)


def test_long_names_and_long_images_do_not_make_large_pages() -> None:
    frame = pandas.DataFrame(X, index=[f"{i}" + "a" * 10_000 for i in range(len(X))])
    assert len(vrmf.NMF(2, random_state=0, max_iter=2, tol=0).fit(frame).report(frame).html) < 1.5e6
    long = np.random.default_rng(0).random((30, 50_000))
    model = vrmf.NMF(20, random_state=0, max_iter=1, tol=0).fit(long)
    assert len(model.report(long, image_shape=(50_000, 1)).html) < 4e6


def test_names_that_cannot_be_written_are_replaced(tmp_path: Path) -> None:
    frame = pandas.DataFrame(X, index=pandas.Index([f"r\ud800{i}" for i in range(len(X))], dtype=object))
    report = vrmf.NMF(2, random_state=0, max_iter=2, tol=0).fit(frame).report(frame)
    report.save(tmp_path / "report.html")
    assert "r?0" in report.html


@pytest.mark.parametrize("shape", [(2, 3, 1), (-2, -3), 6, "23", (2.5, "x"), (0, 6), (2, 3, 3)])
def test_only_shapes_of_images_are_taken(shape: Any) -> None:
    if shape == (2, 3, 1):
        assert "data-part" in fitted("nmf").report(X, image_shape=shape).html
        return
    with pytest.raises(ValueError, match="Use \\(height, width\\)"):
        fitted("nmf").report(X, image_shape=shape)


@pytest.mark.parametrize("changed", [{"tol": np.inf}, {"tol": None}, {"n_components": "auto"}])
def test_parameters_that_were_changed_after_the_fit_are_shown(changed: dict[str, Any]) -> None:
    model = vrmf.RobustPCA(2, random_state=0).fit(X).set_params(**changed)
    assert "<td>" in model.report(X).html


# ------------------------------------------------------------------ files and errors


def test_a_report_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    report, path = fitted("nmf").report(X), tmp_path / "report.html"
    report.save(path)
    assert path.read_text(encoding="utf-8") == report.html
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report.save(path, overwrite=False)
    assert list(tmp_path.iterdir()) == [path]
    assert "srcdoc=" in report._repr_html_() and "MB of HTML" in repr(report)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        vrmf.NMF(2).report(X)
    with pytest.raises(TypeError, match="reads rows twice"):
        fitted("nmf").report(iter([X]))
    with pytest.raises(ValueError, match="whose product is 6"):
        fitted("nmf").report(X, image_shape=(4, 4))
    with pytest.raises(ValueError, match="expecting 6 features"):
        fitted("nmf").report(X[:, :5])


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_a_library_that_is_not_there_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from vrmf.report import page

    for cached in (page._template, page._script, page._policy):
        cached.cache_clear()
    real = importlib.import_module

    def refuse(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(ImportError, match=re.escape('pip: "vrmf[report]"')):
        fitted("nmf").report(X)


def test_the_command_writes_the_page_and_never_over_its_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    vrmf.save(fitted("robust-pca"), tmp_path / "m.vrmf")
    model, data, out = (str(tmp_path / name) for name in ("m.vrmf", "x.npy", "page.html"))

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["report", model, data, *words])

    assert run("-o", out, "--image-shape", "2x3").exit_code == 0
    assert Path(out).read_text(encoding="utf-8").startswith("<!doctype html>")
    for words, told in (
        (("-o", out), "--force"),
        (("-o", data, "--force"), "which is the data"),
        (("-o", model, "--force"), "which is the model"),
        (("-o", out, "--force", "--image-shape", "5x5"), "whose product is 6"),
    ):
        result = run(*words)
        assert result.exit_code == 1 and told in result.output, result.output
    told = json.loads(run("-o", out, "--force", "--json").output)
    assert told["report"]["bytes"] == Path(out).stat().st_size
