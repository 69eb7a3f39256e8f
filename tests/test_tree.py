"""Rules of the source code: short modules and functions, no import cycles, no private imports."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import vrmf

MODULE_LINES = 300

#: Lines of a function without its signature and docstring. Kernels may be longer: calls cost them time.
FUNCTION_LINES, KERNEL_LINES = 40, 60

#: The decorators of functions that are compiled.
KERNEL_DECORATORS = {"compiled", "compiled_in_order", "kernel_part", "inlined", "njit"}

#: What is not mended yet, as rule and place. An exception that is no longer needed fails, too.
EXCEPTIONS: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Import:
    """That a line of a module imports another module of the package, or a name from it."""

    module: str
    name: str | None
    line: int


@dataclass(frozen=True)
class Module:
    """A module: its file, its lines, its syntax tree and what it imports from its own package."""

    path: Path
    n_lines: int
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)

    def at(self, line: int) -> str:
        """Return the file and the line, as tools and editors write them."""
        return f"{self.path}:{line}"


Package = dict[str, Module]

#: The place where a rule is broken, as a dotted name, and what to do about it, with file and line.
Finding = tuple[str, str]


# ------------------------------------------------------------------ reading a package


def read_package(folder: Path) -> Package:
    """Return the modules of the package in a folder, by their dotted names."""
    package: Package = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        package[name] = Module(path, len(text.splitlines()), ast.parse(text))
    for name, module in package.items():
        module.imports.extend(imports_in(package, name, module))
    return package


def imports_in(package: Package, name: str, module: Module) -> Iterator[Import]:
    """Yield the imports of a module from its own package, also those in functions and for types alone."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in package:
                    yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            origin = origin_of(node, name, is_package=module.path.name == "__init__.py")
            for alias in node.names:
                if f"{origin}.{alias.name}" in package:
                    yield Import(f"{origin}.{alias.name}", None, node.lineno)
                elif origin in package:
                    yield Import(origin, alias.name, node.lineno)


def origin_of(node: ast.ImportFrom, name: str, is_package: bool) -> str:
    """Return the dotted name of the module from which a statement in the named module imports."""
    if not node.level:
        return node.module or ""
    parts = name.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


# ------------------------------------------------------------------ the rules


def long_modules(package: Package) -> Iterator[Finding]:
    """Yield the modules of more lines than a reader wants to scroll through."""
    for name, module in package.items():
        if module.n_lines > MODULE_LINES:
            place = module.at(MODULE_LINES + 1)
            yield name, f"{place}: {module.n_lines} lines. Use at most {MODULE_LINES}: split the module."


def long_functions(package: Package) -> Iterator[Finding]:
    """Yield the functions with long bodies."""
    for name, module in package.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                most = KERNEL_LINES if is_kernel(node) else FUNCTION_LINES
                if (count := body_lines(node)) > most:
                    told = f"{module.at(node.lineno)}: {node.name} has {count} lines. Use at most {most}."
                    yield f"{name}.{node.name}", told


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is compiled."""
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(ast.unparse(each).rpartition(".")[2] in KERNEL_DECORATORS for each in decorators)


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from the first statement after the docstring to the end."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def import_cycles(package: Package) -> Iterator[Finding]:
    """Yield the modules from which imports lead back to themselves, whenever these are carried out."""
    edges = {name: {each.module for each in module.imports} - {name} for name, module in package.items()}
    reachable = {name: all_from(name, edges) for name in package}
    for name, module in package.items():
        back = [each for each in module.imports if each.module != name and name in reachable[each.module]]
        if back:
            told = "; ".join(f"{module.at(each.line)} imports {each.module}" for each in back)
            yield name, f"{told}, which leads back. Move what both need into a module below."


def all_from(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return all modules that are imported from a module, directly or not, and the module itself."""
    found, left = {start}, [start]
    while left:
        new = edges[left.pop()] - found
        found |= new
        left.extend(new)
    return found


def private_imports(package: Package) -> Iterator[Finding]:
    """Yield the modules that import a name with one leading underscore from another one."""
    for name, module in package.items():
        for each in module.imports:
            if each.name is not None and each.name.startswith("_") and not each.name.startswith("__"):
                told = f"{module.at(each.line)}: {each.name} is private to {each.module}."
                yield f"{name}.{each.name}", f"{told} Import something public, or make it so."


