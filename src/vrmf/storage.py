"""Models in files: a zip archive of one JSON text and plain arrays, without any pickle.

>>> import tempfile, pathlib, vrmf
>>> import numpy as np
>>> X = np.random.default_rng(0).random((50, 6))
>>> model = vrmf.NMF(n_components=2, random_state=0, tol=1e-2).fit(X)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "model.vrmf"
>>> save(model, path)
>>> bool(np.all(load(path).transform(X) == model.transform(X)))
True

Loading builds only types that this module knows, or that are passed to :func:`load`, and runs their
checks; members of the archive are stored uncompressed, so that a file cannot grow in memory. A file
from a stranger is therefore safe to open.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from vrmf import solvers, terms
from vrmf._version import __version__
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.formulations import Formulation
from vrmf.problem import Measurement
from vrmf.solvers.sgd import SGDState
from vrmf.solvers.smm import SMMState
from vrmf.solvers.usage import Usage
from vrmf.stats import WorstRows

FORMAT = "vrmf-model"
VERSION = 1
MANIFEST = "manifest.json"

_VALUES: tuple[type, ...] = (
    *(kind for name, kind in vars(terms).items() if isinstance(kind, type) and name in terms.__all__),
    *solvers.SOLVERS.values(),
    solvers.Coder,
    Formulation,
    Measurement,
    SGDState,
    SMMState,
    Usage,
    WorstRows,
)
#: What reading a damaged file may raise.
_DAMAGE = (
    zipfile.BadZipFile,
    json.JSONDecodeError,
    UnicodeDecodeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
)
_MODELS = {kind.__name__: kind for kind in ESTIMATORS.values()}


def save(model: AbstractFactorizer, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, whole or not at all.

    All parameters and fitted attributes are kept, so that ``partial_fit`` goes on where it was. A
    ``random_state`` that is not an int becomes None. Terms of your own must be frozen dataclasses;
    :func:`load` needs their classes.
    """
    if type(model).__name__ not in _MODELS:
        raise TypeError(f"`model` is {model!r}. Use one of vrmf's estimators.")
    writer = _Writer()
    params = model.get_params(deep=False)
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    attributes = {name: value for name, value in vars(model).items() if name not in params}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "vrmf": __version__,
        "estimator": type(model).__name__,
        "params": writer.encode("params", params),
        "attributes": writer.encode("attributes", attributes),
    }
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(MANIFEST, json.dumps(manifest, allow_nan=False))
            for name, array in writer.arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
                archive.writestr(name, buffer.getvalue())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], terms: Iterable[type] = ()) -> AbstractFactorizer:
    """Read a model from a file that :func:`save` wrote; ``terms`` lists the classes of your own terms."""
    try:
        with zipfile.ZipFile(path) as archive:
            reader = _Reader(archive, {kind.__name__: kind for kind in (*_VALUES, *terms)})
            manifest = json.loads(reader.bytes(MANIFEST))
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
    except _DAMAGE as error:
        raise ValueError(f"{path} is not a model file of vrmf, or is damaged ({error}).") from error


def _checked_csr(parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return a sparse matrix whose indices are inside of it; SciPy's own code would read beyond."""
    if any(part.ndim != 1 or part.dtype.kind != "i" for part in parts[1:]):
        raise TypeError("the indices of a sparse matrix are not whole numbers")
    matrix = scipy.sparse.csr_array(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


class _Writer:
    """Turns values into JSON, and puts arrays aside."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            return self.encode(name, value.item())
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, dict):
            return {"$": "dict", "items": {key: self.encode(key, item) for key, item in value.items()}}
        if isinstance(value, list | tuple | range):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {"$": kind, "items": [self.encode(name, item) for item in value]}
        if isinstance(value, np.ndarray):
            return self._array(name, value)
        if scipy.sparse.issparse(value):
            csr = value.tocsr()
            parts = {part: self._array(part, getattr(csr, part)) for part in ("data", "indices", "indptr")}
            return {"$": "csr", "shape": list(csr.shape), **parts}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                f.name: self.encode(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)
            }
            return {"$": "value", "type": type(value).__name__, "fields": fields}
        raise TypeError(
            f"{name} is {value!r}, which cannot be stored. Use numbers, strings, arrays, or frozen "
            "dataclasses of these."
        )

    def _array(self, name: str, array: Any) -> dict[str, Any]:
        if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
            return {"$": "names", "items": list(array)}
        if array.dtype.kind == "O":
            return self.encode(name, array.tolist())
        member = f"arrays/{len(self.arrays):03d}-{name}.npy"
        self.arrays[member] = array
        return {"$": "array", "member": member}


class _Reader:
    """Turns JSON back into values."""

    def __init__(self, archive: zipfile.ZipFile, kinds: dict[str, type]) -> None:
        self.archive = archive
        self.kinds = kinds

    def bytes(self, member: str) -> bytes:
        if self.archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
            raise TypeError(f"its member {member} is compressed")
        return self.archive.read(member)

    def decode(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        kind = node["$"]
        if kind == "float":
            return float(node["value"])
        if kind == "dict":
            return {key: self.decode(item) for key, item in node["items"].items()}
        if kind == "list":
            return [self.decode(item) for item in node["items"]]
        if kind == "tuple":
            return tuple(self.decode(item) for item in node["items"])
        if kind == "names":
            return np.array(node["items"], dtype=object)
        if kind == "array":
            return self._array(node["member"])
        if kind == "csr":
            parts = tuple(self.decode(node[part]) for part in ("data", "indices", "indptr"))
            return _checked_csr(parts, tuple(node["shape"]))
        if kind == "value":
            return self._value(node["type"], {k: self.decode(v) for k, v in node["fields"].items()})
        raise KeyError(f"unknown kind {kind!r}")

    def _value(self, name: str, fields: dict[str, Any]) -> Any:
        if name not in self.kinds:
            raise ValueError(
                f"The file uses {name}, which is not a part of vrmf. Pass its class: "
                f"vrmf.load(path, terms=[{name}])."
            )
        return self.kinds[name](**fields)

    def _array(self, member: str) -> Any:
        data = self.bytes(member)
        stream = io.BytesIO(data)
        np.lib.format.read_magic(stream)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.hasobject:
            raise TypeError("an array holds objects")
        # Read from the bytes that are there: a header that promises more raises, and allocates nothing.
        flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if fortran else "C").copy()
