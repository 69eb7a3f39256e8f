"""What an experiment is: steps whose results are kept on disk, and figures drawn from these alone.

>>> import tempfile
>>> steps = [Step("one", lambda results: 1), Step("two", lambda results: results["one"] + 1)]
>>> experiment = Experiment("count", "To two.", lambda scale: steps, lambda results: {}, lambda results: "")
>>> with tempfile.TemporaryDirectory() as folder:
...     store = Store.open(Path(folder) / "count.json", {"scale": "full"})
...     for step in experiment.missing(store.results, Scale()):
...         store.add(step)
...     Store.open(store.path, {"scale": "full"}).results
{'one': 1, 'two': 2}
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vrmf.sources import single_threaded_blas

#: What the steps of an experiment found so far, by key: numbers, strings, lists and dictionaries.
Results = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """How large experiments are: as in the paper, with fewer rows of its largest data set, or quick."""

    quick: bool = False
    synth_rows: int = 100_000  #: of the data set Synth, unless quick

    def __str__(self) -> str:
        if self.quick:
            return "quick"
        return "full" if self.synth_rows == 100_000 else f"full, Synth of {self.synth_rows} rows"


@dataclass(frozen=True)
class Step:
    """A piece of an experiment that is computed whole or not at all, such as one curve."""

    key: str  #: unique within the experiment
    compute: Callable[[Results], Any]  #: from the results of the steps before to what JSON can hold
    seconds: float = 1.0  #: about how long it takes, for the time left


@dataclass(frozen=True)
class Experiment:
    """A named list of steps, and what a reader sees of their results."""

    name: str  #: what it is called on the command line; its files begin with it
    claim: str  #: what the paper says, in a sentence, or what the experiment shows
    steps: Callable[[Scale], Sequence[Step]]  #: all steps at a scale
    draw: Callable[[Results], Mapping[str, Figure]]  #: figures by name, from results alone
    table: Callable[[Results], str]  #: the figures in numbers, as Markdown
    shared: str = ""  #: the name of a file of results that it shares with other experiments

    @property
    def file(self) -> str:
        """The name of the file of its results."""
        return f"{self.shared or self.name}.json"

    def missing(self, results: Results, scale: Scale) -> list[Step]:
        """Return the steps whose results are not known."""
        return [step for step in self.steps(scale) if step.key not in results]


@dataclass
class Store:
    """The results of one experiment in a file, which is written anew after each step."""

    path: Path
    made: dict[str, Any]  #: by which command, on which machine and versions
    results: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  #: that each step took

    @classmethod
    def open(cls, path: Path, made: Mapping[str, Any]) -> Store:
        """Return the results in the file, or none if there is no file; ``made`` is for new files."""
        if not path.exists():
            return cls(path, dict(made))
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            store = cls(path, kept["made"], kept["results"], kept["seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} does not hold results of an experiment ({error}). "
                "Move it away, or use another folder."
            ) from error
        if store.made["scale"] != made["scale"]:
            raise ValueError(
                f"{path} holds the results of another scale ({store.made['scale']}) than this run's "
                f"({made['scale']}). Use another folder."
            )
        return store

    def add(self, step: Step) -> None:
        """Compute a step and keep its result."""
        began = time.perf_counter()
        with single_threaded_blas():  # as in the steps of a solver: blocks of rows have the threads
            value = plain(step.compute(self.results))
        self.seconds[step.key] = round(time.perf_counter() - began, 2)
        self.results[step.key] = value
        self.write()

    def write(self) -> None:
        """Write the file; a crash on the way leaves the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        parts = [f'"made": {_dumps(self.made)}']
        for name in ("seconds", "results"):
            lines = [f" {_dumps(key)}: {_dumps(value)}" for key, value in getattr(self, name).items()]
            parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
        beside = self.path.with_suffix(".part")
        beside.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
        os.replace(beside, self.path)


def plain(value: Any, digits: int = 10) -> Any:
    """Return a value as JSON can hold it: floats of so many digits, None for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(part, digits) for key, part in value.items()}
    if isinstance(value, str | bool | None):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, np.ndarray | Iterable):
        return [plain(part, digits) for part in value]
    raise TypeError(f"a result is a {type(value).__name__}, which a file of results cannot hold")


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
