"""Libraries that not every user needs, imported where they are."""

from __future__ import annotations

import importlib
from typing import Any


def library(name: str, what: Any) -> Any:
    """Return a module, or say which package to install for ``what``, a file or a kind of files.

    >>> library("json", "rows.json").loads("1")
    1
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"{what} needs the package {package}. Install it with pip.") from error
