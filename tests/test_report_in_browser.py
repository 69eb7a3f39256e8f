"""Laws of reports in a real browser: no errors, nothing is loaded, and the page does what it says.

They need Chromium or Chrome, and are skipped where there is none.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import vrmf
from estimator_cases import corrupted, rows

sync_api = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

EVIL, IMAGE = "<script>alert(1)</script>", "<img src=x onerror=alert(2)>"
X = corrupted(rows(200, 12))
KINDS = ("images", "curves", "names")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return reports of each kind of features, in files."""
    folder = tmp_path_factory.mktemp("reports")
    names = [f"{EVIL} {i}" for i in range(12)]
    frame = pandas.DataFrame(
        X, columns=names, index=[f"<img src=x onerror=alert(2)> {i}" for i in range(200)]
    )
    reports = {
        "images": vrmf.RobustPCA(3, random_state=0).fit(X).report(X, image_shape=(3, 4)),
        "curves": vrmf.RobustPCA(3, random_state=0).fit(X).report(X),
        "names": vrmf.NMF(3, random_state=0, tol=1e-3).fit(frame).report(frame),
    }
    for kind, report in reports.items():
        report.save(folder / f"{kind}.html")
    return {kind: folder / f"{kind}.html" for kind in reports}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page in the browser, with all that it says and asks for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", self._note_dialog)
        self.page.on("request", self._note_request)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn]", timeout=60_000)

    def _note_dialog(self, dialog: Any) -> None:
        self.troubles.append(dialog.message)
        dialog.dismiss()

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.troubles.append(request.url)

    def ratio(self, selector: str) -> float:
        """Return the contrast of an element's text and the page."""
        colours = self.page.evaluate(
            "s => [document.querySelector(s), document.body].map((e, i) => "
            "getComputedStyle(e)[i ? 'backgroundColor' : 'color'])",
            selector,
        )
        light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
        return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_without_errors_requests_or_faint_text(
    browser: Any, pages: dict[str, Path], kind: str, scheme: str
) -> None:
    visit = Visit(browser, pages[kind], color_scheme=scheme)
    charts = visit.page.locator("[data-chart]")
    assert charts.count() >= 4 and charts.count() == visit.page.locator("[data-chart] svg").count()
    for selector in ("h1", ".quiet", "figcaption", "td", "nav a"):
        assert visit.ratio(selector) > 4.5, selector
    assert visit.troubles == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_slider_moves_by_keyboard_and_shows_another_row(
    browser: Any, pages: dict[str, Path], kind: str
) -> None:
    visit = Visit(browser, pages[kind])
    place = {
        "images": "img[data-part=original]",
        "curves": "[data-chart=row] .mark-line path",
        "names": "#entries",
    }[kind]

    def shown() -> tuple[str, list[str]]:
        return visit.page.inner_text("#label"), visit.page.evaluate(
            "s => [...document.querySelectorAll(s)].map(e => e.getAttribute('d') ?? e.src ?? e.innerText)",
            place,
        )

    seen = [shown()]
    visit.page.focus("#which")
    for key in ("ArrowRight", "ArrowRight", "End"):
        visit.page.keyboard.press(key)
        visit.page.wait_for_timeout(100)
        seen.append(shown())
    assert len({label for label, _ in seen}) == len({str(drawn) for _, drawn in seen}) == 4
    assert visit.page.get_attribute("#which", "aria-valuetext") == seen[-1][0]
    visit.page.keyboard.press("Home")
    visit.page.wait_for_timeout(100)
    assert shown() == seen[0]
    assert visit.troubles == []


def test_a_row_with_many_outliers_is_shown_on_demand(browser: Any, pages: dict[str, Path]) -> None:
    visit = Visit(browser, pages["images"])
    button = visit.page.locator("button[data-show]").first
    wanted = str(button.get_attribute("aria-label")).removeprefix("Show ")
    button.click()
    assert visit.page.inner_text("#label") == wanted
    assert visit.page.evaluate("document.activeElement.id") == "which"
    assert visit.troubles == []


def test_convergence_is_over_passes_or_seconds(browser: Any, pages: dict[str, Path]) -> None:
    visit = Visit(browser, pages["curves"])
    before = visit.page.inner_html("[data-chart=objective]")
    visit.page.check("input[value=seconds]")
    visit.page.wait_for_timeout(200)
    assert visit.page.inner_html("[data-chart=objective]") != before
    assert visit.troubles == []


def test_values_are_shown_on_hover(browser: Any, pages: dict[str, Path]) -> None:
    visit = Visit(browser, pages["names"])
    chart = visit.page.locator("[data-chart=energies]")
    chart.scroll_into_view_if_needed()
    visit.page.locator("[data-chart=energies] svg path[aria-roledescription=circle]").first.hover(
        force=True
    )
    visit.page.wait_for_selector("#vg-tooltip-element.visible")
    told = visit.page.inner_text("#vg-tooltip-element")
    assert "unexplained share" in told and "<img src=x" in told
    assert visit.troubles == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_need_not_scroll_sideways(browser: Any, pages: dict[str, Path], kind: str) -> None:
    visit = Visit(browser, pages[kind], viewport={"width": 360, "height": 700})
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_frame_of_a_notebook_keeps_the_report_when_a_link_is_followed(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    report = vrmf.report.Report(pages["images"].read_text(encoding="utf-8"))
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<h1>A notebook</h1>{report._repr_html_()}", encoding="latin-1", errors="xmlcharrefreplace"
    )
    page = browser.new_page()
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-drawn]").wait_for(timeout=60_000)
    frame.locator("nav a[href='#atoms']").click()
    assert frame.locator("h1").inner_text() == "RobustPCA"
    assert page.url == notebook.as_uri()


def test_paper_has_no_controls(browser: Any, pages: dict[str, Path]) -> None:
    visit = Visit(browser, pages["images"], color_scheme="dark")
    visit.page.emulate_media(media="print")
    assert not visit.page.is_visible("#which") and not visit.page.is_visible("button[data-show]")
    paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"


def test_without_scripts_tables_and_images_are_there(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(pages["images"].as_uri())
    assert page.locator("noscript").count() == 1 and page.is_visible("img[data-part=original]")
