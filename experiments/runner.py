"""Running experiments: stored results are not computed again, and a bar shows the time left."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from tqdm import tqdm

from experiments.base import Experiment, Scale, Step, Store
from experiments.catalogue import chosen
from experiments.machine import core_count, installed_version, processor_name

PACKAGES = ("vrmf", "numpy", "scipy", "scikit-learn", "numba", "matplotlib", "spams-bin")


def made_by(command: str, scale: Scale) -> dict[str, Any]:
    """Return the command, the machine and the versions that make results."""
    return {
        "command": command,
        "scale": str(scale),
        "processor": processor_name(),
        "cores": core_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: installed_version(name) for name in PACKAGES},
    }


def reproduce(
    experiments: Sequence[Experiment], folder: Path, scale: Scale, command: str, compute: bool = True
) -> Path:
    """Run the experiments that are not stored yet, then show all complete ones of the folder."""
    made = made_by(command, scale)
    stores = {e.file: Store.open(folder / e.file, made) for e in experiments}
    if compute:
        run(experiments, stores, scale)
    others = [e for e in chosen([]) if e not in experiments and (folder / e.file).exists()]
    stores |= {e.file: Store.open(folder / e.file, made) for e in others}
    whole = [e for e in (*experiments, *others) if not e.missing(stores[e.file].results, scale)]
    if not whole:
        raise ValueError(
            f"{folder} holds no complete results of these experiments. Run them without --draw first."
        )
    write_figures(whole, stores, folder)
    return write_page(whole, stores, folder, scale)


def run(experiments: Sequence[Experiment], stores: dict[str, Store], scale: Scale) -> None:
    """Compute the steps that are missing, one after another."""
    todo: dict[tuple[str, str], Step] = {}
    for experiment in experiments:
        for step in experiment.missing(stores[experiment.file].results, scale):
            todo.setdefault((experiment.file, step.key), step)
    total = sum(step.seconds for step in todo.values())
    layout = "{percentage:3.0f} % |{bar}| {elapsed}, about {remaining} left  {desc}"
    with tqdm(total=total, bar_format=layout, file=sys.stderr, dynamic_ncols=True) as bar:
        for (file, key), step in todo.items():
            bar.set_description_str(f"{file.removesuffix('.json')}: {key}")
            stores[file].add(step)
            bar.update(step.seconds)


def write_figures(experiments: Iterable[Experiment], stores: dict[str, Store], folder: Path) -> list[Path]:
    """Draw all figures from the stored results; return their paths."""
    paths = []
    for experiment in experiments:
        for name, figure in experiment.draw(stores[experiment.file].results).items():
            paths.append(folder / f"{name}.svg")
            # With a fixed salt and no date the same results give the same file.
            with rc_context({"svg.hashsalt": "vrmf"}):
                figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def write_page(
    experiments: Iterable[Experiment], stores: dict[str, Store], folder: Path, scale: Scale
) -> Path:
    """Write a page that shows each experiment: the claim, figures, numbers and the time it took."""
    parts = ["# What the experiments found\n"]
    for experiment in experiments:
        store = stores[experiment.file]
        minutes = sum(store.seconds[step.key] for step in experiment.steps(scale)) / 60
        parts.append(f"## {experiment.name}\n\n{experiment.claim}\n")
        parts += [f"![{name}]({name}.svg)\n" for name in experiment.draw(store.results)]
        parts.append(experiment.table(store.results) + "\n")
        versions = ", ".join(f"{name} {found}" for name, found in store.made["versions"].items() if found)
        parts.append(
            f"`{store.made['command']}` ({store.made['scale']}), {minutes:.1f} minutes on "
            f"{store.made['cores']} cores of {store.made['processor']}; Python {store.made['python']}, "
            f"{versions}. Data: [{experiment.file}]({experiment.file}).\n"
        )
    path = folder / "results.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path
