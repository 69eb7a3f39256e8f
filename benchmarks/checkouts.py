"""Another checkout of the library in a process of its own, for benchmarks that compare two versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: The checkout of this file.
THIS = Path(__file__).parents[1]


class Served:
    """A benchmark that runs with the package of a checkout, and answers requests line by line.

    The benchmark is this checkout's module, so both versions get the same requests. It reads a request as
    JSON from standard input and prints the answer as JSON.
    """

    def __init__(self, checkout: Path, module: str, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(checkout / "src"), **environment},
            cwd=THIS,
            text=True,
        )

    def ask(self, request: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()
