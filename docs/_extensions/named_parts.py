"""Names in the text as links into the reference: the first `RobustPCA` of a page, the first `vrmf.suggest`.

On the forge they are plain code, as the reference is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes

#: Where names without a module are looked up, one after the other.
MODULES = ("vrmf", "vrmf.terms", "vrmf.solvers")

#: A name of a class, or any name that begins with that of the library.
NAME = re.compile(r"(?:vrmf(?:\.\w+)+|[A-Z]\w+)(?:\(\))?")

#: Pages on which other libraries have parts of the same names, and those that are made elsewhere.
LEFT_OUT = re.compile(r"coming_from$|api/|gallery/|repository/|reproduction")


def places_of(text: str) -> Iterator[str]:
    """Yield the full names that a name may stand for."""
    name = text.removesuffix("()")
    if name.startswith("vrmf."):
        yield name
    else:
        yield from (f"{module}.{name}" for module in MODULES)


def link_names(app: Any, doctree: nodes.document, page: str) -> None:
    """Make a link of the first of each name in the text of a page."""
    if LEFT_OUT.match(page):
        return
    domain, seen = app.env.domains["py"], set()
    for code in list(doctree.findall(nodes.literal)):
        text = code.astext()
        is_plain = isinstance(code.parent, nodes.paragraph | nodes.entry)
        if not is_plain or not NAME.fullmatch(text) or text in seen:
            continue
        found = next((name for name in places_of(text) if name in domain.objects), None)
        if found is not None:
            seen.add(text)
            entry = domain.objects[found]
            address = app.builder.get_relative_uri(page, entry.docname)
            link = nodes.reference("", "", internal=True, refuri=f"{address}#{entry.node_id}")
            code.replace_self(link)
            link += code


def setup(app: Any) -> dict[str, Any]:
    """Link names when all pages are known."""
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
