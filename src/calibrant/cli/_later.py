"""Libraries that others import and our commands seldom use: loaded when something is first asked of them.

SciPy and scikit-learn load NumPy's test tools, `scipy.stats` and pandas for functions that no command calls; they are
two thirds of the wait for scikit-learn. Only a process of the command line does this; a program that uses us does not.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

#: What waits, each with the one submodule that has all the names our own code asks for.
_WAITING = {
    "numpy.f2py": "",
    "numpy.testing": "",
    "pandas": "",
    "scipy.special": "_ufuncs",
    "scipy.stats": "",
}
_LOCK = RLock()


class _Later(ModuleType):
    """A module that is empty until it is asked for a name."""

    def __getattr__(self, name: str) -> Any:
        if name in {"__path__", "__file__", "__cached__"}:  # asked for, and then set, when a module is made
            raise AttributeError(name)
        core = _WAITING[self.__name__]
        with _LOCK:
            if core and "loader" in vars(self) and name in import_module(f"{self.__name__}.{core}").__all__:
                return getattr(sys.modules[f"{self.__name__}.{core}"], name)
            loader = vars(self).pop("loader", None)
            if loader is not None:
                loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


class _Postponed(Loader):
    """Makes a module that remembers the loader it will need."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(loader=self.loader, __loader__=self.loader)
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in _WAITING:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Postponed(spec.loader)
        return spec


def start_light() -> None:
    """Make the process of one short command: libraries wait for their first use, and few objects are garbage."""
    gc.set_threshold(20_000)  # a command makes many objects and drops few of them
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
