"""
A constraint of your own
========================

Some curves can only fall: the share of a drug that is left, the light of a dying ember, the
survivors of a cohort. vrmf has no constraint for this. A term of one's own takes fifteen lines: it
says how far a row breaks the constraint, and how to project a row onto it.
"""

# %%
# The term
# --------
# A set is a frozen dataclass with ``violation`` and ``prox``, its projection. Decreasing curves
# that are not negative form a convex cone. The projection onto it is isotonic regression, which
# scikit-learn has. The atoms must be bounded as well, since they could grow while codes shrink.
# The projection onto a cone and then onto the unit ball is the projection onto both.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.isotonic import isotonic_regression

import vrmf
from vrmf.terms import AbstractSet, NonNegative, UnitBall


@dataclass(frozen=True)
class Decreasing(AbstractSet):
    """Rows that fall, are not negative, and have a norm of at most 1."""

    def violation(self, Z):
        rise = np.max(np.diff(Z, axis=1), axis=1, initial=0)
        return np.max([rise, -Z[:, -1], np.linalg.norm(Z, axis=1) - 1], axis=0)

    def prox(self, Z, step):
        fallen = np.array([isotonic_regression(z, y_min=0, increasing=False) for z in Z])
        return fallen / np.maximum(np.linalg.norm(fallen, axis=1, keepdims=True), 1)


# %%
# Three processes
# ---------------
# Each of 200 curves is a sum of three processes in unknown amounts: one that ends early, one that
# ends late, and one that decays slowly. The noise is as large as many of the curves.

rng = np.random.default_rng(0)
time = np.linspace(0, 10, 100)
processes = np.array(
    [1 / (1 + np.exp((time - 2) / 0.3)), 1 / (1 + np.exp((time - 6.5) / 0.6)), np.exp(-time / 3)]
)
processes /= np.linalg.norm(processes, axis=1, keepdims=True)
X = rng.gamma(0.5, size=(200, 3)) @ processes + 0.06 * rng.standard_normal((200, 100))

# %%
# The fits
# --------
# Codes are not negative. The dictionary is constrained by our term, or only to be nonnegative.


def matched(components):
    cosines = processes @ components.T / np.linalg.norm(components, axis=1)
    order = linear_sum_assignment(-cosines)[1]
    return components[order], cosines[range(3), order]


fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, layout="constrained")
axes[0].plot(time, X[:4].T, lw=0.9)
axes[0].set(title="four of the curves", xlabel="time")
constraints = {"nonnegative atoms": NonNegative() + UnitBall(), "decreasing atoms": Decreasing()}
for ax, (name, dictionary) in zip(axes[1:], constraints.items(), strict=True):
    model = vrmf.MatrixFactorization(
        3, code=NonNegative(), dictionary=dictionary, random_state=0
    ).fit(X)
    atoms, cosines = matched(model.components_)
    print(f"{name}: cosines with the processes {np.round(cosines, 4)}; {model.stop_reason_}")
    ax.plot(time, processes.T, color="#BBBBBB", lw=4)
    for atom, colour in zip(atoms, ["#0072B2", "#D55E00", "#009E73"], strict=True):
        ax.plot(time, atom, color=colour, lw=1.3)
    ax.set(title=f"{name} (truth in grey)", xlabel="time")
axes[2].sharey(axes[1])
plt.show()
