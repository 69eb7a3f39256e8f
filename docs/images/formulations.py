"""Draws the pictures of the formulations, docs/images/formulation-*.png: one for each, with one message.

    pip install ".[plots]"
    python docs/images/formulations.py              # all of them, into its own folder
    python docs/images/formulations.py nmf          # one of them

Data are generated, or come with scikit-learn. The background is white, so that a picture can be read on a
dark page as well.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

import vrmf
from vrmf.scenes import moving_scene

matplotlib.use("Agg")
matplotlib.rcParams.update({"font.size": 12, "axes.titlesize": 12, "figure.titlesize": 13})

Array = NDArray[Any]
HERE = Path(__file__).parent

#: Pixels across, and the number of colours that are kept.
WIDTH, DPI, COLOURS = 6.4, 110, 96

BLUE, ORANGE, GREY = "#1f6fb4", "#d9600b", "#8a8f98"

#: Digits have 16 grey levels.
WHITE = 16


def figure(height: float, title: str) -> Figure:
    """Return an empty figure with its message above it."""
    drawn = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
    drawn.suptitle(title)
    return drawn


def show(ax: Axes, image: Array, shape: tuple[int, int], title: str = "", **options: Any) -> None:
    """Draw a row of data as an image without ticks."""
    ax.imshow(image.reshape(shape), **({"cmap": "gray", "interpolation": "nearest"} | options))
    ax.set(xticks=[], yticks=[], title=title)


def sign(ax: Axes, text: str) -> None:
    """Draw a sign between two images."""
    ax.axis("off")
    ax.text(0.5, 0.5, text, ha="center", va="center", fontsize=20, transform=ax.transAxes)


def dictionary_learning() -> Figure:
    """Return a patch of a photograph, the learned atoms, and what three of them make of it."""
    photo = load_sample_image("china.jpg").mean(axis=2) / 255
    patches = extract_patches_2d(photo, (8, 8), max_patches=6000, random_state=0).reshape(-1, 64)
    patches -= patches.mean(axis=1, keepdims=True)
    patches = patches[patches.std(axis=1) > 0.05]
    model = vrmf.DictionaryLearning(n_components=72, alpha=0.25, max_iter=30, random_state=0).fit(patches)
    H, D = model.transform(patches), model.components_
    errors = np.linalg.norm(patches - H @ D, axis=1) / np.linalg.norm(patches, axis=1)
    row = int(np.argmin(np.where(np.sum(H != 0, axis=1) == 3, errors, 1)))
    atoms = D / np.abs(D).max(axis=1, keepdims=True)
    tiles = np.pad(atoms.reshape(6, 12, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1.0)
    drawn = figure(2.1, "A patch of a photograph is a sum of 3 of 72 learned atoms")
    axes = drawn.subplots(1, 5, width_ratios=[1, 0.2, 2.6, 0.2, 1])
    limit = float(np.abs(patches[row]).max())
    show(axes[0], patches[row], (8, 8), "patch", vmin=-limit, vmax=limit)
    sign(axes[1], "≈")
    show(axes[2], tiles.transpose(0, 2, 1, 3), (60, 120), "3 of these atoms")
    for atom in np.flatnonzero(H[row]):
        corner = (10 * (atom % 12) - 0.5, 10 * (atom // 12) - 0.5)
        axes[2].add_patch(Rectangle(corner, 10, 10, fill=False, color=ORANGE, linewidth=3))
    sign(axes[3], "=")
    show(axes[4], H[row] @ D, (8, 8), "their sum", vmin=-limit, vmax=limit)
    return drawn


def group_dictionary_learning() -> Figure:
    """Return codes of rows that use one group of atoms each, with and without groups."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((12, 40))
    which = np.sort(rng.integers(0, 4, 80))
    truth = np.zeros((80, 12))
    for row, group in enumerate(which):
        truth[row, 3 * group : 3 * group + 3] = rng.standard_normal(3)
    X = truth @ D + 1.5 * rng.standard_normal((80, 40))
    groups = [[3 * g, 3 * g + 1, 3 * g + 2] for g in range(4)]
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    options: dict[str, Any] = {"n_components": 12, "init": D / norms, "random_state": 0}
    single = vrmf.DictionaryLearning(alpha=1.0, **options).fit(X)
    grouped = vrmf.GroupDictionaryLearning(alpha=2.5, groups=groups, **options).fit(X)
    drawn = figure(2.9, "With groups, the atoms of a group are used together")
    axes = drawn.subplots(1, 2, sharey=True)
    for ax, model, title in zip(axes, (single, grouped), ("without groups", "with groups"), strict=True):
        ax.imshow(np.abs(model.transform(X)), aspect="auto", cmap="Blues", vmax=3, interpolation="nearest")
        for edge in (2.5, 5.5, 8.5):
            ax.axvline(edge, color=ORANGE, linewidth=1)
        ax.set(title=title, xlabel="atom", xticks=[1, 4, 7, 10], xticklabels=["1–3", "4–6", "7–9", "10–12"])
    axes[0].set(ylabel="row", yticks=[])
    return drawn


