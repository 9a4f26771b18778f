"""The shape of the source, read from its syntax trees: what is imported when."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import calibrant

ROOT = Path(calibrant.__file__).parent
#: Libraries a user may not have, or that take long to import: the only reason for an import inside a function.
HEAVY = {
    "click", "duckdb", "jinja2", "matplotlib", "narwhals", "onnx", "pandas", "polars", "pyarrow", "pyspark",
    "rich", "sklearn", "torch",
}  # fmt: skip


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def where(module: str, node: ast.AST) -> str:
    return f"{module}:{node.lineno}: {ast.unparse(node)}"


@cache
def bound(module: str) -> frozenset[str]:
    """Names a module binds at its top level."""
    found: set[str] = set()
    for node in tree(module).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            places = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {part.id for place in places for part in ast.walk(place) if isinstance(part, ast.Name)}
    return frozenset(found)


def home(package: str, name: str) -> str:
    """The module a name comes from: the package itself, a submodule, or, by a lazy table, where it is defined."""
    if f"{package}.{name}" in MODULES:
        return f"{package}.{name}"
    if package in MODULES and name not in bound(package):
        inside = [module for module in MODULES if module.startswith(package + ".") and name in bound(module)]
        return next((module for module in inside if name in _defined(module)), package)
    return package


def _defined(module: str) -> set[str]:
    return {node.name for node in tree(module).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def targets(node: ast.AST) -> list[str]:
    """Modules an import statement loads."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [*dict.fromkeys([node.module, *(home(node.module, alias.name) for alias in node.names)])]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def top_imports(node: ast.AST) -> Iterator[str]:
    """Modules loaded when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(child):
            continue
        yield from targets(child)
        yield from top_imports(child)


@cache
def loaded(module: str) -> frozenset[str]:
    """Every module of ours and every heavy library that importing a module loads."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        if one in MODULES:
            waiting += [*top_imports(tree(one)), *([one.rpartition(".")[0]] if "." in one else [])]
    return frozenset(name if name in MODULES else name.split(".")[0] for name in found)


def late_imports(module: str) -> Iterator[tuple[str, ast.AST, list[str]]]:
    """Function, statement and modules of every import of ours inside a function."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST, list[str]]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            ours = [name for name in targets(child) if name.startswith("calibrant")]
            if function and ours:
                yield function, child, ours
            yield from visit(child, inner)

    yield from visit(tree(module), "")


def test_imports_inside_functions_only_for_heavy_libraries():
    """A late import of ours must bring a library that is not loaded yet; it must not hide a cycle.

    Commands load what they run when they run, so that ``--help`` is quick; lazy tables live in ``__getattr__``.
    """
    found = []
    for module in MODULES:
        if module.startswith("calibrant.cli"):
            continue
        for function, node, ours in late_imports(module):
            brings = HEAVY & frozenset().union(*(loaded(name) for name in ours)) - loaded(module)
            if not brings and function not in ("__getattr__", "__dir__"):
                found.append(where(module, node))
    assert not found, "\n".join(dict.fromkeys(found))


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle."""
    reach: dict[str, set[str]] = {}
    for start, first in graph.items():
        seen: set[str] = set()
        waiting = [*first]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph.get(one, ())
        reach[start] = seen
    circles = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(sorted(circle) for circle in circles)


def test_no_circle_of_imports():
    """Modules import each other in one direction, late imports included; only a package may list its own modules."""
    assert components({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        late = {name for _, node, _ in late_imports(module) for name in targets(node)}
        graph[module] = {name for name in {*top_imports(tree(module)), *late} if name in MODULES and name != module}
        graph[module] -= {name for name in graph[module] if module.startswith(name + ".")}  # its own package
    assert not components(graph)


@pytest.mark.parametrize("package", ["core", "views", "estimators", "metrics", "scores"])
def test_the_ground_loads_no_heavy_library(package):
    for module in MODULES:
        if module.split(".")[1:2] == [package]:
            assert not loaded(module) & HEAVY, f"{module} loads {sorted(loaded(module) & HEAVY)}"
