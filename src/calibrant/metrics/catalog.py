"""`metric` and `list_metrics`: any declared metric by its short name."""

from __future__ import annotations

from typing import Any

from calibrant._typing import ArrayLike
from calibrant.core.catalog import Listing
from calibrant.core.declare import Metric, declared, lookup
from calibrant.core.inputs import check_names

__all__ = ["TASKS", "MetricList", "list_metrics", "metric"]

#: What a metric or calibrator may be for.
TASKS = ("classes", "regression")
_FACTS = (
    "name", "task", "function", "title", "plain", "notion", "estimates", "bound", "smaller_is_better", "perfect",
    "proper", "consistent", "default", "unit", "state", "cost", "weakness", "paper", "since"
)  # fmt: skip


def metric(name: str, y_true: ArrayLike, *forecast: Any, task: str | None = None, **options: Any) -> float:
    """Compute any declared metric by its short name.

    Parameters
    ----------
    name : str
        Short name such as ``"ece"`` or ``"crps"``; `list_metrics` shows them all.
    y_true : array-like of shape (n,)
        Truth.
    *forecast
        Class probabilities; or mean and variance; or a `Normal`, `Samples` or `Quantiles` forecast.
    task : {"classes", "regression"}, optional
        Decides between metrics of one name ("nll", "skce"). Left out, two columns, a forecast object or
        ``variance=`` mean regression.
    **options
        Parameters of the metric, and ``sample_weight``, ``classes``, ``space``, ``normalize``.

    Returns
    -------
    float

    Examples
    --------
    >>> metric("ks", [1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    0.2
    """
    if task is not None:
        check_names(task, TASKS, "task", "metric")
    elif len(forecast) > 1 or "variance" in options or any(hasattr(column, "crps") for column in forecast):
        task = "regression"
    return lookup(name, "metric", task)(y_true, *forecast, caller="metric", **options)


class MetricList(Listing):
    """The declared metrics of a task (or of all): iterates short names, ``[name]`` gives the `Metric`."""

    def __init__(self, task: str | None = "classes") -> None:
        entries: dict[str, Metric] = {}
        for entry in declared(task):
            entries.setdefault(entry.name, entry)
        self._metrics = list(declared(task))
        others = [entry for entry in declared(None) if entry not in self._metrics]
        super().__init__(
            entries,
            lambda _, entry: {key: getattr(entry, key) for key in _FACTS},
            (
                ("metric", lambda record: record["name"]),
                *((("task", lambda record: record["task"]),) if task is None else ()),
                ("shows", lambda record: record["plain"]),
                ("judges", lambda record: record["notion"]),
                ("cost", lambda record: record["cost"]),
            ),
            f"and {len(others)} metrics of {others[0].task}: list_metrics({others[0].task!r})" if others else "",
        )

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary of declared properties per metric; a name of two tasks has two."""
        return [self._record(entry.name, entry) for entry in self._metrics]


def list_metrics(task: str | None = "classes") -> MetricList:
    """Return the declared metrics.

    Parameters
    ----------
    task : {"classes", "regression"} or None, default "classes"
        Metrics of class probabilities, of means with variances, or all. With None a name that both tasks have comes
        once; `to_frame` shows both.

    Returns
    -------
    MetricList
        Iterates short names; ``["ece"]`` gives the declaration, ``to_frame()`` a table of all of them.

    Examples
    --------
    >>> "ece" in list_metrics()
    True
    """
    if task is not None:
        check_names(task, TASKS, "task", "list_metrics")
    return MetricList(task)


#: Names of the first edition, kept.
