"""The datasets of the paper's Section 5.1: Synth is drawn, MNIST, CBCL and Yale B are fetched.

>>> synth = load_synth(n_samples=50, n_features=20, rank=3, outlier_share=0.1)
>>> synth.X.shape, synth.dictionary.shape, synth.codes.shape
((50, 20), (3, 20), (50, 3))
>>> int((synth.outliers != 0).sum())
100

Images come from the folder that the environment variable VRMF_DATA names, else from a cache, else
from the internet. The folder may hold the file as it is on the internet, or rows of bytes in
``cbcl_faces.npz`` (``faces``) and ``yaleb_32x32.npz`` (``faces``, ``labels``). Whatever file they
come in, pixels are verified by the same checksum. With ``download_if_missing=False`` images that are
neither in the folder nor in the cache raise OSError.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import scipy.io
from numpy.typing import DTypeLike

from vrmf.arrays import Array
from vrmf.checks import real_number, whole_number
from vrmf.extras import library
from vrmf.sources import single_threaded_blas

__all__ = ["Images", "Synth", "fetch_cbcl", "fetch_mnist", "fetch_yaleb", "load_synth"]


@dataclass(frozen=True, eq=False)
class Synth:
    """Rows of low rank with outliers, and what they were made of: X = codes · dictionary + outliers."""

    X: Array  #: (n, d)
    dictionary: Array  #: (k, d)
    codes: Array  #: (n, k)
    outliers: Array  #: (n, d), mostly zeros


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows. The paper does not say how it scaled them; here X is pixel / 255, so in [0, 1]."""

    X: Array  #: (n, height · width), 0 is black and 1 is white
    image_shape: tuple[int, int]  #: ``X[i].reshape(image_shape)`` is an upright image
    labels: Array | None = None  #: (n,), the digit or the person, where known


def load_synth(
    n_samples: int = 100_000,
    n_features: int = 400,
    *,
    rank: int = 10,
    outlier_share: float = 0.1,
    outlier_size: float = 1000.0,
    random_state: int | np.random.Generator | None = 0,
) -> Synth:
    """Draw the paper's Synth: rows of low rank, some of whose entries are corrupted.

    Dictionary and codes are normal with mean 0.5 and variance 1/√rank. Of the n·d outliers exactly
    ⌊(1 − outlier_share) n d⌋ are zero, any that many with the same probability; the others are
    uniform on [−outlier_size, outlier_size].
    """
    n = whole_number("n_samples", n_samples, low=1)
    d = whole_number("n_features", n_features, low=1)
    k = whole_number("rank", rank, low=1)
    size = real_number("outlier_size", outlier_size, low=0, strict=True)
    share = real_number("outlier_share", outlier_share, low=0)
    if share > 1:
        raise ValueError(f"`outlier_share` is {outlier_share!r}. Use a number from 0 to 1.")
    if n * d >= 10**9:  # the limit of numpy's hypergeometric numbers
        raise ValueError(f"{n} samples of {d} features are {n * d} entries. Use less than 10⁹.")
    rng = np.random.default_rng(random_state)
    dictionary = rng.normal(0.5, k**-0.25, (k, d))
    codes = rng.normal(0.5, k**-0.25, (n, k))
    # All but the zeros, counted by a fraction since in floats (1 − 0.9) · 10 is below 1.
    outliers = _outliers(n * d, math.ceil(Fraction(repr(share)) * n * d), size, rng).reshape(n, d)
    with single_threaded_blas():
        X = codes @ dictionary
    X += outliers
    return Synth(X, dictionary, codes, outliers)


