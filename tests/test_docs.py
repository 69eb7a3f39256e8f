"""The documentation speaks of every public name, what it names exists, and its links lead somewhere."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import vrmf
from vrmf import solvers, terms
from vrmf.cli import main
from vrmf.estimators import ESTIMATORS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

#: Folders of docs that the build of the site writes.
BUILT = {"repository", "gallery", "generated"}

#: Files of the repository that the site shows as well.
SHOWN = [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("benchmarks/results/*.md"))]

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not BUILT & set(page.relative_to(DOCS).parts)),
]
FORMULATIONS = sorted((DOCS / "formulations").glob("*.md"))
REFERENCE = sorted((DOCS / "api").glob("*.rst"))

#: Modules whose names are public: all that they define, or what is in their ``__all__``.
PUBLIC = [
    "vrmf",
    "vrmf.coding",
    "vrmf.comparing",
    "vrmf.datasets",
    "vrmf.estimators",
    "vrmf.formulations",
    "vrmf.plots",
    "vrmf.report",
    "vrmf.scenes",
    "vrmf.solvers",
    "vrmf.sources",
    "vrmf.suggesting",
    "vrmf.terms",
    "vrmf.theory",
]

#: Where modules may be that pages name by their file.
PACKAGE = ROOT / "src" / "vrmf"
PLACES = [ROOT, PACKAGE.parent, PACKAGE, *PACKAGE.iterdir(), ROOT / "tests", ROOT / "experiments"]

#: Commands of others, whose options are not ours.
OTHERS = ("python", "pip", "pytest", "make", "git")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
every_shown = pytest.mark.parametrize("page", [*PAGES, *SHOWN], ids=lambda page: page.name)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# Links -------------------------------------------------------------------------------------------


def links_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the anchor of each link and picture, without those to other hosts."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)[)\s]", without_code(text)):
        path, _, anchor = target.partition("#")
        yield path, anchor


def without_code(text: str) -> str:
    """Return a text of Markdown without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors_in(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as forges make them."""
    headings = re.findall(r"^#+ +(.+?) *$", without_code(text), flags=re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@every_shown
def test_links_lead_to_files_and_their_anchors_to_headings(page: Path) -> None:
    for path, anchor in links_in(text_of(page)):
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors_in(text_of(target)), f"{path}#{anchor}"


def test_anchors_are_those_of_forges() -> None:
    headings = "# Robust PCA\n## `init`, and *more*\n```\n# no heading\n```\n### A [link](to#it) – 2\n"
    assert anchors_in(headings) == {"robust-pca", "init-and-more", "a-link--2"}


def entries_of(page: Path) -> Iterator[Path]:
    """Yield the pages in the tables of contents of a page."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", text_of(page), flags=re.M | re.S)
    for line in "\n".join(blocks).splitlines():
        if line and not line.startswith(":") and not BUILT & set(Path(line).parts):
            named = sorted(page.parent.glob(f"{line}.*"))
            yield next(path for path in named if path.suffix in (".md", ".rst"))


def test_every_page_is_in_a_table_of_contents() -> None:
    found, left = set(), [DOCS / "index.md"]
    while left:
        page = left.pop()
        found.add(page)
        if page.suffix == ".md":
            left.extend(entries_of(page))
    assert set(PAGES) - {ROOT / "README.md", ROOT / "CONTRIBUTING.md"} <= found
    assert DOCS / "api" / "index.rst" in found


