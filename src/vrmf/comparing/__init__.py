"""Our solvers and those of other libraries on the same rows.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.random((200, 3)) @ rng.random((3, 20)) + 0.1 * rng.random((200, 20))
>>> found = compare("nmf", X, n_components=3, seconds=0.2, solvers=["vr"], random_state=0)
>>> [curve.name for curve in found.curves][:2]
['vrmf, vr', 'scikit-learn NMF']
>>> found.curves[0].objective[-1] >= found.best > 0
True
"""

from vrmf.comparing.comparison import Comparison, Curve, compare

__all__ = ["Comparison", "Curve", "compare"]
