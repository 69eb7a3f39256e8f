"""The private memory of a process."""

from __future__ import annotations

import threading
from pathlib import Path


class PeakMemory:
    """Samples the private memory of this process; ``peak`` is in bytes above that at the start."""

    def __enter__(self) -> PeakMemory:
        self.base = self.highest = private_memory()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _sample(self) -> None:
        while not self.over.wait(0.005):
            self.highest = max(self.highest, private_memory())

    @property
    def peak(self) -> int:
        return self.highest - self.base


def private_memory() -> int:
    """Return RssAnon of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not report RssAnon")
