"""The table and the figures of recovery.py."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common import Array
from benchmarks.reporting import machine_line, save, table

Found = dict[str, Any]
Section = Callable[[list[Found]], list[str]]

#: The relative error at which a trial of part "phase" has succeeded.
SUCCESS = 1e-3


def report(results: dict[str, Any], folder: Path) -> None:
    """Write recovery.md, and the figure of part "phase"."""
    lines = [
        "# Recovery without a rank and weights",
        "",
        "`RobustPCA()` against principal component pursuit (PCP), by an inexact augmented Lagrangian "
        "method. Made by `benchmarks/recovery.py`.",
        "",
    ]
    for part, section in SECTIONS.items():
        if results.get(part):
            lines += [*section(list(results[part].values())), ""]
    lines += [machine_line(results), ""]
    (folder / "recovery.md").write_text("\n".join(lines))
    if results.get("phase"):
        draw_phase(list(results["phase"].values()), folder / "recovery_phase.svg")


def sign(is_met: bool) -> str:
    """Return the sign of what was wanted."""
    return "✓" if is_met else "✗"


def span(values: Iterable[Any], form: str = "g") -> str:
    """Return the smallest and the largest value, or the only one."""
    ordered = sorted(values)
    if not ordered:
        return "–"
    ends = list(dict.fromkeys(format(value, form) for value in (ordered[0], ordered[-1])))
    return " to ".join(ends)


def spans(runs: list[Found], **forms: str) -> list[str]:
    """Return the span of each name, in its format."""
    return [span(of(runs, name), form) for name, form in forms.items()]


def grouped(runs: list[Found], *names: str) -> dict[tuple[Any, ...], list[Found]]:
    """Return the runs by their values of some names."""
    groups: dict[tuple[Any, ...], list[Found]] = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in names), []).append(run)
    return groups


def of(runs: list[Found], name: str) -> list[Any]:
    """Return the values of a name."""
    return [run[name] for run in runs]


# ------------------------------------------------------------------ sections


def exact(runs: list[Found]) -> list[str]:
    """Return the section on data without noise."""
    head = ["n = d", "errors", "rank", "error, ours", "rank, ours", "right entries of the mask", "passes"]
    head += ["seconds, ours", "error, PCP", "rank, PCP", "seconds, PCP", ""]
    rows = []
    for (n, share), group in grouped(runs, "n", "errors").items():
        ours, pcp = ([run for run in group if run["method"] == name] for name in ("ours", "PCP"))
        is_met = all(
            run["error"] <= 1e-5 and run["rank"] == n // 20 and run["mask"] >= 0.998 for run in ours
        )
        mine = spans(ours, error=".1e", rank="g", mask=".4f", passes=".0f", seconds=".1f")
        theirs = spans(pcp, error=".1e", rank="g", seconds=".1f")
        rows.append([str(n), f"{share:.0%}", str(n // 20), *mine, *theirs, sign(is_met)])
    wanted = "Wanted: a relative error of at most 10⁻⁵, the exact rank, and 99.8 % of the mask right."
    return [
        "## Data without noise",
        "",
        f"{wanted} Three seeds, smallest to largest; PCP has one thread.",
        "",
        *table(head, rows),
    ]


def phase(runs: list[Found]) -> list[str]:
    """Return the section on where recovery succeeds."""
    ours, pcp = (sum(success(run, name) for run in runs) for name in ("ours", "PCP"))
    apart = [run for run in runs if success(run, "ours") != success(run, "PCP")]
    spent = [statistics.median(of(runs, f"{name}, seconds")) for name in ("ours", "PCP")]
    return [
        "## Where recovery succeeds",
        "",
        f"n = d = 400, three trials a cell; a relative error of at most {SUCCESS:g} is a success. One "
        "thread, at most 60 seconds a fit. Wanted: as many successes as PCP.",
        "",
        f"Ours {ours}, PCP {pcp}, of {len(runs)} {sign(ours >= pcp)}. Only PCP succeeds in "
        f"{sum(success(run, 'PCP') for run in apart)}, only ours in "
        f"{sum(success(run, 'ours') for run in apart)}. Median seconds: ours {spent[0]:.1f}, PCP "
        f"{spent[1]:.1f}.",
        "",
        "![Share of successes by rank and errors](recovery_phase.svg)",
    ]


def success(run: Found, name: str) -> bool:
    """Return whether a trial has succeeded."""
    return bool(run[name] <= SUCCESS)


def noise(runs: list[Found]) -> list[str]:
    """Return the section on noise."""
    head = ["n = d", "rank", "noise", "error, ours", "error, stable PCP", "ratio", "rank found"]
    head += ["noise found, over the true one", "seconds, ours", ""]
    forms = {"error": ".4f", "stable PCP, error": ".4f", "ratio": ".2f", "found rank": "g"}
    forms |= {"noise, found over true": ".3f", "seconds": ".1f"}
    rows = [
        [str(n), str(rank), f"{level:.0%}", *spans(group, **forms), sign(max(of(group, "ratio")) <= 1.1)]
        for (n, rank, level), group in grouped(runs, "n", "rank", "noise").items()
    ]
    wanted = (
        "Wanted: an error of at most 1.1 times that of stable PCP, which knows the noise. Noise is in "
        "units of the spread of L's entries; 10 % of entries have errors. Three seeds."
    )
    return ["## Noise", "", wanted, "", *table(head, rows)]


def synth(runs: list[Found]) -> list[str]:
    """Return the section on the paper's data."""
    head = ["outliers", "expressed variance", "rank", "passes", "seconds", ""]
    rows = []
    for (share,), group in grouped(runs, "outliers").items():
        is_met = all(run["expressed"] >= 0.9999 and run["rank"] == 10 for run in group)
        cells = spans(group, expressed=".7f", rank="g", passes=".0f", seconds=".1f")
        rows.append([f"{share:.0%}", *cells, sign(is_met)])
    wanted = (
        "10 000 rows. Wanted: the leading ten directions express 0.9999 of the true subspace, and rank 10."
    )
    return ["## The paper's Synth", "", f"{wanted} Three seeds.", "", *table(head, rows)]


