"""One wrong option at a time: every option of all that is public sees every wrong value.

All the rest of such a call is in order, so nothing else refuses it first. `every_option` lists the calls; the kind
draws from it, and a test makes all of them.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from arrays import Pair, one_of
from callables import check_call, check_object, inside, methods, positional
from campaign import Case
from fits import SLOW, check_fit
from fits import methods as calibrators
from values import ALWAYS, HOSTILE, OBJECTS, OWN, ROWS, SENSIBLE, a_frame, a_path
from walk import classes, functions

#: What `**options` are asked for: names that some function knows, and one that none does.
LOOSE = ("n_bins", "level", "space", "normalize", "convention", "norm", "view", "no_such_option")
#: How the rows of a call that takes files come.
SOURCES = ("arrays", "path", "frame")
#: Wrong in a row's place is the business of the other kinds.
NEVER = {*ROWS, *OWN, "self", "caller"}


def options(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's options."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += [one for one in LOOSE if one not in found]
        elif parameter.kind is not parameter.VAR_POSITIONAL and (name not in NEVER or columns(function, name)):
            found.append(name)
    return found


def columns(function: Callable[..., Any], name: str) -> bool:
    """Whether `mean` and `variance` name columns of a file, and hold no rows."""
    return name in ("mean", "variance") and "y_proba" in inspect.signature(function).parameters


def in_order(function: Callable[..., Any], source: str = "arrays") -> Case:
    """Return arguments that are in order: rows, and what has no default."""
    rng = np.random.default_rng(5)
    parameters = inspect.signature(function).parameters
    names = [name for name in parameters if not columns(function, name)]
    if positional(function):
        names = ["y_true", "y_proba"]
    n = 20
    drawn: dict[str, Callable[[], Any]] = {
        "y_true": lambda: rng.normal(size=n) if "mean" in names else rng.integers(3, size=n),
        "mean": lambda: rng.normal(size=n),
        "variance": lambda: rng.uniform(0.5, 2, n),
        "logits": lambda: rng.normal(size=(n, 3)),
    }
    plain = [name for name in ROWS if name in names and name not in ("sample_weight", "groups")]
    rows = {name: drawn.get(name, lambda: rng.dirichlet([1.0, 1.0, 1.0], n))() for name in plain}
    if source != "arrays":
        rows = dict.fromkeys(rows) | {"y_true": a_path(rng) if source == "path" else a_frame(rng, whole=True)}
    given: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name in ROWS or name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty or name in ALWAYS:
            made = OBJECTS[name](rng) if name in OBJECTS else next(iter(SENSIBLE.get(name, ("x",))), "x")
            given[name] = made
    if {"method", "candidates"} <= parameters.keys():
        given["method"] = "temperature"  # the automatic choice takes seconds
    return {"rows": rows, "options": given, "bounds": ()}


def every_option() -> Iterator[tuple[str, str, str]]:
    """Yield (address, source of the rows, option) for all that is public."""
    for name, function in functions().items():
        takes_files = (
            "proba" in inspect.signature(function).parameters and "y_true" in inspect.signature(function).parameters
        )
        for source in SOURCES if takes_files else SOURCES[:1]:
            yield from ((name, source, option) for option in options(function))
    for name, kind in classes().items():
        yield from ((name, "arrays", option) for option in options(kind))
        for method in methods(kind):
            yield from ((f"{name}.{method}", "arrays", option) for option in options(getattr(kind, method)))
    for name, kind in calibrators().items():
        if name not in SLOW:
            yield from ((f"calibrators.{name}", "fit", option) for option in options(kind))


def check_option(address: str, source: str, option: str, value: Any) -> str:
    """Make one call with one wrong option."""
    try:
        return _checked(address, source, option, value)
    except TypeError as error:  # Python's own answer to a keyword that no function of the call has
        if option in LOOSE and f"unexpected keyword argument {option!r}" in str(error):
            return "refused"
        raise


def _checked(address: str, source: str, option: str, value: Any) -> str:
    wrong = {option: value}
    if source == "fit":
        kind = calibrators()[address.partition(".")[2]]
        rng = np.random.default_rng(5)
        rows: dict[str, Any] = {"X": rng.dirichlet([1.0, 1.0, 1.0], 20), "y": rng.integers(3, size=20)}
        if kind.task != "classes":
            rows = {"mean": rng.normal(size=20), "variance": rng.uniform(0.5, 2, 20), "y": rng.normal(size=20)}
        return check_fit(kind, {"method": kind.__name__, "rows": rows | {"w": None}, "options": wrong})
    if address in functions():
        function = functions()[address]
        case = in_order(function, source)
        return check_call(address, function, case | {"options": case["options"] | wrong})
    if address in classes():
        case = in_order(classes()[address])
        return check_object(
            classes()[address], {"kind": address, "made": case | {"options": case["options"] | wrong}, "used": ()}
        )
    name, _, method = address.rpartition(".")
    kind = classes()[name]
    case = in_order(getattr(kind, method))
    used = [(method, case | {"options": case["options"] | wrong})]
    return check_object(kind, {"kind": name, "made": in_order(kind), "used": used})


@contextmanager
def one_wrong(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("agg")
    every = list(every_option())
    with tempfile.TemporaryDirectory() as folder:

        def draw(rng: np.random.Generator) -> Case:
            return {"call": one_of(rng, every), "value": int(rng.integers(len(HOSTILE)))}

        def check(case: Case) -> str:
            try:
                with inside(folder):
                    return check_option(*case["call"], HOSTILE[case["value"]])
            finally:
                plt.close("all")

        yield draw, check
