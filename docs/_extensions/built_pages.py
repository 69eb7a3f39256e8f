"""Checks of the pages as they were built: every link leads somewhere, and nothing comes from another host.

A broken link is a warning, and ``make docs`` fails on warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Elements whose addresses a browser asks for by itself, when a page is opened.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}

#: Kinds of <link> that name a page and load nothing.
NAMES_ONLY = {"search", "next", "prev", "index", "canonical", "genindex", "up"}

#: What a style sheet loads.
STYLE_LOADS = re.compile(r"@import\s+[\"']?([^\"';]+)|url\(\s*[\"']?([^\"')]+)")


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in NAMES_ONLY:
            self.loaded.append(values[LOADED[tag]])


@cache
def page_at(path: Path) -> Page:
    """Return what a file of HTML holds."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def faults(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the pages in a folder, and with their style sheets."""
    for path in sorted(folder.rglob("*.html")):
        if path.relative_to(folder).parts[0] == "_static":  # parts of the theme, which are no pages
            continue
        name, page = path.relative_to(folder), page_at(path)
        for link in (*page.links, *page.loaded):
            if not leads_somewhere(link, path, folder):
                yield f"{name}: {link} leads nowhere"
        yield from (f"{name} loads {each} from another host" for each in page.loaded if is_elsewhere(each))
    for path in sorted(folder.rglob("*.css")):
        for found in STYLE_LOADS.finditer(path.read_text("utf-8")):
            if is_elsewhere(address := found[1] or found[2]):
                yield f"{path.relative_to(folder)} loads {address} from another host"


def is_elsewhere(address: str) -> bool:
    """Whether an address is on another host."""
    return address.startswith(("http:", "https:", "//"))


def leads_somewhere(link: str, path: Path, folder: Path) -> bool:
    """Whether a link of a page leads to a file that is there, and to an anchor in it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = path if not parts.path else (path.parent / unquote(parts.path))
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in page_at(target).anchors


def check_pages(app: Any, error: Exception | None) -> None:
    """Warn of each fault."""
    from sphinx.util import logging

    logger = logging.getLogger(__name__)
    if error is None and app.builder.name == "html":
        for fault in faults(Path(app.outdir)):
            logger.warning(fault)


def setup(app: Any) -> dict[str, Any]:
    """Check when all is built."""
    app.connect("build-finished", check_pages, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
