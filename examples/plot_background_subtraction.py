"""
What moved in a video
=====================

A fixed camera films a scene. The light changes, the sensor adds noise, and six objects cross the
picture. Each frame is a row of the data, each pixel a feature. The background of all frames
together has a low rank, because the light changes all pixels in the same way. An object covers
few pixels of a frame, and other ones in the next frame. To a low-rank model it is an outlier.

:class:`vrmf.RobustPCA` separates the two. It is given neither the rank nor the noise level.
Principal component analysis (PCA) is fitted to the same frames for comparison.
"""

# %%
# The video
# ---------
# :func:`vrmf.scenes.moving_scene` generates a video for which everything is known: the background,
# which has rank 2, the pixels that objects cover, and the noise of standard deviation 0.02.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score

import vrmf
from vrmf.scenes import moving_scene

scene = moving_scene(n_frames=100, seed=0)
X = scene.frames
print(f"{X.shape[0]} frames of {scene.image_shape[0]} × {scene.image_shape[1]} pixels")

# %%
# The fit
# -------
# A fit with default parameters finds the rank and the noise level. The mask marks the pixels that
# are farther from the background than noise explains.

model = vrmf.RobustPCA(random_state=0).fit(X)
background, _ = model.decompose(X)
mask = model.outlier_mask(X)

pca = PCA(n_components=model.rank_, random_state=0).fit(X)
ghosts = pca.inverse_transform(pca.transform(X))


def relative_error(found):
    return np.linalg.norm(found - scene.background) / np.linalg.norm(scene.background)


print(f"rank {model.rank_} (true: 2), noise {model.noise_:.4f} (true: {scene.noise})")
print(f"F score of the mask: {f1_score(scene.mask.ravel(), mask.ravel()):.3f}")
print(f"error of the background: RobustPCA {relative_error(background):.3f}", end=", ")
print(f"PCA {relative_error(ghosts):.3f}")

# %%
# Least squares cannot ignore an object. So PCA spreads each object over all frames, where it
# leaves a ghost. The background of robust PCA has none.

shown = [15, 50, 85]
parts = {
    "frame": X,
    "background": background,
    "what moved": np.where(mask, X, 0.45),
    "mask": mask,
    "background by PCA": ghosts,
}
fig, axes = plt.subplots(3, 5, figsize=(11, 4.8), layout="constrained")
for column, (title, video) in zip(axes.T, parts.items(), strict=True):
    column[0].set_title(title)
    for ax, i in zip(column, shown, strict=True):
        ax.imshow(video[i].reshape(scene.image_shape), cmap="gray", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
for ax, i in zip(axes[:, 0], shown, strict=True):
    ax.set_ylabel(f"frame {i}")
plt.show()

# %%
# The light
# ---------
# The two components explain the light. The mean brightness of the background that was found
# follows the true one, also where objects make the frames darker or brighter.

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(X.mean(axis=1), color="#6E6E6E", lw=1, label="frames")
ax.plot(scene.background.mean(axis=1), color="#D55E00", lw=4, alpha=0.5, label="true background")
ax.plot(background.mean(axis=1), color="#0072B2", lw=1.5, label="background by RobustPCA")
ax.set(xlabel="frame", ylabel="mean brightness")
ax.legend(frameon=False)
plt.show()

# sphinx_gallery_thumbnail_number = 1
