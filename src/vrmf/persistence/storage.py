"""Models in files, without any pickle: a file from an untrusted source is safe to open.

See :mod:`vrmf.persistence.archive`.

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

import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from vrmf._version import __version__
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.persistence.archive import VALUES, Reader, UnknownType, Writer, write_archive
from vrmf.persistence.atomic import replacing
from vrmf.persistence.declared import check_declared
from vrmf.running.stream import Stream
from vrmf.solvers.smm import SMMState

FORMAT = "vrmf-model"

#: The version of the format. Version 1 had no ``relative_stationarity_`` and ``reconstruction_error_``. Up
#: to version 4 the two parts of ``stream_`` were attributes of their own.
VERSION = 5

#: Attributes that a file may set, besides those with an underscore at their end.
PRIVATE = ("_sklearn_output_config",)

#: Attributes that are not written: callbacks of scikit-learn.
TRANSIENT = ("_skl_callbacks",)

_MODELS = {kind.__name__: kind for kind in ESTIMATORS.values()}


class NewerVersion(ValueError):
    """A file was written by a later version of vrmf."""


def save(model: AbstractFactorizer, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write a model to a file, whole or not at all.

    A file that is there is replaced, and the new one has its permissions. If ``overwrite`` is False, it is
    left as it is, and a FileExistsError is raised. Folders, devices and pipes are refused.

    All parameters and fitted attributes are stored, so that ``partial_fit`` goes on where it was. A
    ``random_state`` that is not an int becomes None. Terms of your own must be frozen dataclasses;
    :func:`load` needs their classes.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{os.fspath(path)} exists. Use another path, or overwrite=True.")
    write_model(model, Path(path), overwrite)


def write_model(model: AbstractFactorizer, path: Path, overwrite: bool) -> None:
    """Write a model; without ``overwrite`` to a new path if the file exists, with a FileExistsError."""
    if type(model).__name__ not in _MODELS:
        raise TypeError(f"`model` is {model!r}. Use one of vrmf's estimators.")
    writer = Writer()
    params = model.get_params(deep=False)
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if params["checkpoint"] is not None:
        params["checkpoint"] = os.fspath(params["checkpoint"])
    left_out = (*params, *TRANSIENT)
    attributes = {name: value for name, value in vars(model).items() if name not in left_out}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "vrmf": __version__,
        "estimator": type(model).__name__,
        "params": writer.encode("params", params),
        "attributes": writer.encode("attributes", attributes),
    }
    with replacing(path, overwrite) as file:
        write_archive(file, manifest, writer.arrays)


def load(path: str | os.PathLike[str], terms: Iterable[type] = ()) -> AbstractFactorizer:
    """Read a model from a file that :func:`save` wrote; ``terms`` lists the classes of your own terms.

    Files of all earlier versions can be read; figures that they do not have are NaN.
    """
    with open(path, "rb") as file:
        try:
            return _read(file, (*VALUES, *terms))
        except (UnknownType, NewerVersion) as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
        except Exception as error:  # its type depends on where the damage is
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"{os.fspath(path)} is not a model file of vrmf, or is damaged ({reason})."
            ) from error


def _read(file: IO[bytes], kinds: tuple[type, ...]) -> AbstractFactorizer:
    with zipfile.ZipFile(file) as archive:
        reader = Reader(archive, kinds)
        manifest = reader.manifest()
        if manifest["format"] != FORMAT:
            raise KeyError("format")
        if type(manifest["version"]) is not int or manifest["version"] < 1:
            raise KeyError("version")
        if manifest["version"] > VERSION:
            raise NewerVersion(
                f"it has version {manifest['version']} of the format, written by vrmf "
                f"{manifest['vrmf']}. Upgrade vrmf; this one reads up to version {VERSION}."
            )
        model = _MODELS[manifest["estimator"]](**reader.decode(manifest["params"]))
        attributes = reader.decode(manifest["attributes"])
    if manifest["version"] == 1 and "components_" in attributes:
        attributes = {"relative_stationarity_": math.nan, "reconstruction_error_": math.nan} | attributes
    if manifest["version"] < 5 and "_stream_weights" in attributes:
        # Models that a callback has seen had weights alone.
        state = attributes.pop("_stream", None) or SMMState(D=attributes["components_"], seed=0)
        attributes["stream_"] = Stream(state, attributes.pop("_stream_weights"))
    _check_attributes(attributes)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _check_attributes(attributes: dict[str, Any]) -> None:
    """Raise if attributes are not those of a fitted model, or of shapes that do not agree."""
    for name in attributes:
        is_fitted_name = name.endswith("_") and not name.startswith("_")
        if not is_fitted_name and name not in PRIVATE:
            raise ValueError(f"a model has no attribute {name!r}")
    if "components_" not in attributes:
        return
    D, width = attributes["components_"], attributes["n_features_in_"]
    if not (isinstance(D, np.ndarray) and D.dtype.kind == "f" and D.shape == (len(D), width) and len(D)):
        raise ValueError("its dictionary does not fit its features")
    if not np.all(np.isfinite(D)):
        raise ValueError("its dictionary has entries that are not finite")
    for name, kinds in (("mean_", "f"), ("feature_names_in_", "O")):
        value = attributes.get(name, np.empty(width, kinds))
        if not isinstance(value, np.ndarray) or value.shape != (width,) or value.dtype.kind not in kinds:
            raise ValueError(f"{name} does not fit its features")
    if "stream_" in attributes:
        stream = attributes["stream_"]
        check_declared(stream)
        if not isinstance(stream, Stream) or stream.state.D.shape != D.shape:
            raise ValueError("the state of its stream does not fit its dictionary")
    attributes["formulation_"].check_width(*D.shape)
