"""Formulas as MathML, made when the site is built: a page that is read needs no script for them.

``$…$`` and ``$$…$$`` of MyST and the role ``:math:`` become ``<math>`` elements, which browsers draw
themselves.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

#: Browsers ignore ``mathvariant`` but for upright letters, so script letters are written as themselves.
SCRIPT = re.compile(r'<mi mathvariant="script">([A-Z])</mi>')

#: Script letters of Unicode: most follow each other, the others have places of their own.
OWN_PLACES = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))


def script_letter(letter: str) -> str:
    """Return a capital letter in script.

    >>> script_letter("C"), script_letter("H")
    ('𝒞', 'ℋ')
    """
    return OWN_PLACES.get(letter, chr(0x1D49C + ord(letter) - ord("A")))


def mathml(latex: str, display: str) -> str:
    """Return the MathML of a formula in LaTeX; ``display`` is "inline" or "block"."""
    text = convert(latex, display=display)
    return SCRIPT.sub(lambda found: f"<mi>{script_letter(found[1])}</mi>", text)


def visit_math(translator: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_displaymath(translator: Any, node: nodes.math_block) -> None:
    """Write a formula in lines of its own. It scrolls where the screen is narrower."""
    translator.body.append(f'<div class="math-block">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Make this the way in which formulas are written."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
