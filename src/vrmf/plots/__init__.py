"""Pictures of fitted models, drawn with matplotlib (``pip install "vrmf[plots]"``).

Each function draws into the matplotlib axes ``ax`` that it is given, or into those of a new figure, and
returns them. Panels are insets, so that a picture fits into any grid of a figure.

>>> import vrmf
>>> from matplotlib.figure import Figure
>>> from sklearn.datasets import load_digits
>>> X = load_digits().data[:300]
>>> model = vrmf.NMF(n_components=6, tol=1e-4, random_state=0).fit(X)
>>> left, right = Figure(figsize=(9, 4)).subplots(1, 2)
>>> len(convergence(model, ax=left).child_axes)
2
>>> len(atoms(model, ax=right, image_shape=(8, 8)).child_axes)
6
"""

from vrmf.plots.comparisons import comparison
from vrmf.plots.decompositions import decomposition
from vrmf.plots.dictionaries import atoms
from vrmf.plots.figures import atoms_figure, convergence_figure, video_figure
from vrmf.plots.runs import convergence
from vrmf.plots.uses import usage

__all__ = [
    "atoms",
    "atoms_figure",
    "comparison",
    "convergence",
    "convergence_figure",
    "decomposition",
    "usage",
    "video_figure",
]
