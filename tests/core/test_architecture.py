"""The shape of the source, read from its syntax trees: who may ask what, and what is imported when."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import calibrant
from calibrant import estimators, views

ROOT = Path(calibrant.__file__).parent
#: Libraries a user may not have, or that take long to import: the only reason for an import inside a function.
HEAVY = {
    "click", "duckdb", "jinja2", "matplotlib", "narwhals", "numba", "onnx", "pandas", "polars", "pyarrow", "pyspark",
    "rich", "sklearn", "torch",
}  # fmt: skip
OWN = {
    name
    for module in (views, estimators)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, views.View | estimators.Estimator)
} | {"TopR"}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
OUTSIDE = [name for name in MODULES if name.split(".")[1:2] not in (["views"], ["estimators"])]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def calls(module: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(module)) if isinstance(node, ast.Call))


def where(module: str, node: ast.AST) -> str:
    return f"{module}:{node.lineno}: {ast.unparse(node)}"


def types_asked(node: ast.Call) -> set[str]:
    """Names of views and estimators in the second argument of isinstance or issubclass."""
    if not (isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")):
        return set()
    asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
    asked |= {part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute)}
    return asked & OWN


def attribute_probed(node: ast.Call) -> bool:
    """Whether getattr or hasattr looks for a field on a view or on the estimator of a recipe."""
    if not (isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and node.args):
        return False
    asked = ast.unparse(node.args[0])
    return asked.split(".")[-1] == "view" or asked.endswith("recipe.estimator")


def reads_prose(node: ast.AST) -> bool:
    """Whether control flow depends on the words of a verdict or an error."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        source = ast.unparse(node.func.value)
        words = node.func.attr in ("startswith", "endswith", "find", "index", "count")
        return words and ("verdict" in source or "str(error" in source or "error.args" in source)
    if isinstance(node, ast.Compare):
        return any(ast.unparse(part) in ("str(error)", "str(caught)") for part in [node.left, *node.comparators])
    return False


def private_imports(module: str) -> list[str]:
    return [
        where(module, node)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[:2] in (["calibrant", "views"], ["calibrant", "estimators"])
        and any(alias.name.startswith("_") for alias in node.names)
    ]


def test_the_reader_sees_what_it_forbids():
    """Each rule finds its example, so that a rule that finds nothing has looked."""
    example = ast.parse(
        "isinstance(v, Classwise | views.Pooled)\ngetattr(recipe.view, 'by', None)\n"
        "verdict.startswith('Not')\n'n_bins of' in str(error)"
    )
    nodes = [statement.value for statement in example.body]
    assert types_asked(nodes[0]) == {"Classwise", "Pooled"}
    assert attribute_probed(nodes[1])
    assert reads_prose(nodes[2])
    assert reads_prose(nodes[3])
    assert {"TopLabel", "Binned", "View", "Estimator"} <= OWN


def test_nobody_asks_views_and_estimators_for_their_type():
    found = [where(name, node) for name in OUTSIDE for node in calls(name) if types_asked(node)]
    assert not found, "let the view or the estimator answer (see calibrant.views): " + "\n".join(found)


def test_nobody_probes_their_fields():
    found = [where(name, node) for name in OUTSIDE for node in calls(name) if attribute_probed(node)]
    assert not found, "\n".join(found)


def test_nobody_branches_on_prose():
    ours = [name for name in MODULES if name != "calibrant.core.atomic"]  # a full disk: engines have words alone
    found = [where(name, node) for name in ours for node in ast.walk(tree(name)) if reads_prose(node)]
    assert not found, "use the fields of the verdict or of InputError: " + "\n".join(found)


def test_nobody_imports_private_names_of_theirs():
    assert not [line for name in OUTSIDE for line in private_imports(name)]


# -- imports --------------------------------------------------------------------------------------


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
