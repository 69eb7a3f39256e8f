"""Every public name is documented, and links of the documentation lead to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vrmf
from vrmf.estimators import ESTIMATORS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Where modules may be that pages name by their file.
PACKAGE = ROOT / "src" / "vrmf"
PLACES = [ROOT, PACKAGE.parent, PACKAGE, *PACKAGE.iterdir(), ROOT / "tests", ROOT / "experiments"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_are_named_exist(page: Path) -> None:
    for name in re.findall(
        r"`((?:\w+/)?\w+\.py|(?:terms|coding|solvers|estimators)/)`", page.read_text("utf-8")
    ):
        assert any((place / name).exists() for place in PLACES), name


def test_every_estimator_is_in_the_readme_and_in_its_page() -> None:
    readme, page = (path.read_text("utf-8") for path in (PAGES[0], ROOT / "docs" / "formulations.md"))
    for kind in ESTIMATORS.values():
        assert f"`{kind.__name__}`" in readme and f"`{kind.__name__}`" in page


def test_every_public_name_has_a_docstring() -> None:
    for name in vrmf.__all__:
        if not name.startswith("__"):
            assert getattr(vrmf, name).__doc__, name


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_every_estimator_can_be_imported_from_the_package(kind: type) -> None:
    assert kind.__name__ in vrmf.__all__ and getattr(vrmf, kind.__name__) is kind


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_every_parameter_of_an_estimator_is_documented(kind: type) -> None:
    for name in kind().get_params(deep=False):
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : ", kind.__doc__ or "", flags=re.M), name
