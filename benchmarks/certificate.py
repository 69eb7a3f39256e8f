"""How far above the minimum the default tolerance stops, and what it costs.

Each model is fitted with its defaults, except for a much smaller tolerance. Then the history tells when
other rules would have stopped it. Makes results/certificate.json and .md.

    python -m benchmarks.certificate                      # everything
    python -m benchmarks.certificate RobustPCA RobustNMF  # these models again, results of others stay
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import vrmf
from benchmarks.common import RESULTS, THREADS, Array, cbcl, machine, mnist, read, write
from vrmf.running.rules import STILL_GAINING

#: Where the runs end, and the tolerances that are compared.
TIGHT = 1e-8
MOST_EPOCHS = 2000
MOST_SECONDS = 120.0
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7)

#: The default. A fit also continues while a pass gains more than STILL_GAINING times as much.
DEFAULT = 1e-6

#: An earlier rule: ‖Γ‖² at most this share of its first value.
OLD_SHARE = 1e-4


def _low_rank(n: int, d: int, rank: int, noise: float) -> Array:
    rng = np.random.default_rng([n, d, rank])
    return rng.random((n, rank)) @ rng.random((rank, d)) + noise * rng.random((n, d))


def _counts(n: int, d: int, rank: int) -> Array:
    rng = np.random.default_rng([n, d, rank])
    return rng.poisson(rng.gamma(0.3, 1, (n, rank)) @ rng.gamma(0.3, 5, (rank, d))).astype(float)


def _scaled(X: Array) -> Array:
    return X / np.std(X, axis=0)


#: Rows and the number of atoms.
DATA: dict[str, tuple[Callable[[], Array], int]] = {
    "iris": (lambda: load_iris().data, 3),
    "wine": (lambda: _scaled(load_wine().data), 4),
    "breast cancer": (lambda: _scaled(load_breast_cancer().data), 6),
    "low rank, 2 000 × 12": (lambda: _low_rank(2000, 12, 5, 0.05), 5),
    "low rank, 500 × 40": (lambda: _low_rank(500, 40, 10, 0.1), 10),
    "counts, 800 × 60": (lambda: _counts(800, 60, 8), 8),
    "counts, surplus atoms": (lambda: _counts(300, 60, 8), 15),
    "digits": (lambda: load_digits().data, 10),
    "digits, 49 atoms": (lambda: load_digits().data, 49),
    "CBCL": (cbcl, 49),
    "MNIST 10 000": (lambda: mnist(10_000), 49),
}

MODELS = ("DictionaryLearning", "NMF")
OTHERS = ("GroupDictionaryLearning", "SmoothDictionaryLearning", "RobustPCA", "RobustNMF")
OTHERS_ON = ("wine", "counts, 800 × 60", "digits")


def stops(name: str, X: Array, k: int) -> dict[str, Any]:
    """Return when each rule would have stopped a fit, and how far the objective was above its end."""
    options: dict[str, Any] = {"tol": TIGHT, "max_iter": MOST_EPOCHS, "max_time": MOST_SECONDS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(vrmf, name)(k, random_state=0, n_jobs=THREADS, max_iter=2).fit(X[:300])  # compiles
        model = getattr(vrmf, name)(k, random_state=0, n_jobs=THREADS, **options).fit(X)
    history = {column: np.array(values) for column, values in model.history_.items()}
    known = ~np.isnan(history["objective"])
    history = {column: values[known] for column, values in history.items()}
    share = history["relative_stationarity"]
    rules = {f"{tol:g}": share <= tol for tol in TOLERANCES}
    # Anchors are at least a pass apart, so the last one tells the gain since.
    f = history["objective"]
    gain = np.concatenate([[0.0], f[:-1] / f[1:] - 1])
    rules["default"] = rules[f"{DEFAULT:g}"] & (gain <= STILL_GAINING * DEFAULT)
    rules["before"] = history["stationarity"] <= OLD_SHARE * history["stationarity"][0]
    found: dict[str, Any] = {"end": float(share[-1]), "passes": float(model.n_passes_)}
    for rule, holds in rules.items():
        if not np.any(holds):
            continue
        first = int(np.argmax(holds))
        found[rule] = {
            "passes": float(history["passes"][first]),
            "seconds": float(history["seconds"][first]),
            "epochs": first + 1,
            "gap": float(history["objective"][first] / model.objective_ - 1),
        }
    return found


def markdown(results: dict[str, Any]) -> str:
    """Return the table of all runs."""
    rules = ["1e-05", "1e-06", "default", "1e-07", "before"]
    heads = [
        "relative stationarity ≤ 1e-5",
        "≤ 1e-6",
        "≤ 1e-6 and no longer gaining, the default",
        "≤ 1e-7",
        "‖Γ‖² ≤ 1e-4 of its first value",
    ]
    lines = [
        "# What the tolerance leaves to gain",
        "",
        "The gap of the objective to that of a run to 1e-8 (or its budget) when a rule first holds, and",
        f"passes and seconds until then, {THREADS} threads, seed 0. Made by `benchmarks/certificate.py`.",
        "",
        "| data | model | k | " + " | ".join(heads) + " |",
        "|---|---|---|" + "---|" * len(rules),
    ]
    for run in results["runs"]:
        cells = []
        for rule in rules:
            stop = run["stops"].get(rule)
            cells.append(
                "–"
                if stop is None
                else f"{stop['gap']:.0e}, {stop['passes']:.0f} passes, {stop['seconds']:.1f} s"
            )
        lines.append(f"| {run['data']} | {run['model']} | {run['k']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the models that are named, or all; results of the others stay."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*MODELS, *OTHERS)
    parser.add_argument("models", nargs="*", help=f"any of {', '.join(names)}; all if none is named")
    wanted = parser.parse_args().models
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"unknown models {', '.join(unknown)}. Use any of {', '.join(names)}.")
    results: dict[str, Any] = {"machine": machine(), "runs": []}
    known = read("certificate").get("runs", [])
    for data, (load, k) in DATA.items():
        for model in (*MODELS, *(OTHERS if data in OTHERS_ON else ())):
            run = {"data": data, "model": model, "k": k}
            if wanted and model not in wanted:
                results["runs"] += [old for old in known if old.items() >= run.items()]
                continue
            results["runs"].append(run | {"stops": stops(model, load(), k)})
            print(data, model, results["runs"][-1]["stops"].get("default"), flush=True)
    write("certificate", results)
    (RESULTS / "certificate.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
