"""What the server imports before it forks processes, which then have all kernels loaded."""

from killed_fits import SOLVERS, data, model

for _solver in SOLVERS:
    model(_solver, max_iter=1).fit(data())
