"""Fits in processes that a test kills: the models, and the processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from estimator_cases import make, rows
from vrmf.arrays import Array
from vrmf.estimators import AbstractFactorizer
from vrmf.solvers import VR, Algorithm1

#: Every solver, and every way in which VR keeps its state.
SOLVERS: dict[str, Any] = {
    "vr": "vr",
    "vr-on-samples": VR(batch_size=1, inner_steps=10),
    "vr-without-cache": VR(cache_megabytes=0),
    "algorithm1": Algorithm1(step_size=1e-3),
    "vr-plain-steps": VR(step_size=0.01),
    "algorithm1-tau": Algorithm1(tau=0.1),
    "algorithm1-random": Algorithm1(option="random"),
    "smm": "smm",
    "sgd": "sgd",
    "batch": "batch",
}

#: Epochs of solvers that take few steps in an epoch.
EPOCHS = {"algorithm1": 12, "smm": 6, "sgd": 6, "batch": 25}


def data() -> Array:
    """Return the rows that are fitted."""
    return rows(400, 6)


def model(solver: str, **options: Any) -> AbstractFactorizer:
    """Return the model that is fitted."""
    name = options.pop("name", "nmf")
    settings: dict[str, Any] = {"solver": SOLVERS[solver], "max_iter": EPOCHS.get(solver, 4)}
    return make(name, **(settings | options))


def fit_with_pauses(solver: str, path: str, pause: float, wire: Connection) -> None:
    """Fit with a checkpoint after every step and a pause before; say when fit, steps and end begin."""
    fitted = model(solver, checkpoint=path, checkpoint_every=0)
    kind: Any = type(fitted._solver())
    step = kind.step

    def slow_step(self: Any, *arguments: Any) -> Any:
        wire.send("steps")
        time.sleep(pause)
        return step(self, *arguments)

    kind.step = slow_step
    X = data()
    wire.send("begins")
    fitted.fit(X)
    wire.send("done")


def start_fork_server() -> None:
    """Start the server that forks processes; it finds its modules by the environment."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    multiprocessing.set_forkserver_preload(["fork_server_imports"])
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        os.environ |= {} if before is None else {"PYTHONPATH": before}


def is_killed(solver: str, path: Path, pause: float, event: str, seconds: float) -> bool:
    """Let a process fit, and kill it so many seconds after the event, unless it is done; whether it was."""
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe()
    process = context.Process(target=fit_with_pauses, args=(solver, os.fspath(path), pause, there))
    process.start()
    there.close()
    told = ""
    while told not in (event, "done"):
        assert here.poll(60)
        told = here.recv()
    process.join(seconds)
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0
