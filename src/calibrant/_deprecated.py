"""Old public names: they keep working for one minor release and say what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from calibrant.errors import CalibrantDeprecationWarning, MissingExtraError

__all__ = ["lazy_attribute", "moved_attribute", "renamed_argument", "warn_renamed"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that a public name has a new one."""
    warnings.warn(
        f"{old} is deprecated and will be removed in the release after next; use {new} instead.",
        CalibrantDeprecationWarning,
        stacklevel=stacklevel,
    )


def renamed_argument(old: str, new: str) -> Callable[[_Function], _Function]:
    """Return a decorator: the function takes an argument under its old name as well, and warns."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                name = function.__qualname__.removesuffix(".__init__")
                warn_renamed(f"{name}({old}=...)", f"{name}({new}=...)")
                kwargs.setdefault(new, kwargs.pop(old))
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]  # the same signature, and one name more

    return decorate


def lazy_attribute(package: str, name: str, homes: dict[str, str], renamed: dict[str, str] | None = None) -> Any:
    """Return a public name of a package, importing its module on first use.

    Parameters
    ----------
    package : str
        The package whose ``__getattr__`` asks.
    name : str
        The name asked for.
    homes : dict
        Public name → module, relative to ``calibrant`` (``"inference.evaluation"``).
    renamed : dict, optional
        Old name → new name; the old one still works and warns.
    """
    if renamed and name in renamed:
        new = renamed[name]
        warn_renamed(f"{package}.{name}", f"{package}.{new}", stacklevel=4)
        return lazy_attribute(package, new, homes)
    if name in homes:
        return getattr(import_module(f"calibrant.{homes[name]}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def moved_attribute(old: str, new: str, name: str, *, stacklevel: int = 4) -> Any:
    """Return a public name of a module that now lives in a distribution of its own.

    Parameters
    ----------
    old, new : str
        The old module and the new one (``"calibrant_papers.training"``).
    name : str
        The name asked for.
    stacklevel : int
        Frames up to the caller who is warned: 3 for the ``__getattr__`` of a module itself, one more inside a function.
    """
    package = new.partition(".")[0]
    if name.startswith("__"):
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(new), name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        home = package.replace("_", "-")
        raise MissingExtraError(
            f"{old}.{name} has moved to the package {home}, which is not installed. Hint: pip install {home}."
        ) from error
    warn_renamed(f"{old}.{name}", f"{new}.{name}", stacklevel=stacklevel)
    return found
