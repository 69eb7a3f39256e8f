"""Draws choosing.svg, the questions that lead to a model: python docs/images/choosing.py"""

from __future__ import annotations

from html import escape
from pathlib import Path

INK, PAPER, LINE, ANSWER = "#1c2230", "#ffffff", "#8b94a3", "#dcecf7"

#: Each question, and the one that follows if the answer is yes, with its two models.
STEPS = (
    (
        ("Are some entries grossly wrong,", "or do objects hide a background?"),
        ("Is the rest a sum of", "nonnegative parts?"),
        ("RobustNMF", "RobustPCA"),
    ),
    (
        ("Are there no negative entries?",),
        ("Are rows curves, such as", "spectra or time courses?"),
        ("SmoothDictionaryLearning", "NMF"),
    ),
    (
        ("Does each row consist of a few", "of many patterns, as image", "patches do?"),
        ("Do you know which patterns", "belong together?"),
        ("GroupDictionaryLearning", "DictionaryLearning"),
    ),
)
WIDTH, HEIGHT, STEP = 760, 432, 124


def box(x: float, y: float, width: float, height: float, lines: tuple[str, ...], fill: str) -> str:
    """Return a box with centred lines of text."""
    first = y + height / 2 - 8.5 * (len(lines) - 1) + 5
    words = "".join(
        f'<text x="{x + width / 2}" y="{first + 17 * place}" text-anchor="middle">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{LINE}"/>'
    )
    return frame + words


def arrow(points: str, x: float, y: float, word: str) -> str:
    """Return an arrow along some points, with a word beside it."""
    style = f'fill="none" stroke="{LINE}" stroke-width="1.6" marker-end="url(#tip)"'
    return f'<polyline points="{points}" {style}/><text x="{x}" y="{y}" class="small">{word}</text>'


def drawing() -> str:
    """Return the picture."""
    parts = []
    for place, (question, second, (yes, no)) in enumerate(STEPS):
        y = 16 + place * STEP
        parts.append(box(16, y, 236, 76, question, PAPER))
        parts.append(arrow(f"252,{y + 38} 290,{y + 38}", 260, y + 30, "yes"))
        parts.append(box(294, y, 204, 76, second, PAPER))
        parts.append(arrow(f"498,{y + 24} 536,{y + 18}", 504, y + 12, "yes"))
        parts.append(arrow(f"498,{y + 52} 536,{y + 58}", 508, y + 72, "no"))
        parts.append(box(540, y, 204, 34, (yes,), ANSWER))
        parts.append(box(540, y + 42, 204, 34, (no,), ANSWER))
        parts.append(arrow(f"134,{y + 76} 134,{y + STEP - 4}", 142, y + 104, "no"))
    parts.append(box(16, 16 + 3 * STEP, 236, 34, ("RobustPCA",), ANSWER))
    return "".join(parts)


def main() -> None:
    """Write the picture beside this file."""
    tip = f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/>'
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Questions about data that lead to a model">'
        f"<style>text {{font: 13px system-ui, sans-serif; fill: {INK}}} .small {{font-size: 12px}}</style>"
        f'<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'{tip}</marker></defs><rect width="{WIDTH}" height="{HEIGHT}" rx="10" '
        f'fill="{PAPER}"/>{drawing()}</svg>\n'
    )
    (Path(__file__).parent / "choosing.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
