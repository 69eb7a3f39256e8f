"""Generated videos: a photograph in changing light, objects that move in front of it, and noise.

All of it is known, so that what a model finds can be compared with the truth.

>>> scene = moving_scene(n_frames=20, seed=0)
>>> scene.frames.shape, scene.image_shape
((20, 5551), (61, 91))
>>> int(np.linalg.matrix_rank(scene.background))
2
>>> left = (scene.frames - scene.background)[~scene.mask]
>>> round(float(np.std(left)), 3) == scene.noise
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_sample_image

from vrmf.arrays import Array

#: Pixels of the photograph, along either side, whose mean is one pixel of the video.
BLOCK = 7

#: Grey levels of the photograph, before its light changes: objects are darker or brighter.
GREY = (0.2, 0.7)

#: By what share the light of the whole scene changes, and that of its left against its right side.
LIGHT = (0.1, 0.2)

#: The number of objects: ellipses and rectangles in turn.
N_OBJECTS = 6


@dataclass(frozen=True, eq=False)
class Scene:
    """A video, and the truth about it. Rows are frames."""

    frames: Array  #: what the camera sees, shape (n, height · width)
    background: Array  #: what it would see without objects and noise
    mask: Array  #: which pixels are covered by objects
    noise: float  #: the standard deviation of the noise
    image_shape: tuple[int, int]


def moving_scene(n_frames: int = 100, seed: int = 0, *, noise: float = 0.02, speed: float = 1.0) -> Scene:
    """Return a video of a photograph in changing light, six objects that move, and normal noise.

    The photograph is ``china.jpg`` of scikit-learn. The background is of rank 2. Objects are black or
    white and move at constant speeds; what leaves on one side comes back on the other.

    Parameters
    ----------
    n_frames : int
        The number of frames.
    seed : int
        Seed of the objects and of the noise.
    noise : float
        The standard deviation of the noise, for grey levels from 0 to 1.
    speed : float
        How fast objects move. 1 is 1.2 to 2.4 pixels a frame, so that few pixels are covered for more than
        a third of 100 frames.

    Examples
    --------
    >>> scene = moving_scene(n_frames=10, seed=1, noise=0)
    >>> bool(np.all((scene.frames == scene.background) == ~scene.mask))
    True
    """
    rng = np.random.default_rng(seed)
    photograph = _photograph()
    background = (_light(n_frames, photograph.shape[1]) * photograph).reshape(n_frames, -1)
    frames, mask = background.copy(), np.zeros(background.shape, dtype=bool)
    for i in range(N_OBJECTS):
        covered = _covered(rng, n_frames, photograph.shape, speed, is_ellipse=i % 2 == 0)
        frames[covered] = rng.integers(2)
        mask |= covered
    frames += noise * rng.standard_normal(frames.shape)
    return Scene(frames, background, mask, noise, photograph.shape)


def _photograph() -> Array:
    """Return the photograph, small and in shades of grey."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    height, width = (side // BLOCK for side in grey.shape)
    blocks = grey[: height * BLOCK, : width * BLOCK].reshape(height, BLOCK, width, BLOCK)
    return np.asarray(GREY[0] + (GREY[1] - GREY[0]) * blocks.mean(axis=(1, 3)))


def _light(n_frames: int, width: int) -> Array:
    """Return the brightness of each column of each frame, shape (n, 1, width)."""
    time, place = np.arange(n_frames)[:, None, None] / n_frames, np.linspace(-0.5, 0.5, width)
    return np.asarray(1 + LIGHT[0] * np.sin(2 * np.pi * time) + LIGHT[1] * np.cos(np.pi * time) * place)


def _covered(
    rng: np.random.Generator, n_frames: int, shape: tuple[int, int], speed: float, *, is_ellipse: bool
) -> Array:
    """Return which pixels of each frame a random object covers, shape (n, height · width)."""
    size = rng.uniform((7, 8), (14, 18))
    velocity = speed * rng.uniform((0.0, 1.2), (0.3, 2.4)) * rng.choice((-1, 1), size=2)
    path = rng.uniform((0, 0), shape) + np.arange(n_frames)[:, None] * velocity
    # What leaves the scene on one side comes back on the other.
    centres = (path + size / 2) % (shape + size) - size / 2
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    y = np.abs(rows - centres[:, 0, None, None]) / (size[0] / 2)
    x = np.abs(columns - centres[:, 1, None, None]) / (size[1] / 2)
    inside = x**2 + y**2 <= 1 if is_ellipse else (x <= 1) & (y <= 1)
    return np.asarray(inside.reshape(n_frames, -1))