def nmf() -> Figure:
    """Return a digit, and the parts that add up to it."""
    X = load_digits().data
    model = vrmf.NMF(n_components=16, random_state=0).fit(X)
    H = model.transform(X[:200])
    share = np.sort(H * np.linalg.norm(model.components_, axis=1), axis=1)[:, ::-1]
    number = int(np.argmax(share[:, :4].sum(axis=1) / share.sum(axis=1)))
    best = np.argsort(-H[number] * np.linalg.norm(model.components_, axis=1))[:4]
    drawn = figure(1.6, "A digit is a sum of parts: nothing is ever subtracted")
    axes = drawn.subplots(1, 9, width_ratios=[1, 0.3, 1, 0.3, 1, 0.3, 1, 0.3, 1])
    show(axes[0], X[number], (8, 8), "digit", cmap="gray_r", vmin=0, vmax=WHITE)
    for place, atom in enumerate(best):
        sign(axes[2 * place + 1], "≈" if place == 0 else "+")
        part = H[number, atom] * model.components_[atom]
        show(axes[2 * place + 2], part, (8, 8), f"part {place + 1}", cmap="gray_r", vmin=0, vmax=WHITE)
    return drawn


def curves(count: int, noise: float) -> tuple[Array, Array]:
    """Return noisy mixtures of three smooth peaks, and the positions along them."""
    rng = np.random.default_rng(1)
    t = np.linspace(0, 1, 120)
    peaks = np.array([np.exp(-(((t - m) / w) ** 2)) for m, w in ((0.25, 0.07), (0.5, 0.12), (0.75, 0.06))])
    peaks /= peaks.sum(axis=1, keepdims=True)
    X = rng.gamma(0.6, size=(count, 3)) @ peaks
    return np.maximum(X + noise * rng.standard_normal(X.shape), 0), t


def smooth_dictionary_learning() -> Figure:
    """Return atoms of noisy curves, with and without smoothness."""
    X, t = curves(25, 0.015)
    plain = vrmf.NMF(n_components=3, random_state=0).fit(X)
    smooth = vrmf.SmoothDictionaryLearning(n_components=3, smoothness=4.0, random_state=0).fit(X)
    drawn = figure(2.5, "Noisy spectra: smoothness keeps the noise out of the atoms")
    draw_atoms(drawn, t, (plain, smooth))
    return drawn


def draw_atoms(drawn: Figure, t: Array, models: Sequence[Any]) -> None:
    """Draw the atoms of models as curves side by side, from left to right in the same colours."""
    for ax, model in zip(drawn.subplots(1, len(models)), models, strict=True):
        D = model.components_ / model.components_.sum(axis=1, keepdims=True)
        for atom, colour in zip(D[np.argsort(D @ t)], (BLUE, ORANGE, GREY), strict=True):
            ax.plot(t, atom, color=colour, linewidth=1.6)
        ax.set(title=type(model).__name__, xticks=[], yticks=[], xlabel="wavelength")


def robust_pca() -> Figure:
    """Return a frame of a video, its background and what moves."""
    scene = moving_scene(n_frames=100, seed=0)
    model = vrmf.RobustPCA(random_state=0).fit(scene.frames)
    low_rank, outliers = model.decompose(scene.frames[40:41])
    drawn = figure(1.85, "A frame of a video is background + objects that move")
    axes = drawn.subplots(1, 5, width_ratios=[1, 0.12, 1, 0.12, 1])
    show(axes[0], scene.frames[40], scene.image_shape, "frame", vmin=0, vmax=1)
    sign(axes[1], "≈")
    show(axes[2], low_rank, scene.image_shape, "low rank", vmin=0, vmax=1)
    sign(axes[3], "+")
    show(axes[4], outliers, scene.image_shape, "outliers", vmin=-0.6, vmax=0.6)
    return drawn


