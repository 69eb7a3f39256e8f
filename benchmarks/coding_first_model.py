"""How long it takes from the import of the library to the first small model."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from benchmarks.coding_runs import REPEATS

PARTS = ("import scikit-learn", "import vrmf", "fit")

#: Prints the seconds of each part.
SCRIPT = """
import time
begin = time.perf_counter()
import sklearn.base
peer = time.perf_counter()
import vrmf
ours = time.perf_counter()
import numpy as np
X = np.random.default_rng(0).random((100, 10))
vrmf.DictionaryLearning(5, random_state=0).fit(X)
end = time.perf_counter()
print(peer - begin, ours - peer, end - ours)
"""


def first_model() -> dict[str, Any]:
    """Seconds from ``import vrmf`` to the first small model, on an empty and on a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        empty = _run(cache)
        filled = np.median([_run(cache) for _ in range(REPEATS)], axis=0)
    result = {
        "empty": dict(zip(PARTS, empty, strict=True)),
        "filled": dict(zip(PARTS, map(float, filled), strict=True)),
    }
    print(
        {kind: {part: round(s, 2) for part, s in times.items()} for kind, times in result.items()},
        flush=True,
    )
    return result


def _run(cache: str) -> list[float]:
    """Return the seconds of each part in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]
