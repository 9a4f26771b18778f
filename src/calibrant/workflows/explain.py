"""`explain`: what a metric or method is, in words a reader can check."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from calibrant import metrics
from calibrant.calibrators import list_calibrators
from calibrant.core.declare import Metric, declared
from calibrant.core.options import check_type
from calibrant.core.results import Record
from calibrant.core.text import DASH
from calibrant.errors import input_error
from calibrant.metrics.catalog import TASKS, list_metrics
from calibrant.metrics.taxonomy import BOUNDS, bounds_above, bounds_below, taxonomy_text

__all__ = ["Explanation", "explain"]

#: Above each table of everything.
HEADS = (
    "Metrics of class probabilities",
    "Metrics of means and variances",
    "Methods for class probabilities",
    "Methods for means and variances",
)


@dataclass(frozen=True)
class Explanation(Record):
    """An answer of `explain`: `str()` for people, `to_dict()` for programs."""

    text: str
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {"schema": 1, **self.facts}

    def __str__(self) -> str:
        return self.text


def explain(name: str | None = None) -> Explanation:
    """Return what a metric or method is: what it estimates, bounds, weaknesses, paper, cost.

    Parameters
    ----------
    name : str, optional
        Short name of a metric or calibrator, in any case (what both tasks have is shown twice); ``"taxonomy"`` says
        which metric bounds which; without a name all metrics and methods are listed.

    Returns
    -------
    Explanation
        ``str()`` is the terminal text, ``.to_dict()`` the JSON form.

    Examples
    --------
    >>> print(str(explain("ece")).splitlines()[0])
    ece: Expected calibration error
    """
    if name is None:
        return _everything()
    word = check_type(name, str, "name", "explain", "be a name", "for example 'ece'").lower()
    if word == "taxonomy":
        bounds = [{"upper": b.upper, "lower": b.lower, "why": b.why} for b in BOUNDS]
        return Explanation(taxonomy_text(), {"bounds": bounds})
    found = [_metric(metric) for metric in declared(None) if metric.name == word]
    found += [_calibrator(kind) for kind in _classes() if kind.short_name == word]
    if not found:
        known = list(dict.fromkeys([*list_metrics(None), *(kind.short_name for kind in _classes())]))
        near = difflib.get_close_matches(word, known, 1)
        hint = f"did you mean {near[0]!r}" if near else f"known names: {', '.join(known)}"
        raise input_error("name", "explain", "be a metric or a method", repr(name), hint)
    first, *others = found
    document = {"name": word, **first, **({"also": others} if others else {})}
    return Explanation("\n\n".join(_text(word, facts) for facts in found), document)


def _everything() -> Explanation:
    tables = [listing(task) for listing in (list_metrics, list_calibrators) for task in TASKS]
    text = "\n\n".join(f"{head}\n{table.to_text()}" for head, table in zip(HEADS, tables, strict=True))
    names = {task: {"metrics": list(list_metrics(task)), "calibrators": list(list_calibrators(task))} for task in TASKS}
    return Explanation(text, {**names["classes"], "regression": names["regression"]})


def _text(name: str, facts: dict[str, Any]) -> str:
    shown = dict(facts)
    title, summary = shown.pop("title"), shown.pop("summary")
    width = max(len(key) for key in shown)
    rows = [f"{key.replace('_', ' '):<{width}}  {value}" for key, value in shown.items() if value not in (None, "", ())]
    return "\n".join([f"{name}: {title}", summary, "", *rows])


def _classes() -> list[Any]:
    return [listing[name] for listing in map(list_calibrators, TASKS) for name in listing]


def _first_line(thing: Any) -> str:
    return ((getattr(thing, "__doc__", None) or "").strip().splitlines() or [""])[0]


def _metric(metric: Metric) -> dict[str, Any]:
    name, judged = metric.name, metric.task == "classes"
    direction = {True: "smaller is better", False: "larger is better", None: "neither direction is better"}
    side = {"lower": "a lower bound of ", "upper": "an upper bound of "}.get(metric.bound or "", "")
    parameters = ", ".join(f"{p.name}={p.default!r}" for p in metric.parameters().values())
    above = "; ".join(f"{b.upper} (because {b.why})" for b in (bounds_above(name) if judged else ()))
    below = "; ".join(f"{b.lower} (because {b.why})" for b in (bounds_below(name) if judged else ()))
    return {
        "title": metric.title,
        "summary": _first_line(getattr(metrics, metric.function, None)),
        "task": metric.task,
        "shows": metric.plain,
        "notion": metric.notion,
        "estimates": side + metric.estimates,
        "bounded_by": above,
        "bounds": below,
        "direction": direction[metric.smaller_is_better],
        "perfect": DASH if metric.perfect is None else f"{metric.perfect:g}",
        "range": f"{metric.range[0]:g} … {metric.range[1]:g}",
        "proper": "yes" if metric.proper else "no",
        "weakness": metric.weakness,
        "sample_size": "calibrant.inference.required_sample_size says how many rows an error needs"
        if name == "ece"
        else "",
        "cost": metric.cost,
        "parameters": parameters,
        "function": f"calibrant.metrics.{metric.function}",
        "paper": metric.paper,
    }


def _calibrator(kind: Any) -> dict[str, Any]:
    def yes(flag: str) -> str:
        return {True: "yes", False: "no", None: ""}[getattr(kind, flag, None)]

    package = "calibrators.regression" if kind.task == "regression" else "calibrators"
    return {
        "title": kind.title,
        "summary": _first_line(kind),
        "task": kind.task,
        "when": kind.when,
        "keeps_argmax": yes("preserves_argmax"),
        "keeps_order": yes("preserves_order"),
        "keeps_mean": yes("keeps_mean"),
        "injective": yes("injective"),
        "may_saturate": yes("may_saturate"),
        "exports": "yes" if kind.exports else "no",
        "class": f"calibrant.{package}.{kind.__name__}",
        "paper": kind.paper,
    }