def max_norm_decomposition() -> Figure:
    """Return the codes of two models in the plane: in the unit disc, and anywhere."""
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(150) < 8, 6.0, 1.0)[:, None]
    X = sizes * rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60))
    X += np.where(rng.random(X.shape) < 0.05, 8.0, 0.0)
    models = (
        vrmf.RobustPCA(n_components=2, random_state=0).fit(X),
        vrmf.MaxNormDecomposition(n_components=2, random_state=0).fit(X),
    )
    drawn = figure(3.1, "Codes stay in the unit ball, those of the largest rows too")
    for ax, model in zip(drawn.subplots(1, 2), models, strict=True):
        H = model.transform(X)
        ax.plot(*H[8:].T, ".", color=BLUE, markersize=5)
        ax.plot(*H[:8].T, "o", color=ORANGE, markersize=6)
        ax.add_patch(Circle((0, 0), 1, fill=False, color="black", linewidth=1.5, zorder=3))
        limit = 1.1 * max(1.0, float(np.abs(H).max()))
        ax.set(title=type(model).__name__, xticks=[], yticks=[], xlim=(-limit, limit), ylim=(-limit, limit))
        ax.set_box_aspect(1)
    return drawn


def low_rank_representation() -> Figure:
    """Return atoms learned from few noisy curves, free ones and ones along a basis of smooth curves."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 100)
    basis = np.array([np.cos(np.pi * j * t) for j in range(8)]) * 4
    true = np.array([np.cos(np.pi * 2 * t), np.cos(np.pi * 3 * t)])
    X = rng.standard_normal((30, 2)) @ true + 1.0 * rng.standard_normal((30, 100))
    X += np.where(rng.random(X.shape) < 0.05, 6.0, 0.0)
    free = vrmf.RobustPCA(n_components=2, random_state=0).fit(X)
    along = vrmf.LowRankRepresentation(
        n_components=2, basis=basis, dictionary_alpha=100.0, random_state=0
    ).fit(X)
    drawn = figure(2.5, "Atoms follow a basis that you give")
    for ax, model, title in zip(
        drawn.subplots(1, 2), (free, along), ("RobustPCA", "basis of smooth curves"), strict=True
    ):
        for atom, colour in zip(model.components_, (BLUE, ORANGE), strict=False):
            ax.plot(t, atom, color=colour, linewidth=1.6)
        ax.set(title=title, xticks=[], yticks=[])
    return drawn


def robust_nmf() -> Figure:
    """Return atoms of curves with broken entries, by NMF and by robust NMF."""
    (X, t), rng = curves(100, 0.006), np.random.default_rng(0)
    broken = np.where(rng.random(X.shape) < 0.03, 0.5, X)
    models = (
        vrmf.NMF(n_components=3, random_state=0).fit(broken),
        vrmf.RobustNMF(n_components=3, random_state=0).fit(broken),
    )
    drawn = figure(2.5, "3 % of the entries are broken: they do not spoil the parts")
    draw_atoms(drawn, t, models)
    return drawn


PICTURES: dict[str, Callable[[], Figure]] = {
    "dictionary-learning": dictionary_learning,
    "group-dictionary-learning": group_dictionary_learning,
    "nmf": nmf,
    "smooth-dictionary-learning": smooth_dictionary_learning,
    "robust-pca": robust_pca,
    "max-norm-decomposition": max_norm_decomposition,
    "low-rank-representation": low_rank_representation,
    "robust-nmf": robust_nmf,
}


def save(drawn: Figure, path: Path) -> None:
    """Write a figure as a small PNG, with few colours and without the time or versions."""
    stream = io.BytesIO()
    drawn.savefig(stream, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    image = Image.open(stream).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main(names: Sequence[str]) -> None:
    """Draw the pictures of the given names, or all."""
    warnings.simplefilter("ignore", UserWarning)
    for name in names or PICTURES:
        path = HERE / f"formulation-{name}.png"
        save(PICTURES[name](), path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
