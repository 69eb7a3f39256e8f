"""How kernels are compiled: when first called, for the given precision, and kept on disk for next time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

#: Sums may be reordered, so that they run on vector units; infinities and NaN keep their meaning.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}

#: Seconds of compilation after which the user is told.
PATIENCE = 1.0


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel compiled: free of the interpreter's lock, and cached on disk."""
    return njit(cache=True, nogil=True, fastmath=FAST_MATH, error_model="numpy")(function)


class _CompilationNotice(event.Listener):
    """Tells on standard error that kernels are being compiled, once it takes longer than PATIENCE.

    Compilation happens once for a precision, a version of the code and a machine, so the notice comes
    once in the life of an installation, at the moment when a user wonders why nothing happens.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._local = threading.local()  # compilations nest, and threads have their own
        self._told = False
        self._running = 0  # compilations under way, of all threads
        self._began = 0.0  # when there was none before
        self._seconds = 0.0  # of those that ended

    def on_start(self, event: Any) -> None:
        if not self._is_ours(event):
            return
        self._local.depth = getattr(self._local, "depth", 0) + 1
        with self._lock:
            self._began = self._began if self._running else time.perf_counter()
            self._running += 1
        if self._local.depth == 1 and not self._told:
            self._local.timer = threading.Timer(PATIENCE, self._tell)
            self._local.timer.daemon = True
            self._local.timer.start()

    def on_end(self, event: Any) -> None:
        if not self._is_ours(event):
            return
        self._local.depth = getattr(self._local, "depth", 1) - 1
        with self._lock:
            self._running -= 1
            self._seconds += 0.0 if self._running else time.perf_counter() - self._began
        timer = getattr(self._local, "timer", None)
        if self._local.depth == 0 and timer is not None:
            timer.cancel()
            self._local.timer = None

    @property
    def seconds(self) -> float:
        """How long at least one thread has been compiling."""
        with self._lock:
            return self._seconds + (time.perf_counter() - self._began if self._running else 0.0)

    def _is_ours(self, event: Any) -> bool:
        module = getattr(getattr(event.data.get("dispatcher"), "py_func", None), "__module__", "")
        return str(module).startswith("vrmf.")

    def _tell(self) -> None:
        with self._lock:
            first, self._told = not self._told, True
        if first:
            print(
                "vrmf is compiling its kernels. This takes some seconds once; the result is kept on disk.",
                file=sys.stderr,
            )


_notice = _CompilationNotice()
event.register("numba:compile", _notice)


def working_seconds() -> float:
    """Return the seconds since some moment, without those in which kernels were compiled."""
    return time.perf_counter() - _notice.seconds
