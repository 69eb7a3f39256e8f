"""Codes with outliers, this checkout against another one, in turn.

    python -m benchmarks.outlier_codes ../other-checkout

Each version runs in a process of its own, on one thread. Both get the same rows, dictionaries, weights and
codes to start from, those of a dictionary 1 % away. Then robust NMF is fitted: by the other version for ten
seconds, by this one for five. Makes results/outlier_codes.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

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
                # As they print: objects of one version may not unpickle in the other.
                terms = {"code": repr(form.code), "outliers": repr(form.outliers)}
                found[f"{kind} {place}, {when}"] = {"X": X, "D": D, "known": known, **terms}
    return found


def serve(path: str) -> None:
    """Encode what is asked for on standard input, and tell the seconds."""
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
    """Return the objective of robust NMF after so many seconds, and the compilation before them."""
    import vrmf
    from benchmarks.common import synth, yaleb

    X = synth(10_000)[0] if data == "Synth" else yaleb()
    for limit in (0.5, seconds):
        model = vrmf.RobustNMF(49, random_state=0, tol=0, max_iter=10_000, max_time=limit).fit(X)
    return {"f": model.objective_, "passes": model.n_passes_}


class Version:
    """A process with the package of a checkout."""

    def __init__(self, checkout: Path, path: str) -> None:
        environment = dict(os.environ, PYTHONPATH=str(checkout / "src"), OPENBLAS_NUM_THREADS="1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.outlier_codes", "--serve", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, float]:
        """Return the answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        told: dict[str, float] = json.loads(self.process.stdout.readline())
        return told


def compare(this: Version, other: Version, names: list[str]) -> list[dict[str, Any]]:
    """Return the ratio of times for each case, cold and warm."""
    results = []
    for name in names:
        for warm in (False, True):
            told = [[v.ask(case=name, warm=warm) for v in (this, other)] for _ in range(REPEATS + 1)][1:]
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
    """Return the geometric means of the groups, with what was wanted."""
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--serve")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    from benchmarks.common import machine, write

    warnings.simplefilter("ignore")
    given = cases()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cases.pickle")
        Path(path).write_bytes(pickle.dumps(given))
        this, other = Version(Path(__file__).parents[1], path), Version(arguments.other, path)
        results = compare(this, other, list(given))
        fits = {
            data: {
                "this after 5 s": this.ask(fit={"data": data, "seconds": 5.0}),
                "other after 10 s": other.ask(fit={"data": data, "seconds": 10.0}),
            }
            for data in ("Synth", "Yale B")
        }
        print(fits)
        for version in (this, other):
            version.process.terminate()
            version.process.wait()
    write("outlier_codes", {"machine": machine(), "cases": results, "means": means(results), "fits": fits})


if __name__ == "__main__":
    main()
