"""How kernels are compiled: when first called, for the given precision, and cached on disk.

Where nothing can be cached on disk they are compiled anew in each process; a notice says so once.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

#: Sums may be reordered, so that they run on vector units; infinities and NaN keep their meaning.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}

#: The end of the notice if kernels can be cached on disk.
ONCE = "This takes some ten seconds once for each kind of model; the result is kept on disk."

#: The end of the notice if they cannot.
ALWAYS = (
    "This takes some seconds in each process, since neither its own folder nor your home can be written. "
    "Set the environment variable NUMBA_CACHE_DIR to a folder that can."
)

#: Seconds of compilation after which users get a notice.
SECONDS_UNTIL_NOTICE = 1.0


class _CompilationNotice(event.Listener):
    """Prints to standard error that kernels are being compiled, if that takes long.

    Kernels are compiled once for each precision, version of the code and machine. So users see the notice
    hardly ever, and when they wonder why nothing happens.
    """

    def __init__(self) -> None:
        self.is_cached = True  #: whether kernels are cached on disk
        self._told = False
        self._seconds = 0.0  # of compilations that ended
        self.forget_threads()

    def forget_threads(self) -> None:
        """Reset in a forked process, which has no other threads that could release a lock."""
        self._lock = threading.Lock()
        self._local = threading.local()  # compilations nest, and threads have their own
        self._running = 0  # compilations under way, of all threads
        self._began = 0.0  # when there was none before

    def on_start(self, event: Any) -> None:
        if not self._is_ours(event):
            return
        self._local.depth = getattr(self._local, "depth", 0) + 1
        with self._lock:
            self._began = self._began if self._running else time.perf_counter()
            self._running += 1
        if self._local.depth == 1 and not self._told:
            self._local.timer = threading.Timer(SECONDS_UNTIL_NOTICE if self.is_cached else 0.0, self._tell)
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
            print(f"vrmf is compiling its kernels. {ONCE if self.is_cached else ALWAYS}", file=sys.stderr)


_notice = _CompilationNotice()
event.register("numba:compile", _notice)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notice.forget_threads)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel compiled: free of the interpreter's lock, and cached on disk where that can be."""
    return _compiled(function)


def compiled_in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel compiled with sums in the order in which they are written.

    This is for iterations that end at the level of rounding.
    """
    return _compiled(function, fastmath=False)


def kernel_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that kernels call, compiled into each of them.

    If it stayed a function of its own, each kernel would bring a copy, optimised in its own way, and all
    kernels would call the copy that was loaded first. Bits would then depend on which kernels a process has
    loaded, and on whether it has compiled them itself.
    """
    return _compiled(function, forceinline=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that becomes part of what calls it before types are inferred."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    options: dict[str, Any] = {"nogil": True, "fastmath": FAST_MATH, "error_model": "numpy", **more}
    try:
        kernel: Callable[..., Any] = njit(cache=True, **options)(function)
    except RuntimeError:  # Numba finds no folder that can be written
        _notice.is_cached = False
        kernel = njit(**options)(function)
    return kernel


def working_seconds() -> float:
    """Return the seconds since some moment, without those in which kernels were compiled."""
    return time.perf_counter() - _notice.seconds
