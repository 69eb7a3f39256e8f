"""How fast codes are computed, against peers, side by side in the same run.

    python -m benchmarks.coding              all of it: results/coding.json, the table and the figures
    python -m benchmarks.coding lasso group  only these parts; the other results stay as they are
    python -m benchmarks.coding --draw       only the table and the figures, from the results on file

Every contestant gets the same rows, the same dictionary and two threads; each is run once to compile
and warm up, then all in turn, and medians are compared. Checks of the answers are off the clock.
Peers: pip install -e ".[benchmarks]".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize

from benchmarks import coding_sparse
from benchmarks.common import (
    THREADS,
    Array,
    cbcl,
    interleaved,
    machine,
    mnist,
    moved,
    read,
    rows_as_atoms,
    synth,
    write,
)
from vrmf import RobustPCA, formulations
from vrmf.block import Block
from vrmf.block_sums import CODES
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.sources import as_source
from vrmf.sources.companions import Carry, Companion
from vrmf.terms import L1, Absent, Box, Free, GroupL2, NonNegative, Ridge, UnitBall

REPEATS = 5
CODER = Coder(tol=1e-7)


def encode(
    model: Formulation, X: Array, D: Array, start: Array | None = None, coder: Coder = CODER
) -> Array:
    """Return the codes of all rows, computed block by block on two threads as a fit does."""
    atoms, source = Atoms(D), as_source(X, n_jobs=THREADS)
    known = None if start is None else Companion("codes", "start", start)
    found = source.companion("codes", 0, len(D))

    def of_block(block: Block) -> tuple[int, dict[str, Array]]:
        codes = model.encode(block, atoms, coder, block.companion(CODES))
        return int(np.sum(~codes.finished)), {CODES: codes.H}

    unfinished = source.reduce(of_block, carry=Carry.of(CODES, known, found))
    if unfinished:
        raise AssertionError(f"{unfinished} codes are unfinished")
    assert found.values is not None
    return found.values


def compare(
    name: str, wanted: float, contestants: dict[str, Callable[[], Any]], **facts: Any
) -> dict[str, Any]:
    """Time our run (the first) against a peer (the second), which has been run before."""
    peer = list(contestants)[1]
    return result(name, wanted, interleaved(contestants, REPEATS, ready=(peer,)), **facts)


def result(name: str, wanted: float, times: dict[str, float], **facts: Any) -> dict[str, Any]:
    """Say how many times faster the first is than the second."""
    (_, ours), (peer, theirs) = times.items()
    ratio = theirs / ours
    print(f"{name:50s} {ratio:7.1f}× (wanted {wanted:g}×)  {ours:.4f} s, {peer} {theirs:.4f} s", flush=True)
    return {"name": name, "peer": peer, "wanted": wanted, "ratio": ratio, "seconds": times, **facts}


def codes_model(code: Any, outliers: Any = None) -> Formulation:
    """Return a formulation of which only the codes matter."""
    return Formulation(Free(), code, outliers or Absent())


# ------------------------------------------------------------------ the parts


def lasso() -> list[dict[str, Any]]:
    """MNIST 20 000 × 784, atoms from rows, against LARS of SPAMS."""
    import spams

    X, results = mnist(20_000), []
    rows = np.asfortranarray(X.T)
    for k in (49, 100, 256):
        D = rows_as_atoms(X, k)
        D2 = moved(D)
        columns = np.asfortranarray(D2.T)
        for weight in (1 / 28, 0.3):
            model = codes_model(L1(weight))
            start = encode(model, X, D)
            peer = lambda: spams.lasso(rows, D=columns, lambda1=weight, mode=2, numThreads=THREADS)
            exact = peer().toarray().T
            ours = encode(model, X, D2, start)
            facts = {
                "density": float(np.mean(ours != 0)),
                "difference": float(np.max(np.abs(ours - exact)) / np.max(np.abs(exact))),
                "difference_cold": float(
                    np.max(np.abs(encode(model, X, D2) - exact)) / np.max(np.abs(exact))
                ),
            }
            runs = {
                "cold": lambda: encode(model, X, D2),
                "warm": lambda: encode(model, X, D2, start),
                "SPAMS lasso": peer,
            }
            times = interleaved(runs, REPEATS, ready=("SPAMS lasso",))
            first = k == 49 and weight < 0.1
            for kind, wanted in (("cold", 1.5 if first else 1), ("warm", 6 if first else 4)):
                pair = {"vrmf": times[kind], "SPAMS lasso": times["SPAMS lasso"]}
                results.append(result(f"lasso k={k} λ={weight:.3f} {kind}", wanted, pair, **facts))
    return results


def sparse_encode() -> list[dict[str, Any]]:
    """The same problems on 4 000 rows, against coordinate descent of scikit-learn."""
    from sklearn.decomposition import sparse_encode as peer_encode
    from sklearn.exceptions import ConvergenceWarning

    data, results = mnist(20_000), []
    X = data[:4000]
    for k in (49, 100, 256):
        D = rows_as_atoms(data, k)
        for weight in (1 / 28, 0.3):
            model = codes_model(L1(weight))

            def peer() -> Array:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    H = peer_encode(X, D, algorithm="lasso_cd", alpha=weight, n_jobs=THREADS)
                return np.asarray(H)

            gap = model.losses(X, D, peer()) - model.losses(X, D, encode(model, X, D))
            contestants = {"vrmf": lambda: encode(model, X, D), "scikit-learn": peer}
            name = f"lasso k={k} λ={weight:.3f}, 4 000 rows"
            results.append(compare(name, 30, contestants, excess_loss_of_peer=float(np.mean(gap))))
    return results


def nonnegative() -> list[dict[str, Any]]:
    """CBCL, atoms from rows of sum 1, a small ridge: against NNLS of SciPy and NMF of scikit-learn."""
    from sklearn.decomposition import non_negative_factorization
    from sklearn.exceptions import ConvergenceWarning

    X, results = cbcl(), []
    for k in (49, 100):
        D = rows_as_atoms(X, k, by_sum=True)
        ridge = 1e-3 * float(np.mean(np.sum(D**2, axis=1)))
        model = codes_model(NonNegative() + Ridge(ridge))
        tall = np.vstack([D.T, np.sqrt(ridge) * np.eye(k)])

        def nnls() -> Array:
            return np.array([scipy.optimize.nnls(tall, np.append(x, np.zeros(k)))[0] for x in X])

        def nmf(max_iter: int = 200) -> Array:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                W, *_ = non_negative_factorization(
                    X, H=D, update_H=False, solver="cd",
                    alpha_W=ridge / X.shape[1], l1_ratio=0.0, tol=1e-6, max_iter=max_iter,
                )  # fmt: skip
            return np.asarray(W)

        best = encode(model, X, D)
        difference = float(np.max(np.abs(best - nnls())) / np.max(best))
        ours: dict[str, Callable[[], Any]] = {"vrmf": lambda: encode(model, X, D)}
        name = f"nonnegative ridge k={k}"
        results.append(compare(name, 50, ours | {"SciPy nnls": nnls}, difference=difference))
        excess = model.losses(X, D, nmf()) - model.losses(X, D, best)
        relative = float(np.mean(excess) / np.mean(model.losses(X, D, best)))
        facts = {"relative_excess_loss_of_peer": relative}
        results.append(compare(name, 5, ours | {"scikit-learn NMF": nmf}, **facts))
    return results


def huber() -> list[dict[str, Any]]:
    """The paper's Synth, Huber loss with a ridge, against ORPCA's codes of hyperspy."""
    X, _ = synth(10_000)
    weight, results = 1 / 20, []
    model = codes_model(Ridge(weight), L1(weight))
    clipped = np.clip(X, -8, 8)
    for name, D in (("start", rows_as_atoms(clipped, 49)), ("learned", _learned(X, weight))):
        some, coder = X[:500], Coder(tol=1e-6)
        peer = _hyperspy_codes(D, weight)
        facts = {
            "error": _huber_error(model, some, D, encode(model, some, D, coder=coder)),
            "error_of_peer": _huber_error(model, some, D, peer(some)),
        }
        contestants = {
            "vrmf": lambda: encode(model, some, D, coder=coder),
            "hyperspy": lambda: peer(some),
        }
        results.append(compare(f"Huber + ridge, D {name}, 500 rows", 100, contestants, **facts))
    return results


def _learned(X: Array, weight: float) -> Array:
    """Return a dictionary on the way to its optimum, with the weights of the paper."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = RobustPCA(49, alpha=weight, outlier_alpha=weight, max_iter=3, random_state=0).fit(X)
    return np.asarray(fitted.components_)


