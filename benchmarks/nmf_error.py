"""The relative error ‖X − HD‖/‖X‖ of NMF with default weights, against alpha → 0 and scikit-learn's NMF.

    python -m benchmarks.nmf_error

On digits, CBCL, Yale B and MNIST with 1, 5, 12 and 49 atoms. Both libraries get the same seed; H are the
codes of ``transform``. The error with the default weight should be within 0.5 % of that with a vanishing
one, and not above scikit-learn's by more than 1 %.

Where a problem has several minima of nearly the same value, a tiny change of the weight can decide between
them. So there is also a fit with a vanishing weight that starts from the dictionary of the default. The
error that it reduces is due to the default weight.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import sklearn.datasets
import sklearn.decomposition
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks.common import RESULTS, Array, cbcl, machine, mnist, write, yaleb
from vrmf.solvers import VR

SEED = 0
ATOMS = (1, 5, 12, 49)
#: Budgets of our fits, the defaults, and of scikit-learn's.
BUDGET: dict[str, Any] = {}
PEER: dict[str, Any] = {"max_iter": 400}
#: A weight that is practically 0, times 1/d.
VANISHING = 1e-9

DATA = {
    "digits": lambda: sklearn.datasets.load_digits().data,
    "CBCL": cbcl,
    "Yale B": yaleb,
    "MNIST, 3000 rows": lambda: mnist(3000),
}


def relative_error(model: Any, X: Array) -> float:
    """Return ‖X − HD‖/‖X‖."""
    return float(np.linalg.norm(X - model.transform(X) @ model.components_) / np.linalg.norm(X))


def run(name: str, X: Array, k: int) -> dict[str, Any]:
    """Return the errors and seconds of all models on one data set."""
    vanishing = {"alpha": VANISHING / X.shape[1], "random_state": SEED, "n_jobs": 1, **BUDGET}
    models = {
        "auto": vrmf.NMF(k, random_state=SEED, n_jobs=1, **BUDGET),
        "vanishing": vrmf.NMF(k, **vanishing),
        "zero": vrmf.NMF(k, alpha=0, random_state=SEED, n_jobs=1, **BUDGET),
        "scikit-learn": sklearn.decomposition.NMF(k, random_state=SEED, **PEER),
    }
    found: dict[str, Any] = {"data": name, "shape": list(X.shape), "k": k}
    for label, model in models.items():
        begin = time.perf_counter()
        model.fit(X)
        found[f"{label}, seconds"] = round(time.perf_counter() - begin, 2)
        found[label] = relative_error(model, X)
    further = vrmf.NMF(k, init=models["auto"].components_, solver=VR(opening=False), **vanishing).fit(X)
    found["vanishing, from auto"] = relative_error(further, X)
    told = "  ".join(f"{label} {found[label]:.5f} ({found[f'{label}, seconds']:.1f} s)" for label in models)
    print(f"{name:18s} k={k:<3d} {told}", flush=True)
    return found


def table(runs: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# The error of NMF",
        "",
        'Relative errors ‖X − HD‖/‖X‖ with `alpha="auto"`, with a weight of 10⁻⁹/d, with 0, and of '
        f"scikit-learn's `NMF` with {PEER['max_iter']} iterations; ours with the default budget. "
        "Made by `benchmarks/nmf_error.py`.",
        "",
        "| data | k | auto | 10⁻⁹/d | 10⁻⁹/d, from the dictionary of auto | 0 | scikit-learn "
        "| cost of the weight | auto over scikit-learn | seconds, ours and theirs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for found in runs:
        labels = ("auto", "vanishing", "vanishing, from auto", "zero", "scikit-learn")
        auto, small, further, zero, peer = (found[label] for label in labels)
        spent = f"{found['auto, seconds']:.1f}, {found['scikit-learn, seconds']:.1f}"
        lines.append(
            f"| {found['data']} | {found['k']} | {auto:.5f} | {small:.5f} | {further:.5f} | {zero:.5f} "
            f"| {peer:.5f} | {auto / further - 1:+.3%} | {auto / peer - 1:+.2%} | {spent} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all, and write the results and the table."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        vrmf.NMF(2, n_jobs=1, random_state=SEED).fit(sklearn.datasets.load_iris().data)  # compiles
        runs = [run(name, X, k) for name, load in DATA.items() for X in (load(),) for k in ATOMS]
    write("nmf_error", {"budget": BUDGET, "seed": SEED, "runs": runs, "machine": machine()})
    (RESULTS / "nmf_error.md").write_text(table(runs))


if __name__ == "__main__":
    main()
