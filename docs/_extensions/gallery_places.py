"""Room for the gallery of examples: a page in its place while the folder ``examples`` has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
HEADERS = ("GALLERY_HEADER.rst", "README.rst", "README.txt")
TITLE = "Examples\n========\n\nEach example is a script that the build of this site runs.\n"


def make_room(app: Any, config: Any) -> None:
    """Write what the gallery lacks: its folder, and a page of its own above the examples."""
    folder = EXAMPLES
    if not any(EXAMPLES.glob("plot_*.py")) or not any((EXAMPLES / name).is_file() for name in HEADERS):
        folder = Path(app.doctreedir) / "examples"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "GALLERY_HEADER.rst").write_text(TITLE, "utf-8")
        for example in EXAMPLES.glob("*.py"):
            (folder / example.name).write_text(example.read_text("utf-8"), "utf-8")
    config.sphinx_gallery_conf["examples_dirs"] = str(folder)


def setup(app: Any) -> dict[str, Any]:
    """Make room before the gallery looks for its examples."""
    app.connect("config-inited", make_room, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