# The reference -----------------------------------------------------------------------------------


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the public names of a module: those in ``__all__``, or all that it defines itself."""
    for name in getattr(module, "__all__", vars(module)):
        thing = getattr(module, name)
        is_own = hasattr(module, "__all__") or getattr(thing, "__module__", None) == module.__name__
        if is_own and not name.startswith("_") and not inspect.ismodule(thing):
            yield name


def in_reference() -> dict[str, Any]:
    """Return what the pages of the reference list, by its full name."""
    listed: dict[str, Any] = {}
    for page in REFERENCE:
        module, is_list = "", False
        for line in text_of(page).splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            is_list = line.startswith(".. autosummary::") or (is_list and not re.match(r"\S", line))
            if is_list and (name := re.fullmatch(r"   (\w+)", line)):
                listed[f"{module}.{name[1]}"] = getattr(importlib.import_module(module), name[1])
    return listed


LISTED = in_reference()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module = importlib.import_module(name)
    things = {id(thing) for thing in LISTED.values()}
    assert not [each for each in public_names(module) if id(getattr(module, each)) not in things]


def test_every_package_that_lists_its_names_is_public_or_internal() -> None:
    internal = {"vrmf.persistence.archive"}
    with_names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^__all__ = ", text_of(path), flags=re.M)
    }
    assert with_names - internal <= set(PUBLIC)


def test_every_name_in_the_reference_has_a_docstring() -> None:
    assert not [name for name, thing in LISTED.items() if not getattr(thing, "__doc__", None)]


def test_every_page_of_the_reference_is_in_its_table_of_contents() -> None:
    contents = text_of(DOCS / "api" / "index.rst").partition(".. toctree::")[2].split()
    assert {page.stem for page in REFERENCE} - {"index"} <= set(contents)


# What pages name ---------------------------------------------------------------------------------


@every_page
def test_modules_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:\w+/)?\w+\.py|(?:terms|coding|solvers|estimators)/)`", text_of(page)):
        assert any((place / name).exists() for place in PLACES), name


@every_page
def test_public_names_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`(vrmf(?:\.\w+)+)\(?[^`]*`", without_code(text_of(page))):
        thing: Any = vrmf
        for part in name.split(".")[1:]:
            if inspect.ismodule(thing) and not hasattr(thing, part):
                importlib.import_module(f"{thing.__name__}.{part}")
            thing = getattr(thing, part)


#: Everything with parameters that pages write as in Python.
CALLED: dict[str, Any] = {
    **{kind.__name__: kind for kind in ESTIMATORS.values()},
    **{name: getattr(solvers, name) for name in solvers.__all__},
    **{name: getattr(terms, name) for name in terms.__all__},
}

#: The page of names in other libraries calls these by the same names.
OTHER_LIBRARIES = {DOCS / "coming_from.md"}


@pytest.mark.parametrize("page", sorted(set(PAGES) - OTHER_LIBRARIES), ids=lambda page: page.name)
def test_parameters_that_are_named_exist(page: Path) -> None:
    for code in re.findall(r"`([^`\n]+)`", without_code(text_of(page))):
        for name, arguments in re.findall(r"(?<![\w.])(\w+)\(([^()]*)\)", code):
            if name in CALLED and inspect.isclass(CALLED[name]):
                known = inspect.signature(CALLED[name]).parameters
                assert set(re.findall(r"(\w+)=", arguments)) <= set(known), code


def documented_attributes() -> set[str]:
    """Return the attributes that docstrings of estimators describe."""
    sections = ((kind.__doc__ or "").partition("\nAttributes\n")[2] for kind in ESTIMATORS.values())
    lines = re.findall(r"^(\w+_(?:, \w+_)*)(?: :.*)?$", "\n".join(sections), flags=re.M)
    # scikit-learn sets these two, where data have names and in every fit.
    return {"feature_names_in_", "n_features_in_"} | {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize("page", sorted(set(PAGES) - OTHER_LIBRARIES), ids=lambda page: page.name)
def test_attributes_that_are_named_are_documented(page: Path) -> None:
    named = set(re.findall(r"`(?:model\.)?([a-z]\w*_)`", without_code(text_of(page))))
    assert named <= documented_attributes()


def commands_in(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield pieces of a page that may name options, with the command of ours that they call, if any."""
    pieces = re.findall(r"`([^`\n]+)`", without_code(text))
    for block in re.findall(r"^```\n(.*?)^```$", text, flags=re.M | re.S):
        pieces += [line.partition("#")[0] for line in block.splitlines()]
    for piece in pieces:
        called = re.match(r"\s*vrmf (\w+)", piece)
        if not piece.strip().startswith(OTHERS):
            yield called[1] if called else None, piece


#: The options of each command, by all words by which they are given.
OPTIONS = {
    name: {
        word
        for option in command.params
        if isinstance(option, click.Option)
        for word in (*option.opts, *option.secondary_opts)
    }
    for name, command in main.commands.items()
}

#: Those of the paper's experiments, which are no command of the library.
OF_EXPERIMENTS = set(re.findall(r'"(--[a-z-]+)"', "".join(map(text_of, ROOT.glob("experiments/*.py")))))


@every_page
def test_commands_and_options_that_are_named_exist(page: Path) -> None:
    everywhere = set().union(OF_EXPERIMENTS, *OPTIONS.values())
    for command, piece in commands_in(text_of(page)):
        assert command is None or command in OPTIONS or command.isupper(), piece
        known = OPTIONS.get(command or "", everywhere) | {"--help", "--version"}
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", piece)) <= known, piece


# Estimators --------------------------------------------------------------------------------------


def test_every_estimator_is_in_the_readme_and_in_the_guide() -> None:
    readme, guide = text_of(ROOT / "README.md"), text_of(DOCS / "formulations.md")
    for kind in ESTIMATORS.values():
        assert f"`{kind.__name__}`" in readme and f"`{kind.__name__}`" in guide


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


# Pages of formulations ---------------------------------------------------------------------------


def test_every_formulation_has_a_page() -> None:
    names = {page.stem.replace("_", "-") for page in FORMULATIONS}
    assert names == set(ESTIMATORS) - {"matrix-factorization"}


@pytest.mark.parametrize("page", FORMULATIONS, ids=lambda page: page.stem)
def test_the_page_of_a_formulation_has_all_its_parts(page: Path) -> None:
    text, kind = text_of(page), ESTIMATORS[page.stem.replace("_", "-")]
    headings = re.findall(r"^## (.+)$", without_code(text), flags=re.M)
    for part in ("When to use it", "Example", "Parameters that matter", "The problem", "References"):
        assert part in headings
    assert {"Limits", "Where it cannot work"} & set(headings)
    assert f"vrmf.{kind.__name__}(" in text and "\n$$\n" in text
    picture = page.parent / f"../images/formulation-{page.stem.replace('_', '-')}.png"
    assert f"](../images/{picture.name})" in text and picture.stat().st_size < 60_000
    table = text.partition("\n## Parameters that matter\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| (`.*?) \|", table, flags=re.M):
        assert set(re.findall(r"`(\w+)`", line)) <= set(kind().get_params(deep=False)), line
