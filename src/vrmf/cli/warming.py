"""``vrmf warmup``: all kernels, compiled before they are needed."""

from __future__ import annotations

import time
import warnings

import click
import numpy as np

from vrmf import compiled
from vrmf.arrays import Array
from vrmf.cli.common import errors_as_lines
from vrmf.cli.screen import Screen, output_options
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.solvers import SOLVERS

#: Names of models that compose terms of their own.
COMPOSED = ("matrix-factorization",)


@click.command(
    epilog="""
    \b
    Examples:
      vrmf warmup
      RUN pip install "vrmf[all]" && vrmf warmup          # in the file of a container's image
    """
)
@output_options
def warmup(as_json: bool, quiet: bool, debug: bool) -> None:
    """Compile all kernels now, so that no fit has to wait for it.

    Compiled code is cached on disk: beside the package or, where that cannot be written, in the home
    folder, or in the folder that the environment variable NUMBA_CACHE_DIR names.
    """
    screen = Screen(as_json, quiet)
    with errors_as_lines(debug), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began, working = time.perf_counter(), compiled.working_seconds()
        for name in ESTIMATORS:
            if name not in COMPOSED:
                _fit_all(name)
        seconds = time.perf_counter() - began
        compiling = max(0.0, seconds - (compiled.working_seconds() - working))
    screen.fact("compiling_seconds", compiling)
    screen.fact("seconds", seconds, f"{seconds:.1f}, of which compilation took {compiling:.1f}")
    screen.finish()


def _fit_all(name: str) -> None:
    """Fit a kind of model by each solver, in both precisions, to wide and to narrow data."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        for d, k in ((12, 3), (6, 20)):
            X = rng.random((60, 2)) @ rng.random((2, d)) + 0.1 * rng.random((60, d))
            X[::7, 0] += 5.0
            for solver in SOLVERS:
                _fit(
                    ESTIMATORS[name](n_components=k, solver=solver, max_iter=2, random_state=0),
                    X.astype(dtype),
                )


def _fit(model: AbstractFactorizer, X: Array) -> None:
    model.fit(X)
    model.transform(X[:5])
    model.partial_fit(X[:30])
