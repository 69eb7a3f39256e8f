"""Images and frames: each is a row, and its shape is kept for pictures."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from PIL import Image

import vrmf
from vrmf.sources.files import open_table

FRAMES = np.random.default_rng(0).integers(0, 256, size=(12, 5, 7)).astype(np.uint8)


def npy(folder: Path) -> Path:
    np.save(folder / "film.npy", FRAMES)
    return folder / "film.npy"


def fortran(folder: Path) -> Path:
    np.save(folder / "film.npy", np.asfortranarray(FRAMES))
    return folder / "film.npy"


def npz(folder: Path) -> Path:
    np.savez(folder / "film.npz", frames=FRAMES, names=np.array(["a", "b"]))
    return folder / "film.npz"


def hdf5(folder: Path) -> Path:
    with h5py.File(folder / "film.h5", "w") as file:
        file.create_dataset("frames", data=FRAMES, chunks=(5, 5, 7))
    return folder / "film.h5"


def zarr_array(folder: Path) -> Path:
    array = zarr.create_array(
        folder / "film.zarr", shape=FRAMES.shape, dtype=FRAMES.dtype, chunks=(5, 3, 7)
    )
    array[...] = FRAMES
    return folder / "film.zarr"


def images(folder: Path, suffix: str = ".png") -> Path:
    place = folder / "film"
    place.mkdir()
    for i, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(place / f"frame{i}{suffix}")
    (place / "notes.txt").write_text("not an image")
    return place


@pytest.mark.parametrize("make", [npy, fortran, npz, hdf5, zarr_array, images])
def test_frames_become_rows_and_their_shape_is_kept(make: object, tmp_path: Path) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    found = open_table(path)
    assert found.shape == (12, 35) and found.image_shape == (5, 7)
    np.testing.assert_array_equal(found.read(0, 12), FRAMES.reshape(12, -1))
    np.testing.assert_array_equal(found.read(3, 9), FRAMES.reshape(12, -1)[3:9])
    model = vrmf.NMF(2, max_iter=2, tol=0, random_state=0).fit(path)
    assert model.image_shape_ == (5, 7)
    vrmf.save(model, tmp_path / "model.vrmf")
    assert tuple(vrmf.load(tmp_path / "model.vrmf").image_shape_) == (5, 7)
    assert not hasattr(model.fit(FRAMES.reshape(12, -1)), "image_shape_")


def test_images_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    found = open_table(images(tmp_path))
    assert found.row_names(0, 12) == [f"frame{i}.png" for i in range(12)] and found.row_label == "file"


def test_colours_become_grey_with_a_remark(tmp_path: Path) -> None:
    place = images(tmp_path)
    Image.fromarray(np.stack([FRAMES[0]] * 3, axis=-1)).save(place / "frame12.png")
    found = open_table(place)
    assert found.shape == (13, 35) and "colours made grey" in found.remarks
    np.testing.assert_array_equal(found.read(12, 13)[0], FRAMES[0].ravel())


def test_images_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    place = images(tmp_path)
    Image.fromarray(FRAMES[0, :4]).save(place / "frame12.png")
    with pytest.raises(ValueError, match=r"frame12\.png has 4 × 7 pixels, but frame0\.png has 5 × 7"):
        open_table(place)
    (place / "frame12.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"frame12\.png is no image that can be read"):
        open_table(place)
    Image.fromarray(FRAMES[0].astype(np.uint16)).save(place / "frame12.png")
    with pytest.raises(ValueError, match=r"frame12\.png has .* pixels, but frame0\.png has uint8"):
        open_table(place)


def test_folders_and_films_of_no_use_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files and without images"):
        open_table(tmp_path)
    for name, message in (
        ("film.mp4", "is a film, whose frames are to be saved"),
        ("rows.xlsx", "is a spreadsheet, which is to be saved as .csv first"),
    ):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match=message):
            open_table(tmp_path / name)
    np.save(tmp_path / "colours.npy", np.zeros((3, 4, 5, 3)))
    with pytest.raises(ValueError, match=r"the shape \(3, 4, 5, 3\)"):
        open_table(tmp_path / "colours.npy")