def _hyperspy_codes(D: Array, weight: float) -> Callable[[Array], Array]:
    """Return hyperspy's map from rows to codes for a given dictionary."""
    import contextlib
    import io

    from hyperspy.learn._rpca import ORPCA

    solver = ORPCA(len(D), lambda1=weight, lambda2=weight, method="CF", init=np.ascontiguousarray(D.T))
    with contextlib.redirect_stderr(io.StringIO()):
        solver.fit(np.zeros((2, D.shape[1])) + D[:1])
    solver.L = np.ascontiguousarray(D.T)

    def codes(rows: Array) -> Array:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            return np.asarray(solver.transform(rows)).reshape(-1, len(D))

    return codes


def _huber_error(model: Formulation, X: Array, D: Array, H: Array) -> float:
    """Return the largest relative gradient of the Huber problem over all rows."""
    assert isinstance(model.code, Ridge)
    residual, _ = model.residual(X, D, H)
    gradient = residual @ D.T + model.code.weight * H
    scale = np.linalg.norm(X - model.outliers.prox(X, 1.0), axis=1) * np.linalg.norm(D, 2)
    return float(np.max(np.linalg.norm(gradient, axis=1) / scale))


def group() -> list[dict[str, Any]]:
    """MNIST, 49 atoms in groups of 7, against FISTA of SPAMS, at a duality gap no larger than its own."""
    import spams

    data, results = mnist(20_000), []
    X, D = data[:256], rows_as_atoms(data, 49)
    blocks = [list(range(i, i + 7)) for i in range(0, 49, 7)]
    rows, columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
    zeros, labels = np.zeros((49, len(X)), order="F"), np.repeat(np.arange(1, 8), 7).astype(np.int32)
    for weight in (7**0.5 / 28, 0.3 * 7**0.5):
        model, coder = codes_model(GroupL2(blocks, [weight] * 7)), Coder(tol=1e-6)

        def peer() -> Array:
            W = spams.fistaFlat(
                rows, columns, zeros, numThreads=THREADS, loss="square", regul="group-lasso-l2",
                groups=labels, lambda1=weight, max_it=1000, tol=1e-6, it0=10,
            )  # fmt: skip
            return np.ascontiguousarray(W.T)

        facts = {
            "gap": _group_gap(X, D, encode(model, X, D, coder=coder), blocks, weight),
            "gap_of_peer": _group_gap(X, D, peer(), blocks, weight),
        }
        contestants = {"vrmf": lambda: encode(model, X, D, coder=coder), "SPAMS fistaFlat": peer}
        results.append(compare(f"group lasso λ={weight:.3f}, 256 rows", 5, contestants, **facts))
    return results


