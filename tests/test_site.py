"""What the build of the site does to pages, without Sphinx: links that fit, and faults that are found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXTENSIONS = Path(__file__).parents[1] / "docs" / "_extensions"


def extension(name: str) -> ModuleType:
    """Return an extension of the site by its name."""
    found = importlib.util.spec_from_file_location(name, EXTENSIONS / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# Links of pages ----------------------------------------------------------------------------------

#: A file, a link in it as it is on the forge, and the same on the site.
LINKS = [
    ("docs/solvers.md", "../benchmarks/results/suggest.md", "repository/benchmarks/results/suggest.md"),
    ("docs/formulations/nmf.md", "../../CHANGELOG.md#x", "../repository/changelog.md#x"),
    ("docs/formulations/nmf.md", "../choosing.md", "../choosing.md"),
    ("CHANGELOG.md", "docs/solvers.md#the-problem", "../solvers.md#the-problem"),
    ("CONTRIBUTING.md", "SECURITY.md", "security.md"),
    ("docs/solvers.md", "../README.md", "index.md"),
    ("docs/solvers.md", "../src/vrmf/theory.py", "../src/vrmf/theory.py"),
    ("benchmarks/results/starts.md", "starts.svg", "../../../../benchmarks/results/starts.svg"),
    ("docs/solvers.md", "https://example.org/a.md", "https://example.org/a.md"),
    ("docs/solvers.md", "#the-problem", "#the-problem"),
]


@pytest.mark.parametrize(("file", "link", "expected"), LINKS)
def test_a_link_leads_to_the_same_file_on_the_site(file: str, link: str, expected: str) -> None:
    pages = extension("repository_pages")
    path = pages.ROOT / file
    page = pages.copied_pages().get(path) or path.relative_to(pages.DOCS).with_suffix("").as_posix()
    text = pages.with_fitting_links(f"See [this\nor that]({link}).", path, page)
    assert text == f"See [this\nor that]({expected})."


# Pages as they are built -------------------------------------------------------------------------

#: The body of a page, and what is said of it.
BODIES = {
    "<a href='b.html#here'>": [],
    "<a href='#there'><p id='there'>": [],
    "<a href='https://example.org'>": [],
    "<img src='data:image/png;base64,AA'>": [],
    "<a href='b.html#gone'>": ["a.html: b.html#gone leads nowhere"],
    "<a href='c.html'>": ["a.html: c.html leads nowhere"],
    "<img src='gone.png'>": ["a.html: gone.png leads nowhere"],
    "<script src='https://example.org/x.js'>": ["a.html loads https://example.org/x.js from another host"],
    "<link rel='stylesheet' href='//example.org/x.css'>": [
        "a.html loads //example.org/x.css from another host"
    ],
}


@pytest.mark.parametrize("body", BODIES)
def test_faults_of_a_page_are_found(body: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    (tmp_path / "b.html").write_text("<html><body><p id='here'></body></html>", encoding="utf-8")
    assert list(extension("built_pages").faults(tmp_path)) == BODIES[body]


def test_faults_of_a_style_sheet_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://a.org/f.css'; p {background: url(b.png)}", "utf-8")
    assert list(extension("built_pages").faults(tmp_path)) == [
        "a.css loads https://a.org/f.css from another host"
    ]


# Docstrings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("with |r| ≤ M", r"with \|r\| ≤ M"),
        ("alpha_ · w_g, and ``|r|``", r"alpha\_ · w_g, and ``|r|``"),
        (">>> a | b_", ">>> a | b_"),
        (r"**alpha\_**", r"**alpha\_**"),
    ],
)
def test_signs_in_docstrings_mean_themselves(line: str, expected: str) -> None:
    lines = [line]
    extension("plain_docstrings").escape_signs(None, "class", "name", None, None, lines)
    assert lines == [expected]
