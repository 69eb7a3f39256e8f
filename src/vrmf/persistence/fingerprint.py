"""Fingerprints of the parameters and the data of a fit, and the differences of two of them in words.

>>> from vrmf.sources import as_source
>>> X = np.arange(6.0).reshape(3, 2)
>>> before = {"parameters": {"alpha": described(0.5)}, "data": data_fingerprint(as_source(X))}
>>> now = {"parameters": {"alpha": described(1)}, "data": data_fingerprint(as_source(X[:2]))}
>>> differences(before, now)
['`alpha` was 0.5 and is 1', 'the data had 3 rows and 2 columns and have 2 rows and 2 columns']
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse

from vrmf.arrays import Array
from vrmf.persistence.archive import Writer
from vrmf.sources import AbstractSource

#: Rows that are compared, evenly spaced.
SAMPLED_ROWS = 64

#: Characters after which a value is cut off in words.
SHOWN = 80


class _Canonical(Writer):
    """Turns values into JSON that is equal if the values are; arrays are replaced by their digests."""

    def encode(self, name: str, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, tuple | range):
            return super().encode(name, list(value))
        if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
            return super().encode(name, np.asarray(value))
        return super().encode(name, value)

    def _array(self, name: str, array: Any) -> dict[str, Any]:
        if array.dtype.kind == "O":
            return super()._array(name, array)
        return {"$": "array", "shape": list(array.shape), "digest": digest(array)}


def digest(array: Array) -> str:
    """Return a digest of the dtype, the shape and the entries of an array."""
    told = hashlib.blake2b(f"{array.dtype.str} {array.shape} ".encode(), digest_size=16)
    if array.size:
        entries: Any = np.ascontiguousarray(array)
        told.update(entries.reshape(-1).view(np.uint8))
    return told.hexdigest()


def described(value: Any, shown: str | None = None, name: str = "the value") -> dict[str, Any]:
    """Return the fingerprint of a value: by content, and in words."""
    return {"value": _Canonical().encode(name, value), "shown": _words(value) if shown is None else shown}


def data_fingerprint(source: AbstractSource) -> dict[str, Any]:
    """Return the shape and the dtype of the data, and a digest of evenly spaced rows."""
    layout = source.layout
    return {
        "shape": [source.n_samples, source.n_features],
        "dtype": np.dtype(source.dtype).name,
        "rows": digest(source.rows(layout.spread(SAMPLED_ROWS))),
        "layout": [layout.n_chunks, digest(layout.bounds), layout.sampling, layout.window],
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return in words where two fingerprints differ."""
    told = []
    for name in dict.fromkeys((*before["parameters"], *now["parameters"])):
        old, new = before["parameters"].get(name), now["parameters"].get(name)
        # Options of another solver or term are left out: that it is another one is reported already.
        if old is not None and new is not None and old["value"] != new["value"]:
            again = "another" if old["shown"] == new["shown"] else new["shown"]
            told.append(f"{f'`{name}`' if name.isidentifier() else name} was {old['shown']} and is {again}")
    return told + _data_differences(before["data"], now["data"])


def _data_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    if before["shape"] != now["shape"]:
        old, new = ("{} rows and {} columns".format(*each["shape"]) for each in (before, now))
        return [f"the data had {old} and have {new}"]
    if before["dtype"] != now["dtype"]:
        return [f"the data were {before['dtype']} and are {now['dtype']}"]
    if before["layout"] != now["layout"]:
        old, new = (
            f"{n} chunks and sampled by {how}" for n, _, how, _ in (before["layout"], now["layout"])
        )
        return [f"the data were in {old} and are in {new}, or in other chunks"]
    return ["the rows differ"] if before["rows"] != now["rows"] else []


def _words(value: Any) -> str:
    """Return a value in a few words."""
    if isinstance(value, np.ndarray) or scipy.sparse.issparse(value):
        return f"an array of shape {value.shape}"
    words = " ".join(repr(value).split())
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"
