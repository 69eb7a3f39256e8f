"""Code without empty lines at its end, which doctest needs in Markdown and readers do not."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def trim(app: Sphinx, doctree: nodes.document) -> None:
    """Remove empty lines at the end of each block of code of a page."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        if block.rawsource == block.astext():  # it is coloured then
            block.rawsource = text
            block[:] = [nodes.Text(text)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Trim when a page is read."""
    app.connect("doctree-read", trim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
