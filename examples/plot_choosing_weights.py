"""
Choosing the weight of sparse codes
===================================

The weight of :class:`vrmf.DictionaryLearning` decides how sparse codes are. Its default follows the
scale of the data. Here we compare the default with a path of weights, from large to small, on
patches of a photograph. Each fit of the path starts from the dictionary of the one before.

We judge a dictionary by pixels that it has not seen: codes of new patches are computed from three
quarters of their pixels, and predict the others.
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
# With ``warm_start=True`` a fit starts from the dictionary of the last one. This path then takes a
# third of the passes that fits from scratch take. It goes from ten times the automatic weight to a
# tenth of it. A fixed quarter of the pixels of new patches is hidden; codes are computed with the
# other columns of the dictionary.

default = suggestion.estimator(random_state=0).fit(X)
is_hidden = np.isin(np.arange(36), np.random.default_rng(0).choice(36, size=9, replace=False))


def error_of_hidden(model):
    seen, D = ~is_hidden, model.components_
    codes = sparse_encode(X_new[:, seen], D[:, seen], algorithm="lasso_cd", alpha=model.alpha_)
    hidden = X_new[:, is_hidden]
    return np.linalg.norm(hidden - codes @ D[:, is_hidden]) / np.linalg.norm(hidden)


def nonzeros(model):
    return np.mean(np.count_nonzero(model.transform(X_new), axis=1))


weights = default.alpha_ * np.geomspace(10, 0.1, 21)
model = suggestion.estimator(random_state=0, warm_start=True)
errors, counts, passes = [], [], 0
for alpha in weights:
    model.set_params(alpha=alpha).fit(X)
    errors.append(error_of_hidden(model))
    counts.append(nonzeros(model))
    passes += model.n_passes_

best = np.argmin(errors)
print(f"{len(weights)} fits took {passes:.0f} passes, the default alone {default.n_passes_:.0f}")
print(f"best weight of the path: {weights[best] / default.alpha_:.2f} times the default", end=", ")
print(f"error {errors[best]:.3f}, {counts[best]:.1f} nonzeros of {len(model.components_)}")
print(f"default: error {error_of_hidden(default):.3f}, {nonzeros(default):.1f} nonzeros")

# %%
# With a large weight codes are too poor to predict anything. With a small one they also fit what
# does not carry over to other pixels. The default is near the minimum. (It is not on the curve,
# since it starts from the data rather than from the dictionary of a larger weight.)

fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5.6), sharex=True, layout="constrained")
above.semilogx(weights, errors, "o-", color="#0072B2", ms=4)
above.plot(default.alpha_, error_of_hidden(default), "D", color="#D55E00", ms=9, label="default")
above.set(ylabel="relative error of hidden pixels")
above.legend(frameon=False)
below.semilogx(weights, counts, "o-", color="#0072B2", ms=4)
below.plot(default.alpha_, nonzeros(default), "D", color="#D55E00", ms=9)
below.set(xlabel="weight alpha", ylabel="nonzero codes of a patch")
below.invert_xaxis()
plt.show()
