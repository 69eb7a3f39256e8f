"""Signs in docstrings that mean themselves: the bars of ``|r| ≤ M``, and the end of ``alpha_``.

In reStructuredText they would name a substitution and a link. Docstrings are read in Python as well,
where a backslash before each would be in the way.
"""

from __future__ import annotations

import re
from typing import Any

#: Code in a line, which stays as it is; a bar; an underscore at the end of a word.
PART = re.compile(r"``.*?``|`[^`]*`|(?<!\\)\||(?<=\w)_(?!\w|`)")


def escape_signs(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape the signs in a docstring, but not those of code."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "|", "+-")):
            lines[number] = PART.sub(escaped, line)


def escaped(found: re.Match[str]) -> str:
    """Return a sign behind a backslash, and code as it is."""
    return f"\\{found[0]}" if found[0] in "|_" else found[0]


def setup(app: Any) -> dict[str, Any]:
    """Escape signs after numpydoc has read the sections."""
    app.connect("autodoc-process-docstring", escape_signs, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
