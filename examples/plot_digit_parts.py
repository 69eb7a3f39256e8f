"""
Parts of handwritten digits
===========================

Nonnegative matrix factorization (NMF) writes each image as a sum of parts. Parts add up and never
cancel. So they are strokes and curves that many digits share. Principal components have both signs
and are harder to read: a digit is a sum of patterns that partly cancel.
"""

# %%
# The fit
# -------
# The 1797 images of scikit-learn's digits have 8 × 8 pixels. We fit 16 parts.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, PCA

import vrmf

X = load_digits().data
model = vrmf.NMF(n_components=16, random_state=0).fit(X)
print(model.stop_reason_)

# %%
# scikit-learn's NMF with as many parts has nearly the same error, so nothing is lost by the
# constraint that parts sum to 1. This fixes their scale, and codes are amounts of ink.

peer = NMF(n_components=16, max_iter=2000, random_state=0).fit(X)
print(f"relative error: vrmf {model.reconstruction_error_:.4f}", end=", ")
print(f"scikit-learn {peer.reconstruction_err_ / np.linalg.norm(X):.4f}")

# %%
# Parts and principal components
# ------------------------------
# Parts are bright where there is ink. Principal components are red and blue, for their two signs.

pca = PCA(n_components=16, random_state=0).fit(X)

fig = plt.figure(figsize=(9.6, 5.1), layout="constrained")
left, right = fig.subfigures(1, 2, wspace=0.06)
for half, title, atoms, style in (
    (left, "parts by NMF", model.components_, {"cmap": "gray"}),
    (right, "principal components", pca.components_, {"cmap": "RdBu_r", "vmin": -0.4, "vmax": 0.4}),
):
    half.suptitle(title)
    for ax, atom in zip(half.subplots(4, 4).flat, atoms, strict=True):
        ax.imshow(atom.reshape(8, 8), **style)
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# A digit as a sum
# ----------------
# The code of a digit says how much of each part it takes. Here are five digits, what NMF makes of
# them, and the five parts with the largest amounts.

H = model.transform(X)
is_used = H > 0.01 * H.sum(axis=1, keepdims=True)
print(f"parts that hold more than 1 % of the ink of a digit: {is_used.sum(axis=1).mean():.1f}")

rows = [0, 3, 4, 6, 8]
fig, axes = plt.subplots(len(rows), 7, figsize=(8, 6), layout="constrained")
for line, i in zip(axes, rows, strict=True):
    strongest = np.argsort(-H[i])[:5]
    parts = H[i, strongest, None] * model.components_[strongest]
    images = [X[i], H[i] @ model.components_, *parts]
    names = ["digit", "sum of all", *(f"{H[i, part]:.0f} × part {part}" for part in strongest)]
    for ax, image, name in zip(line, images, names, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
        ax.set_title(name, fontsize=8)
plt.show()
