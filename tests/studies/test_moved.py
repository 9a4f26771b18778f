"""What serves the team is not in the user's wheel; its old names still lead there, or name the package."""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib import import_module
from pkgutil import walk_packages

import pytest

import calibrant
from calibrant import studies
from calibrant.errors import CalibrantDeprecationWarning, MissingExtraError
from helpers import ROOT

#: Public names of 0.1: old module, name, new module.
MOVED = [
    ("bench", "run", "calibrant_benchmarks"),
    ("bench", "list_races", "calibrant_benchmarks"),
    ("bench", "BenchReport", "calibrant_benchmarks"),
    ("reproduce", "PAPERS", "calibrant_papers"),
    ("reproduce", "write_book", "calibrant_papers"),
    ("training", "Plan", "calibrant_papers.training"),
    ("training", "run", "calibrant_papers.training"),
    ("variance_regression", "residential", "calibrant_papers.variance_regression"),
    ("variance_tables", "before_after", "calibrant_papers.variance_tables"),
]
PACKAGES = ("calibrant_papers", "calibrant_benchmarks")


@pytest.mark.parametrize(("old", "name", "new"), MOVED)
def test_an_old_name_leads_to_the_new_one(old, name, new):
    pytest.importorskip(new.partition(".")[0], reason="papers and benchmarks are not installed")
    if new.endswith("training"):
        pytest.importorskip("torch", reason="torch is not installed")
    module = import_module(f"calibrant.studies.{old}")
    with pytest.warns(CalibrantDeprecationWarning, match=f"use {new}.{name} instead") as told:
        found = getattr(module, name)
    assert found is getattr(import_module(new), name)
    assert told[0].filename == __file__
    with pytest.raises(AttributeError):
        _ = module.nothing_of_this_name


def test_old_functions_still_work():
    papers = pytest.importorskip("calibrant_papers", reason="calibrant-papers is not installed")
    with pytest.warns(CalibrantDeprecationWarning, match=r"use calibrant_papers\.list_targets"):
        assert studies.list_targets() == papers.list_targets()
    import_module("calibrant.studies.reproduce")  # must not hide the function
    with pytest.warns(CalibrantDeprecationWarning, match=r"use calibrant_papers\.reproduce"):
        assert studies.reproduce("uce-fig-3", quick=True).holds


@pytest.mark.parametrize(("old", "name", "new"), MOVED)
def test_without_the_package_an_old_name_says_what_to_install(old, name, new, monkeypatch):
    package = new.partition(".")[0]
    for loaded in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])
    module = import_module(f"calibrant.studies.{old}")
    with pytest.raises(MissingExtraError, match=f"pip install {package.replace('_', '-')}"):
        getattr(module, name)


class _Without:
    """A finder that says that a package is not there."""

    def __init__(self, package):
        self._package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=self._package)


def test_the_wheel_holds_none_of_it():
    """The wheel is `src/calibrant`, whole; of the moved modules only the addresses of a few lines are left in it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/calibrant"]
    modules = {module.name for module in walk_packages(calibrant.__path__, "calibrant.")}
    moved = {
        "cli": {"bench", "reproduce", "train"},
        "studies": {"targets", "mlp", *(path.stem for path in (ROOT / "papers/src/calibrant_papers").glob("[a-z]*"))}
        - {"training", "variance_regression", "variance_tables"},
    }
    for place, names in moved.items():
        assert not modules & {f"calibrant.{place}.{name}" for name in names}
    assert not [
        name for name in modules if name.startswith(("calibrant.studies.bench.", "calibrant.studies.training."))
    ]
    for old in {old for old, _, _ in MOVED}:
        assert len((ROOT / f"src/calibrant/studies/{old}.py").read_text(encoding="utf-8").splitlines()) < 15


def test_calibrant_imports_neither_package():
    """The import contract says it too; this one also sees names inside strings of import_module."""
    for path in (ROOT / "src" / "calibrant").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [n for n in names if n.partition(".")[0] in PACKAGES], path