#: How many times sooner than PCP, by the shape of the data.
SOONER = {(1000, 1000): 1.0, (20_000, 500): 2.0}


def seconds(runs: list[Found]) -> list[str]:
    """Return the section on seconds."""
    contests, files = [run for run in runs if "ours" in run], [run for run in runs if "ours" not in run]
    head = ["data", "rank", "errors", "ours", "PCP", "PCP by TᵀT", "times sooner than PCP"]
    head += ["than PCP by TᵀT", "wanted"]
    rows = []
    for (n, d, rank, share), group in grouped(contests, "n", "d", "rank", "errors").items():
        ours, *others = (middle(of(group, name)) for name in ("ours", "PCP", "PCP by TᵀT"))
        ratios = [other / ours for other in others]
        numbers = [f"{value:.2f}" for value in (ours, *others)]
        wanted = SOONER[n, d]
        judged = [f"{ratio:.2f} {sign(ratio >= wanted)}" for ratio in ratios]
        rows.append([f"{n} × {d}", str(rank), f"{share:.0%}", *numbers, *judged, f"{wanted:g}"])
    lines = [
        "## Seconds to a relative error of 10⁻⁵",
        "",
        "Medians of three repeats in turn, two threads; errors are measured off the clock. *PCP by TᵀT* "
        "has singular values from the eigenvectors of a Gram matrix instead of a full decomposition.",
        "",
        *table(head, rows),
    ]
    for run in files:
        lines += [
            "",
            f"{run['n']} × {run['d']} from a memory-mapped file of {run['data, MB']:.0f} MB: error "
            f"{run['error']:.1e} (on 1000 rows), rank {run['rank']}, {run['seconds']:.1f} seconds, "
            f"{run['passes']:.1f} passes, at most {run['peak, MB']:.0f} MB of private memory. "
            f"{sign(run['error'] <= 1e-5)}",
        ]
    return lines


