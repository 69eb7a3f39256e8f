"""How well RobustPCA without a rank and weights recovers low-rank data, against convex programs.

    python -m benchmarks.recovery                   # all parts; resumes an interrupted run
    python -m benchmarks.recovery exact phase       # some parts
    python -m benchmarks.recovery exact --again     # measures them anew
    python -m benchmarks.recovery check             # the convex programs against CVXPY

Parts:

    exact   data without noise
    phase   the ranks and shares of errors at which recovery succeeds
    noise   against stable principal component pursuit, which is given the level of the noise
    synth   the paper's data
    time    seconds to a relative error of 10⁻⁵, and data in a file
    video   objects that move over a background; videos are read from the folder VRMF_DATA

Makes results/recovery.json, a table recovery.md and three figures. Each case is saved when it is measured.
PCP is principal component pursuit by an inexact augmented Lagrangian method, see ``recovery_convex.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections.abc import Callable, Iterator

from threadpoolctl import threadpool_limits

from benchmarks import recovery_report
from benchmarks.common import RESULTS, THREADS, machine, read, write
from benchmarks.recovery_convex import check
from benchmarks.recovery_generated import exact_cases, noise_cases, phase_cases, synth_cases
from benchmarks.recovery_runs import Cases, Found, warm_up
from benchmarks.recovery_time import time_cases
from benchmarks.recovery_video import video_cases

PARTS: dict[str, Callable[[], Cases]] = {
    "exact": exact_cases,
    "phase": phase_cases,
    "noise": noise_cases,
    "synth": synth_cases,
    "time": time_cases,
    "video": video_cases,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join([*PARTS, 'check'])}")
    parser.add_argument("--again", action="store_true", help="measure these parts anew")
    chosen = parser.parse_args()
    unknown = set(chosen.parts) - {*PARTS, "check"}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not a part. Use {', '.join([*PARTS, 'check'])}.")
    warnings.simplefilter("ignore")
    if "check" in chosen.parts:
        check()
    parts = [part for part in chosen.parts or PARTS if part != "check"]
    with threadpool_limits(THREADS):
        warm_up()
        for part in parts:
            survey(part, chosen.again)
    if parts:
        write("recovery", read("recovery") | {"machine": machine()})
        recovery_report.report(read("recovery"), RESULTS)


def survey(part: str, again: bool) -> None:
    """Measure the cases of a part that have no result yet, and save each at once."""
    known = {} if again else read("recovery").get(part, {})
    write("recovery", read("recovery") | {part: known})
    missing = {key: case for key, case in PARTS[part]().items() if key not in known}
    measured = pooled(missing) if part == "phase" else ((key, case()) for key, case in missing.items())
    for key, found in measured:
        results = read("recovery")
        results.setdefault(part, {})[key] = found
        write("recovery", results)
        told = "  ".join(f"{name} {value:.4g}" for name, value in found.items() if isinstance(value, float))
        print(f"{part}: {key:45s} {told}", flush=True)


def pooled(cases: Cases) -> Iterator[tuple[str, Found]]:
    """Yield the results of cases, which run in processes of one thread each."""
    with multiprocessing.get_context("spawn").Pool(THREADS) as pool:
        yield from pool.imap_unordered(_alone, cases.items())


def _alone(item: tuple[str, Callable[[], Found]]) -> tuple[str, Found]:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        return item[0], item[1]()


if __name__ == "__main__":
    main()
