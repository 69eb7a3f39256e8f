"""
Clusters of rows that lie in different subspaces
================================================

Each group of rows lies in a subspace of its own, and some entries are grossly wrong. Distances
between rows say nothing about the groups. But a row is a combination of rows of its own group, and
this can be read off a low-rank representation.

:class:`vrmf.LowRankRepresentation` finds the low-rank part of all rows, without the wrong entries.
The row space of its codes gives an affinity between rows, and spectral clustering gives the groups.
"""

# %%
# The data
# --------
# Five random subspaces of dimension 4 in a space of 80 dimensions, 40 rows in each. There is noise
# of standard deviation 0.1, and 15 % of the entries are replaced by arbitrary values.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

import vrmf

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(5), 40)
parts = [rng.standard_normal((40, 4)) @ rng.standard_normal((4, 80)) for _ in range(5)]
clean = np.concatenate(parts)
is_wrong = rng.random(clean.shape) < 0.15
X = clean + 0.1 * rng.standard_normal(clean.shape)
X = np.where(is_wrong, rng.uniform(-10, 10, X.shape), X)

# %%
# The fit
# -------
# ``n_components`` bounds the rank from above. The fit finds the rank, 20, and the noise.

model = vrmf.LowRankRepresentation(n_components=40, random_state=0).fit(X)
low_rank, _ = model.decompose(X)
error = np.linalg.norm(low_rank - clean) / np.linalg.norm(clean)
print(f"rank {model.rank_} (true: 20), noise {model.noise_:.3f} (true: 0.1)")
print(f"relative error of the low-rank part: {error:.2f} (of the data: ", end="")
print(f"{np.linalg.norm(X - clean) / np.linalg.norm(clean):.2f})")

# %%
# Affinities
# ----------
# Let U hold the left singular vectors of the low-rank part, with rows scaled to norm 1. Rows of
# independent subspaces are orthogonal in U Uᵀ. For comparison we compute the same from the
# singular vectors of the data, of the same rank.


def affinity(rows):
    U = np.linalg.svd(rows, full_matrices=False)[0][:, : model.rank_]
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    return (U @ U.T) ** 2


def clusters(matrix):
    spectral = SpectralClustering(
        5, affinity="precomputed", assign_labels="cluster_qr", random_state=0
    )
    return spectral.fit_predict(matrix)


affinities = {"data": affinity(X), "low-rank part": affinity(low_rank)}
k_means = KMeans(5, random_state=0).fit_predict(X)
print(f"adjusted Rand index: k-means {adjusted_rand_score(groups, k_means):.2f}", end="")
for name, matrix in affinities.items():
    print(f", {name} {adjusted_rand_score(groups, clusters(matrix)):.2f}", end="")
print()

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.4), layout="constrained")
for ax, (name, matrix) in zip(axes, affinities.items(), strict=True):
    image = ax.imshow(matrix, cmap="magma", vmin=0, vmax=0.5)
    index = adjusted_rand_score(groups, clusters(matrix))
    ax.set(
        title=f"affinity from the {name}\nadjusted Rand index {index:.2f}",
        xlabel="row",
        ylabel="row",
    )
fig.colorbar(image, ax=axes, label="affinity", shrink=0.8)
plt.show()
