"""Reports of fitted models: one HTML page that opens offline (``pip install "vrmf[report]"``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from vrmf.persistence.atomic import replacing

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """A report of a fitted model, from :meth:`~vrmf.estimators.AbstractFactorizer.report`.

    Notebooks show it in a frame.
    """

    html: str  #: the whole page

    def __post_init__(self) -> None:
        # Half of a pair of code units, as names may have, cannot be written.
        object.__setattr__(self, "html", self.html.encode(errors="replace").decode())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the page to a file, whole or not at all."""
        if not overwrite and os.path.lexists(path):
            raise FileExistsError(f"{os.fspath(path)} exists. Use another path, or overwrite=True.")
        with replacing(Path(path), overwrite) as file:
            file.write(self.html.encode())

    def __repr__(self) -> str:
        return f"Report({len(self.html) / 1e6:.1f} MB of HTML: save it with report.save(path))"

    def _repr_html_(self) -> str:
        frame = 'width="100%" height="720" sandbox="allow-scripts" title="Report"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'
