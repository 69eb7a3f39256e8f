"""The demonstration: robust PCA of a video, and three solvers on digits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score

from vrmf import plots
from vrmf.arrays import Array
from vrmf.estimators import NMF, AbstractFactorizer, DictionaryLearning, RobustPCA
from vrmf.scenes import Scene, moving_scene

DIGIT_SHAPE = (8, 8)
SOLVERS = ("vr", "smm", "sgd")
MODELS: dict[str, Callable[..., AbstractFactorizer]] = {
    "dictionary learning": DictionaryLearning,
    "NMF": NMF,
}


@dataclass(frozen=True, eq=False)
class VideoFit:
    """Robust PCA of a video, whose background and objects are known."""

    scene: Scene
    model: RobustPCA
    background: Array  #: the low-rank part
    mask: Array  #: the entries that are outliers
    plain: Array  #: the background by PCA of the same rank

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall of the mask."""
        return float(f1_score(self.scene.mask.ravel(), self.mask.ravel()))

    @property
    def missed(self) -> float:
        """The share of the objects' pixels that the mask leaves out."""
        return 1 - float(np.mean(self.mask[self.scene.mask]))

    @property
    def false_alarms(self) -> float:
        """The share of the background's pixels that the mask takes for objects."""
        return float(np.mean(self.mask[~self.scene.mask]))

    def error(self, background: Array) -> float:
        """Return ‖background − truth‖ / ‖truth‖."""
        truth = self.scene.background
        return float(np.linalg.norm(background - truth) / np.linalg.norm(truth))


@dataclass(frozen=True)
class Fit:
    """One model, fitted by one solver."""

    problem: str
    solver: str
    model: AbstractFactorizer


def digits() -> Array:
    """Return 1797 digits, grey levels from 0 to 1."""
    return np.asarray(load_digits().data / 16)


def compile_kernels(n_components: int) -> None:
    """Take a few steps of every fit, so that no kernel is compiled while they are compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RobustPCA(max_iter=5, random_state=0).fit(moving_scene(20).frames[:, ::10])
        for _ in fits(digits()[: 4 * n_components], 2, n_components, 0):
            pass


def video_fit(n_frames: int, seed: int) -> VideoFit:
    """Fit robust PCA to a generated video, with nothing to tune."""
    scene = moving_scene(n_frames, seed)
    model = RobustPCA(random_state=seed).fit(scene.frames)
    background, _ = model.decompose(scene.frames)
    plain = low_rank(scene.frames, len(model.components_))
    return VideoFit(scene, model, background, model.outlier_mask(scene.frames), plain)


def low_rank(X: Array, rank: int) -> Array:
    """Return the best approximation of X by a matrix of a given rank: PCA, about the origin."""
    U, values, V = np.linalg.svd(X, full_matrices=False)
    return np.asarray((U[:, :rank] * values[:rank]) @ V[:rank])


def fits(X: Array, passes: int, n_components: int, seed: int) -> Iterator[Fit]:
    """Fit each model with each solver, from the same start and for about the same passes."""
    for problem, kind in MODELS.items():
        for solver in SOLVERS:
            # VR opens with two passes; an epoch is two more, the anchor and the inner steps.
            epochs = max(1, passes // 2 - 1) if solver == "vr" else passes
            model = kind(
                n_components,
                solver=solver,
                max_iter=epochs,
                tol=0,
                record_every=1,
                init="data",
                random_state=seed,
            )
            yield Fit(problem, solver, model.fit(X))


def video_picture(video: VideoFit) -> Figure:
    """Return the picture of three frames and what is made of them."""
    n, scene = len(video.mask), video.scene
    parts = {
        "frame": scene.frames,
        "background by robust PCA": video.background,
        "what moved": video.mask,
        "PCA of the same rank: ghosts": video.plain,
    }
    return plots.video_figure(parts, [n // 6, n // 2, 5 * n // 6], scene.image_shape)


def write_pictures(video: VideoFit, done: list[Fit], folder: Path) -> list[Path]:
    """Write the pictures of the demonstration and return their paths."""
    atoms = next(fit.model.components_ for fit in done if fit.problem == "NMF")
    runs = {p: {fit.solver: fit.model.history_ for fit in done if fit.problem == p} for p in MODELS}
    figures = {
        "video.png": video_picture(video),
        "atoms.png": plots.atoms_figure(atoms, DIGIT_SHAPE, "Atoms of NMF"),
        "convergence.png": plots.convergence_figure(runs, "Objective above the best found"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=90)
    return [folder / name for name in figures]
