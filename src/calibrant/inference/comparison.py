"""`compare`: two forecasts of the same rows, paired."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import Forecast, check_forecast, to_array
from calibrant.core.results import Difference, Interval, Record
from calibrant.errors import input_error
from calibrant.estimators import check_counts
from calibrant.inference import wording
from calibrant.inference.intervals import _clusters
from calibrant.inference.means import mean_ends, mean_moments
from calibrant.metrics.recipes import MeanScore

SCHEMA = 1


@dataclass(frozen=True)
class Comparison(Record):
    """Before against after, measure by measure; `str()` is the terminal text."""

    results: tuple[Difference, ...]
    n: int
    n_classes: int
    level: float
    verdict: str

    def __getitem__(self, name: str) -> Difference:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name!r} is not in this comparison; it has {', '.join(r.name for r in self.results)}")

    def __iter__(self) -> Any:
        return iter(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": SCHEMA,
            "n": self.n,
            "measures": {
                r.name: {
                    "before": r.before,
                    "after": r.after,
                    "change": r.change,
                    "low": None if r.interval is None else r.interval.low,
                    "high": None if r.interval is None else r.interval.high,
                    "pvalue": r.pvalue,
                    "exact": r.exact,
                }
                for r in self.results
            },
            "verdict": self.verdict,
        }

    def to_frame(self) -> Any:
        """Return the table as a Polars frame, one row per measure."""
        import polars as pl

        rows = [{"measure": name, **values} for name, values in self.to_dict()["measures"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def __str__(self) -> str:
        return wording.comparison_text(self)

    def _repr_html_(self) -> str:
        return wording.comparison_html(self)


def compare(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    measures: Iterable[str] | None = None,
    injective: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space | tuple[Space, Space] = "proba",
    normalize: bool = False,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    n_bins: int = 15,
) -> Comparison:
    """Compare two forecasts of the same rows: before and after a repair, or model against model.

    Proper scores get a paired interval and p-value. If the map from `before` to `after` is injective
    (``injective=True``, as calibrators declare), the drop of a proper score equals the drop of its calibration
    error (Gruber & Buettner 2022, prop. 4.5); otherwise it is a lower bound of it (Zhang et al. 2020, eq. 7–8).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        The truth.
    before, after : array-like of shape (n, K) or (n,)
        The two forecasts.
    measures : iterable of str, optional
        Short names; default the panel without plain facts.
    injective : bool, default False
        Whether `after` is an injective function of `before`.
    space : str or pair of str
        What the forecasts hold, one word for both or one each.
    level : float, default 0.95
        Level of the intervals.
    groups : array-like of shape (n,), optional
        Cluster of each row.
    sample_weight, classes, normalize, n_bins
        As in `calibrant.evaluate`.

    Returns
    -------
    Comparison
        ``comparison["brier"].change`` = before − after: positive means improved.

    Examples
    --------
    >>> comparison = compare([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.3], [0.8, 0.4, 0.6, 0.2])
    >>> round(comparison["brier"].change, 3)
    0.21
    """
    spaces = (space, space) if isinstance(space, str) else tuple(space)
    door: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes, "normalize": normalize}
    first = check_forecast(y_true, before, caller="compare", space=spaces[0], **door)
    second = check_forecast(y_true, after, caller="compare", space=spaces[1], **door)
    if first.n_classes != second.n_classes:
        raise input_error(
            "after",
            "compare",
            f"have the {first.n_classes} classes of before",
            f"{second.n_classes}",
            "compare forecasts of the same problem",
        )
    return compare_forecasts(
        first, second, measures=measures, injective=injective, level=level, groups=groups, n_bins=n_bins
    )


def compare_forecasts(
    first: Forecast,
    second: Forecast,
    *,
    measures: Iterable[str] | None = None,
    injective: bool = False,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    n_bins: int = 15,
) -> Comparison:
    """Compare two checked forecasts of the same rows."""
    check_counts(first, "a comparison")
    clusters = _clusters(None if groups is None else to_array(groups, "groups", "compare"), first)
    names = [m.name for m in declared() if m.panel and m.name != "confidence"] if measures is None else list(measures)
    results = []
    for name in names:
        short, _, view = name.partition("@")
        measure = lookup(short, "compare")
        params: dict[str, Any] = {"n_bins": n_bins} if "n_bins" in measure.parameters() else {}
        recipe = measure.build(**params, **({"view": view} if view else {}))
        a, b = recipe.value(first), recipe.value(second)
        sign = -1.0 if measure.smaller_is_better is False else 1.0
        change = sign * (a - b) if math.isfinite(a) or math.isfinite(b) else math.nan
        interval, pvalue = None, None
        if isinstance(recipe, MeanScore):
            interval, pvalue = _paired(recipe, first, second, sign, level, clusters)
        results.append(Difference(name, a, b, change, interval, pvalue, bool(injective and measure.proper)))
    return Comparison(tuple(results), first.n, first.n_classes, level, _verdict(results, first, second))


def _paired(
    recipe: MeanScore, first: Forecast, second: Forecast, sign: float, level: float, clusters: Floats | None
) -> tuple[Interval | None, float | None]:
    difference = sign * (recipe.rows(first) - recipe.rows(second))
    if not np.isfinite(difference).all() or len(difference) < 2:
        return None, None
    a, b = recipe.value(first), recipe.value(second)
    value = sign * (a - b)
    moments = mean_moments(difference, first.weights, clusters)
    low, high = mean_ends(moments, level, skew=True)
    if moments.error > 0:
        pvalue = math.erfc(abs(moments.mean) / moments.error / math.sqrt(2.0))
    else:
        pvalue = 1.0 if moments.mean == 0 else 0.0
    if recipe.link is not None:  # the root of a mean: the difference of roots, by the slope of the root
        slope = 1.0 / (a + b) if a + b > 0 else 0.0
        low, high = value + (low - moments.mean) * slope, value + (high - moments.mean) * slope
    return Interval(value, low, high, level, "paired", first.n), pvalue


def _verdict(results: list[Difference], first: Forecast, second: Forecast) -> str:
    from calibrant.metrics.accuracy import MEASURE as ACCURACY

    chosen = next((r for r in results if r.name == "brier"), None) or next((r for r in results if r.interval), None)
    if chosen is None or chosen.interval is None:
        return "No proper score was compared, so no honest improvement can be stated."
    change = ACCURACY.build().value(second) - ACCURACY.build().value(first)
    accuracy = "Accuracy unchanged." if abs(change) < 5e-7 else f"Accuracy changes by {100 * change:+.2f} points."
    title = lookup(chosen.name.partition("@")[0]).title
    span = f"[{chosen.interval.low:.4f}, {chosen.interval.high:.4f}]"
    if chosen.interval.low > 0:
        tail = (
            "this equals the drop of its calibration error, because the map is injective"
            if chosen.exact
            else "if after is a function of before, its calibration error falls by at least this"
        )
        return f"Better: the {title} falls by {chosen.change:.4f} {span}; {tail}. {accuracy}"
    if chosen.interval.high < 0:
        return f"Worse: the {title} rises by {-chosen.change:.4f} {span}. {accuracy}"
    return f"No difference beyond noise: the {title} changes by {chosen.change:+.4f} {span}. {accuracy}"