def middle(values: list[float | None]) -> float:
    """Return the median, where None is never."""
    return statistics.median(np.inf if value is None else value for value in values)


def video(runs: list[Found]) -> list[str]:
    """Return the section on videos."""
    head = ["video", "F, ours", "F, PCP", "ours minus PCP, mean", "worst seed", "rank", "noise"]
    head += ["seconds, ours", "seconds, PCP", ""]
    rows, names = [], []
    for (name,), group in grouped(runs, "video").items():
        names.append(name)
        gain = np.array(of(group, "F")) - np.array(of(group, "PCP, F"))
        means = [f"{np.mean(of(group, kind)):.3f}" for kind in ("F", "PCP, F")]
        gains = [f"{value:+.3f}" for value in (np.mean(gain), np.min(gain))]
        forms = {"rank": "g", "noise": ".2f", "seconds": ".1f", "PCP, seconds": ".1f"}
        is_met = np.mean(gain) >= 0 and np.min(gain) >= -0.02
        rows.append([name, *means, *gains, *spans(group, **forms), sign(is_met)])
    wanted = (
        "F-measures of the mask of outliers, against PCP's |X − L| above the best of nine thresholds. "
        "Wanted: a mean F of at least PCP's, no seed more than 0.02 below it. 100 frames, four objects, "
        "noise of 3 grey levels, five seeds."
    )
    figures = [f"![One frame of {name}](recovery_{name}.svg)" for name in names]
    return ["## Videos", "", wanted, "", *table(head, rows), "", *figures]


SECTIONS: dict[str, Section] = {
    "exact": exact,
    "phase": phase,
    "noise": noise,
    "synth": synth,
    "time": seconds,
    "video": video,
}


# ------------------------------------------------------------------ figures


def draw_phase(runs: list[Found], path: Path) -> None:
    """Draw the shares of successes by rank and errors, ours beside PCP's."""
    ranks, shares = (sorted(set(of(runs, name))) for name in ("rank share", "errors"))
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 3.3), sharey=True, layout="constrained")
    for axes, name in zip(panels, ("ours", "PCP"), strict=True):
        cells = np.full((len(shares), len(ranks)), np.nan)
        for (rank, share), group in grouped(runs, "rank share", "errors").items():
            cells[shares.index(share), ranks.index(rank)] = np.mean([success(run, name) for run in group])
        image = axes.imshow(cells, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
        count = sum(success(run, name) for run in runs)
        axes.set_title(f"{'RobustPCA()' if name == 'ours' else name}: {count} of {len(runs)}", fontsize=9)
        axes.set_xticks(range(len(ranks)), [f"{rank:.2f}" for rank in ranks])
        axes.set_yticks(range(len(shares)), [f"{share:.2f}" for share in shares])
        axes.set_xlabel("rank / n", fontsize=8)
        axes.tick_params(labelsize=7)
    panels[0].set_ylabel("share of entries with errors", fontsize=8)
    bar = figure.colorbar(image, ax=panels)
    bar.set_label("share of successes", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    save(figure, path)


def draw_frame(name: str, frames: list[Array], path: Path) -> None:
    """Draw a frame, its background, the mask and the truth."""
    titles = (f"{name}, a frame", "background", "outlier_mask", "truth")
    figure, panels = plt.subplots(1, 4, figsize=(7.5, 1.8), layout="constrained")
    for axes, title, frame in zip(panels, titles, frames, strict=True):
        axes.imshow(frame, cmap="gray", vmin=0, vmax=1 if frame.dtype == bool else 255)
        axes.set_title(title, fontsize=8)
        axes.set_axis_off()
    save(figure, path)
