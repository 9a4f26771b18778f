"""One declaration per metric; library, command line, report, docs and contract tests read it.

The registry is keyed by task and short name, because "nll" and "skce" exist for class probabilities and for means with
variances. `lookup` takes the task from the evidence; without one, class probabilities come first.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, ParamSpec, TypeAlias

import numpy as np

from calibrant._typing import Floats, Ints, RowOptions
from calibrant.core.docstrings import complete
from calibrant.core.inputs import Forecast, check_forecast, check_names
from calibrant.core.moments import Moments, NullMoments
from calibrant.core.rows import check_rows
from calibrant.core.tables import Table
from calibrant.core.text import first_upper
from calibrant.errors import InputError, input_error

__all__ = [
    "CHECKED", "DESCRIPTIVE", "Metric", "MetricTask", "Recipe", "check_norm", "declare", "declared", "lookup",
    "withdraw"
]  # fmt: skip

#: What is predicted: class probabilities (or top-label pairs), or means with variances.
MetricTask: TypeAlias = Literal["classes", "regression"]
#: The notion of metrics that describe without judging; they have no null distribution.
DESCRIPTIVE = "descriptive"
#: Arguments that make evidence, by task; all others are parameters of the metric.
CHECKED: dict[MetricTask, tuple[str, ...]] = {
    "classes": ("y_true", "y_proba", "sample_weight", "classes", "space", "normalize"),
    "regression": ("y_true", "mean", "variance", "sample_weight"),
}
_DIRECTIONS = {True: "smaller is better", False: "larger is better", None: "neither direction is better"}
_P = ParamSpec("_P")


class Recipe:
    """How a metric is computed once its parameters are fixed: evidence → state → value.

    `fill` and `finish` are separate, because states add up over chunks, engines and machines.
    """

    def fill(self, forecast: Any) -> Any:
        """Return the state of these predictions."""
        raise TypeError(f"{type(self).__name__} defines no state for {forecast.caller}")

    def finish(self, state: Any) -> Any:
        """Return the value of a state."""
        raise TypeError(f"{type(self).__name__} defines no value of a {type(state).__name__}")

    def value(self, forecast: Any) -> float:
        """Return the value of these predictions."""
        return float(self.finish(self.fill(forecast)))

    def null(self, forecast: Any, n_resamples: int, rng: np.random.Generator) -> Any:  # noqa: ARG002 -- for subclasses
        """Return the null distribution if the metric has one of its own; None means that labels are resampled.

        What comes back has `mean`, `std` and ``pvalue(value, two_sided=…)``.
        """
        return None

    def moments(self, forecast: Any, groups: Any = None) -> Moments | None:  # noqa: ARG002
        """Return mean, standard error and skewness of a mean score."""
        raise input_error(
            "recipe", f"{forecast.caller}.moments", "be a mean score", type(self).__name__, "ask for value"
        )

    def null_moments(self, forecast: Any, groups: Any = None) -> NullMoments | None:  # noqa: ARG002
        """Return the moments of a mean score under calibration."""
        raise input_error(
            "recipe", f"{forecast.caller}.null_moments", "be a mean score", type(self).__name__, "ask for null_draws"
        )

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return False

    @property
    def table_levels(self) -> tuple[float, ...] | None:
        """Levels that a table of quantiles must state; None where it never suffices: it has no mean and no variance."""
        return None

    @property
    def is_mean(self) -> bool:
        """Whether the value is the mean of a score of single rows, so that its moments are known."""
        return False

    @property
    def on_tables(self) -> bool:
        """Whether the value follows from tables of a view (a calibration error)."""
        return False

    @property
    def is_path(self) -> bool:
        """Whether the value is the largest excursion of a cumulative path, which has a limit distribution."""
        return False

    def resampled_view(self) -> Any:
        """Return the view whose outcomes may be drawn pair by pair for a null distribution, or None."""
        return None

    def from_tables(self, tables: Sequence[Table]) -> Any:
        """Return the value of the tables of a view, one per group; leading axes of outcomes (replicates) stay."""
        raise TypeError(f"{type(self).__name__} is not finished from {len(tables)} tables")

    def joint_cells(self, grid: int) -> int | None:  # noqa: ARG002 -- only cells have it
        """Return how many neighboring cells may draw their labels together; None: each alone."""
        return None

    def row_bins(self, table: Table) -> Ints | None:  # noqa: ARG002 -- only bins have it
        """Return the bin of each table row where only sums of bins count, else None."""
        return None

    def class_cells(self, forecast: Any) -> tuple[Ints, int] | None:  # noqa: ARG002 -- class-wise bins have them
        """Return the cell of every row and class and the number of cells; None where it is not made of such cells."""
        return None

    def outcome_values(self, forecast: Any) -> Callable[[Floats], Floats]:
        """Return a function from drawn residuals of those cells, shape (size, cells), to values of the replicates."""
        raise TypeError(f"{type(self).__name__} is not finished from cells of {forecast.caller}")

    def label_values(self, forecast: Forecast) -> Callable[[Ints], Floats]:
        """Return a function from drawn labels, shape (size, n), to the values of the replicates."""

        def one_by_one(labels: Ints) -> Floats:
            return np.array([self.value(forecast.with_codes(row)) for row in labels])

        return one_by_one


_signature = functools.cache(inspect.signature)


def _with_rows(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a metric's function, ``**rows`` written out as in `check_forecast`."""
    *own, last = _signature(function).parameters.values()
    taken = _signature(check_forecast).parameters
    rows = [taken[key] for key in RowOptions.__annotations__] if last.kind is last.VAR_KEYWORD else [last]
    return inspect.Signature([*own, *rows], return_annotation="float")


