"""
Choosing the weight of sparse codes
===================================

The weight of :class:`vrmf.DictionaryLearning` decides how sparse codes are. Its default is set by
the scale of the data. Here we compare it with a path of weights, from large to small, on patches of
a photograph. Each fit starts from the dictionary of the one before.

A model is judged by pixels that it has not seen. Codes of new patches are computed from three
quarters of the pixels, and predict the others.
"""

# %%
# The data, and what is suggested
# -------------------------------
# :func:`vrmf.suggest` proposes a model, a number of components and weights, and lists its doubts.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import sparse_encode
from sklearn.feature_extraction.image import extract_patches_2d

import vrmf

photograph = load_sample_image("china.jpg").mean(axis=2) / 255
patches = extract_patches_2d(photograph, (6, 6), max_patches=6000, random_state=0).reshape(-1, 36)
patches -= patches.mean(axis=1, keepdims=True)
X, X_new = patches[:5000], patches[5000:]

suggestion = vrmf.suggest(X, random_state=0)
print(suggestion)

# %%
# The path
# --------
# With ``warm_start=True`` a fit starts from the dictionary of the last one, so a path takes hardly
# longer than a few fits. The automatic weight is in the middle of ours.

default = suggestion.estimator(random_state=0).fit(X)
weights = default.alpha_ * np.geomspace(10, 0.05, 24)
