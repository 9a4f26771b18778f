"""The contract of a metric as a suite anyone can run on one of their own, for class probabilities and regression."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from calibrant import metrics as _metrics
from calibrant._typing import Array
from calibrant.core.declare import CHECKED, Metric, lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.links import softmax
from calibrant.core.rows import check_rows
from calibrant.core.tables import Bins, value_table
from calibrant.errors import CalibrantError, InputError, UndefinedWarning

__all__ = ["CHECKS", "check_metric"]

#: States a metric may declare.
STATES = ("score sums", "table", "all rows")
#: How far a value may move when its input is rounded to float32, by state; order and mass edges may move by a row.
ROUNDING = {"score sums": 1e-3, "table": 2e-2, "all rows": 1e-3}


def check_metric(metric: Metric | str, *, task: str | None = None, rng: int = 0) -> None:
    """Raise AssertionError unless a metric keeps the contract and what it declares.

    Parameters
    ----------
    metric : Metric or str
        A declared metric or its short name.
    task : {"classes", "regression"}, optional
        Decides between metrics of one name.
    rng : int, default 0
        Seed of the simulated predictions.

    Notes
    -----
    Checks the declaration and the docstring of the public function; that the value is a float in its range; that row
    order, containers, float32, repeated rows instead of weights, names of classes, their order and logits instead of
    probabilities do not change it; that states of parts add up to the state of the whole; that arguments stay
    untouched; that exact 0 and 1, ties, absent classes, one row and a thousand classes give a number (or nan with a
    warning); and that bad input is refused by argument and row. For regression the same, with means and variances.

    Examples
    --------
    >>> check_metric("ece")
    >>> check_metric("crps")
    """
    found = lookup(metric, "check_metric", task) if isinstance(metric, str) else metric
    for check in CHECKS:
        check(found, np.random.default_rng(rng))


def _must(holds: Any, metric: Metric, rule: str) -> None:
    if not bool(holds):
        raise AssertionError(f"{metric.name} breaks the contract of metrics: {rule}")


def _close(metric: Metric, a: float, b: float, tolerance: float, rule: str) -> None:
    same = a == b or abs(a - b) <= tolerance * max(1.0, abs(b))
    _must(same, metric, f"{rule} ({a!r} against {b!r}, allowed {tolerance:g})")


# -- predictions -----------------------------------------------------------------------------------


def simulate(task: str, rng: np.random.Generator, n: int = 300, k: int = 4) -> tuple[Array, ...]:
    """Return the columns of calibrated predictions: truth and probabilities, or truth, mean and variance."""
    if task == "regression":
        mean, variance = rng.normal(size=n), rng.gamma(2.0, 1.0, n) + 0.05
        return mean + np.sqrt(variance) * rng.standard_normal(n), mean, variance
    logits = 2 * rng.normal(size=(n, k))
    return (logits + rng.gumbel(size=(n, k))).argmax(axis=1), softmax(logits)


def _evidence(metric: Metric, columns: Sequence[Array]) -> Any:
    return (check_rows if metric.task == "regression" else check_forecast)(*columns, caller="check_metric")


def _take(columns: Sequence[Array], rows: Array) -> list[Array]:
    return [column[rows] for column in columns]


# -- checks for every task -------------------------------------------------------------------------


def check_declaration(metric: Metric, rng: np.random.Generator) -> None:  # noqa: ARG001 -- checks are called alike
    """Check that a metric says what it is, and that its function and docstring say the same."""
    for name in ("name", "title", "plain", "notion", "estimates", "weakness", "paper", "cost"):
        _must(getattr(metric, name), metric, f"declares {name}")
    _must(metric.state in STATES, metric, f"declares a state ({', '.join(STATES)})")
    _must(metric.bound in (None, "lower", "upper", "exact"), metric, "declares a bound")
    low, high = metric.range
    _must(low < high, metric, "declares a range")
    _must(metric.perfect is None or low <= metric.perfect <= high, metric, "is perfect inside its range")
    _must(metric.plain[-1:] != ".", metric, "has plain words without a full stop")
    if not metric.function:
        return
    function: Any = getattr(_metrics, metric.function, None)
    _must(callable(function), metric, f"has the function calibrant.metrics.{metric.function}")
    signature = inspect.signature(function)
    own = [name for name in signature.parameters if name not in CHECKED[metric.task]]
    _must(own == list(metric.parameters()), metric, f"function and recipe take the same parameters ({own})")
    doc = inspect.getdoc(function) or ""
    for section in ("Parameters", "Returns", "Examples"):
        _must(f"{section}\n{'-' * len(section)}" in doc, metric, f"documents {section}")
    undocumented = [name for name in signature.parameters if f"\n{name} : " not in doc]
    _must(not undocumented, metric, f"documents every parameter (not {', '.join(undocumented)})")


def check_value(metric: Metric, rng: np.random.Generator) -> None:
    """Check that the value is a plain float in its range, the same by function, by short name and in repetition."""
    columns = simulate(metric.task, rng)
    value = metric(*columns)
    _must(type(value) is float, metric, "returns a plain float")
    low, high = metric.range
    _must(low - 1e-12 <= value <= high + 1e-12, metric, f"lies in its range ({value!r})")
    _must(metric(*columns) == value, metric, "repeats itself")
    if metric.function:
        _must(getattr(_metrics, metric.function)(*columns) == value, metric, "is the number of its function")
        package = import_module("calibrant.metrics" + (".regression" if metric.task == "regression" else ""))
        _must(getattr(package, metric.alias)(*columns) == value, metric, f"is called {metric.alias} too")


def check_rows_alike(metric: Metric, rng: np.random.Generator) -> None:
    """Check that the order of rows does not matter and that whole weights equal repeated rows."""
    columns = simulate(metric.task, rng)
    order = rng.permutation(len(columns[0]))
    _close(metric, metric(*_take(columns, order)), metric(*columns), 1e-12, "the order of rows does not matter")
    columns = simulate(metric.task, rng, 120)
    weights = rng.integers(0, 4, 120)
    repeated = metric(*_take(columns, np.repeat(np.arange(120), weights)))
    _close(metric, metric(*columns, sample_weight=weights), repeated, 1e-10, "whole weights equal repeated rows")


def check_containers(metric: Metric, rng: np.random.Generator) -> None:
    """Check that lists, frames and tensors give the number of arrays, and that arguments stay untouched."""
    columns = simulate(metric.task, rng, 60)
    expected = metric(*columns)
    _must(metric(*(column.tolist() for column in columns)) == expected, metric, "lists equal arrays")
    swapped = [column.astype(column.dtype.newbyteorder()) for column in columns]
    _must(metric(*swapped) == expected, metric, "the other byte order gives the same number")
    _must(metric(*map(np.ma.asarray, columns)) == expected, metric, "a mask that hides nothing changes nothing")
    for name, one, table in (
        ("pandas", "Series", "DataFrame"),
        ("polars", "Series", "DataFrame"),
        ("pyarrow", "array", "table"),
        ("torch", "tensor", "tensor"),
    ):
        if find_spec(name) is None:
            continue
        library = import_module(name)
        given = []
        for column in columns:
            wide = column.ndim == 2 and name != "torch"
            content = {f"p_{k}": column[:, k] for k in range(column.shape[1])} if wide else column
            given.append(getattr(library, table if wide else one)(content))
        _close(metric, metric(*given), expected, 1e-14, f"{name} equals arrays")  # columns may be added up differently
    weights = np.ones(60)
    copies = [array.copy() for array in (*columns, weights)]
    for array in (*columns, weights):
        array.flags.writeable = False
    metric(*columns, sample_weight=weights)
    untouched = all((a == b).all() for a, b in zip((*columns, weights), copies, strict=True))
    _must(untouched, metric, "arguments stay untouched")


def check_float32(metric: Metric, rng: np.random.Generator) -> None:
    """Check that single precision gives nearly the same."""
    truth, *forecast = simulate(metric.task, rng)
    rounded = [column.astype(np.float32) for column in forecast]
    _close(metric, metric(truth, *rounded), metric(truth, *forecast), ROUNDING[metric.state], "float32 is close")


def check_parts(metric: Metric, rng: np.random.Generator) -> None:
    """Check that states of parts add up to the state of the whole, in any order of addition."""
    if metric.state == "all rows":
        return
    recipe = metric.build()
    columns = simulate(metric.task, rng, 400)
    whole = _evidence(metric, columns)
    parts = [_evidence(metric, _take(columns, np.arange(a, b))) for a, b in ((0, 10), (10, 250), (250, 400))]
    _close(metric, _merged(recipe, parts), recipe.value(whole), 1e-12, "parts add up to the whole")


def _merged(recipe: Any, parts: Sequence[Any]) -> float:
    """Return the value of parts whose states (or exact tables, where edges need all rows) were added."""
    if getattr(getattr(recipe, "estimator", None), "bins", None) == "mass":
        tables = [[value_table(pairs) for pairs in recipe.view.groups(part)] for part in parts]
        merged = [c + (a + b) for a, b, c in zip(*tables, strict=True)]
        return float(recipe.finish(Bins.stack([recipe.estimator.state(table) for table in merged])))
    first, second, third = (recipe.fill(part) for part in parts)
    if type(first) is tuple:
        return float(recipe.finish(tuple(c + (a + b) for a, b, c in zip(first, second, third, strict=True))))
    return float(recipe.finish(third + (first + second)))


def check_few_rows(metric: Metric, rng: np.random.Generator) -> None:
    """Check that one row gives a number, or nan with a warning; never a quiet 0."""
    columns = simulate(metric.task, rng, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric(*columns)
    warned = any(issubclass(warning.category, UndefinedWarning) for warning in caught)
    _must(
        math.isfinite(value) or (math.isnan(value) and warned), metric, "one row gives a number, or nan and a warning"
    )


def check_refusals(metric: Metric, rng: np.random.Generator) -> None:
    """Check that bad input raises an error that names argument and row and gives a hint."""
    columns = simulate(metric.task, rng, 40, 3)
    cases = _BAD_ROWS[metric.task](columns)
    for case, (word, given) in cases.items():
        message = _refusal(metric, partial(metric, *given), case)
        _must(word in message and "Hint: " in message, metric, f"a clear message for {case}: {message}")
    message = _refusal(metric, lambda: metric(*columns, no_such_parameter=1), "an unknown parameter")
    _must("no_such_parameter" in message, metric, f"names the unknown parameter: {message}")


def _refusal(metric: Metric, attempt: Callable[[], Any], case: str) -> str:
    try:
        attempt()
    except InputError as error:
        _must(isinstance(error, ValueError) and isinstance(error, CalibrantError), metric, "errors have both parents")
        return str(error)
    raise AssertionError(f"{metric.name} breaks the contract of metrics: {case} is refused")


def _changed(array: Array, row: Any, value: Any) -> Array:
    out = np.array(array, copy=True)
    out[row] = value
    return out


def _bad_classes(columns: Sequence[Array]) -> dict[str, tuple[str, Sequence[Any]]]:
    y, p = columns
    return {
        "no rows": ("row", (y[:0], p[:0])),
        "nan": ("row 4", (y, _changed(p, (4, 1), np.nan))),
        "infinity": ("row 5", (y, _changed(p, (5, 0), np.inf))),
        "a negative probability": ("row 0", (y, _changed(p, 0, [1.5, -0.5, 0.0]))),
        "a row that does not sum to 1": ("row 1", (y, _changed(p, 1, [0.6, 0.5, 0.0]))),
        "a label out of range": ("row 7", (_changed(y, 7, 3), p)),
        "a negative label": ("row 8", (_changed(y, 8, -1), p)),
        "too few labels": ("rows", (y[:-1], p)),
        "a single column": ("columns", (y, p[:, :1])),
        "one-hot labels": ("argmax", (np.eye(3, dtype=int)[y], p)),
        "names without classes": ("classes", (np.array(["a", "b", "c"])[y], p)),
    }


def _bad_rows(columns: Sequence[Array]) -> dict[str, tuple[str, Sequence[Any]]]:
    y, mean, variance = columns
    return {
        "no rows": ("row", (y[:0], mean[:0], variance[:0])),
        "nan in the truth": ("row 4", (_changed(y, 4, np.nan), mean, variance)),
        "infinite means": ("row 5", (y, _changed(mean, 5, np.inf), variance)),
        "a variance of 0": ("row 6", (y, mean, _changed(variance, 6, 0.0))),
        "a negative variance": ("row 7", (y, mean, _changed(variance, 7, -1.0))),
        "too few means": ("rows", (y, mean[:-1], variance)),
        "no variance": ("variance", (y, mean)),
        "a matrix of means": ("shape", (y, np.stack([mean, mean], axis=1), variance)),
        "words": ("numeric", (y, np.full(len(y), "a"), variance)),
    }


_BAD_ROWS: dict[str, Callable[[Sequence[Array]], dict[str, tuple[str, Sequence[Any]]]]] = {
    "classes": _bad_classes,
    "regression": _bad_rows,
}


# -- checks of one task ----------------------------------------------------------------------------


def check_classes(metric: Metric, rng: np.random.Generator) -> None:
    """Check that names and order of classes, one binary column and logits mean the same."""
    if metric.task != "classes":
        return
    y, p = simulate("classes", rng)
    value = metric(y, p)
    new = np.array([3, 2, 1, 0] if metric.ordered else [2, 0, 3, 1])  # ordered classes may only be reversed
    moved = np.empty_like(p)
    moved[:, new] = p
    _close(metric, metric(new[y], moved), value, 1e-12, "the order of classes does not matter")
    names = np.array(["ant", "bee", "cat", "dog"])
    _must(metric(names[y], p, classes=names) == value, metric, "named classes equal indices")
    one = rng.random(200)
    event = (rng.random(200) < one).astype(int)
    two = metric(event, np.stack([1 - one, one], axis=1))
    _close(metric, metric(event, one), two, 1e-12, "one binary column equals two columns")
    logits = rng.normal(size=(150, 3))
    labels = rng.integers(0, 3, 150)
    by_logit = metric(labels, logits, space="logit")
    _close(metric, by_logit, metric(labels, softmax(logits)), 1e-9, "logits equal their softmax")


def check_extremes(metric: Metric, rng: np.random.Generator) -> None:
    """Check that exact 0 and 1, ties, absent and very many classes give a number; for regression, wild scales."""
    if metric.task == "regression":
        y, mean, variance = simulate("regression", rng, 60)
        moved = metric(y + 1e3, mean + 1e3, variance)
        _close(metric, moved, metric(y, mean, variance), 1e-6, "only the distance of truth and mean matters")
        for scale in (1e-6, 1e6):
            value = metric(scale * y, scale * mean, scale**2 * variance)
            _must(math.isfinite(value), metric, f"is finite when y is of order {scale:g}")
        _must(math.isfinite(metric(y[:1].repeat(9), mean[:1].repeat(9), np.ones(9))), metric, "ties are a number")
        return
    p = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0]])
    absent = metric(np.array([0, 0, 1, 0, 1, 0]), p)  # class 2 never occurs
    _must(math.isfinite(absent), metric, "exact 0 and 1, ties and absent classes give a number")
    _must(math.isfinite(metric(*simulate("classes", rng, 40, 1000))), metric, "a thousand classes give a number")


#: The parts of the contract, in the order they are checked.
CHECKS: tuple[Callable[[Metric, np.random.Generator], None], ...] = (
    check_declaration,
    check_value,
    check_rows_alike,
    check_containers,
    check_float32,
    check_parts,
    check_few_rows,
    check_refusals,
    check_classes,
    check_extremes,
)