@dataclass(frozen=True)
class Metric:
    """What a metric is: everything about it that is not arithmetic."""

    name: str
    title: str
    notion: str
    #: What the number estimates, in words: the rest of the sentence "estimates …".
    estimates: str
    #: "lower", "upper" or "exact": on which side of what it estimates the population value lies.
    bound: str | None
    weakness: str
    paper: str
    cost: str
    state: str
    #: How it is computed: a fixed recipe, or a function from its parameters to one; `defines` sets it.
    recipe: Callable[..., Recipe] | Recipe = field(default_factory=Recipe)
    #: What it shows, in the words of a reader who knows no symbol: a row of the table. The title if left out.
    plain: str = ""
    task: MetricTask = "classes"
    smaller_is_better: bool | None = True
    perfect: float | None = 0.0
    range: tuple[float, float] = (0.0, 1.0)
    proper: bool = False
    consistent: bool = True
    #: Whether it is shown as a percentage.
    percent: bool = True
    #: Unit of a number that is no percentage, with y the predicted quantity: "", "y" or "y²".
    unit: str = ""
    #: Whether `evaluate` shows it unless others are named.
    default: bool = False
    #: Whether the order of the classes has a meaning.
    ordered: bool = False
    #: Whether its p-value counts both tails; left out, those of proper scores do.
    two_sided: bool | None = None
    since: str = "0.1"
    #: Name of the public function in `calibrant.metrics`.
    function: str = ""

    def __post_init__(self) -> None:
        if not self.plain:
            object.__setattr__(self, "plain", self.title)
        if self.two_sided is None:
            object.__setattr__(self, "two_sided", self.proper)

    def __hash__(self) -> int:
        return hash(self.name)  # asked for in every slice

    @property
    def descriptive(self) -> bool:
        """Whether it describes without judging."""
        return self.notion == DESCRIPTIVE

    @property
    def alias(self) -> str:
        """The short name as a Python name: `calibrant.metrics.<alias>`."""
        return self.name.replace("-", "_")

    @property
    def about(self) -> str:
        """Notion, direction, perfect value and weakness in two sentences."""
        perfect = "" if self.perfect is None else f"; {self.perfect:g} is perfect"
        return (
            f"{first_upper(self.notion)}; {_DIRECTIONS[self.smaller_is_better]}{perfect}. {first_upper(self.weakness)}."
        )

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters of the recipe by name."""
        if isinstance(self.recipe, Recipe):
            return {}
        named = _signature(self.recipe).parameters
        known = (*CHECKED[self.task], "rows")
        return {name: parameter for name, parameter in named.items() if name not in known}

    def build(self, *, caller: str | None = None, **params: Any) -> Recipe:
        """Return the recipe for these parameters; a wrong one is refused in the name of the function that was called.

        Parameters
        ----------
        caller : str, optional
            The function the user called, named in the error; left out, that of the metric.
        **params
            Parameters of the metric; unknown ones are refused by name.
        """
        known = self.parameters()
        caller = caller or self.function or self.name
        for key, given in params.items():
            if key not in known:
                allowed = ", ".join(known) or "none"
                raise input_error(
                    key, caller, f"be a parameter of this metric ({allowed})", f"{key}={given!r}", "drop it"
                )
        return self.recipe if isinstance(self.recipe, Recipe) else self._named(self.recipe, caller, params)

    def _named(
        self, make: Callable[..., Recipe], caller: str, options: Mapping[str, Any], columns: tuple[Any, ...] = ()
    ) -> Recipe:
        """Return a recipe; what it refuses it refuses in the name of the caller."""
        try:
            return make(*columns, **options)
        except InputError as error:
            if error.argument is None:
                raise
            raise error.renamed(caller=caller) from None

    def __call__(self, *columns: Any, caller: str | None = None, **options: Any) -> float:
        """Check, fill, finish: the columns of the task (see `CHECKED`) and parameters of the metric."""
        caller = caller or self.function or self.name
        checked = {key: options.pop(key) for key in CHECKED[self.task] if key in options}
        recipe = self.build(caller=caller, **options)
        most = CHECKED[self.task].index("sample_weight")
        if len(columns) > most:
            names = ", ".join(CHECKED[self.task][:most])
            raise input_error("forecast", caller, f"be {names}", f"{len(columns)} columns", "pass weights by name")
        return self._value(recipe, columns, checked, caller)

    def _value(self, recipe: Recipe, columns: tuple[Any, ...], checked: dict[str, Any], caller: str) -> float:
        return recipe.value(_CHECKS[self.task](*columns, caller=caller, **checked))

    def defines(self, function: Callable[_P, Recipe]) -> Callable[_P, float]:
        """Declare the metric by a function of columns and parameters that returns its recipe (a decorator).

        What comes back has the same signature, with ``**rows`` written out, and returns the value; its docstring is
        completed with what is declared or shared.
        """
        task, name, signature = self.task, function.__name__, _with_rows(function)
        make: Callable[..., Recipe] = function

        @functools.wraps(function)
        def value(*args: _P.args, **options: _P.kwargs) -> float:
            for key in options:
                if key not in signature.parameters:
                    raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")
            recipe = self._named(function, name, options, args)
            return self._value(recipe, args, {key: options[key] for key in CHECKED[task] if key in options}, name)

        value.__signature__ = signature  # type: ignore[attr-defined]
        value.__annotations__ = {key: each.annotation for key, each in signature.parameters.items()}
        value.__annotations__["return"] = "float"
        notes = f"Cost {self.cost}; state: {self.state}."
        value.__doc__ = complete(value, task=task, about=self.about, notes=notes, paper=self.paper)
        own = [key for key in signature.parameters if key not in CHECKED[task]]
        made = functools.partial(make, None, None)
        object.__setattr__(self, "recipe", made if own else made())
        object.__setattr__(self, "function", name)
        declare(self)
        return value


#: How evidence of a task is checked and made.
_CHECKS: dict[MetricTask, Callable[..., Any]] = {"classes": check_forecast, "regression": check_rows}
_REGISTRY: dict[tuple[MetricTask, str], Metric] = {}


def declare(metric: Metric) -> Metric:
    """Enter a metric into the registry; its short name must be new for its task."""
    key = metric.task, metric.name
    known = _REGISTRY.get(key, metric)
    if (known.title, known.function) != (metric.title, metric.function):  # equal where a module is reloaded
        raise ValueError(f"a metric named {metric.name!r} exists already for {metric.task}")
    _REGISTRY[key] = metric
    metrics_of.cache_clear()
    return metric


def withdraw(name: str, task: MetricTask = "classes") -> None:
    """Remove a metric (tests and plug-ins)."""
    _REGISTRY.pop((task, name), None)
    metrics_of.cache_clear()


def lookup(name: str, caller: str = "metric", task: str | None = None) -> Metric:
    """Return a declared metric by its short name; without a task, class probabilities first, then regression.

    Examples
    --------
    >>> lookup("nll").title
    'Log score'
    """
    tasks = _tasks(task)
    for each in tasks:
        if isinstance(name, str) and (each, name) in _REGISTRY:
            return _REGISTRY[each, name]
    known = dict.fromkeys(metric.name for each in tasks for metric in declared(each))
    if isinstance(name, str) and name not in known:
        name = name.lower()  # ECE is ece
    check_names(name, tuple(known), "name", caller)
    return next(_REGISTRY[each, name] for each in tasks if (each, name) in _REGISTRY)


def declared(task: str | None = "classes") -> Iterator[Metric]:
    """Yield the metrics of a task in the order of declaration; None means all tasks, class probabilities first."""
    for each in _tasks(task):
        yield from metrics_of(each)


@functools.lru_cache(maxsize=2)
def metrics_of(task: MetricTask) -> tuple[Metric, ...]:
    """Return the metrics of one task: the same tuple until one is declared or withdrawn, asked for in every slice."""
    import_module("calibrant.metrics")  # declares them: whoever asks first need not have imported them
    return tuple(metric for metric in _REGISTRY.values() if metric.task == task)


def _tasks(task: str | None) -> tuple[MetricTask, ...]:
    if task is None:
        return "classes", "regression"
    return ("regression",) if task == "regression" else ("classes",)


def check_norm(norm: float, caller: str) -> float:
    """Return p ≥ 1 as a float, ∞ included; finite p are at most 1,000."""
    number = isinstance(norm, int | float | np.number) and not isinstance(norm, bool | complex | np.complexfloating)
    if not (number and norm >= 1):
        raise input_error("norm", caller, "be a number ≥ 1 or inf", repr(norm), "use 1, 2 or inf")
    if norm > 1000 and norm != math.inf:
        raise input_error("norm", caller, "be at most 1,000, or inf", repr(norm), "use inf for the largest error")
    return float(norm)
