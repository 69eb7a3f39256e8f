"""What the server imports that gives birth to mortal processes: in its children all kernels are loaded."""

from lives import SOLVERS, data, model

for _solver in SOLVERS:
    model(_solver, max_iter=1).fit(data())
