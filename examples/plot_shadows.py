"""
Shadows and highlights off a face
=================================

A matt surface under a distant lamp has the brightness albedo · ⟨normal, light⟩ (Lambert's law).
So the pictures of one head under many lamps form a matrix of rank 3. Shadows and highlights break
the law, in some pixels of each picture. :class:`vrmf.RobustPCA` finds the pictures without them.

From such pictures the shape of the head can be computed (photometric stereo). We do this with and
without robust PCA, and compare the surface normals with the true ones.
"""

# %%
# A head under 80 lamps
# ---------------------
# The head is an ellipsoid with a nose, two eye sockets and a mouth. Its albedo is lower at the
# hair, the brows, the eyes and the lips.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import map_coordinates

import vrmf

y, x = np.mgrid[-1.1:1.1:64j, -0.88:0.88:52j]
step = (y[1, 0] - y[0, 0], x[0, 1] - x[0, 0])


def bump(x0, y0, width, height):
    return np.exp(-(((abs(x) - x0) / width) ** 2) - ((y - y0) / height) ** 2)


ellipse = (x / 0.85) ** 2 + (y / 1.1) ** 2
is_head = ellipse < 0.9
depth = 0.8 * np.sqrt(np.maximum(1 - ellipse, 0))
depth += 0.33 * bump(0, 0.1, 0.11, 0.26) - 0.1 * bump(0.33, -0.2, 0.18, 0.12)
depth += 0.07 * bump(0, 0.55, 0.25, 0.07)
albedo = 0.75 - 0.35 * bump(0, 0.55, 0.26, 0.06) - 0.3 * bump(0.33, -0.22, 0.12, 0.05)
albedo -= 0.45 * bump(0.33, -0.42, 0.2, 0.04) + 0.5 * (y < -0.72 + 0.1 * np.cos(6 * x))
slope_y, slope_x = np.gradient(depth, *step)
normals = np.stack([-slope_x, -slope_y, np.ones_like(x)], axis=-1)
normals /= np.linalg.norm(normals, axis=-1, keepdims=True)

# %%
# Each lamp gives two pictures: one by Lambert's law alone, and one with highlights, with the shadow
# that the nose and the sockets cast, and black where the surface faces away from the lamp.


def picture(lamp):
    lambert = albedo * (normals @ lamp)
    in_shadow = lambert <= 0
    for length in np.arange(0.03, 1.8, 0.03):  # along the ray to the lamp
        place = np.indices(x.shape) + length * np.reshape(lamp[1::-1] / step, (2, 1, 1))
        surface = map_coordinates(depth, place, order=1, cval=-9)
        in_shadow |= surface > depth + length * lamp[2] + 0.005
    halfway = lamp + np.array([0, 0, 1])
    highlight = 0.5 * np.maximum(normals @ halfway / np.linalg.norm(halfway), 0) ** 60
    return np.where(in_shadow, 0, lambert + highlight)[is_head], lambert[is_head]


rng = np.random.default_rng(0)
height, azimuth = rng.uniform(np.cos(np.radians(55)), 1, 80), rng.uniform(0, 2 * np.pi, 80)
radius = np.sqrt(1 - height**2)
lamps = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), height], axis=1)
X, truth = map(np.array, zip(*map(picture, lamps), strict=True))
X += 0.01 * rng.standard_normal(X.shape)

# %%
# The fit
# -------
# We know from Lambert's law that the rank is 3, and say so. Without a bound the fit explains part
# of the shadows by further components: shadows move smoothly with the lamp, so they are not as
# scattered as robust PCA assumes.

model = vrmf.RobustPCA(n_components=3, random_state=0).fit(X)
found, outliers = model.decompose(X)


def relative_error(pictures):
    return np.linalg.norm(pictures - truth) / np.linalg.norm(truth)


print(f"rank without a bound: {vrmf.RobustPCA(random_state=0).fit(X).rank_}")
print(f"noise found: {model.noise_:.3f} (true: 0.01)")
print(f"distance from Lambert's law: pictures {relative_error(X):.3f}", end=", ")
print(f"found {relative_error(found):.3f}")

# %%
# These are the six pictures with the largest outliers. Cast shadows (blue outliers) and highlights
# (red) are gone from the face. The side that faces away from the lamp stays dark: there Lambert's
# law gives values below 0, and the black of the pictures is an outlier, too.


def show(ax, pixels, **style):
    image = np.full(is_head.shape, np.nan)
    image[is_head] = pixels
    ax.imshow(image, **style)
    ax.axis("off")


worst = np.argsort(-np.sum(outliers**2, axis=1))[:6]
fig, axes = plt.subplots(4, 6, figsize=(8, 6.8), layout="constrained")
for column, i in zip(axes.T, worst, strict=True):
    show(column[0], X[i], cmap="gray", vmin=0, vmax=1)
    show(column[1], found[i], cmap="gray", vmin=0, vmax=1)
    show(column[2], truth[i], cmap="gray", vmin=0, vmax=1)
    show(column[3], outliers[i], cmap="RdBu_r", vmin=-0.6, vmax=0.6)
for ax, title in zip(axes[:, 0], ["picture", "found", "truth", "outliers"], strict=True):
    ax.text(-0.1, 0.5, title, ha="right", va="center", transform=ax.transAxes, fontsize=11)
plt.show()

# %%
# The shape
# ---------
# With known lamps, the normals follow from a least-squares fit to the pictures. Shadows and
# highlights mislead it.


def error_of_normals(pictures):
    scaled = np.linalg.lstsq(lamps, pictures)[0].T
    cosines = np.sum(scaled * normals[is_head], axis=1) / np.linalg.norm(scaled, axis=1)
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


errors = {
    "from the pictures": error_of_normals(X),
    "from those without shadows": error_of_normals(found),
}
fig, axes = plt.subplots(1, 2, figsize=(6, 3.6), layout="constrained")
for ax, (title, degrees) in zip(axes, errors.items(), strict=True):
    print(f"mean error of the normals {title}: {degrees.mean():.1f} degrees")
    show(ax, degrees, cmap="inferno", vmin=0, vmax=15)
    ax.set_title(f"{title}\nmean error {degrees.mean():.1f}°", fontsize=10)
fig.colorbar(axes[1].images[0], ax=axes, label="error of the normal, degrees", shrink=0.8)
plt.show()
