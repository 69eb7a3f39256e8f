"""Formulas as MathML, made when the site is built: a page that is read needs no script for them.

``$…$`` and ``$$…$$`` of MyST and the role ``:math:`` become ``<math>`` elements, which browsers draw
themselves.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

MATHML = "http://www.w3.org/1998/Math/MathML"

#: Script letters of Unicode: most follow each other, the others have places of their own.
OWN_PLACES = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))

#: Operators below which conditions stand, in formulas that have lines of their own.
WITH_LIMITS = {"min", "max", "argmin", "argmax", "sup", "inf"}

ElementTree.register_namespace("", MATHML)


def script_letter(letter: str) -> str:
    """Return a capital letter in script.

    >>> script_letter("C"), script_letter("H")
    ('𝒞', 'ℋ')
    """
    return OWN_PLACES.get(letter, chr(0x1D49C + ord(letter) - ord("A")))


def mathml(latex: str, display: str) -> str:
    """Return the MathML of a formula in LaTeX; ``display`` is "inline" or "block"."""
    root = ElementTree.fromstring(convert(latex, display=display))
    for element in root.iter():
        kind = element.tag.rpartition("}")[2]
        if kind == "mi" and element.get("mathvariant") == "script":
            # Browsers ignore the variant but for upright letters.
            del element.attrib["mathvariant"]
            element.text = "".join(map(script_letter, element.text or ""))
        if kind == "mo" and element.text == "‖":
            element.set("stretchy", "false")
        if kind == "msub" and display == "block" and element[0].text in WITH_LIMITS:
            element.tag = f"{{{MATHML}}}munder"
    return ElementTree.tostring(root, encoding="unicode")


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