def _group_gap(X: Array, D: Array, H: Array, blocks: list[list[int]], weight: float) -> float:
    """Return the mean relative duality gap of group lasso codes."""
    E = X - H @ D
    primal = 0.5 * np.sum(E**2, axis=1) + weight * sum(np.linalg.norm(H[:, g], axis=1) for g in blocks)
    pull = np.max([np.linalg.norm((E @ D.T)[:, g], axis=1) for g in blocks], axis=0) / weight
    dual = E / np.maximum(pull, 1)[:, None]
    gap = primal - (np.sum(dual * X, axis=1) - 0.5 * np.sum(dual**2, axis=1))
    return float(np.mean(gap / primal))


def anchor_pass() -> list[dict[str, Any]]:
    """A warm pass of P1 over MNIST 60 000 (codes, sums, loss), against the bare products inside it."""
    results = []
    for dtype in (np.float64, np.float32):
        X = mnist(60_000, dtype)
        D = rows_as_atoms(X, 49)
        problem = Problem(formulations.dictionary_learning(1 / 28), as_source(X, n_jobs=THREADS))
        known, store = (problem.room_for_codes("codes", number, 49) for number in (0, 1))
        problem.stats(D, CODER, store=known)
        H, D2 = known.values, moved(D)
        runs = {
            "warm pass": lambda: problem.stats(D2, CODER, known=known, store=store),
            "products": lambda: (X @ D.T, H.T @ X, H @ D, H.T @ H),
        }
        times = interleaved(runs, REPEATS)
        ratio = times["warm pass"] / times["products"]
        print(f"warm pass {dtype.__name__}: {ratio:.2f}× the bare products (wanted ≤ 4)", flush=True)
        shares = _shares(X, D2, H)
        results.append(
            {"dtype": dtype.__name__, "ratio": ratio, "wanted": 4, "seconds": times, "shares": shares}
        )
    return results


