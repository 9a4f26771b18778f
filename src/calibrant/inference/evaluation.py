"""`evaluate`: every measure with what a calibrated model would show, a p-value, an interval and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declared, lookup
from calibrant.core.inputs import Forecast, check_forecast, check_pairs, check_rng
from calibrant.core.results import Record, Result
from calibrant.errors import input_error
from calibrant.inference import wording
from calibrant.inference.intervals import offered_interval
from calibrant.inference.null import Null, null_values
from calibrant.inference.verdict import Facts, collect_facts, verdict

SCHEMA = 1


@dataclass(frozen=True)
class Evaluation(Record):
    """A table of results with the facts and the verdict; `str()` is the terminal text."""

    results: tuple[Result, ...]
    n: int
    n_classes: int
    verdict: str
    facts: Facts
    level: float = 0.95
    n_resamples: int = 1000
    weighted: bool = False
    classes: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name!r} is not in this evaluation; it has {', '.join(r.name for r in self.results)}")

    def __iter__(self) -> Any:
        return iter(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": SCHEMA,
            "n": self.n,
            "n_classes": self.n_classes,
            "measures": {result.name: measure_dict(result) for result in self.results},
            "verdict": self.verdict,
        }

    def to_frame(self) -> Any:
        """Return the table as a Polars frame, one row per measure."""
        import polars as pl

        rows = [{"measure": name, **values} for name, values in self.to_dict()["measures"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def __str__(self) -> str:
        return wording.evaluation_text(self)

    def _repr_html_(self) -> str:
        return wording.evaluation_html(self)


def measure_dict(result: Result) -> dict[str, Any]:
    """Return one result in the stable JSON form."""
    interval = result.interval
    return {
        "value": result.value,
        "null_mean": result.null_mean,
        "null_std": result.null_std,
        "pvalue": result.pvalue,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "estimates": result.estimates,
        "bound": result.bound,
    }


def parse_measure(
    name: str, forecast: Forecast, n_bins: int | None, params: Mapping[str, Any]
) -> tuple[Measure, Recipe]:
    """Return measure and recipe of ``"ece"`` or ``"ks@top-2"`` (a measure through another view)."""
    short, _, view = name.partition("@")
    measure = lookup(short, forecast.caller)
    known = measure.parameters()
    chosen = {key: value for key, value in params.items() if key in known}
    if n_bins is not None and "n_bins" in known:
        chosen["n_bins"] = n_bins
    if view:
        chosen["view"] = view
    return measure, measure.build(**chosen)


def default_measures(forecast: Forecast) -> list[str]:
    """Return the panel: what `evaluate` shows unless told otherwise."""
    names = [measure.name for measure in declared() if measure.panel]
    if not forecast.has_vectors:
        names = [name for name in names if lookup(name).build().top_label_only]
    elif forecast.n_classes == 2:
        names.insert(names.index("ece") + 1, "ece@class-1")
    return names


def evaluate(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measures: Iterable[str] | str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    pairs: bool = False,
    n_bins: int = 15,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    rng: RNG = None,
) -> Evaluation:
    """Measure calibration, say how sure that is, and put it into words.

    Beside every calibration error stands what a perfectly calibrated model would score at this n (labels
    resampled from the forecasts), a p-value, an interval whose coverage has been verified by simulation (or
    None), and what the number estimates.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`; with ``pairs=True`` whether the top label was right.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1; with ``pairs=True`` the confidence of the top label.
    measures : iterable of str, optional
        Short names, ``"name@view"`` for another view; default the panel. ``"all"`` takes every measure.
    sample_weight, classes, space, normalize
        As everywhere; non-integer weights give values without resampling.
    pairs : bool, default False
        The input is top-label pairs (correct, confidence).
    n_bins : int, default 15
        Bins of the binned measures.
    level : float, default 0.95
        Level of the intervals.
    n_resamples : int, default 1000
        Label resamplings; 0 gives the values alone.
    groups : array-like of shape (n,), optional
        Cluster of each row: intervals resample clusters.
    rng : None, int or Generator
        Randomness of the resampling.

    Returns
    -------
    Evaluation
        ``.results``, ``["ece"]``, ``.verdict``, ``.to_dict()``, ``.to_frame()``; ``str()`` is the terminal text.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1.0, 2000)
    >>> y = rng.random(2000) < p - 0.1
    >>> evaluation = evaluate(y, p, rng=0)
    >>> round(evaluation["ece"].value, 2), evaluation["ece"].pvalue < 0.01
    (0.09, True)
    >>> evaluation.verdict.startswith("Not calibrated: over-confident")
    True
    """
    if pairs:
        forecast = check_pairs(y_true, y_proba, caller="evaluate", sample_weight=sample_weight)
    else:
        forecast = check_forecast(
            y_true,
            y_proba,
            caller="evaluate",
            sample_weight=sample_weight,
            classes=classes,
            space=space,
            normalize=normalize,
        )
    if not 0 < level < 1:
        raise input_error("level", "evaluate", "lie between 0 and 1", repr(level), "use 0.95")
    return evaluate_forecast(
        forecast, measures=measures, n_bins=n_bins, level=level, n_resamples=n_resamples, groups=groups, rng=rng
    )


def evaluate_forecast(
    forecast: Forecast,
    *,
    measures: Iterable[str] | str | None = None,
    n_bins: int | None = None,
    params: Mapping[str, Any] | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    rng: RNG = None,
) -> Evaluation:
    """Evaluate checked predictions."""
    generator = check_rng(rng, "evaluate")
    names = _names(measures, forecast)
    built = {name: parse_measure(name, forecast, n_bins, params or {}) for name in names}
    values = {name: recipe.value(forecast) for name, (_, recipe) in built.items()}
    counts = forecast.weights is None or bool((forecast.weights == np.floor(forecast.weights)).all())
    nulls: dict[str, Null] = {}
    if n_resamples > 0 and counts:
        wanted = {name: recipe for name, (measure, recipe) in built.items() if measure.notion != "plain fact"}
        if "ks" not in wanted:
            wanted["ks"] = lookup("ks").build()  # the verdict rests on it
        nulls = null_values(wanted, forecast, n_resamples, generator)
    results = []
    for name, (measure, recipe) in built.items():
        null = nulls.get(name)
        interval = None
        if counts and n_resamples > 0:
            interval = offered_interval(
                measure, recipe, forecast, level=level, n_resamples=n_resamples, groups=groups, rng=generator
            )
        finite = null is not None and math.isfinite(null.mean)
        results.append(
            Result(
                name,
                values[name],
                null.mean if null is not None and finite else None,
                null.std if null is not None and finite else None,
                None if null is None else null.pvalue(values[name], two_sided=measure.proper),
                interval,
                measure.estimates,
                measure.bound,
            )
        )
    facts = collect_facts(forecast, nulls.get("ks"))
    notes = () if counts else ("weights are not whole numbers: no resampling, p-values or intervals",)
    return Evaluation(
        tuple(results),
        forecast.n,
        forecast.n_classes,
        verdict(facts),
        facts,
        level,
        n_resamples,
        forecast.weights is not None,
        forecast.classes,
        notes,
    )


def _names(measures: Iterable[str] | str | None, forecast: Forecast) -> Sequence[str]:
    if measures is None:
        return default_measures(forecast)
    if measures == "all":
        return [m.name for m in declared() if forecast.has_vectors or m.build().top_label_only]
    return [measures] if isinstance(measures, str) else list(measures)