def _outliers(entries: int, count: int, size: float, rng: np.random.Generator) -> Array:
    """Return zeros but for ``count`` entries, uniform on [−size, size], at uniformly drawn places."""
    outliers, block = np.zeros(entries), 2**20
    blocks = [outliers[start : start + block] for start in range(0, entries, block)]
    # A uniform set has a hypergeometric number of places in each block and is uniform within it:
    # drawn so, it takes no list of all entries.
    counts = rng.multivariate_hypergeometric([len(part) for part in blocks], count, method="marginals")
    for part, some in zip(blocks, counts, strict=True):
        places = rng.choice(len(part), some, replace=False, shuffle=False)
        part[places] = rng.uniform(-size, size, some)
    return outliers


def fetch_mnist(
    n_samples: int | None = None, *, dtype: DTypeLike = np.float64, download_if_missing: bool = True
) -> Images:
    """Return the 60 000 training digits of MNIST, 28 × 28, in their order, or the first ``n_samples``.

    >>> fetch_mnist(20_000).labels[:5]  # doctest: +SKIP
    array([5, 0, 4, 1, 9])
    """
    return _fetch(_MNIST, dtype, download_if_missing, n_samples)


def fetch_cbcl(*, dtype: DTypeLike = np.float64, download_if_missing: bool = True) -> Images:
    """Return the 2 429 faces of the CBCL Face Database #1 of MIT, 19 × 19, as published, unlabelled."""
    return _fetch(_CBCL, dtype, download_if_missing)


def fetch_yaleb(*, dtype: DTypeLike = np.float64, download_if_missing: bool = True) -> Images:
    """Return the 2 414 cropped faces of the Extended Yale Face Database B, 32 × 32; labels are persons.

    Free for research that cites Georghiades, Belhumeur and Kriegman (PAMI 2001), and Lee, Ho and
    Kriegman (PAMI 2005).
    """
    return _fetch(_YALEB, dtype, download_if_missing)


Shape = tuple[int, int, int]  #: images, height, width
Reader = Callable[[Path, Shape], tuple[Array, Array | None]]  #: of pixels and labels


@dataclass(frozen=True)
class _Collection:
    """Where images come from, which files they come in, and how to know that they are the right ones."""

    name: str
    shape: Shape
    pixels_sha256: str  #: of the (n, height · width) bytes
    url: str
    readers: Mapping[str, Reader]  #: by the names of files, that at the URL among them
    file_sha256: str | None = None  #: of the file at the URL, where known


def _fetch(
    what: _Collection, dtype: DTypeLike, download_if_missing: bool, n_samples: int | None = None
) -> Images:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"`dtype` is {dtype!r}. Use numpy.float32 or numpy.float64.")
    total, height, width = what.shape
    n = total if n_samples is None else whole_number("n_samples", n_samples, low=1)
    if n > total:
        raise ValueError(f"`n_samples` is {n} but {what.name} has {total}. Use at most {total}.")
    pixels, labels = _load(what, download_if_missing)
    X = np.true_divide(pixels[:n], 255, dtype=dtype)
    return Images(X, (height, width), None if labels is None else labels[:n])


def _load(what: _Collection, download_if_missing: bool) -> tuple[Array, Array | None]:
    """Return pixels and labels from the folder VRMF_DATA, the cache or, if allowed, the internet."""
    folder = os.environ.get("VRMF_DATA")
    for path in (Path(folder) / name for name in what.readers) if folder else ():
        if path.is_file():
            return _read(what, path, f"Replace it, or remove it to download {what.url}")
    path = _download(what, download_if_missing)
    try:
        return _read(what, path, "It was removed from the cache: try again to download it anew.")
    except ValueError:
        path.unlink()
        raise


