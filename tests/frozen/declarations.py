"""What is declared: metrics and methods with every fact, public names and signatures, help of every command."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import calibrant
from frozen.asking import commanded
from frozen.case import Case
from frozen.fixed import answer, plain

TASKS = ("classes", "regression", None)
#: Explanations whose text is kept beside the facts it is made of.
PRINTED = (None, "ece", "nll", "temperature", "std-scaling", "taxonomy")
COMMANDS = (
    "apply", "check", "compare", "demo", "evaluate", "explain", "fit", "merge", "monitor", "report", "study",
    "summarize"
)  # fmt: skip
MODULES = (
    "calibrators", "calibrators.regression", "datasets", "engines", "errors", "estimators", "inference", "io",
    "metrics", "metrics.regression", "monitoring", "plots", "regression", "reporting", "scores", "selective",
    "summary", "testing", "torch", "views"
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the lists, an explanation of every name, the names of every module, and help."""
    for kind in ("metrics", "calibrators"):
        for task in TASKS:
            yield Case(f"declarations/{kind}/{task or 'all'}", partial(listed, kind, task))
    yield Case("declarations/explain", explained)
    yield Case("declarations/names/calibrant", partial(public, ""))
    for module in MODULES:
        yield Case(f"declarations/names/{module}", partial(public, module))
    yield Case("declarations/help", helped)


def names() -> list[str]:
    """Return every name that can be explained, and some that cannot."""
    methods = [one["short_name"] for one in calibrant.list_calibrators(None).records()]
    return [*dict.fromkeys([*calibrant.list_metrics(None), *methods]), "taxonomy", "ECE", "ecee", "zzz"]


def listed(kind: str, task: str | None, folder: Path, seed: int) -> Any:
    """Return a list in its order: names, declared facts, and the printed table."""
    found = getattr(calibrant, f"list_{kind}")(task)
    facts = [] if task is None else found.records()
    return plain({"names": list(found), "facts": facts, "text": str(found).splitlines()})


def explained(folder: Path, seed: int) -> Any:
    """Return every explanation as JSON and as text."""

    def said(name: str | None) -> Any:
        one = calibrant.explain(name)
        return one.to_dict() | ({"text": str(one).splitlines()} if name in PRINTED else {})

    return {name or "": answer(said, name) for name in (None, *names())}


def public(module: str, folder: Path, seed: int) -> Any:
    """Return the public names of a module with their signatures."""
    place = calibrant if not module else importlib.import_module(f"calibrant.{module}")
    return {name: signature(getattr(place, name)) for name in sorted(place.__all__)}


def signature(thing: Any) -> Any:
    """Return how a thing is called: parameters with defaults, without types; a class has its public methods too."""
    if inspect.ismodule(thing):
        return "module"
    if not callable(thing):
        return type(thing).__name__
    if not inspect.isclass(thing):
        return called(thing)
    methods = {
        name: called(method) if callable(method) else "property"
        for name, method in inspect.getmembers_static(thing)
        if not name.startswith("_")
        and name in own(thing)
        and (inspect.isroutine(method) or isinstance(method, property))
    }
    return {"": called(thing), **methods}


def own(kind: type) -> set[str]:
    """Return the names that the library itself gives a class."""
    return {name for base in kind.__mro__ if base.__module__.startswith("calibrant") for name in vars(base)}


def called(thing: Any) -> str:
    """Return parameters and defaults as one line."""
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "()"
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    line = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", line)


def helped(folder: Path, seed: int) -> Any:
    """Return the help of every command; it names the program, however these cases were started."""
    with patch.object(sys.modules["__main__"], "__package__", ""):
        return {word: commanded(folder, *word.split(), "--help") for word in ("", *COMMANDS)}