def _shares(X: Array, D: Array, start: Array) -> dict[str, float]:
    """Return the share of time of each part of a warm pass on one thread, the codes' parts by name."""
    from vrmf.arrays import row_squares
    from vrmf.coding.base import error_scale
    from vrmf.coding.forms import form_of
    from vrmf.coding.system import System
    from vrmf.sources import single_threaded_blas

    clock: dict[str, float] = {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        value = work()
        clock[part] = clock.get(part, 0.0) + time.perf_counter() - begin
        return value

    form, model = form_of(L1(1 / 28)), formulations.dictionary_learning(1 / 28)
    with single_threaded_blas():
        atoms = Atoms(D)
        system = System.of(atoms, 0.0)
        timed("Gram matrix and inverse", lambda: system.inverse)
        for i in range(0, len(X), 512):
            rows, P = X[i : i + 512], start[i : i + 512].copy()
            allowed = CODER.reachable_tol(X.dtype) * timed(
                "norms of rows", lambda: error_scale(atoms, row_squares(rows))
            )
            C = timed("XDᵀ", lambda: rows @ D.T)
            force = timed("optimality, twice", lambda: C - P @ system.A)
            _, free = timed("optimality, twice", lambda: form.conditions(P, force, system))
            timed("Newton steps", lambda: form.newton(P, force, free, system, allowed, 100))
            timed("optimality, twice", lambda: form.conditions(P, C - P @ system.A, system))
            residual = timed("HD − X", lambda: model.residual(rows, D, P)[0])
            timed("Hᵀ(HD − X)", lambda: P.T @ residual)
            timed("HᵀH", lambda: P.T @ P)
            timed("loss", lambda: (row_squares(residual), row_squares(P), model.code.row_values(P)))
    total = sum(clock.values())
    return {part: seconds / total for part, seconds in clock.items()}


def precision() -> list[dict[str, Any]]:
    """Single precision against double, ours against ours."""
    results = []
    digits, faces, (rows, _) = mnist(20_000), cbcl(), synth(5_000)
    sevens = [list(range(i, i + 7)) for i in range(0, 49, 7)]
    small = 1e-3 * float(np.mean(np.sum(rows_as_atoms(faces, 49, by_sum=True) ** 2, axis=1)))
    learned = _learned(rows, 0.05)
    faces_atoms, lasso = rows_as_atoms(faces, 49, by_sum=True), codes_model(L1(1 / 28))
    cases = [
        *((f"lasso k={k}", digits[: 10**6 // k], rows_as_atoms(digits, k), lasso) for k in (49, 100, 256)),
        ("nonnegative ridge k=49", faces, faces_atoms, codes_model(NonNegative() + Ridge(small))),
        ("group lasso", digits, rows_as_atoms(digits, 49), codes_model(GroupL2(sevens, [0.3] * 7))),
        ("Huber + ridge", rows, learned, codes_model(Ridge(0.05), L1(0.05))),
        ("Huber + unit ball", rows, 3 * learned, codes_model(UnitBall(), L1(0.05))),
        (
            "Huber + box",
            rows,
            np.abs(learned),
            codes_model(Box(0.0, 100.0), L1(1.0) + Box(-1000.0, 1000.0)),
        ),
    ]
    coder = Coder(tol=1e-5)  # within reach of both
    for name, X, D, model in cases:
        X4, D4 = X.astype(np.float32), D.astype(np.float32)
        starts = encode(model, X, D, coder=coder), encode(model, X4, D4, coder=coder)
        far, far4 = moved(D), moved(D4)
        for kind, start, start4 in (("cold", None, None), ("warm", *starts)):
            contestants = {
                "float32": lambda: encode(model, X4, far4, start4, coder),
                "float64": lambda: encode(model, X, far, start, coder),
            }
            results.append(compare(f"{name} {kind}, float32", 1.6, contestants))
    return results


def growth() -> dict[str, Any]:
    """Seconds of cold and warm codes as n, d, k and the density grow."""
    digits, rng = mnist(60_000), np.random.default_rng(0)
    D, model = rows_as_atoms(digits, 49), codes_model(L1(1 / 28))
    curves: dict[str, Any] = {}

    def measure(X: Array, D: Array, model: Formulation) -> dict[str, Any]:
        start, far = encode(model, X, D), moved(D)
        runs = {"cold": lambda: encode(model, X, far), "warm": lambda: encode(model, X, far, start)}
        times = interleaved(runs, 3)
        return {**times, "density": float(np.mean(start != 0))}

    sizes = [1875, 3750, 7500, 15_000, 30_000, 60_000]
    curves["n"] = [{"at": n, **measure(digits[:n], D, model)} for n in sizes]
    curves["k"] = [
        {"at": k, **measure(digits[:2000], rows_as_atoms(digits, k), model)}
        for k in (16, 32, 64, 128, 256, 512, 1000)
    ]
    curves["d"] = []
    for d in (100, 300, 1000, 3000, 10_000, 30_000, 100_000):
        X = (
            rng.normal(size=(1000, 20)) @ rng.normal(size=(20, d)) / d**0.5
            + rng.normal(size=(1000, d)) / d**0.5
        )
        curves["d"].append({"at": d, **measure(X, rows_as_atoms(X, 49), codes_model(L1(0.3)))})
    atoms = rows_as_atoms(digits, 100)
    curves["density"] = [
        measure(digits[:5000], atoms, codes_model(L1(w))) for w in np.geomspace(0.003, 3, 10)
    ]
    for point in curves["density"]:
        point["at"] = point["density"]
    for name, points in curves.items():
        print(name, {kind: round(slope(points, kind), 2) for kind in ("cold", "warm")}, flush=True)
    return curves


def slope(points: list[dict[str, Any]], kind: str) -> float:
    """Return the slope of log seconds against the log of the size, over the larger half of the sizes."""
    half = points[len(points) // 2 - 1 :]
    return float(np.polyfit(np.log([p["at"] for p in half]), np.log([p[kind] for p in half]), 1)[0])


def first_model() -> dict[str, Any]:
    """Seconds from ``import vrmf`` to the first small model, on an empty and on a filled cache."""
    script = (
        "import time; t = time.perf_counter(); import sklearn.base; s = time.perf_counter(); import vrmf\n"
        "i = time.perf_counter(); import numpy as np; X = np.random.default_rng(0).random((100, 10))\n"
        "vrmf.DictionaryLearning(5, random_state=0).fit(X); e = time.perf_counter()\n"
        "print(s - t, i - s, e - i)"
    )

    def run(cache: str) -> list[float]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return [float(number) for number in out.stdout.split()]

    parts = ("import scikit-learn", "import vrmf", "fit")
    with tempfile.TemporaryDirectory() as cache:
        empty = run(cache)
        filled = np.median([run(cache) for _ in range(REPEATS)], axis=0)
    result = {
        "empty": dict(zip(parts, empty, strict=True)),
        "filled": dict(zip(parts, map(float, filled), strict=True)),
    }
    print(
        {kind: {part: round(s, 2) for part, s in times.items()} for kind, times in result.items()},
        flush=True,
    )
    return result


PARTS: dict[str, Callable[[], Any]] = {
    "lasso": lasso,
    "overcomplete": partial(coding_sparse.overcomplete, encode, result, codes_model),
    "overcomplete_others": partial(coding_sparse.overcomplete_others, encode, result, codes_model),
    "choice": coding_sparse.choice,
    "sparse_encode": sparse_encode,
    "nonnegative": nonnegative,
    "huber": huber,
    "group": group,
    "anchor_pass": anchor_pass,
    "precision": precision,
    "growth": growth,
    "first_model": first_model,
}


def main() -> None:
    """Run the parts that are named, all if none is, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--draw", action="store_true", help="only draw, from the results on file")
    chosen = parser.parse_args()
    unknown = set(chosen.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts {sorted(unknown)}; use any of {', '.join(PARTS)}")
    results = read("coding")
    if not chosen.draw:
        for part in chosen.parts or PARTS:
            print(f"--- {part}", flush=True)
            results[part] = PARTS[part]()
            results["machine"] = machine()
            write("coding", results)
    from benchmarks.coding_figures import draw

    draw(results)


if __name__ == "__main__":
    main()