def _download(what: _Collection, if_missing: bool) -> Path:
    """Return the file in the cache, where a download puts it first if it is missing."""
    pooch = library("pooch", "A download")  # here, since it takes a quarter of a second that few need

    file = what.url.rpartition("/")[2]
    if not if_missing and not (Path(pooch.os_cache("vrmf")) / file).is_file():
        raise OSError(
            f"{what.name} is neither in the folder VRMF_DATA nor in the cache. Get it by "
            "download_if_missing=True."
        )
    hashes, urls = {file: what.file_sha256}, {file: what.url}
    try:
        cache = pooch.create(pooch.os_cache("vrmf"), base_url="", registry=hashes, urls=urls)
        return Path(cache.fetch(file, progressbar=True))
    except (OSError, ValueError) as error:  # no connection, or not the file that was expected
        folder = os.environ.get("VRMF_DATA", "not set")
        raise OSError(
            f"{what.name} is not in the folder VRMF_DATA ({folder}) and could not be downloaded: {error}. "
            f"Get {what.url} by other means, put it as {file} into a folder, and name that folder in "
            "the environment variable VRMF_DATA."
        ) from error


def _read(what: _Collection, path: Path, remedy: str) -> tuple[Array, Array | None]:
    """Return the pixels of a file as (n, height · width) bytes, verified, and its labels."""
    n, height, width = what.shape
    try:
        pixels, labels = what.readers[path.name](path, what.shape)
        pixels = np.ascontiguousarray(pixels, np.uint8).reshape(n, height * width)
        got = hashlib.sha256(pixels.data).hexdigest()
        if got != what.pixels_sha256:
            raise ValueError(f"the SHA-256 of its pixels is {got} instead of {what.pixels_sha256}")
        return pixels, None if labels is None else labels.astype(np.int64).reshape(n)
    except Exception as error:  # damaged files make their parsers raise anything
        raise ValueError(f"{path} does not hold {what.name}: {error}. {remedy}") from error


def _npz(path: Path, shape: Shape, pixels: str, labels: str | None = None) -> tuple[Array, Array | None]:
    with np.load(path) as arrays:
        return arrays[pixels], None if labels is None else arrays[labels]


def _cbcl_mat(path: Path, shape: Shape) -> tuple[Array, None]:
    """Read the file of NMFLibrary: one matrix of 1 − pixel / 256, each column an image."""
    n, size = shape[0], shape[1] * shape[2]
    arrays = scipy.io.loadmat(path).values()
    found = [array for array in arrays if np.shape(array) in ((n, size), (size, n))]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} matrices of {size} × {n} instead of one")
    faces = found[0] if len(found[0]) == n else found[0].T
    return _from_columns(256 - 256 * faces, shape), None


def _yaleb_mat(path: Path, shape: Shape) -> tuple[Array, Array]:
    arrays = scipy.io.loadmat(path)
    return _from_columns(arrays["fea"], shape), arrays["gnd"]


def _from_columns(images: Array, shape: Shape) -> Array:
    """Return images, whose pixels MATLAB lists column after column, as bytes, row after row."""
    n, height, width = shape
    with np.errstate(invalid="ignore"):  # what does not fit into a byte fails the checksum
        return np.rint(images).astype(np.uint8).reshape(n, width, height).transpose(0, 2, 1)


_MNIST = _Collection(
    "MNIST",
    (60_000, 28, 28),
    "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
    {"mnist.npz": partial(_npz, pixels="x_train", labels="y_train")},
    "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
)
_CBCL = _Collection(
    "CBCL",
    (2429, 19, 19),
    "3dbca855d225475fde5914e42a5417c6b18457978d60051ce2b573af0d607148",
    "https://github.com/hiroyuki-kasai/NMFLibrary/raw/889d7da043aa3bd5f024f6324f216ef6624870f8/data/CBCL_Face.mat",
    {"cbcl_faces.npz": partial(_npz, pixels="faces"), "CBCL_Face.mat": _cbcl_mat},
)
_YALEB = _Collection(
    "Yale B",
    (2414, 32, 32),
    "e75210e65715441b9ef9e5bb0c2faf2055362996c6b93c53de1cc6bf201203f9",
    "https://github.com/tansyab1/CNN-Sparse/raw/master/data/YaleB_32x32_ori.mat",
    {"yaleb_32x32.npz": partial(_npz, pixels="faces", labels="labels"), "YaleB_32x32_ori.mat": _yaleb_mat},
)
