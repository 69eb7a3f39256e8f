"""Libraries that not every user needs, imported where they are."""

from __future__ import annotations

import importlib
from typing import Any

#: The extras of vrmf that bring a package.
EXTRAS = {
    "PIL": "files",
    "click": "cli",
    "dask": "dask",
    "distributed": "dask",
    "h5py": "files",
    "jinja2": "report",
    "matplotlib": "plots",
    "pooch": "data",
    "pyarrow": "files",
    "rich": "cli",
    "vl_convert": "report",
    "zarr": "files",
}


def library(name: str, what: Any) -> Any:
    """Return a module, or say which extra of vrmf to install for ``what``, a file or a part of vrmf.

    >>> library("json", "rows.json").loads("1")
    1
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        how = f'"vrmf[{EXTRAS[package]}]"' if package in EXTRAS else package
        raise ImportError(f"{what} needs the package {package}. Install it with pip: {how}.") from error
