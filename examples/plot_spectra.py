"""
Smooth spectra from few photons
===============================

Four dyes are mixed in 150 samples. A spectrometer counts 100 photons of each sample, spread over
151 wavelengths, so each spectrum is very noisy. The spectra of the dyes are smooth. Plain
nonnegative matrix factorization (NMF) does not know this, and its components carry noise.
:class:`vrmf.SmoothDictionaryLearning` penalises differences between neighbouring wavelengths.
"""

# %%
# The mixtures
# ------------

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import vrmf

rng = np.random.default_rng(0)
wavelengths = np.arange(400, 701, 2)


def peak(centre, width):
    return np.exp(-(((wavelengths - centre) / width) ** 2) / 2)


dyes = np.array(
    [
        peak(450, 14) + 0.5 * peak(500, 20),
        peak(520, 18) + 0.35 * peak(620, 30),
        peak(570, 25),
        peak(640, 16) + 0.4 * peak(470, 12),
    ]
)
dyes /= dyes.sum(axis=1, keepdims=True)
amounts = rng.dirichlet(np.full(4, 0.6), size=150)
X = rng.poisson(100 * amounts @ dyes).astype(float)

# %%
# Both fits use defaults. Atoms of both models are nonnegative and sum to 1, as the true spectra do.
# So they can be compared without a choice of scale. Their order is arbitrary: each true spectrum is
# matched with one component.


def matched(model):
    distances = np.linalg.norm(dyes[:, None] - model.components_, axis=2)
    return model.components_[linear_sum_assignment(distances)[1]]


found = {
    "NMF": matched(vrmf.NMF(4, random_state=0).fit(X)),
    "SmoothDictionaryLearning": matched(vrmf.SmoothDictionaryLearning(4, random_state=0).fit(X)),
}
for name, components in found.items():
    errors = np.linalg.norm(components - dyes, axis=1) / np.linalg.norm(dyes, axis=1)
    print(f"{name}: relative errors {np.round(errors, 3)}")

# %%
fig, axes = plt.subplots(4, 3, figsize=(10, 6.5), sharex=True, sharey="col", layout="constrained")
for line, dye, sample in zip(axes, range(4), amounts.argmax(axis=0), strict=True):
    line[0].plot(wavelengths, X[sample], ".", color="#6E6E6E", markersize=3)
    for ax, (name, colour) in zip(line[1:], zip(found, ["#D55E00", "#0072B2"], strict=True), strict=True):
        ax.fill_between(wavelengths, dyes[dye], color="#E6E6E6", label="true spectrum")
        ax.plot(wavelengths, found[name][dye], color=colour, lw=1.3, label="component")
        ax.set_yticks([])
axes[0, 0].set_title("the purest samples: photons")
for ax, name in zip(axes[0, 1:], found, strict=True):
    ax.set_title(name)
    ax.legend(frameon=False, fontsize=8)
for ax in axes[-1]:
    ax.set_xlabel("wavelength, nm")
plt.show()

# %%
# Names of features
# -----------------
# If the names of features are numbers, :mod:`vrmf.plots` takes them as positions along a curve. A
# data frame or a file brings its column names; here they are given.

model = vrmf.SmoothDictionaryLearning(4, random_state=0).fit(X)
vrmf.plots.atoms(model, names=wavelengths)
plt.show()

# sphinx_gallery_thumbnail_number = 1
