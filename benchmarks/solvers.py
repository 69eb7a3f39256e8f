"""How fast the default solver is, compared with the others at their best constants and with peers.

    python -m benchmarks.solvers                          all of it: results/solvers.json, tables, figures
    python -m benchmarks.solvers growth robustness        only these parts; the other results stay
    python -m benchmarks.solvers panels --only "ODL CBCL" only this problem of the panels
    python -m benchmarks.solvers --draw                   only tables and figures, from the results on file

Data come from the folder that the environment variable VRMF_DATA names.
Peers: pip install -e ".[benchmarks]".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks.common import RESULTS, machine, read, write
from benchmarks.solver_ablation import ablation
from benchmarks.solver_growth import growth
from benchmarks.solver_hyperspy import hyperspy_online
from benchmarks.solver_panels import panels, stationarity
from benchmarks.solver_problems import CASES
from benchmarks.solver_robustness import robustness
from benchmarks.solver_sklearn import sklearn_dictionary, sklearn_nmf
from benchmarks.solver_spams import spams, spams_patches

#: Parts that run problem by problem; each result is written at once.
BY_PROBLEM: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "panels": panels,
    "stationarity": stationarity,
}

PARTS: dict[str, Callable[..., Any]] = {
    **BY_PROBLEM,
    "ablation": ablation,
    "growth": growth,
    "robustness": robustness,
    "spams": spams,
    "spams_patches": spams_patches,
    "sklearn_dictionary": sklearn_dictionary,
    "sklearn_nmf": sklearn_nmf,
    "hyperspy_online": hyperspy_online,
}


def run(part: str, names: list[str], results: dict[str, Any]) -> None:
    """Run one part and keep its results, with those of other problems."""
    print(f"--- {part}", flush=True)
    results["machine"] = machine()
    if part not in BY_PROBLEM:
        results[part] = PARTS[part]()
        write("solvers", results)
        return
    known = results.get(part, {})
    for name in names:
        known |= BY_PROBLEM[part]([name])
        # In the order of the problems, whatever the order in which they were run.
        results[part] = {name: known[name] for name in CASES if name in known}
        write("solvers", results)


def chosen() -> argparse.Namespace:
    """Return the arguments, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all if none is named")
    parser.add_argument(
        "--only", action="append", metavar="PROBLEM", help=f"any of {', '.join(CASES)}; may be repeated"
    )
    parser.add_argument("--draw", action="store_true", help="only draw, from the results on file")
    arguments = parser.parse_args()
    for given, allowed in ((arguments.parts, PARTS), (arguments.only or [], CASES)):
        unknown = sorted(set(given) - set(allowed))
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; use any of {', '.join(allowed)}")
    return arguments


def main() -> None:
    """Run the parts that are named, or all, and draw."""
    arguments, results = chosen(), read("solvers")
    if not arguments.draw:
        for part in arguments.parts or PARTS:
            run(part, arguments.only or list(CASES), results)
    from benchmarks.solver_figures import draw

    draw(results, RESULTS)


if __name__ == "__main__":
    main()
