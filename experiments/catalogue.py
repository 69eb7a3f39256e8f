"""Which experiments there are, and how they are chosen by name."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.base import Experiment
from experiments.paper import PAPER
from experiments.structures import STRUCTURES
from experiments.theory import THEORY

#: All experiments in groups, in the order in which they run.
GROUPS: dict[str, tuple[Experiment, ...]] = {
    "paper": PAPER,
    "structures": STRUCTURES,
    "theory": THEORY,
}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of the given names and groups, all if there are none, in their order.

    >>> [experiment.name for experiment in chosen(["figure2", "figure1"])]
    ['figure1', 'figure2']
    """
    everything = [experiment for group in GROUPS.values() for experiment in group]
    known = {experiment.name for experiment in everything}
    for name in names:
        if name not in known and name not in GROUPS:
            raise ValueError(
                f"there is no experiment {name!r}. Use one of {', '.join(sorted(known))}, or a group: "
                f"{', '.join(GROUPS)}."
            )
    wanted = {e.name for name in names for e in GROUPS.get(name, ())} | set(names)
    return [experiment for experiment in everything if not names or experiment.name in wanted]
