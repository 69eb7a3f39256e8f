"""Laws of compiled kernels: bits do not depend on which are compiled; slow compilation is announced."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vrmf import compiled

SECONDS = 0.05

#: Fits that take kernels which share parts, in the order that is asked for; it prints a hash of each.
FITS = """
import hashlib, sys, warnings
import numpy as np, vrmf
warnings.simplefilter("ignore")
X = np.random.default_rng(0).gamma(1.0, size=(120, 12))
X[::7, 3] += 5
for name in sys.argv[1:]:
    k, name = int(name[-2:]), name[:-2]
    model = getattr(vrmf, name)(k, init="data", max_iter=3, tol=0, random_state=0, n_jobs=1).fit(X)
    print(f"{name} {k} {hashlib.sha256(model.components_.tobytes()).hexdigest()}")
"""
ORDER = ["NMF03", "NMF20", "RobustNMF03"]


@pytest.mark.slow
def test_bits_depend_neither_on_who_compiles_nor_on_the_order_of_kernels(tmp_path: Path) -> None:
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path))

    def bits(order: list[str]) -> list[str]:
        run = [sys.executable, "-c", FITS, *order]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        return sorted(done.stdout.splitlines())

    compiled_here = bits(ORDER)
    assert len(compiled_here) == len(ORDER)
    assert bits(ORDER) == compiled_here  # from the disk
    assert bits(ORDER[::-1]) == compiled_here


KINDS = ("compiled", "kernel_part", "inlined")


def kernels_of(tree: ast.Module) -> dict[str, tuple[ast.FunctionDef, str]]:
    """Return the functions of a module that are compiled, with the name of their decorator."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {each.name: [ast.unparse(line) for line in each.decorator_list] for each in functions}
    return {each.name: (each, kind) for each in functions for kind in KINDS if kind in names[each.name]}


@pytest.mark.slow
def test_what_kernels_call_is_compiled_into_them() -> None:
    root = Path(compiled.__file__).parents[1]
    trees = {
        ".".join(path.relative_to(root).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in Path(compiled.__file__).parent.rglob("*.py")
    }
    kernels = {module: kernels_of(tree) for module, tree in trees.items()}
    found = 0
    for module, tree in trees.items():
        known = dict(kernels[module])
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module in kernels:
                known |= {each.name: kernels[node.module].get(each.name) for each in node.names}  # type: ignore[misc]
        for function, _ in kernels[module].values():
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            for name in {each.id for each in calls if isinstance(each, ast.Name)}:
                if (called := known.get(name)) is not None:
                    found += 1
                    assert called[1] != "compiled", f"{module}: {function.name} calls {name}"
    assert found > 50


@pytest.fixture
def notice(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A listener of its own, not the one that is registered, with little patience."""
    monkeypatch.setattr(compiled, "SECONDS_UNTIL_NOTICE", SECONDS)
    return compiled._CompilationNotice()


def compilation_in(module: str) -> Any:
    """Return the event that Numba sends when it compiles a function of the given module."""
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


OURS = compilation_in("vrmf.coding._pivoting")


def test_a_long_compilation_is_announced_once(notice: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        notice.on_start(OURS)
        time.sleep(4 * SECONDS)
        notice.on_end(OURS)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("vrmf is compiling its kernels") == 1
    assert err.count("\n") == 1


def test_compilations_in_several_threads_are_announced_once(
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


def test_a_short_compilation_is_not_announced(
    notice: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "SECONDS_UNTIL_NOTICE", 10 * SECONDS)
    for _ in range(3):
        notice.on_start(OURS)
        notice.on_end(OURS)
    time.sleep(14 * SECONDS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("module", ["numba.core", "vrmfolk", "user.vrmf", ""])
def test_compilations_of_other_packages_are_not_announced(
    notice: Any, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    notice.on_start(compilation_in(module))
    time.sleep(4 * SECONDS)
    notice.on_end(compilation_in(module))
    notice.on_start(SimpleNamespace(data={}))
    notice.on_end(SimpleNamespace(data={}))
    assert capsys.readouterr().err == ""


def test_a_long_compilation_is_announced_though_a_short_one_ended_inside_it(
    notice: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    # a kernel that calls others has them compiled while it is compiled itself
    notice.on_start(OURS)
    notice.on_start(OURS)
    notice.on_end(OURS)
    time.sleep(4 * SECONDS)
    notice.on_end(OURS)
    assert capsys.readouterr().err.count("vrmf is compiling its kernels") == 1


def test_compilation_is_off_the_clock() -> None:
    before = compiled.working_seconds()
    compiled._notice.on_start(OURS)
    time.sleep(0.2)
    during = compiled.working_seconds()
    compiled._notice.on_end(OURS)
    assert during - before < 0.1 and compiled.working_seconds() - before < 0.15
