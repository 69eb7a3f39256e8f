"""Laws of the notice that kernels are being compiled."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from vrmf import compiled

SECONDS = 0.05


@pytest.fixture
def notice(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A listener of its own, not the one that is registered, with little patience."""
    monkeypatch.setattr(compiled, "PATIENCE", SECONDS)
    return compiled._CompilationNotice()


def compilation_in(module: str) -> Any:
    """What is told to a listener of the compilation of a function of the given module."""
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


OURS = compilation_in("vrmf.coding._pivoting")


def test_a_long_compilation_is_told_once(notice: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        notice.on_start(OURS)
        time.sleep(4 * SECONDS)
        notice.on_end(OURS)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("vrmf is compiling its kernels") == 1
    assert err.count("\n") == 1


def test_compilations_in_several_threads_are_told_once(
    notice: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_slowly() -> None:
        notice.on_start(OURS)
        time.sleep(4 * SECONDS)
        notice.on_end(OURS)

    threads = [threading.Thread(target=compile_slowly) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().err.count("vrmf is compiling its kernels") == 1


def test_a_short_compilation_is_not_told(
    notice: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 10 * SECONDS)
    for _ in range(3):
        notice.on_start(OURS)
        notice.on_end(OURS)
    time.sleep(14 * SECONDS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("module", ["numba.core", "vrmfolk", "user.vrmf", ""])
def test_compilations_of_others_are_not_told(
    notice: Any, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    notice.on_start(compilation_in(module))
    time.sleep(4 * SECONDS)
    notice.on_end(compilation_in(module))
    notice.on_start(SimpleNamespace(data={}))
    notice.on_end(SimpleNamespace(data={}))
    assert capsys.readouterr().err == ""


def test_a_long_compilation_is_told_though_a_short_one_ended_inside_it(
    notice: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    # a kernel that calls others has them compiled while it is compiled itself
    notice.on_start(OURS)
    notice.on_start(OURS)
    notice.on_end(OURS)
    time.sleep(4 * SECONDS)
    notice.on_end(OURS)
    assert capsys.readouterr().err.count("vrmf is compiling its kernels") == 1
