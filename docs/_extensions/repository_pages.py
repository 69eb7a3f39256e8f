"""Files of the repository that are pages of the site as well, and links to them.

The changelog and the results of benchmarks are read on the forge where they are. For the site they are
copied into ``docs/repository`` when it is built, with links that fit. Links of pages to these files are
changed in the same way when a page is read, so that one link works in both places.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent

#: The folder of copies, inside docs.
COPIES = "repository"

#: Files that are copied, and those that a page of the site takes the place of.
COPIED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/results/*.md")
REPLACED = {ROOT / "README.md": "index"}

#: The target of a link or a picture: what is between "](" and ")", without a title.
TARGET = re.compile(r"(?P<before>\]\()(?P<path>[^()\s#:]+)(?P<anchor>#[^()\s]*)?(?P<after>[)\s])")


def copied_pages() -> dict[Path, str]:
    """Return the names of pages on the site by the files of the repository that they copy."""
    paths = (path for pattern in COPIED for path in sorted(ROOT.glob(pattern)))
    return {path: f"{COPIES}/{path.relative_to(ROOT).with_suffix('').as_posix().lower()}" for path in paths}


def with_fitting_links(text: str, origin: Path, page: str) -> str:
    """Return the text of a file with links as the page of that name needs them."""
    pages = copied_pages() | REPLACED
    folder = (DOCS / page).parent

    def fitting(found: re.Match[str]) -> str:
        target = (origin.parent / found["path"]).resolve()
        if target in pages:
            target = DOCS / f"{pages[target]}.md"
        path = os.path.relpath(target, folder).replace(os.sep, "/")
        return f"{found['before']}{path}{found['anchor'] or ''}{found['after']}"

    return TARGET.sub(fitting, text)


def write_copies(app: Any, config: Any) -> None:
    """Write the copies, those that have changed."""
    for origin, page in copied_pages().items():
        text = with_fitting_links(origin.read_text("utf-8"), origin, page)
        if not text.startswith("# "):
            text = f"# {origin.stem.replace('_', ' ').capitalize()}\n\n{text}"
        copy = DOCS / f"{page}.md"
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_text("utf-8") != text:
            copy.write_text(text, "utf-8")


def fit_links(app: Any, page: str, source: list[str]) -> None:
    """Change the links of a page that leave the folder of the documentation."""
    path = app.env.doc2path(page)
    if path.suffix == ".md" and not page.startswith(f"{COPIES}/"):
        source[0] = with_fitting_links(source[0], Path(path), page)


def setup(app: Any) -> dict[str, Any]:
    """Copy files when the configuration is known, and change links of pages as they are read."""
    app.connect("config-inited", write_copies)
    app.connect("source-read", fit_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
