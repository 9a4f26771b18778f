"""Libraries that others import and our commands seldom use: loaded when something is first asked of them.

SciPy and scikit-learn load them for functions that no command calls, and take most of their time for it. Only a process
of the command line does this; a program that uses us does not.
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

#: What waits, and of scipy.special the part that has nearly all its functions and loads in a tenth of the time.
_WAITING = {"numpy.f2py": "", "numpy.testing": "", "pandas": "", "scipy.special": "_ufuncs", "scipy.stats": ""}


class _Later(ModuleType):
    """A module that is empty until it is asked for a name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.once = RLock()  # of its own: a thread that loads another module must not wait for this one

    def __getattr__(self, name: str) -> Any:
        if name in {"__path__", "__file__", "__cached__"}:  # asked for, and then set, when a module is made
            raise AttributeError(name)
        with self.once:
            if "waits" in vars(self) and (core := _WAITING[self.__name__]):
                part = import_module(f"{self.__name__}.{core}")
                if name in part.__all__:
                    return getattr(part, name)
            if vars(self).pop("waits", False):
                vars(self)["__loader__"].exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if type(parent) is _Later and not _WAITING[parent.__name__]:  # its modules rely on it being whole
            getattr(parent, "__all__", None)
            if fullname in sys.modules:  # loaded by its parent: handed back, or it would be loaded twice
                return ModuleSpec(fullname, self, loader_state=sys.modules.pop(fullname))
        found = PathFinder.find_spec(fullname, path, target) if fullname in _WAITING else None
        if found is not None:
            found.loader_state, found.loader = found.loader, self
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name in _WAITING:
            return _Later(spec.name)
        whole: ModuleType = spec.loader_state
        spec.loader_state = whole.__spec__
        return whole

    def exec_module(self, module: Any) -> None:
        spec = module.__spec__
        if type(module) is not _Later:
            module.__spec__ = spec.loader_state
            return
        spec.loader = spec.loader_state
        vars(module).update(__loader__=spec.loader, waits=True)


def start_light() -> None:
    """Make the process of one short command: libraries wait for their first use, and few objects are garbage."""
    gc.set_threshold(20_000)  # a command makes many objects and drops few of them
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
