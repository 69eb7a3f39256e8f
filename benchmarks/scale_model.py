"""The cost of an epoch of VR on a cluster: a model, its check against measurements, and predictions.

    python -m benchmarks.scale_model      from results/distributed.json: results/scale.md

With n rows of d features in C chunks, k atoms, W workers, mini-batches of b rows from P chunks, m steps:

    pass    n · c / W  +  C · task  +  C · sums / bandwidth
    step    call(P′)  +  2 b · c′ / P′  +  (P′ · job + P · sums) / bandwidth  +  driver,  P′ = min(P, W)
    epoch   pass + m · step

c and c′ are the seconds for the codes of a row in a pass and in a mini-batch. A row of a mini-batch has two
codes, at D and at the anchor. ``sums`` = k² + k d + 8 d numbers come back from each chunk, and ``job`` =
2 k d numbers are sent to each worker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.common import RESULTS, read
from vrmf.theory import check_conditions

BYTES = 4  #: of a number, in single precision


@dataclass(frozen=True)
class Costs:
    """Constants of a machine, in seconds and bytes."""

    row: float  #: codes of a row in a pass
    row_in_step: float  #: codes of a row in a mini-batch
    task: float  #: the overhead of a task of a pass; overheads add up
    call: float  #: a call to one worker
    call_more: float  #: each further worker of a call
    driver: float  #: what the driver does with the sums of a mini-batch
    bandwidth: float  #: bytes a second into and out of the driver


@dataclass(frozen=True)
class Setting:
    """The sizes of a fit."""

    n: float
    d: int
    k: int
    chunk_rows: int
    workers: int
    batch: float
    steps: float
    window: int = 8

    @property
    def sums(self) -> float:
        """Bytes of the sums over a chunk."""
        return BYTES * (self.k**2 + self.k * self.d + 8 * self.d)

    @property
    def job(self) -> float:
        """Bytes that describe the work of a mini-batch: two dictionaries."""
        return BYTES * 2 * self.k * self.d


def pass_seconds(costs: Costs, s: Setting) -> float:
    """Return the seconds of a pass over all rows."""
    chunks = s.n / s.chunk_rows
    return s.n * costs.row / s.workers + chunks * (costs.task + s.sums / costs.bandwidth)


def step_seconds(costs: Costs, s: Setting) -> float:
    """Return the seconds of a step on a mini-batch."""
    called = min(s.window, s.workers)
    traffic = called * s.job + s.window * s.sums
    work = 2 * s.batch * costs.row_in_step / called
    call = costs.call + (called - 1) * costs.call_more
    return call + work + traffic / costs.bandwidth + costs.driver


def epoch_bytes(s: Setting) -> float:
    """Return the bytes into and out of the driver in an epoch."""
    called = min(s.window, s.workers)
    return s.n / s.chunk_rows * s.sums + s.steps * (called * s.job + s.window * s.sums)


def measured_costs(found: dict[str, Any]) -> Costs:
    """Return the constants as measured with one worker and with the local source."""
    local, one = (found["pass"][name]["median"] for name in ("no cluster", "one worker"))
    calls, step = found["calls"], found["step"]
    chunks = found["rows"] / 10_000
    return Costs(
        row=local / found["rows"],
        row_in_step=step["no cluster"]["median"] / (2 * step["batch"]),
        task=max(0.0, one - local) / chunks,
        call=calls["1"],
        call_more=(calls["8"] - calls["1"]) / 7,
        driver=found["driver"]["median"],
        bandwidth=found["network"]["bytes a second"],
    )


def check(found: dict[str, Any], costs: Costs) -> list[str]:
    """Return a table of the times by the model and as measured, for one and for two workers."""
    counts, batch = found["counts"], found["step"]["batch"]
    lines = ["| | workers | model | measured | |", "|---|---|---|---|---|"]
    for workers, name in ((1, "one worker"), (2, "two workers")):
        s = Setting(found["rows"], 400, 10, 10_000, workers, batch, 0)
        inner = sum(
            count
            * step_seconds(costs, replace(s, batch=int(size), window=min(8, max(2, int(size) // 128))))
            for size, count in counts["mini-batches"].items()
        )
        through = counts["rows in passes"] / found["rows"] * pass_seconds(costs, s)
        rows = [
            ("pass", pass_seconds(costs, s), found["pass"][name]["median"], "s", 1),
            ("mini-batch", step_seconds(costs, s), found["step"][name]["median"] + costs.driver, "ms", 1e3),
            ("fit", through + inner, found["fit"][name]["median"], "s", 1),
        ]
        for what, told, seen, unit, scale in rows:
            lines.append(
                f"| {what} | {workers} | {scale * told:.1f} {unit} | {scale * seen:.1f} {unit} "
                f"| {told / seen - 1:+.0%} |"
            )
    return lines


def predictions(costs: Costs) -> list[str]:
    """Return a table of predicted epochs over 10⁹ rows."""
    lines = [
        "| workers | b | m | step · L | window | pass | mini-batch | all | epoch | busy | traffic |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    n = 10**9
    network = replace(costs, bandwidth=1.25e9)
    for workers in (100, 1000):
        for batch, steps in ((200_000, 5000), (200_000, 500), (10**6, 1000), (10**7, 100)):
            s = Setting(n, 400, 10, 100_000, workers, batch, steps)
            # With more workers a call takes longer, and its work is shorter.
            windows = [replace(s, window=2**i) for i in range(3, 10) if 2**i <= workers]
            windows.append(replace(s, window=workers))
            s = min(windows, key=lambda s: step_seconds(network, s))
            through, inner = pass_seconds(network, s), steps * step_seconds(network, s)
            useful = (n * costs.row + steps * 2 * batch * costs.row_in_step) / workers
            allowed = check_conditions(
                n_samples=n, batch_size=batch, inner_steps=steps, step_size=1e-9, lipschitz=1.0
            ).largest_step
            lines.append(
                f"| {workers:,} | {batch:,} | {steps:,} | {allowed:.2g} | {s.window} | {through:.0f} s "
                f"| {1e3 * inner / steps:.0f} ms | {inner:.0f} s | {through + inner:.0f} s "
                f"| {useful / (through + inner):.0%} | {epoch_bytes(s) / 1e9:.1f} GB |"
            )
    return lines


def markdown(found: dict[str, Any]) -> str:
    """Return the page."""
    costs = measured_costs(found)
    constants = [
        "| constant | measured |",
        "|---|---|",
        f"| c, codes of a row in a pass | {1e6 * costs.row:.1f} µs |",
        f"| c′, codes of a row in a mini-batch | {1e6 * costs.row_in_step:.1f} µs |",
        f"| task, beyond its work | {1e3 * costs.task:.1f} ms |",
        f"| call to one worker; to each more | {1e3 * costs.call:.1f} ms; {1e3 * costs.call_more:.1f} ms |",
        f"| driver, a step of the dictionary | {1e3 * costs.driver:.1f} ms |",
        f"| bandwidth of the driver, loopback | {costs.bandwidth / 1e9:.2f} GB/s |",
    ]
    parts = [
        "# The cost of an epoch on a cluster",
        "Made by `benchmarks/scale_model.py` from `distributed.json`: robust PCA, d = 400, k = 10.",
        "\n".join(constants),
        "## The model against what was measured, on one machine",
        "\n".join(check(found, costs)),
        "## 10⁹ rows, chunks of 100 000, a network of 1.25 GB/s",
        "\n".join(predictions(costs)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    (RESULTS / "scale.md").write_text(markdown(read("distributed")))


if __name__ == "__main__":
    main()
