"""
A fit that is killed, and goes on
=================================

A fit with a checkpoint may be killed at any moment, by a power cut, a batch system or
``kill -9``. Here a fit runs in a process of its own, which we kill. The same call then resumes it
from its checkpoint. It ends with the same bits as a fit that was never interrupted.
"""

# %%
# A fit in a process of its own
# -----------------------------
# The process prints a line for each epoch. ``checkpoint_every=0`` saves the state after every step;
# the default is once a minute. ``tol=0`` runs all epochs, so that there is time to kill it.

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import vrmf

folder = tempfile.TemporaryDirectory()
checkpoint = Path(folder.name) / "fit.checkpoint"
script = """
import sys, vrmf
from sklearn.datasets import load_digits
vrmf.DictionaryLearning(
    n_components=100, tol=0, max_iter=60, record_every=1, random_state=0,
    checkpoint=sys.argv[1], checkpoint_every=0, verbose=5,
).fit(load_digits().data)
"""
process = subprocess.Popen(
    [sys.executable, "-u", "-c", script, str(checkpoint)], stdout=subprocess.PIPE, text=True
)
for line in process.stdout:
    print(line, end="")
    if "epoch 15 " in line:
        process.kill()
        break
process.wait()
process.stdout.close()
print(f"killed: the process has ended with the code {process.returncode}")

# %%
# What the killed process left
# ----------------------------
# The checkpoint holds the state of the fit and its history. A fit whose budget is already spent
# reads it and ends at once. We give it a copy, and look at the history. (A line is printed before
# the step is saved. So the checkpoint may be an epoch behind the last line.)

X = load_digits().data
options = {"n_components": 100, "tol": 0, "record_every": 1, "random_state": 0}
copy = shutil.copy(checkpoint, checkpoint.with_suffix(".copy"))
left = vrmf.DictionaryLearning(**options, max_iter=1, checkpoint=copy).fit(X)
print(f"epochs in the checkpoint: {left.n_iter_}")

# %%
# The rest of the fit
# -------------------
# The same fit in this process goes on from the checkpoint. Beside it we run one from beginning to
# end.

resumed = vrmf.DictionaryLearning(**options, max_iter=60, checkpoint=checkpoint, verbose=15).fit(X)
uninterrupted = vrmf.DictionaryLearning(**options, max_iter=60).fit(X)

is_same = np.array_equal(resumed.components_, uninterrupted.components_)
has_same_history = np.array_equal(
    resumed.history_["objective"], uninterrupted.history_["objective"], equal_nan=True
)
print(f"the same bits: {is_same}; also those of all objectives on the way: {has_same_history}")

# %%
# The curve shows how far the objective is above its last value. The part before the kill is read
# from the copy of the checkpoint, the part after it from the fit that went on.


def curve(model, since=0.0):
    passes, objective = (np.array(model.history_[name]) for name in ("passes", "objective"))
    is_known = np.isfinite(objective) & (passes >= since) & (objective > uninterrupted.objective_)
    return passes[is_known], objective[is_known] / uninterrupted.objective_ - 1


fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.semilogy(*curve(uninterrupted), color="#D0D0D0", lw=7, label="never interrupted")
ax.semilogy(*curve(left), "o-", color="#0072B2", ms=4, label="before the kill")
ax.semilogy(*curve(resumed, left.n_passes_), "o-", color="#D55E00", ms=4, label="after resuming")
ax.axvline(left.n_passes_, color="black", lw=1, ls="--")
ax.annotate("killed", (left.n_passes_, 0.5), (4, 0), ("data", "axes fraction"), "offset points")
ax.set(xlabel="passes over the data", ylabel="objective / last objective − 1")
ax.legend(frameon=False)
plt.show()
