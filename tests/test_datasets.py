"""Laws of datasets: Synth is that of the paper, and wrong files of images are refused."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
import pytest
import scipy.io

from tables import generator
from vrmf import datasets
from vrmf.arrays import Array
from vrmf.datasets import Images, fetch_cbcl, fetch_mnist, fetch_yaleb, load_synth
from vrmf.sources import single_threaded_blas

# ------------------------------------------------------------------ Synth


@pytest.mark.parametrize("share", [0, 0.1, 0.3, 0.9, 1 / 3, 1])
@pytest.mark.parametrize("n, d", [(1, 10), (50, 20), (37, 11), (3000, 401)])
def test_exactly_the_stated_number_of_outliers_is_zero(n: int, d: int, share: float) -> None:
    outliers = load_synth(n, d, outlier_share=share).outliers
    exactly = Fraction(share).limit_denominator(10)
    assert np.sum(outliers == 0) == math.floor((1 - exactly) * n * d)


def test_rows_are_codes_times_dictionary_plus_outliers() -> None:
    synth = load_synth(500, 30, rank=7)
    assert synth.dictionary.shape == (7, 30)
    assert synth.codes.shape == (500, 7)
    with single_threaded_blas():
        np.testing.assert_array_equal(synth.X, synth.codes @ synth.dictionary + synth.outliers)
    assert np.linalg.matrix_rank(synth.X - synth.outliers, tol=1e-6) == 7


@pytest.mark.slow
@pytest.mark.parametrize("rank", [4, 16])
def test_moments_are_the_papers(rank: int) -> None:
    synth = load_synth(5000, 2000, rank=rank, outlier_size=3.0)
    for part in (synth.dictionary, synth.codes):
        error = 5 * part.size**-0.5
        assert abs(part.mean() - 0.5) < error
        assert abs(part.var() - rank**-0.5) < error
    corrupt = synth.outliers[synth.outliers != 0]
    assert np.abs(corrupt).max() <= 3
    assert np.abs(np.sort(corrupt) - np.linspace(-3, 3, corrupt.size)).max() < 0.02


def test_places_of_outliers_are_uniform() -> None:
    """Counts of rows and columns vary as sums without replacement do; blocks end within rows here."""
    share, mask = 0.1, load_synth(4000, 700, outlier_share=0.1).outliers != 0
    for axis, length in ((1, 700), (0, 4000)):
        counts = mask.sum(axis=axis)
        variance = length * share * (1 - share)
        assert np.abs(counts - share * length).max() < 6 * variance**0.5
        assert counts.var() == pytest.approx(variance, rel=0.2)


def test_every_set_of_places_is_as_likely_as_any_other() -> None:
    rng = generator("places")
    draws = (load_synth(2, 2, outlier_share=0.5, random_state=rng).outliers for _ in range(6000))
    counts = Counter((outliers != 0).tobytes() for outliers in draws)
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_a_seed_fixes_all_bits_and_another_gives_other_ones() -> None:
    one, again, other = (load_synth(300, 20, random_state=seed) for seed in (3, 3, 4))
    for name in ("X", "dictionary", "codes", "outliers"):
        assert getattr(one, name).tobytes() == getattr(again, name).tobytes()
        assert getattr(one, name).tobytes() != getattr(other, name).tobytes()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_samples": 0}, r"`n_samples` is 0\. Use a whole number of at least 1"),
        ({"n_features": 2.5}, r"`n_features` is 2\.5\. Use a whole number of at least 1"),
        ({"rank": 0}, r"`rank` is 0\. Use a whole number of at least 1"),
        ({"outlier_share": -0.1}, r"`outlier_share` is -0\.1\. Use a finite number of at least 0"),
        ({"outlier_share": 1.5}, r"`outlier_share` is 1\.5\. Use a number from 0 to 1"),
        ({"outlier_size": 0}, r"`outlier_size` is 0\. Use a finite number above 0"),
        (
            {"n_samples": 10**8},
            r"100000000 samples of 400 features are 40000000000 entries\. Use less than 10⁹",
        ),
    ],
)
def test_arguments_that_make_no_synth_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_synth(**options)


# ------------------------------------------------------------------ images

N = 30


def _labels() -> Array:
    return np.arange(N, dtype=np.uint8) % 10


def _pixels(size: int) -> Array:
    return generator("pixels").integers(0, 256, (N, size * size), dtype=np.uint8)


def _in_columns(pixels: Array) -> Array:
    size = int(pixels.shape[1] ** 0.5)
    return np.array([image.reshape(size, size).ravel(order="F") for image in pixels])


def _write_mnist(path: Path, pixels: Array) -> None:
    np.savez(path, x_train=pixels, y_train=_labels())


def _write_mnist_images(path: Path, pixels: Array) -> None:
    np.savez(path, x_train=pixels.reshape(len(pixels), 28, 28), y_train=_labels())


def _write_faces(path: Path, pixels: Array) -> None:
    np.savez_compressed(path, faces=pixels, labels=_labels())


def _write_cbcl_mat(path: Path, pixels: Array) -> None:
    scipy.io.savemat(path, {"V": (256 - _in_columns(pixels).astype(float)).T / 256, "rank": 49})


def _write_cbcl_mat_of_rows(path: Path, pixels: Array) -> None:
    scipy.io.savemat(path, {"faces": (256 - _in_columns(pixels).astype(float)) / 256}, do_compression=True)


def _write_yaleb_mat(path: Path, pixels: Array) -> None:
    scipy.io.savemat(path, {"fea": _in_columns(pixels).astype(float), "gnd": _labels()[:, None]})


class Case(NamedTuple):
    """Who fetches what, of which width; a file that may hold it, and who writes that."""

    fetch: Callable[..., Images]
    constant: str
    size: int
    file: str
    write: Callable[[Path, Array], None]

    def __str__(self) -> str:
        return self.write.__name__.removeprefix("_write_") + f"-{self.file}"


LOCAL = [
    Case(fetch_mnist, "_MNIST", 28, "mnist.npz", _write_mnist),
    Case(fetch_mnist, "_MNIST", 28, "mnist.npz", _write_mnist_images),
    Case(fetch_cbcl, "_CBCL", 19, "cbcl_faces.npz", _write_faces),
    Case(fetch_cbcl, "_CBCL", 19, "CBCL_Face.mat", _write_cbcl_mat),
    Case(fetch_cbcl, "_CBCL", 19, "CBCL_Face.mat", _write_cbcl_mat_of_rows),
    Case(fetch_yaleb, "_YALEB", 32, "yaleb_32x32.npz", _write_faces),
    Case(fetch_yaleb, "_YALEB", 32, "YaleB_32x32_ori.mat", _write_yaleb_mat),
]

#: The files that are on the internet.
REMOTE = [LOCAL[1], LOCAL[3], LOCAL[6]]

local = pytest.mark.parametrize("case", LOCAL, ids=str)
remote = pytest.mark.parametrize("case", REMOTE, ids=str)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; the folder VRMF_DATA is not set."""
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("VRMF_DATA", raising=False)
    return tmp_path / "cache" / "vrmf"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Array]:
    """Have a collection expect a few images of random pixels; return those."""

    def shrink(constant: str, size: int, **changes: Any) -> Array:
        pixels, old = _pixels(size), getattr(datasets, constant)
        sha256 = hashlib.sha256(pixels.tobytes()).hexdigest()
        changes = {"shape": (N, size, size), "pixels_sha256": sha256, "file_sha256": None, **changes}
        monkeypatch.setattr(datasets, constant, replace(old, **changes))
        return pixels

    return shrink


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str, list[str]]]:
    """A folder that is served on this machine, its address, and what was asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            asked.append(self.path)

    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def _is(images: Images, pixels: Array, case: Case) -> None:
    np.testing.assert_array_equal(images.X, pixels / 255)
    assert images.X.dtype == np.float64
    assert images.image_shape == (case.size, case.size)
    if case.fetch is fetch_cbcl:
        assert images.labels is None
    else:
        np.testing.assert_array_equal(images.labels, _labels())


@local
def test_every_kind_of_file_in_the_folder_gives_the_same_images(
    case: Case,
    small: Callable[..., Array],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pixels = small(case.constant, case.size)
    case.write(tmp_path / case.file, pixels)
    monkeypatch.setenv("VRMF_DATA", str(tmp_path))
    _is(case.fetch(), pixels, case)
    single = case.fetch(dtype=np.float32).X
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, pixels.astype(np.float32) / np.float32(255))
    assert not cache.exists()


def _spoil(pixels: Array) -> Array:
    pixels = pixels.copy()
    pixels[3, 5] ^= 1
    return pixels


@local
@pytest.mark.parametrize(
    "harm, message",
    [
        (_spoil, "the SHA-256 of its pixels is [0-9a-f]{64} instead of [0-9a-f]{64}"),
        (lambda pixels: pixels[:-1], "cannot reshape array|has 0 matrices of 361 × 30 instead of one"),
        (None, ""),
    ],
)
def test_wrong_files_in_the_folder_are_named_and_kept(
    case: Case,
    harm: Callable[[Array], Array] | None,
    message: str,
    small: Callable[..., Array],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, pixels = tmp_path / case.file, small(case.constant, case.size)
    if harm is None:
        path.write_bytes(b"<html>no such page</html>" * 20)
    else:
        case.write(path, harm(pixels))
    monkeypatch.setenv("VRMF_DATA", str(tmp_path))
    name = getattr(datasets, case.constant).name
    wrong = (
        rf"(?s){case.file} does not hold {name}: .*({message}).*Replace it, or remove it to download http"
    )
    with pytest.raises(ValueError, match=wrong):
        case.fetch()
    assert path.exists()


def test_files_without_the_arrays_are_named(
    small: Callable[..., Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRMF_DATA", str(tmp_path))
    pixels = small("_MNIST", 28)
    np.savez(tmp_path / "mnist.npz", digits=pixels)
    with pytest.raises(ValueError, match=r"mnist\.npz does not hold MNIST: .*x_train is not a file"):
        fetch_mnist()
    np.savez(tmp_path / "mnist.npz", x_train=pixels, y_train=_labels()[1:])
    with pytest.raises(
        ValueError, match=r"mnist\.npz does not hold MNIST: cannot reshape array of size 29"
    ):
        fetch_mnist()
    small("_CBCL", 19)
    scipy.io.savemat(tmp_path / "CBCL_Face.mat", {"V": np.ones((361, N)), "W": np.ones((361, N))})
    with pytest.raises(ValueError, match=r"CBCL: it has 2 matrices of 361 × 30 instead of one"):
        fetch_cbcl()


@remote
def test_downloads_are_decoded_and_kept(
    case: Case,
    small: Callable[..., Array],
    cache: Path,
    site: tuple[Path, str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder, address, asked = site
    monkeypatch.setenv("VRMF_DATA", str(folder.parent))  # which has no such file
    pixels = small(case.constant, case.size, url=f"{address}/{case.file}")
    case.write(folder / case.file, pixels)
    _is(case.fetch(), pixels, case)
    assert (cache / case.file).is_file()
    assert "100%" in capfd.readouterr().err
    _is(case.fetch(), pixels, case)
    assert asked == [f"/{case.file}"]


@remote
def test_a_wrong_download_is_refused_and_fetched_again(
    case: Case,
    small: Callable[..., Array],
    cache: Path,
    site: tuple[Path, str, list[str]],
) -> None:
    folder, address, _ = site
    pixels = small(case.constant, case.size, url=f"{address}/{case.file}")
    expected = getattr(datasets, case.constant).pixels_sha256
    case.write(folder / case.file, _spoil(pixels))
    got = hashlib.sha256(_spoil(pixels).tobytes()).hexdigest()
    with pytest.raises(ValueError, match=rf"{got} instead of {expected}\. It was removed from the cache"):
        case.fetch()
    assert not (cache / case.file).exists()
    case.write(folder / case.file, pixels)
    _is(case.fetch(), pixels, case)


def test_a_download_with_another_hash_than_known_is_refused(
    small: Callable[..., Array], cache: Path, site: tuple[Path, str, list[str]]
) -> None:
    folder, address, _ = site
    pixels = small("_MNIST", 28, url=f"{address}/mnist.npz", file_sha256="0" * 64)
    _write_mnist(folder / "mnist.npz", pixels)
    with pytest.raises(
        OSError, match=r"MNIST .*could not be downloaded: .*does not match the known hash.* 0{64}"
    ):
        fetch_mnist()
    assert not (cache / "mnist.npz").exists()


@remote
@pytest.mark.parametrize("page", ["missing", "offline"])
def test_without_file_and_connection_the_error_says_what_to_do(
    case: Case,
    page: str,
    small: Callable[..., Array],
    cache: Path,
    site: tuple[Path, str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = site[1] if page == "missing" else "http://127.0.0.1:9"
    small(case.constant, case.size, url=f"{address}/{case.file}")
    reason = "404" if page == "missing" else "Connection|Max retries"
    for folder, words in ((None, "not set"), ("/nowhere", "/nowhere")):
        if folder:
            monkeypatch.setenv("VRMF_DATA", folder)
        with pytest.raises(OSError, match=f"({reason})") as caught:
            case.fetch()
        if page == "missing":
            caught.value.__cause__.response.close()  # type: ignore[union-attr]  # pooch left it open
        message = str(caught.value)
        assert f"is not in the folder VRMF_DATA ({words}) and could not be downloaded: " in message
        assert f"Get {address}/{case.file} by other means, put it as {case.file} into a folder" in message
        assert message.endswith("name that folder in the environment variable VRMF_DATA.")
    assert not list(cache.glob("*"))


def test_mnist_may_be_cut_and_other_numbers_are_refused(
    small: Callable[..., Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRMF_DATA", str(tmp_path))
    pixels = small("_MNIST", 28)
    _write_mnist(tmp_path / "mnist.npz", pixels)
    some = fetch_mnist(7)
    np.testing.assert_array_equal(some.X, pixels[:7] / 255)
    np.testing.assert_array_equal(some.labels, _labels()[:7])
    with pytest.raises(ValueError, match=r"`n_samples` is 31 but MNIST has 30\. Use at most 30"):
        fetch_mnist(31)
    with pytest.raises(ValueError, match=r"`n_samples` is 0\. Use a whole number of at least 1"):
        fetch_mnist(0)
    with pytest.raises(ValueError, match=r"`dtype` is .*uint8.*\. Use numpy\.float32 or numpy\.float64"):
        fetch_mnist(dtype=np.uint8)
