"""
Anomalies in new rows
=====================

Forty sensors measure three causes that vary together. The readings of the past hold spikes, since
nobody has cleaned them. We want to know which new readings are wrong, and which sensor failed.

:class:`vrmf.RobustPCA` is fitted to the past as it is, and decomposes new rows with the model that
it has learned. The energy of the outliers of a row is its anomaly score.
"""

# %%
# The readings
# ------------
# Two per cent of the past readings are spikes. In a tenth of the new rows two of the forty sensors
# are off by 1.2, which is four times the noise and less than the usual variation.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score, roc_curve

import vrmf

rng = np.random.default_rng(0)
mixing = rng.standard_normal((3, 40))


def readings(count):
    return rng.standard_normal((count, 3)) @ mixing + 0.3 * rng.standard_normal((count, 40))


past, new = readings(1000), readings(1000)
past += np.where(rng.random(past.shape) < 0.02, rng.uniform(-30, 30, past.shape), 0)
is_wrong = np.zeros(new.shape, dtype=bool)
for row in is_wrong[:100]:
    row[rng.choice(40, size=2, replace=False)] = True
new += np.where(is_wrong, 1.2 * rng.choice([-1, 1], new.shape), 0)
is_anomaly = is_wrong.any(axis=1)

# %%
# Scores
# ------
# :meth:`~vrmf.RobustPCA.score_samples` returns minus the loss of each row. It includes the noise of
# all sensors and the penalty on the code, so it also asks how unusual the causes are. The energy of
# the outliers asks only whether sensors disagree. Two other scores are computed for comparison: the
# error of PCA of the same rank, and an isolation forest.

model = vrmf.RobustPCA(random_state=0).fit(past)
low_rank, outliers = model.decompose(new)
pca = PCA(n_components=model.rank_, random_state=0).fit(past)
forest = IsolationForest(random_state=0).fit(past)

scores = {
    "energy of outliers": np.sum(outliers**2, axis=1),
    "minus score_samples": -model.score_samples(new),
    "error of PCA": np.sum((new - pca.inverse_transform(pca.transform(new))) ** 2, axis=1),
    "isolation forest": -forest.score_samples(new),
}
print(f"rank {model.rank_} (true: 3), noise {model.noise_:.3f} (true: 0.3)")
for name, score in scores.items():
    print(f"area under the ROC curve, {name}: {roc_auc_score(is_anomaly, score):.3f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
colours = ["#0072B2", "#56B4E9", "#D55E00", "#6E6E6E"]
for (name, score), colour in zip(scores.items(), colours, strict=True):
    left.plot(*roc_curve(is_anomaly, score)[:2], color=colour, label=name)
left.legend(frameon=False, loc="lower right")
left.set(xlabel="share of good rows reported", ylabel="share of anomalies found")
energy = scores["energy of outliers"]
bins = np.linspace(0, energy.max(), 50)
right.hist(energy[~is_anomaly], bins, color="#6E6E6E", label="good rows")
right.hist(energy[is_anomaly], bins, color="#D55E00", alpha=0.8, label="anomalies")
right.set(xlabel="energy of outliers", ylabel="rows", yscale="log")
right.legend(frameon=False)
plt.show()

# %%
# Which sensor
# ------------
# :meth:`~vrmf.RobustPCA.outlier_mask` marks single readings that are too far from the model for
# the noise. In the third picture, black readings are wrong and found, dark grey ones are wrong and
# missed, light grey ones are good and marked.

mask = model.outlier_mask(new)
print(f"wrong readings found: {mask[is_wrong].mean():.0%}", end=", ")
print(f"good readings marked: {mask[~is_wrong].mean():.2%}")

shown = np.r_[0:25, 100:125]
fig, axes = plt.subplots(1, 3, figsize=(9.5, 4.4), sharey=True, layout="constrained")
axes[0].imshow(new[shown], cmap="RdBu_r", vmin=-4, vmax=4, aspect="auto")
axes[1].imshow(outliers[shown], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
axes[2].imshow(mask[shown] + 2 * is_wrong[shown], cmap="Greys", aspect="auto")
for ax, title in zip(axes, ["readings", "outliers", "mask"], strict=True):
    ax.axhline(24.5, color="black", lw=1)
    ax.set(title=title, xlabel="sensor", yticks=[12, 37], yticklabels=["anomalies", "good rows"])
plt.show()
