"""
Denoising a photograph with learned patches
===========================================

Small patches of a photograph are sums of a few patterns. :class:`vrmf.DictionaryLearning` learns
these patterns from the noisy picture itself. Each patch is then replaced by its sparse sum of
patterns. Noise has no sparse code, so most of it is left behind.

We compare with the discrete cosine transform (DCT), whose patterns are fixed, and with
``MiniBatchDictionaryLearning`` of scikit-learn.
"""

# %%
# Patches
# -------
# The picture is a part of a photograph that ships with scikit-learn. The noise has the standard
# deviation 0.1, for grey levels from 0 to 1. All overlapping patches of 8 × 8 pixels are rows,
# without their means.

import warnings
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.fft import dctn, idctn
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

import vrmf

picture = load_sample_image("china.jpg")[130:310, 190:430].mean(axis=2) / 255
noise = 0.1
noisy = picture + noise * np.random.default_rng(0).standard_normal(picture.shape)

patches = extract_patches_2d(noisy, (8, 8)).reshape(-1, 64)
means = patches.mean(axis=1, keepdims=True)
X = patches - means


def assembled(rows):
    return reconstruct_from_patches_2d((rows + means).reshape(-1, 8, 8), picture.shape)


def psnr(image):
    return -10 * np.log10(np.mean((image - picture) ** 2))


# %%
# Learning and coding
# -------------------
# The automatic weight knows the scale of the data, not the noise. For denoising we know better: we
# set it to one and a half times the noise. The dictionary has twice as many atoms as a patch has
# pixels, and is learned from every fourth patch. A tolerance of 10⁻⁴ is enough for this purpose.
# scikit-learn's learner solves the same problem with the same weight.

alpha = 1.5 * noise
learners = {
    "vrmf": vrmf.DictionaryLearning(n_components=128, alpha=alpha, tol=1e-4, random_state=0),
    "scikit-learn": MiniBatchDictionaryLearning(
        n_components=128,
        alpha=alpha,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        transform_alpha=alpha,
        random_state=0,
    ),
}
# A few codes of scikit-learn's coordinate descent stop short of its tolerance, which is very small.
warnings.filterwarnings("ignore", category=ConvergenceWarning, module="sklearn")

denoised = {"noisy": noisy}
for name, learner in learners.items():
    start = perf_counter()
    learner.fit(X[::4])
    fitted = perf_counter()
    H = learner.transform(X)
    coded = perf_counter()
    left = X - H @ learner.components_
    objective = np.mean(np.sum(left**2, axis=1) / 2 + alpha * np.sum(np.abs(H), axis=1))
    denoised[name] = assembled(H @ learner.components_)
    print(f"{name:12}  {psnr(denoised[name]):.2f} dB, objective {objective:.4f}", end=", ")
    print(f"fit {fitted - start:.1f} s, codes {coded - fitted:.1f} s")

# %%
# The DCT is orthogonal, so its sparse codes are soft thresholds: the same penalty with fixed
# patterns. Hard thresholds do not shrink the large coefficients, and are the classical choice. They
# are a strong competitor: the lasso shrinks.

coefficients = dctn(X.reshape(-1, 8, 8), axes=(1, 2), norm="ortho")
soft = np.sign(coefficients) * np.maximum(np.abs(coefficients) - alpha, 0)
hard = np.where(np.abs(coefficients) > 2.7 * noise, coefficients, 0)
for name, kept in (("DCT, soft", soft), ("DCT, hard", hard)):
    denoised[name] = assembled(idctn(kept, axes=(1, 2), norm="ortho").reshape(-1, 64))
    print(f"{name:12}  {psnr(denoised[name]):.2f} dB")
print(f"{'noisy':12}  {psnr(noisy):.2f} dB")

# %%
fig, axes = plt.subplots(2, 3, figsize=(10, 5.4), layout="constrained")
images = {"photograph": picture, **{name: denoised[name] for name in ["noisy", "vrmf"]}}
images |= {name: denoised[name] for name in ["scikit-learn", "DCT, soft", "DCT, hard"]}
for ax, (name, image) in zip(axes.flat, images.items(), strict=True):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_title(name if image is picture else f"{name}: {psnr(image):.2f} dB", fontsize=10)
plt.show()

# %%
# The atoms
# ---------
# The learned atoms are edges and lines in the directions of the building, and fine textures.

vrmf.plots.atoms(learners["vrmf"], image_shape=(8, 8))
plt.show()

# sphinx_gallery_thumbnail_number = 1
