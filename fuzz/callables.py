"""Public functions and classes of every subpackage: called with rows, options and objects by their signatures."""

from __future__ import annotations

import inspect
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from arrays import Pair, one_of, said_nothing
from campaign import Case, FindingError
from values import ALWAYS, knows, options_for, rows_for
from walk import classes, functions

from calibrant.errors import CalibrantError


def told(error: CalibrantError) -> str:
    """An error is one line of words."""
    if len(str(error).splitlines()) != 1:
        raise FindingError(f"an error of several lines: {error}") from error
    return "refused"


def look_at(value: Any) -> None:
    """Print a result, write it as data and draw it, as a user would."""
    repr(value)
    str(value)
    for name in ("to_dict", "_repr_html_", "_repr_markdown_"):
        if callable(getattr(type(value), name, None)):
            getattr(value, name)()


def positional(function: Callable[..., Any]) -> bool:
    """Whether a forecast follows the name and the labels without a name of its own: metric(name, y, p)."""
    return "forecast" in inspect.signature(function).parameters


def drawn(rng: np.random.Generator, function: Callable[..., Any]) -> Case:
    """Return rows and options for a signature."""
    names = list(inspect.signature(function).parameters)
    if positional(function):
        names = ["y_true", *one_of(rng, (["y_proba"], ["mean", "variance"]))]
    rows, options = rows_for(rng, names), options_for(rng, function)
    bounds = tuple((name, options.pop(name)) for name in sorted(ALWAYS & set(options)))  # not to be shrunk away
    return {"rows": rows, "options": options, "bounds": bounds}


def called(function: Callable[..., Any], case: Case) -> Any:
    options, rows = case["options"] | dict(case["bounds"]), case["rows"]
    if positional(function):
        return function(options["name"], *rows.values(), **{k: v for k, v in options.items() if k != "name"})
    return function(**rows, **options)


def check_call(name: str, function: Callable[..., Any], case: Case) -> str:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = called(function, case)
            look_at(value)
        except CalibrantError as error:
            return told(error)
        except AssertionError:
            if "assert" not in name:  # a failed assertion is the answer of `assert_calibrated`
                raise
            return "answered"
    said_nothing(said, name)
    if isinstance(value, float) and math.isnan(value) and not said:
        raise FindingError(f"{name}: nan without a word")
    return "answered"


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Stand in a folder for a while: relative names are made there."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def callables(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("agg")
    every = functions()

    with tempfile.TemporaryDirectory() as folder:

        def draw(rng: np.random.Generator) -> Case:
            with inside(folder):
                name = one_of(rng, list(every))
                return {"call": name, **drawn(rng, every[name])}

        def check(case: Case) -> str:
            try:
                with inside(folder):
                    return check_call(case["call"], every[case["call"]], case)
            finally:
                plt.close("all")

        yield draw, check


def methods(kind: Any) -> list[str]:
    """Return the public methods whose parameters all have values that can be drawn."""
    if kind.__module__.startswith(("calibrant.estimators", "calibrant.views")):
        return []  # methods of tables, which other calls fill
    found = []
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if all(knows(p.name) or p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters):
            found.append(name)
    return found


def check_object(kind: Any, case: Case) -> str:
    """Make an object and use its methods one after the other."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            thing = called(kind, case["made"])
            look_at(thing)
        except CalibrantError as error:
            return told(error)
        for name, arguments in case["used"]:
            try:
                look_at(called(getattr(thing, name), arguments))
            except CalibrantError as error:
                told(error)
    said_nothing(said, case["kind"])
    return "used"


@contextmanager
def objects(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    every = classes()

    with tempfile.TemporaryDirectory() as folder:

        def draw(rng: np.random.Generator) -> Case:
            name = one_of(rng, list(every))
            kind = every[name]
            steps = [one_of(rng, methods(kind)) for _ in range(int(rng.integers(4)))] if methods(kind) else []
            with inside(folder):
                used = [(step, drawn(rng, getattr(kind, step))) for step in steps]
                return {"kind": name, "made": drawn(rng, kind), "used": used}

        def check(case: Case) -> str:
            with inside(folder):
                return check_object(every[case["kind"]], case)

        yield draw, check
