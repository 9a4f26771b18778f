"""Public names of a package that load when they are used (SPEC 1)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["lazy_attribute"]


def lazy_attribute(package: str, name: str, homes: dict[str, str]) -> Any:
    """Return a public name of a package, importing its module on first use.

    Parameters
    ----------
    package : str
        The package whose ``__getattr__`` asks.
    name : str
        The name asked for.
    homes : dict
        Public name → module, relative to ``calibrant`` (``"inference.evaluation"``).
    """
    if name in homes:
        return getattr(import_module(f"calibrant.{homes[name]}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
