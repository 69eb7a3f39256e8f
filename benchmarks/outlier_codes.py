"""Codes with outliers, this checkout against another one, in turn.

    python -m benchmarks.outlier_codes ../other-checkout

Each version runs in a process of its own, with one thread of BLAS. Both get the same rows, dictionaries,
weights and codes to start from, which are those of a dictionary that differs by 1 %. Then robust NMF is
fitted: by the other version for ten seconds, by this one for five. Makes results/outlier_codes.json.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checkouts import THIS, Served

REPEATS = 5

#: Groups of cases, and how many times faster they were wanted, cold and warm.
WANTED = {
    "P8 Synth": (3.0, 8.0),
    "P8 Yale B": (1.5, 2.5),
    "P6 Synth": (2.0, 3.0),
    "P5 Synth": (1.5, 2.0),
    "P7 Synth": (1.5, 2.0),
    "P5 Yale B": (1.0, 1.0),
    "P6 Yale B": (1.0, 1.0),
    "P7 Yale B": (1.0, 1.0),
}

MODELS = {
    "P5": "RobustPCA",
    "P6": "MaxNormDecomposition",
    "P7": "LowRankRepresentation",
    "P8": "RobustNMF",
}


def cases() -> dict[str, dict[str, Any]]:
    """Return rows, a dictionary, terms and codes to start from, for each case."""
    import vrmf
    from benchmarks.common import rows_as_atoms, synth, yaleb
    from vrmf.coding import Atoms, Coder

    data = {"Synth 10 %": synth(2000)[0], "Synth 30 %": synth(2000, 0.3)[0], "Yale B": yaleb()[::3]}
    found = {}
    for place, X in data.items():
        for kind, name in MODELS.items():
            weights = {} if kind == "P8" else {"alpha": "paper"}
            options: dict[str, Any] = {"outlier_alpha": "paper", "random_state": 0, "tol": 0, **weights}
            model = getattr(vrmf, name)(49, max_iter=2, **options).fit(X)
            form, size = model.formulation_, float(np.median(np.linalg.norm(model.components_, axis=1)))
            start = size * rows_as_atoms(np.clip(X, *np.quantile(X, (0.15, 0.85))), 49)
            for when, D in (("start", start), ("fitted", model.components_)):
                far = D * (1 + 0.01 * np.random.default_rng(1).standard_normal(D.shape))
                known = Coder().encode(X, Atoms(far), form.code, form.outliers).H
                # Terms are given as they print: objects of one version may not unpickle in the other.
                terms = {"code": repr(form.code), "outliers": repr(form.outliers)}
                found[f"{kind} {place}, {when}"] = {"X": X, "D": D, "known": known, **terms}
    return found


def serve(path: str) -> None:
    """Answer requests with the seconds of codes, or with the end of a fit."""
    from vrmf import terms
    from vrmf.coding import Atoms, Coder
    from vrmf.sources import single_threaded_blas

    with open(path, "rb") as file:
        given = pickle.load(file)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        if "fit" in request:
            print(json.dumps(fitted(**request["fit"])), flush=True)
            continue
        case, warm = given[request["case"]], request["warm"]
        X, start, atoms, unfinished = case["X"], case["known"], Atoms(case["D"]), 0
        code, outliers = (
            eval(case[part], {**vars(terms), "inf": math.inf}) for part in ("code", "outliers")
        )
        begin = time.perf_counter()
        with single_threaded_blas():
            for i in range(0, len(X), 512):
                known = start[i : i + 512] if warm else None
                codes = Coder().encode(X[i : i + 512], atoms, code, outliers, known)
                unfinished += int(np.sum(~codes.finished))
        print(json.dumps({"seconds": time.perf_counter() - begin, "unfinished": unfinished}), flush=True)


def fitted(data: str, seconds: float) -> dict[str, float]:
    """Return the objective of robust NMF after some seconds, and the passes; a first fit compiles."""
    import vrmf
    from benchmarks.common import synth, yaleb

    X = synth(10_000)[0] if data == "Synth" else yaleb()
    for limit in (0.5, seconds):
        model = vrmf.RobustNMF(49, random_state=0, tol=0, max_iter=10_000, max_time=limit).fit(X)
    return {"f": model.objective_, "passes": model.n_passes_}


def compare(this: Served, other: Served, names: list[str]) -> list[dict[str, Any]]:
    """Return the ratio of times for each case, cold and warm; the first run of each is left out."""
    results = []
    for name in names:
        for warm in (False, True):
            told = [
                [v.ask({"case": name, "warm": warm}) for v in (this, other)] for _ in range(REPEATS + 1)
            ][1:]
            ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in told)
            kind = "warm" if warm else "cold"
            results.append(
                {
                    "name": name,
                    "kind": kind,
                    "ratio": ratio,
                    "unfinished": [told[-1][0]["unfinished"], told[-1][1]["unfinished"]],
                }
            )
            print(f"{name:28s} {kind} {ratio:6.2f} unfinished {results[-1]['unfinished']}", flush=True)
    return results


def means(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the geometric mean of the ratios in each group, with the one that was wanted."""
    found = []
    for group, wanted in WANTED.items():
        for kind, bar in zip(("cold", "warm"), wanted, strict=True):
            ratios = [r["ratio"] for r in results if r["name"].startswith(group) and r["kind"] == kind]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            found.append({"name": group, "kind": kind, "ratio": round(mean, 2), "wanted": bar})
            print(found[-1], flush=True)
    return found


def main() -> None:
    """Compare with the checkout that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", nargs="?", type=Path, help="the folder of the other checkout")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    if arguments.other is None:
        parser.error("name the folder of the other checkout")
    from benchmarks.common import machine, write

    warnings.simplefilter("ignore")
    given = cases()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cases.pickle")
        Path(path).write_bytes(pickle.dumps(given))
        this, other = (
            Served(checkout, "benchmarks.outlier_codes", "--serve", path, OPENBLAS_NUM_THREADS="1")
            for checkout in (THIS, arguments.other)
        )
        results = compare(this, other, list(given))
        fits = {
            data: {
                "this after 5 s": this.ask({"fit": {"data": data, "seconds": 5.0}}),
                "other after 10 s": other.ask({"fit": {"data": data, "seconds": 10.0}}),
            }
            for data in ("Synth", "Yale B")
        }
        print(fits)
        for version in (this, other):
            version.close()
    write("outlier_codes", {"machine": machine(), "cases": results, "means": means(results), "fits": fits})


if __name__ == "__main__":
    main()
