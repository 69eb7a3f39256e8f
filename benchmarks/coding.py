"""How fast codes are computed, against peers, side by side in the same run.

    python -m benchmarks.coding              all of it: results/coding.json, the table and the figures
    python -m benchmarks.coding lasso group  only these parts; the other results stay as they are
    python -m benchmarks.coding --draw       only the table and the figures, from the results on file

Every contestant gets the same rows, the same dictionary and at most two threads. Each is run once to
compile and warm up. Then all run in turn, and medians are compared. Answers are checked off the clock.
Peers: pip install -e ".[benchmarks]".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks.coding_choice import choice
from benchmarks.coding_first_model import first_model
from benchmarks.coding_growth import growth
from benchmarks.coding_huber import huber
from benchmarks.coding_lasso import lasso, sparse_encode
from benchmarks.coding_overcomplete import overcomplete, overcomplete_others
from benchmarks.coding_pass import anchor_pass
from benchmarks.coding_precision import precision
from benchmarks.coding_structured import group, nonnegative
from benchmarks.common import RESULTS, machine, read, write

PARTS: dict[str, Callable[[], Any]] = {
    "lasso": lasso,
    "overcomplete": overcomplete,
    "overcomplete_others": overcomplete_others,
    "choice": choice,
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
    """Run the parts that are named, or all, and draw."""
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

    draw(results, RESULTS)


if __name__ == "__main__":
    main()
