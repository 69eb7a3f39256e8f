"""Values in files: a zip archive of one JSON text and plain arrays, without any pickle.

A :class:`Writer` turns values into JSON and puts their arrays aside, :func:`write_archive` streams
both into an open file, and a :class:`Reader` turns them back. It builds only types that it is given,
and runs their checks; members are stored uncompressed and read once, so that a file cannot grow in memory.
A file from an untrusted source is therefore safe to open.

>>> import io
>>> from vrmf.terms import L1, NonNegative
>>> file, writer = io.BytesIO(), Writer()
>>> write_archive(file, {"term": writer.encode("term", L1(0.5) + NonNegative())}, writer.arrays)
>>> with zipfile.ZipFile(file) as archive:
...     reader = Reader(archive, VALUES)
...     reader.decode(reader.manifest()["term"])
Sum(terms=(L1(weight=0.5), NonNegative()), iterative=False)
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import warnings
import zipfile
from collections.abc import Iterable
from numbers import Real
from typing import IO, Any

import numpy as np
import scipy.sparse

from vrmf import solvers, terms
from vrmf.auto_weights import Sums
from vrmf.callers import level_of_caller
from vrmf.formulations import Formulation
from vrmf.measurement import Measurement
from vrmf.recovery.progress import Progress
from vrmf.running.stream import Stream
from vrmf.seen import DataSeen
from vrmf.solvers.sgd import SGDState
from vrmf.solvers.smm import SMMState
from vrmf.solvers.usage import Usage
from vrmf.stats import WorstRows

MANIFEST = "manifest.json"


def _is_term(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, terms.AbstractTerm)


#: Types of vrmf that may be in any file.
VALUES: tuple[type, ...] = (
    *(kind for name, kind in vars(terms).items() if name in terms.__all__ and _is_term(kind)),
    *solvers.SOLVERS.values(),
    solvers.Coder,
    DataSeen,
    Formulation,
    Measurement,
    Progress,
    SGDState,
    SMMState,
    Stream,
    Sums,
    Usage,
    WorstRows,
)

#: Kinds of NumPy's dtypes that arrays and scalars in a file may have: truth values, numbers and words.
KINDS = "biufUS"

#: Bytes that are read at once into an array.
CHUNK = 2**22

#: Fields that values in files of earlier versions have and present ones do not. A field that is dropped
#: causes a warning, unless it has the given value; with ... there is never one.
OBSOLETE: dict[tuple[str, str], Any] = {
    ("Progress", "rounding"): ...,
    ("VR", "literal"): False,
    ("VR", "option"): "last",
    ("VR", "tau"): None,
    ("VR", "cache_folder"): None,
    **{("Algorithm1", name): ... for name in ("literal", "opening", "cache_megabytes", "reseed")},
    ("Algorithm1", "cache_folder"): None,
}


def present_name(name: str, fields: dict[str, Any]) -> str:
    """Return the class that a value of an earlier version has now.

    >>> present_name("VR", {"literal": True}), present_name("VR", {"literal": False})
    ('Algorithm1', 'VR')
    """
    return "Algorithm1" if name == "VR" and fields.get("literal") else name


class UnknownType(ValueError):
    """A file holds a value of a class that the reader was not given."""


class Writer:
    """Turns values into JSON, and puts arrays aside."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, name: str, value: Any) -> Any:
        """Return the JSON of a value; ``name`` says in errors and in the archive what it is."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            return self._scalar(name, value)
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, Real):  # a fraction
            return self.encode(name, float(value))
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
            return self._value(name, value)
        raise TypeError(
            f"{name} is {value!r}, which cannot be stored. Use numbers, strings, arrays, or frozen "
            "dataclasses of these."
        )

    def _scalar(self, name: str, value: Any) -> Any:
        item = value.item()
        return self.encode(name, float(value) if isinstance(item, np.floating) else item)  # a long double

    def _value(self, name: str, value: Any) -> dict[str, Any]:
        fields = {f.name: self.encode(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"$": "value", "type": type(value).__name__, "fields": fields}

    def _array(self, name: str, array: Any) -> dict[str, Any]:
        if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
            return {"$": "names", "items": list(array)}
        if array.dtype.kind == "O":
            return self.encode(name, array.tolist())
        member = f"arrays/{len(self.arrays):03d}-{name}.npy"
        self.arrays[member] = array
        return {"$": "array", "member": member}


class ExactWriter(Writer):
    """A writer that preserves the types of NumPy's scalars, and refuses what ``kinds`` could not read.

    A number in single precision that came back in double would change the bits of what follows.
    """

    def __init__(self, kinds: Iterable[type]) -> None:
        super().__init__()
        self.kinds = by_name(kinds)

    def _scalar(self, name: str, value: Any) -> Any:
        if isinstance(value, np.longdouble):
            return self.encode(name, float(value))
        return {"$": "scalar", "dtype": value.dtype.str, "value": self.encode(name, value.item())}

    def _value(self, name: str, value: Any) -> dict[str, Any]:
        if self.kinds.get(type(value).__name__) is not type(value):
            raise TypeError(
                f"{name} is a {type(value).__name__}, which could not be read back. Use a class of its own "
                "name, and name it in the type of the field that holds it."
            )
        return super()._value(name, value)


class Reader:
    """Turns JSON back into values of the types in ``kinds``."""

    def __init__(self, archive: zipfile.ZipFile, kinds: Iterable[type]) -> None:
        self.archive = archive
        self.kinds = by_name(kinds)
        # In a malicious file members may overlap, or be used often: all arrays are no larger than the file.
        self._left = _size_of(archive)

    def manifest(self) -> Any:
        """Return the JSON text of the archive, parsed."""
        with self._open(MANIFEST) as stream:
            return json.loads(stream.read())

    def decode(self, node: Any) -> Any:
        """Return the value that :meth:`Writer.encode` has turned into JSON."""
        if not isinstance(node, dict):
            return node
        kind = node["$"]
        if kind == "float":
            return float(node["value"])
        if kind == "scalar":
            return _checked_type(np.dtype(node["dtype"])).type(self.decode(node["value"]))
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

    def _open(self, member: str) -> IO[bytes]:
        if self.archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
            raise TypeError(f"its member {member} is compressed")
        return self.archive.open(member)

    def _value(self, name: str, fields: dict[str, Any]) -> Any:
        if name not in self.kinds:
            raise UnknownType(
                f"The file uses {name}, which is not a part of vrmf. Pass its class: "
                f"vrmf.load(path, terms=[{name}])."
            )
        name = present_name(name, fields)
        for field in [field for field in fields if (name, field) in OBSOLETE]:
            value, harmless = fields.pop(field), OBSOLETE[name, field]
            if harmless is not ... and value != harmless:
                told = f"The file has {name} with {field}={value!r}, which this version does not know."
                warnings.warn(f"{told} It is left out.", UserWarning, stacklevel=level_of_caller())
        return self.kinds[name](**fields)

    def _array(self, member: str) -> Any:
        with self._open(member) as stream:
            np.lib.format.read_magic(stream)
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            if _checked_type(dtype).itemsize == 0:
                raise TypeError("an array has entries without a size")
            # A header that promises more than is there must raise before anything is allocated.
            there = self.archive.getinfo(member).file_size - stream.tell()
            if math.prod(shape) * dtype.itemsize != there:
                raise ValueError(f"The array {member} has {there} bytes, which do not make {shape}.")
            self._left -= there
            if self._left < 0:
                raise ValueError("Its arrays are larger than the file.")
            array = np.empty(shape, dtype=dtype, order="F" if fortran else "C")
            entries: Any = array.reshape(-1, order="A")
            data = memoryview(entries.view(np.uint8)) if there else memoryview(b"")
            for begin in range(0, there, CHUNK):
                part = stream.read(min(CHUNK, there - begin))
                data[begin : begin + len(part)] = part
            stream.read(1)  # at the end of a member its checksum is verified
            return array


def _size_of(archive: zipfile.ZipFile) -> int:
    assert archive.fp is not None
    return archive.fp.seek(0, io.SEEK_END)


def _checked_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype of truth values, numbers or words, or raise: others could be of any size."""
    if dtype.kind not in KINDS or dtype.fields is not None:
        raise TypeError(f"a value is of type {dtype}")
    return dtype


def by_name(kinds: Iterable[type]) -> dict[str, type]:
    """Return types by the names that files have for them; of two with one name, the later."""
    return {kind.__name__: kind for kind in kinds}


def _checked_csr(parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return a sparse matrix whose indices are inside of it; SciPy's own code would read beyond."""
    if any(part.ndim != 1 or part.dtype.kind != "i" for part in parts[1:]):
        raise TypeError("the indices of a sparse matrix are not whole numbers")
    matrix = scipy.sparse.csr_array(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def write_archive(file: Any, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a JSON text and arrays into an open file; arrays are streamed, not copied."""
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        archive.writestr(MANIFEST, json.dumps(manifest, allow_nan=False))
        for name, array in arrays.items():
            with archive.open(name, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        archive.close()
    except BaseException:
        archive.fp = None  # so that nothing more is written, whose failure would hide what happened
        raise
