"""The results of solvers.py as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmarks import reporting
from benchmarks.reporting import machine_line

Row = list[str]


def markdown(results: dict[str, Any]) -> str:
    """Return a section for every part whose results are there."""
    lines = ["# Solvers, measured", ""]
    for part, (title, section) in SECTIONS.items():
        if results.get(part):
            lines += [f"## {title}", "", *section(results[part]), ""]
    lines += [machine_line(results), ""]
    return "\n".join(lines)


def table(head: Row, rows: list[Row]) -> list[str]:
    """Return the lines of a table, with an empty one after it."""
    return [*reporting.table(head, rows), ""]


def number(value: float | None, digits: int = 3) -> str:
    """Return a number in few digits, or a dash."""
    if value is None:
        return "–"
    size = 0 if value == 0 else math.floor(math.log10(abs(value)))
    return (
        f"{value:.{digits}g}" if -4 < size < digits else f"{value:.0f}" if 0 < size < 7 else f"{value:.2g}"
    )


def mark(good: bool | None) -> str:
    """Return a mark for a verdict."""
    return "" if good is None else " ✓" if good else " ✗"


# ------------------------------------------------------------------ ours against ours


def panels(cases: dict[str, Any]) -> list[str]:
    """Return when VR and the best other solver reached each level, and the constants of the others."""
    lines = [
        "Medians over seeds of what VR by default takes until (f − f*) / (first f − f*) is at most the "
        "level, and after the stroke the least that SMM or SGD takes, at the best constants that a search "
        "found. ✓: at most 1.1 times the other at 0.1 and 0.01, less than the other below.",
        "",
    ]
    aims = {"best": "the best objective known for the seed", "own": "the bottom of each one's own basin"}
    for target, meaning in aims.items():
        for unit in ("passes", "seconds"):
            levels = next(iter(cases.values()))["levels"]
            rows = [[name, *_duels(case, target, unit)] for name, case in cases.items()]
            lines += [f"{unit.capitalize()}, f* being {meaning}:", ""]
            lines += table(["problem", *(f"{level:g}" for level in levels)], rows)
    rows = [
        [name, solver, ", ".join(f"{key}={number(value, 4)}" for key, value in chosen.items())]
        for name, case in cases.items()
        for solver, chosen in case["constants"].items()
    ]
    return [*lines, "The constants of the others:", "", *table(["problem", "solver", "constants"], rows)]


def _duels(case: dict[str, Any], target: str, unit: str) -> Row:
    """Return VR's time and the best other's for each level."""
    times = {solver: rows[unit] for solver, rows in case["medians"][target].items()}
    ours, cells = times.pop("VR"), []
    for i, good in enumerate(case["verdict"][target][unit]):
        known = {solver: row[i] for solver, row in times.items() if row[i] is not None}
        best = min(known, key=lambda solver: known[solver], default=None)
        theirs = "–" if best is None else f"{number(known[best])} ({best})"
        cells.append(f"{number(ours[i])} / {theirs}{mark(good)}")
    return cells


def stationarity(cases: dict[str, Any]) -> list[str]:
    """Return the passes to each share of the first ‖Γ‖²."""
    first = next(iter(cases.values()))
    levels = next(iter(first.values()))["levels"]
    rows = []
    for name, solvers in cases.items():
        passes = zip(*(solver["passes to levels"] for solver in solvers.values()), strict=True)
        rows.append([name, *(" / ".join(map(number, values)) for values in passes)])
    return [
        f"Passes until ‖Γ‖² is this part of its first value: {' / '.join(first)}.",
        "",
        *table(["problem", *(f"{level:g}" for level in levels)], rows),
    ]


def ablation(cases: dict[str, Any]) -> list[str]:
    """Return the gaps that are left after some passes, with each mechanism switched off."""
    variants = next(iter(cases.values()))
    rows = [
        [variant, *(" / ".join(map(number, case[variant]["gaps"])) for case in cases.values())]
        for variant in variants
    ]
    return [
        "(f − f*) / (first f − f*) after 2 / 6 / 20 passes, medians over seeds; f* is the best seen.",
        "",
        *table(["VR with", *cases], rows),
    ]


def growth(result: dict[str, Any]) -> list[str]:
    """Return the samples until ‖Γ‖² ≤ ε for each n, and the slopes."""
    names = list(result["slopes"])
    rows = [[f"{point['n']}", *(_effort(point[name]) for name in names)] for point in result["points"]]
    rows.append(["slope", *(number(result["slopes"][name]) for name in names)])
    return [
        f"Code problems solved until ‖Γ‖² ≤ {result['epsilon']:g}, and full passes among them; robust PCA "
        "of rows from one distribution.",
        "",
        *table(["rows", *names], rows),
    ]


def _effort(run: dict[str, Any]) -> str:
    return "–" if run["samples"] is None else f"{run['samples']:.3g} ({run['full passes']})"


def robustness(result: dict[str, Any]) -> list[str]:
    """Return the number of fits without failures, and the failures."""
    summary = result["summary"]
    stops = ", ".join(f"{count} × {stop}" for stop, count in summary["stops"].items())
    lines = [
        f"{summary['fine']} of {summary['count']} random problems were fitted well. Ends: {stops}.",
        "",
    ]
    failed = [trial for trial in result["trials"] if trial["failures"]]
    return lines + [f"- {trial['problem']}: {'; '.join(trial['failures'])}" for trial in failed]


# ------------------------------------------------------------------ ours against peers


def spams(cases: list[dict[str, Any]]) -> list[str]:
    """Return our objective over that of SPAMS after equal times."""
    rows = [
        [
            case["name"],
            f"{case['batch']}",
            *(
                f"{ours / theirs:.4f}{mark(good)}"
                for ours, theirs, good in zip(case["ours"], case["theirs"], case["holds"], strict=True)
            ),
            number(case["reached"]),
        ]
        for case in cases
    ]
    head = ["problem", "its batch", *(f"{seconds} s" for seconds in cases[0]["seconds"]), "there after, s"]
    return [
        "Our objective over that of SPAMS after equal seconds, medians over seeds; and when ours was "
        "where SPAMS ended.",
        "",
        *table(head, rows),
    ]


def races(cases: list[dict[str, Any]]) -> list[str]:
    """Return how many times sooner we reach the objective at which a peer ends."""
    rows = []
    for case in cases:
        ours, theirs = case["seconds"].values()
        ratio = number(case["ratio"]) + mark(case["met"])
        rows.append(
            [case["name"], case["peer"], ratio, f"{case['wanted']:g}", number(ours), number(theirs)]
        )
    notes = dict.fromkeys(f"{case['peer']}: {case['note']}." for case in cases if case.get("note"))
    head = ["work", "against", "times sooner", "wanted", "ours, s", "theirs, s"]
    return [*table(head, rows), *notes]


def hyperspy(cases: list[dict[str, Any]]) -> list[str]:
    """Return rows per second and objectives, ours and those of each method of hyperspy."""
    rows = [
        [
            case["name"],
            method,
            number(peer["ratio"]),
            f"{peer['rows']}",
            number(case["ours"]["objective"], 4),
            number(peer["ours_same_rows"]["objective"], 4),
            number(peer["objective"], 4),
        ]
        for case in cases
        for method, peer in case["peers"].items()
    ]
    head = [
        "problem",
        "against",
        "times the rows per second",
        "its rows",
        "our f",
        "our f, its rows",
        "its f",
    ]
    return [*table(head, rows), cases[0]["note"]]


SECTIONS: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "panels": ("VR against SMM and SGD", panels),
    "stationarity": ("The certificate", stationarity),
    "ablation": ("What each mechanism is worth", ablation),
    "growth": ("Growth with n", growth),
    "robustness": ("Robustness", robustness),
    "spams": ("SPAMS", spams),
    "spams_patches": ("SPAMS, more atoms than features", spams),
    "sklearn_dictionary": ("Dictionary learning of scikit-learn and dictlearn", races),
    "sklearn_nmf": ("NMF of scikit-learn", races),
    "hyperspy_online": ("hyperspy", hyperspy),
}