RULES: dict[str, Callable[[Package], Iterator[Finding]]] = {
    "module": long_modules,
    "function": long_functions,
    "cycle": import_cycles,
    "private": private_imports,
}


# ------------------------------------------------------------------ the packages obey them

ROOT = Path(__file__).parents[1]
FOLDERS = (Path(vrmf.__file__).parent, ROOT / "experiments", ROOT / "benchmarks")


@pytest.fixture(scope="module")
def packages() -> dict[str, Package]:
    return {folder.name: read_package(folder) for folder in FOLDERS}


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
@pytest.mark.parametrize("rule", RULES)
def test_the_source_obeys_the_rule(rule: str, name: str, packages: dict[str, Package]) -> None:
    told = [message for place, message in RULES[rule](packages[name]) if (rule, place) not in EXCEPTIONS]
    assert not told, "\n" + "\n".join(told)


def test_exceptions_are_still_needed(packages: dict[str, Package]) -> None:
    broken = {
        (rule, place)
        for package in packages.values()
        for rule, find in RULES.items()
        for place, _ in find(package)
    }
    mended = [exception for exception in EXCEPTIONS if exception not in broken]
    assert not mended, f"Take these out of EXCEPTIONS, since the source obeys the rule now: {mended}"


# ------------------------------------------------------------------ the rules can fail

SIGNATURE = "def {name}(\n    x,\n):\n" + '    """Return\n\n    something.\n    """\n'

#: A rule, the files of a package, and how the messages about it begin.
BROKEN: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "a long module": (
        "module",
        {"a.py": "x = 1\n" * 301, "b.py": "x = 1\n" * 300},
        ["a.py:301: 301 lines"],
    ),
    "a long function": (
        "function",
        {
            "a.py": "\n" + SIGNATURE.format(name="long") + "    x += 1\n" * 41,
            "b.py": SIGNATURE.format(name="short") + "    x += 1\n" * 40,
        },
        ["a.py:2: long has 41 lines"],
    ),
    "a long kernel": (
        "function",
        {
            "a.py": "@compiled\ndef long():\n" + "    x = 1\n" * 61,
            "b.py": "@numba.njit(cache=True)\ndef short():\n" + "    x = 1\n" * 60,
        },
        ["a.py:2: long has 61 lines. Use at most 60"],
    ),
    "a cycle": (
        "cycle",
        {"a.py": "import os\nfrom some.b import y", "b.py": "import some.a", "c.py": "import some.a"},
        ["a.py:2 imports some.b", "b.py:1 imports some.a"],
    ),
    "a lazy cycle": (
        "cycle",
        {"a.py": "def f():\n    from . import b", "b.py": "if TYPE_CHECKING:\n    from .a import f"},
        ["a.py:2 imports some.b", "b.py:2 imports some.a"],
    ),
    "a cycle of three": (
        "cycle",
        {"a.py": "from some import b", "b.py": "from some import c", "c.py": "from some import a"},
        ["a.py:1 imports some.b", "b.py:1 imports some.c", "c.py:1 imports some.a"],
    ),
    "a cycle through a package": (
        "cycle",
        {"__init__.py": "from some.a import x", "a.py": "from some import y"},
        ["__init__.py:1 imports some.a", "a.py:1 imports some"],
    ),
    "a private name": (
        "private",
        {
            "a.py": "from some.b import _x\nfrom some.b import __version__\nfrom some import _c",
            "b.py": "",
            "_c.py": "",
        },
        ["a.py:1: _x is private to some.b"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_reported_with_file_and_line(case: str, tmp_path: Path) -> None:
    rule, files, expected = BROKEN[case]
    folder = tmp_path / "some"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    told = [message for _, message in RULES[rule](read_package(folder))]
    assert len(told) == len(expected)
    for message, start in zip(told, expected, strict=True):
        assert message.startswith(str(folder / start))


def test_nothing_is_reported_where_all_rules_are_obeyed(tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "a.py").write_text("from some.b import x\nimport some.c\n", encoding="utf-8")
    (folder / "b.py").write_text("import some.c as other\n", encoding="utf-8")
    (folder / "c.py").write_text('def f() -> None:\n    """Do nothing."""\n', encoding="utf-8")
    assert [list(find(read_package(folder))) for find in RULES.values()] == [[]] * len(RULES)
