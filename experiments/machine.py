"""The machine and the versions that made some results. Nothing of vrmf is imported here."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def core_count() -> int | None:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def installed_version(name: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
