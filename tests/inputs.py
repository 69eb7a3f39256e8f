"""The kinds of data that the tests of sources and estimators run over.

A new kind of data joins every law by its line in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array
import h5py
import numpy as np
import pandas
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
import xarray
import zarr

from vrmf.arrays import Array

#: Rows of a stored chunk, a record batch or a row group.
STORED = 16


@pytest.fixture(autouse=True)
def without_a_cluster() -> Iterator[None]:
    """Compute lazy arrays in this process, also after a test that has left a default client."""
    with dask.config.set(scheduler="threads"):
        yield


def npy(X: Array, folder: Path) -> Path:
    np.save(folder / "rows.npy", X)
    return folder / "rows.npy"


def mapped(X: Array, folder: Path) -> Array:
    return np.load(npy(X, folder), mmap_mode="r")


def fortran_mapped(X: Array, folder: Path) -> Array:
    return mapped(np.asfortranarray(X), folder)


def strided_mapped(X: Array, folder: Path) -> Array:
    """Return a map of every second row and column, from the last row to the first."""
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::2] = X[::-1]
    return mapped(wide, folder)[::2, ::2][::-1]


def zarr_folder(X: Array, folder: Path, **options: Any) -> Path:
    chunks = (STORED, max(1, X.shape[1] - 1))
    array = zarr.create_array(
        folder / "rows.zarr", shape=X.shape, dtype=X.dtype, **({"chunks": chunks} | options)
    )
    array[...] = X
    return folder / "rows.zarr"


def zarr_shards(X: Array, folder: Path) -> Path:
    return zarr_folder(X, folder, chunks=(STORED // 2, X.shape[1]), shards=(STORED, X.shape[1]))


def hdf5(X: Array, folder: Path, **options: Any) -> Path:
    with h5py.File(folder / "rows.h5", "w") as file:
        file.create_dataset("group/rows", data=X, **options)
    return folder / "rows.h5"


def hdf5_chunks(X: Array, folder: Path) -> str:
    return f"{hdf5(X, folder, chunks=(STORED, X.shape[1]), compression='gzip')}::group/rows"


def arrow(X: Array) -> Any:
    batches = [
        pyarrow.record_batch({f"f{i}": column for i, column in enumerate(X[j : j + STORED].T)})
        for j in range(0, len(X), STORED)
    ]
    return pyarrow.Table.from_batches(batches)


def arrow_file(X: Array, folder: Path) -> Path:
    with pyarrow.ipc.new_file(folder / "rows.arrow", arrow(X).schema) as writer:
        writer.write_table(arrow(X))
    return folder / "rows.arrow"


def feather(X: Array, folder: Path) -> str:
    pyarrow.feather.write_feather(
        arrow(X), str(folder / "rows.feather"), compression="lz4", chunksize=STORED
    )
    return str(folder / "rows.feather")


def parquet(X: Array, folder: Path) -> Path:
    pyarrow.parquet.write_table(arrow(X), folder / "rows.parquet", row_group_size=STORED)
    return folder / "rows.parquet"


def parquet_folder(X: Array, folder: Path) -> Path:
    place = folder / "rows"
    place.mkdir()
    half = STORED * (len(X) // STORED // 2)
    for number, some in enumerate([X[:half], X[half:]]):
        pyarrow.parquet.write_table(arrow(some), place / f"part-{number}.parquet", row_group_size=STORED)
    return place


def text(X: Array, folder: Path, name: str = "rows.csv", **options: Any) -> Path:
    frame(X).to_csv(folder / name, index=False, **options)
    return folder / name


def npz(X: Array, folder: Path) -> str:
    np.savez_compressed(folder / "rows.npz", rows=X, more=X)
    return f"{folder / 'rows.npz'}::rows"


def sparse_npz(X: Array, folder: Path) -> Path:
    scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_array(X))
    return folder / "rows.npz"


def mat(X: Array, folder: Path) -> Path:
    scipy.io.savemat(folder / "rows.mat", {"rows": X, "labels": X[:, :1], "name": "some rows"})
    return folder / "rows.mat"


def mat73(X: Array, folder: Path) -> Path:
    """Write what MATLAB writes in version 7.3: HDF5, with columns first."""
    with h5py.File(folder / "rows.mat", "w", userblock_size=512) as file:
        file.create_dataset("rows", data=X.T)
    with open(folder / "rows.mat", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
    return folder / "rows.mat"


def frame(X: Array) -> Any:
    return pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])


def lazy(X: Array) -> Any:
    return dask.array.from_array(X, chunks=(STORED, max(1, X.shape[1] - 1)))


@dataclass(frozen=True)
class Kind:
    """A way to hold rows: how it is made, and how it is read."""

    make: Callable[[Array, Path], Any]
    in_memory: bool = False
    by_blocks: bool = True  #: whether mini-batches come by blocks, in chunks of STORED rows at best
    stored: bool = True  #: whether it has chunks of its own
    is_text: bool = False  #: so that precision is not kept


KINDS = {
    "array": Kind(lambda X, folder: X, in_memory=True, by_blocks=False, stored=False),
    "sparse": Kind(lambda X, _: scipy.sparse.csr_array(X), in_memory=True, by_blocks=False, stored=False),
    "csc": Kind(lambda X, _: scipy.sparse.csc_matrix(X), in_memory=True, by_blocks=False, stored=False),
    "frame": Kind(lambda X, _: frame(X), in_memory=True, by_blocks=False, stored=False),
    "npy": Kind(npy, by_blocks=False, stored=False),
    "mapped": Kind(mapped, by_blocks=False, stored=False),
    "fortran mapped": Kind(fortran_mapped, by_blocks=False, stored=False),
    "strided mapped": Kind(strided_mapped, by_blocks=False, stored=False),
    "zarr": Kind(zarr_folder),
    "zarr shards": Kind(zarr_shards),
    "zarr array": Kind(lambda X, folder: zarr.open_array(zarr_folder(X, folder), mode="r")),
    "hdf5": Kind(hdf5, stored=False),
    "hdf5 chunks": Kind(hdf5_chunks),
    "h5py": Kind(lambda X, folder: h5py.File(hdf5(X, folder), "r")["group/rows"], stored=False),
    "csv": Kind(text, in_memory=True, by_blocks=False, stored=False, is_text=True),
    "tsv": Kind(
        lambda X, folder: text(X, folder, "rows.tsv.gz", sep="\t"),
        in_memory=True,
        by_blocks=False,
        stored=False,
        is_text=True,
    ),
    "npz": Kind(npz, in_memory=True, by_blocks=False, stored=False),
    "sparse npz": Kind(sparse_npz, in_memory=True, by_blocks=False, stored=False),
    "mat": Kind(mat, in_memory=True, by_blocks=False, stored=False),
    "mat 7.3": Kind(mat73, in_memory=True, by_blocks=False, stored=False),
    "arrow": Kind(lambda X, _: arrow(X)),
    "arrow file": Kind(arrow_file),
    "feather": Kind(feather),
    "parquet": Kind(parquet),
    "parquet folder": Kind(parquet_folder),
    "dask": Kind(lambda X, _: lazy(X)),
    "xarray": Kind(lambda X, _: xarray.DataArray(lazy(X))),
}
FILES = [name for name, kind in KINDS.items() if not kind.in_memory]
#: Files that are given by their paths.
PATHS = [
    "npy",
    "zarr",
    "zarr shards",
    "hdf5",
    "hdf5 chunks",
    "arrow file",
    "feather",
    "parquet",
    "parquet folder",
    "csv",
    "tsv",
    "npz",
    "sparse npz",
    "mat",
    "mat 7.3",
]
#: Files that can be made without any row; the others have no chunks then.
ROWLESS = [
    "npy",
    "mapped",
    "fortran mapped",
    "strided mapped",
    "zarr",
    "zarr shards",
    "zarr array",
    "hdf5",
    "h5py",
]

every_kind = pytest.mark.parametrize("kind", KINDS)
