"""Objects that move over a background, found as outliers; a part of recovery.py."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

import vrmf
from benchmarks import recovery_report
from benchmarks.common import RESULTS, Array
from benchmarks.recovery_convex import pcp, soft_spectrum_by_gram
from benchmarks.recovery_runs import Cases, Found, timed

VIDEOS = ("escalator", "vtest")
FRAMES, OBJECTS = 100, 4

#: The noise of videos in grey levels, and how far their light changes.
GREY_NOISE, LIGHT = 3.0, 0.05


#: Residuals above which a pixel counts as an object for PCP: the best of them is taken.
THRESHOLDS = (5, 8, 10, 12, 15, 20, 25, 30, 40)
VIDEO_SEEDS = range(5)


def video_cases() -> Cases:
    """Return the cases of both videos, none if the files are missing."""
    folder = video_folder()
    if folder is None:
        print("video: left out, since the folder VRMF_DATA has no videos")
        return {}
    return {
        f"{name}, seed {seed}": partial(film, folder, name, seed) for name in VIDEOS for seed in VIDEO_SEEDS
    }


def film(folder: Path, name: str, seed: int) -> Found:
    """Return F-measures of our mask and of PCP's best one; the first seed also draws a frame."""
    X, covered, shape = scene(folder, name, seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=0).fit(X))
    mask = model.outlier_mask(X)
    (L, rank), pcp_seconds = timed(lambda: pcp(X, tol=1e-5, shrink=soft_spectrum_by_gram))
    best, threshold = max((f_measure(np.abs(X - L) > level, covered), level) for level in THRESHOLDS)
    if seed == VIDEO_SEEDS[0]:
        keep_frame(name, [X, model.decompose(X)[0], mask, covered], shape)
    return {
        "video": name,
        "F": f_measure(mask, covered),
        "PCP, F": best,
        "PCP, threshold": threshold,
        "rank": model.rank_,
        "PCP, rank": rank,
        "noise": model.noise_,
        "passes": model.n_passes_,
        "seconds": seconds,
        "PCP, seconds": pcp_seconds,
        "reason": model.stop_reason_,
    }


def keep_frame(name: str, rows: list[Array], shape: tuple[int, int]) -> None:
    """Draw the middle frame: as it is, its background, the mask and the truth."""
    frames = [part[FRAMES // 2].reshape(shape) for part in rows]
    recovery_report.draw_frame(name, frames, RESULTS / f"recovery_{name}.svg")


def video_folder() -> Path | None:
    """Return the folder of videos, or None if it is not set or a video is missing."""
    folder = Path(os.environ.get("VRMF_DATA", ""))
    return folder if all((folder / f"video_{name}.npz").exists() for name in VIDEOS) else None


def scene(folder: Path, name: str, seed: int) -> tuple[Array, Array, tuple[int, int]]:
    """Return frames as rows, which of their pixels are covered by objects, and the shape of a frame.

    Ellipses of constant grey move over the median frame of a video. The light changes slowly. Noise is
    added, and grey levels are rounded to whole numbers from 0 to 255.
    """
    stored, rng = np.load(folder / f"video_{name}.npz"), np.random.default_rng(seed)
    height, width = (int(side) for side in stored["image_shape"])
    background = np.median(stored["frames"], axis=0).reshape(height, width)
    time = np.arange(FRAMES)
    light = 1 + LIGHT * np.sin(2 * np.pi * time / FRAMES * rng.uniform(0.5, 2))
    X = background * light[:, None, None]
    covered = np.zeros(X.shape, dtype=bool)
    y, x = np.mgrid[:height, :width]
    for _ in range(OBJECTS):
        y0, x0, dy, dx = rng.uniform([0, 0, -1.5, -2], [height, width, 1.5, 2])
        half_height, half_width = rng.integers(6, 15, size=2)
        rows, columns = (
            ((y0 + dy * time) % height)[:, None, None],
            ((x0 + dx * time) % width)[:, None, None],
        )
        inside = ((y - rows) / half_height) ** 2 + ((x - columns) / half_width) ** 2 < 1
        X = np.where(inside, rng.uniform(0, 255), X)
        covered |= inside
    X = np.clip(np.round(X + GREY_NOISE * rng.standard_normal(X.shape)), 0, 255)
    return X.reshape(FRAMES, -1), covered.reshape(FRAMES, -1), (height, width)


def f_measure(mask: Array, truth: Array) -> float:
    """Return the harmonic mean of precision and recall."""
    return float(2 * np.sum(mask & truth) / (np.sum(mask) + np.sum(truth)))
