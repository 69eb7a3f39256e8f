"""Models in files, without any pickle: a file from a stranger is safe to open (:mod:`vrmf.archive`).

>>> import tempfile, pathlib, vrmf
>>> import numpy as np
>>> X = np.random.default_rng(0).random((50, 6))
>>> model = vrmf.NMF(n_components=2, random_state=0, tol=1e-2).fit(X)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "model.vrmf"
>>> save(model, path)
>>> bool(np.all(load(path).transform(X) == model.transform(X)))
True
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from vrmf._version import __version__
from vrmf.archive import DAMAGE, VALUES, Reader, Writer, write_archive
from vrmf.atomic import replacing
from vrmf.estimators import ESTIMATORS, AbstractFactorizer

FORMAT = "vrmf-model"
VERSION = 1

_MODELS = {kind.__name__: kind for kind in ESTIMATORS.values()}


def save(model: AbstractFactorizer, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, whole or not at all.

    All parameters and fitted attributes are kept, so that ``partial_fit`` goes on where it was. A
    ``random_state`` that is not an int becomes None. Terms of your own must be frozen dataclasses;
    :func:`load` needs their classes.
    """
    if type(model).__name__ not in _MODELS:
        raise TypeError(f"`model` is {model!r}. Use one of vrmf's estimators.")
    writer = Writer()
    params = model.get_params(deep=False)
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if params["checkpoint"] is not None:
        params["checkpoint"] = os.fspath(params["checkpoint"])
    attributes = {name: value for name, value in vars(model).items() if name not in params}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "vrmf": __version__,
        "estimator": type(model).__name__,
        "params": writer.encode("params", params),
        "attributes": writer.encode("attributes", attributes),
    }
    with replacing(Path(path)) as file:
        write_archive(file, manifest, writer.arrays)


def load(path: str | os.PathLike[str], terms: Iterable[type] = ()) -> AbstractFactorizer:
    """Read a model from a file that :func:`save` wrote; ``terms`` lists the classes of your own terms."""
    try:
        with zipfile.ZipFile(path) as archive:
            reader = Reader(archive, (*VALUES, *terms))
            manifest = reader.manifest()
            if manifest["format"] != FORMAT:
                raise KeyError("format")
            if manifest["version"] > VERSION:
                raise ValueError(
                    f"{path} has version {manifest['version']} of the format, written by vrmf "
                    f"{manifest['vrmf']}. Upgrade vrmf; this one reads up to version {VERSION}."
                )
            model = _MODELS[manifest["estimator"]](**reader.decode(manifest["params"]))
            for name, value in reader.decode(manifest["attributes"]).items():
                setattr(model, name, value)
            return model
    except DAMAGE as error:
        raise ValueError(f"{path} is not a model file of vrmf, or is damaged ({error}).") from error
