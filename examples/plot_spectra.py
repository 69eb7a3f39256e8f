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


def errors(model):
    return np.linalg.norm(matched(model) - dyes, axis=1) / np.linalg.norm(dyes, axis=1)


plain = vrmf.NMF(4, random_state=0).fit(X)
smooth = vrmf.SmoothDictionaryLearning(4, random_state=0).fit(X)
models = {"NMF": plain, "SmoothDictionaryLearning": smooth}
for name, model in models.items():
    print(f"{name}: relative errors {np.round(errors(model), 3)}")

# %%
fig, axes = plt.subplots(4, 3, figsize=(10, 6.5), sharex=True, sharey="col", layout="constrained")
for line, dye, sample in zip(axes, range(4), amounts.argmax(axis=0), strict=True):
    line[0].plot(wavelengths, X[sample], ".", color="#6E6E6E", markersize=3)
    for ax, model, colour in zip(line[1:], models.values(), ["#D55E00", "#0072B2"], strict=True):
        ax.fill_between(wavelengths, dyes[dye], color="#DDDDDD", label="true spectrum")
        ax.plot(wavelengths, matched(model)[dye], color=colour, lw=1.3, label="component")
        ax.set_yticks([])
axes[0, 0].set_title("the purest samples: photons")
for ax, name in zip(axes[0, 1:], models, strict=True):
    ax.set_title(name)
    ax.legend(frameon=False, fontsize=8)
for ax in axes[-1]:
    ax.set_xlabel("wavelength, nm")
plt.show()

# %%
# How smooth
# ----------
# The automatic ``smoothness`` follows the scale of the data, not the number of photons. Here it is
# on the cautious side: three times as much would be better still. Much more flattens the peaks.

factors = np.geomspace(0.01, 100, 13)
means = []
for factor in factors:
    smoothness = factor * smooth.smoothness_
    model = vrmf.SmoothDictionaryLearning(4, smoothness=smoothness, random_state=0).fit(X)
    means.append(np.mean(errors(model)))

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.axhline(np.mean(errors(plain)), color="#D55E00", ls="--", label="NMF")
ax.semilogx(factors, means, "o-", color="#0072B2", ms=4, label="SmoothDictionaryLearning")
ax.plot(1, np.mean(errors(smooth)), "D", color="#0072B2", ms=10, label="the same, default")
ax.set(xlabel="smoothness / automatic smoothness", ylabel="mean relative error", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# Names of features
# -----------------
# If the names of features are numbers, :mod:`vrmf.plots` takes them as positions along a curve. A
# data frame or a file brings its column names; here they are given.

vrmf.plots.atoms(smooth, names=wavelengths)
plt.show()

# sphinx_gallery_thumbnail_number = 1
