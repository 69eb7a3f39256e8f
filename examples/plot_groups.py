"""
Atoms that switch on and off together
=====================================

Sometimes we know which atoms belong together. Here each digit, from 0 to 9, gets a group of six
atoms. :class:`vrmf.GroupDictionaryLearning` penalises the norm of the code of each group, so whole
groups switch off. An image is explained by a few groups rather than by a few atoms of any group.

The fit is not told the digit of any image. It starts from six images of each digit, which is how it
knows which group is which. We look at new images and ask which groups explain them.
"""

# %%
# Two fits
# --------
# Both fits start from the same atoms, and have the same automatic weight. The first penalises
# groups, the second single codes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import vrmf

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, stratify=y, random_state=0)

start = np.concatenate([X[y == digit][:6] for digit in range(10)])
start /= np.linalg.norm(start, axis=1, keepdims=True)
groups = np.arange(60).reshape(10, 6)
models = {
    "groups": vrmf.GroupDictionaryLearning(60, groups=groups, init=start, random_state=0),
    "single codes": vrmf.DictionaryLearning(60, init=start, random_state=0),
}

# %%
# The share of a group in an image is the energy of what its atoms contribute.


def shares(model, rows):
    H = model.transform(rows)
    parts = np.stack([H[:, group] @ model.components_[group] for group in groups], axis=1)
    energy = np.sum(parts**2, axis=2)
    return H, energy / energy.sum(axis=1, keepdims=True)


fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    H, share = shares(model.fit(X), X_new)
    active = np.any(H[:, groups] != 0, axis=2).sum(axis=1).mean()
    own = share[np.arange(len(y_new)), y_new].mean()
    right = np.mean(share.argmax(axis=1) == y_new)
    print(f"{name}: {active:.1f} of 10 groups are on, the share of the own group is {own:.2f},")
    print(f"    and the strongest group is that of the digit for {right:.0%} of the new images")
    mean = [share[y_new == digit].mean(axis=0) for digit in range(10)]
    image = ax.imshow(mean, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=f"penalty on {name}", xlabel="group", xticks=range(10), yticks=range(10))
axes[0].set_ylabel("digit of the new image")
fig.colorbar(image, ax=axes, label="mean share of the energy")
plt.show()

# %%
# The groups
# ----------
# Each row shows the atoms of a group: variants of one digit.

model = models["groups"]
fig, axes = plt.subplots(6, 10, figsize=(8, 5), layout="constrained")
for column, group in zip(axes.T, groups, strict=True):
    column[0].set_title(f"group {group[0] // 6}", fontsize=9)
    for ax, atom in zip(column, model.components_[group], strict=True):
        ax.imshow(atom.reshape(8, 8), cmap="RdBu_r", vmin=-0.4, vmax=0.4)
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Codes of a few new images
# -------------------------
# With the penalty on groups, the nonzero codes of an image fill whole groups.

rows = [np.flatnonzero(y_new == digit)[0] for digit in range(10)]
fig, axes = plt.subplots(2, 1, figsize=(8, 4.2), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    codes = model.transform(X_new[rows])
    ax.imshow(codes, cmap="RdBu_r", vmin=-40, vmax=40, aspect="auto")
    for edge in range(6, 60, 6):
        ax.axvline(edge - 0.5, color="black", lw=0.5)
    ax.set(title=f"penalty on {name}", yticks=range(10), ylabel="digit")
axes[1].set(xlabel="atom, in groups of six")
plt.show()

# sphinx_gallery_thumbnail_number = 1
