"""`compare`: two forecasts of the same rows, paired."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints
from calibrant.core.clusters import FEWEST, RARELY, few_clusters, few_surprises, too_few
from calibrant.core.declare import Metric, Recipe, declared, lookup
from calibrant.core.inputs import check_flag, check_groups, check_words
from calibrant.core.moments import FEW_EVENTS, mean_ends, mean_moments
from calibrant.core.options import check_count, check_rng, check_share
from calibrant.core.results import Difference, Interval
from calibrant.evidence import Evidence, Task
from calibrant.inference import wording
from calibrant.inference.changes import accuracy_change, error_change, inverted, row_correlation, score_ends
from calibrant.inference.evaluation import MetricTable, build_metric, zero_notes
from calibrant.inference.facts import judged, judged_name, through
from calibrant.inference.means import bca_ends
from calibrant.views import TopLabel

__all__ = ["Comparison", "compare_evidence", "compared_metrics"]

SCHEMA = 1
#: From row differences, weights and clusters to the ends of an interval.
Ends: TypeAlias = Callable[[Floats, Floats | None, Ints | None, float], tuple[float, float]]
#: From a level to the ends of an interval.
EndsAt: TypeAlias = Callable[[float], tuple[float, float]]
#: The score a verdict speaks of, by task.
_CHOSEN: dict[Task, tuple[str, ...]] = {"classes": ("brier",), "pairs": ("brier@top-1",), "regression": ("dss", "crps")}


@dataclass(frozen=True)
class Comparison(MetricTable):
    """Before against after, metric by metric; `str()` is the terminal text."""

    results: tuple[Difference, ...]
    n: int
    n_classes: int = 0
    level: float = 0.95
    verdict: str = ""
    task: Task = "classes"
    notes: tuple[str, ...] = ()
    #: Share of the rows that the calibrator was fitted on, and its cross-fitted gain; None for rows it has not seen.
    in_sample: dict[str, Any] | None = None
    #: Name of the view of every metric that names none.
    judged: str = TopLabel.word
    #: Rows that an engine left out, by reason, and files that could not be read.
    rejected: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Difference:
        for wanted in (through(name.lower(), self.judged, self.task), name.lower()):
            for result in self.results:
                if result.name == wanted:
                    return result
        raise KeyError(f"{name!r} is not in this comparison; it has {', '.join(r.name for r in self.results)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": SCHEMA,
            "n": self.n,
            "metrics": {
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
            "notes": list(self.notes),
            "rejected": dict(self.rejected),
            "skipped_files": list(self.skipped),
            **({} if self.in_sample is None else {"in_sample": self.in_sample}),
        }

    def __str__(self) -> str:
        return "\n".join([wording.comparison_text(self), *(f"Note: {note}." for note in self.notes)])

    def __repr__(self) -> str:
        changes = ", ".join(f"{result.name} {result.change:+.4g}" for result in self.results[:8])
        return f"Comparison(n={self.n:,}, changes: {changes})"

    def _repr_html_(self) -> str:
        return wording.comparison_html(self)


def compare_evidence(
    first: Any,
    second: Any,
    *,
    metrics: Iterable[str] | None = None,
    injective: bool = False,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    n_bins: int | None = None,
    method: str = "auto",
    n_resamples: int = 1000,
    rng: RNG = None,
    paired: Any = None,
) -> Comparison:
    """Compare two pieces of evidence on the same rows: the only place where changes are judged.

    Class probabilities, top-label pairs, and means with variances; cells know no rows and are refused by name, unless
    `paired` tells what they cannot: ``score_sums(recipe)`` of the differences row by row, and ``correlation(recipe)``
    of two errors (`calibrant.engines.paired`). `method` of the paired intervals is ``"auto"`` (corrected for skewness),
    ``"normal"`` or ``"bca"``, which bootstraps rows.

    Examples
    --------
    >>> from calibrant.core.inputs import check_forecast
    >>> y, caller = [1, 0, 1, 0], "compare"
    >>> before, after = (check_forecast(y, p, caller=caller) for p in ([0.9, 0.8, 0.9, 0.7], [0.8, 0.5, 0.9, 0.4]))
    >>> round(compare_evidence(before, after, metrics=["brier"])["brier"].change, 3)
    0.345
    """
    check_count(n_resamples, "n_resamples", first.caller, 1)
    clusters = check_groups(groups, first)
    if clusters is None:
        clusters = first.own_clusters()  # importance weights: the spread of weighted rows
    check_share(level, "level", first.caller)
    check_flag(injective, "injective", first.caller)
    built = compared_metrics(first, metrics, n_bins)
    generator = check_rng(rng, first.caller)
    few = few_clusters(clusters)
    rare = not few and first.task != "regression" and few_surprises(first.pairs_of(TopLabel()), clusters)
    how = _Judge(first, second, level, clusters, _ends(method, n_resamples, generator), generator, paired)
    mute = few or (paired is not None and not first.counts)
    results = []
    for name, (metric, recipe) in built.items():
        a, b = first.value(recipe), second.value(recipe)
        sign = -1.0 if metric.smaller_is_better is False else 1.0
        change = sign * (a - b) if math.isfinite(a) or math.isfinite(b) else math.nan
        interval, pvalue = (None, None) if mute or (rare and recipe.is_mean) else how.change(metric, recipe, sign)
        results.append(Difference(name, a, b, change, interval, pvalue, bool(injective and metric.proper)))
    verdict = _verdict(results, first, second)
    notes = (f"{too_few(clusters, first.counts or groups is not None)} for intervals: at least ten are needed",) * few
    notes += (f"{RARELY}: no interval of a mean",) * rare
    if clusters is not None and not few and not rare and any(r.name == "accuracy" and not r.interval for r in results):
        notes += ("too few clusters or weighted rows change their top label for an interval of accuracy",)
    finite = {one.name: built[one.name][1] for one in results if math.isfinite(one.before - one.after)}
    notes += tuple(zero_notes(finite, first, second))
    view = judged(first).name
    done = Comparison(tuple(results), first.n, first.n_classes, level, verdict, first.task, notes, judged=view)
    if paired is None:
        return done
    notes += ("weights that are no counts give values alone on an engine",) * mute + first.notes
    return replace(done, notes=notes, rejected=first.rejected, skipped=first.skipped)


def compared_metrics(
    evidence: Any, metrics: Iterable[str] | None, n_bins: int | None
) -> dict[str, tuple[Metric, Recipe]]:
    """Return the metrics that are compared with their recipes, by name."""
    names = None if metrics is None else check_words(metrics, "metrics", evidence.caller)
    viewed = (judged_name(evidence, name) for name in names or _default(evidence))
    return {name: build_metric(name, evidence, n_bins) for name in viewed}


def _default(evidence: Evidence) -> list[str]:
    """Return the default set without what describes only, and the score of the verdict if it is not in it."""
    names = [metric.name for metric in declared(evidence.task) if metric.default and metric.name != "confidence"]
    if evidence.task == "regression":
        names = [name for name in names if lookup(name, evidence.caller, evidence.task).proper]
    answered = [name for name in names if evidence.answers(build_metric(name, evidence)[1])]
    return answered if evidence.task != "pairs" else ["brier@top-1", *answered]


def _ends(method: str, n_resamples: int, rng: np.random.Generator) -> Ends:
    """Return how the ends of a paired interval are found."""
    if method == "bca":
        seed = int(rng.integers(2**63))  # the same replicates at every level

        def bca(x: Floats, weights: Floats | None, clusters: Ints | None, level: float) -> tuple[float, float]:
            return bca_ends(x, weights, clusters, level, n_resamples, np.random.default_rng(seed))

        return bca
    return lambda x, weights, clusters, level: mean_ends(
        mean_moments(x, weights, clusters), level, skew=method == "auto"
    )


@dataclass(frozen=True)
class _Judge:
    """Two pieces of evidence, and how their changes are judged."""

    first: Any
    second: Any
    level: float
    clusters: Ints | None
    ends: Ends
    rng: np.random.Generator
    paired: Any

    def change(self, metric: Metric, recipe: Any, sign: float) -> tuple[Interval | None, float | None]:
        """Return interval and p-value of the change of a metric; None where neither is verified."""
        if recipe.is_mean:
            if metric.name != "accuracy":
                return self._mean(recipe, sign)
            if self.clusters is None:
                return self._accuracy(recipe)
            moved = self.first.score_rows(recipe) != self.second.score_rows(recipe)
            enough = len(np.unique(self.clusters[moved])) >= FEWEST  # else how far they vary is unknown
            return self._mean(recipe, sign) if enough else (None, None)
        if self.first.task == "regression" or metric.smaller_is_better is not True:
            return None, None
        first, second = self.first, self.second
        correlate = partial(row_correlation, first=first, second=second) if self.paired is None else None
        correlate = correlate or self.paired.correlation
        return error_change(metric, recipe, first, second, self.level, self.clusters, self.rng, correlate)

    def _accuracy(self, recipe: Any) -> tuple[Interval | None, float | None]:
        if self.paired is not None:  # differences of before − after are −1, 0 or 1
            sums = self.paired.score_sums(recipe)
            moved = sums.c2 + sums.wx * sums.wx / sums.w
            gained, lost = (float(round((moved + sign * sums.wx) / 2)) for sign in (-1, 1))
            return accuracy_change(gained, lost, self.first.n, sums.w, self.level)
        difference = self.second.score_rows(recipe) - self.first.score_rows(recipe)
        weights = np.ones(len(difference)) if self.first.weights is None else self.first.weights
        gained, lost = float(weights[difference > 0].sum()), float(weights[difference < 0].sum())
        return accuracy_change(gained, lost, self.first.n, float(weights.sum()), self.level)

    def _differences(self, recipe: Any, sign: float) -> tuple[float, bool, EndsAt] | None:
        """Return the mean difference, whether all rows have the same, and the ends of its interval by level."""
        if self.first.zero_rows(recipe) or self.second.zero_rows(recipe):  # the true change may be infinite
            return None
        if self.paired is not None:
            law = self.paired.score_sums(recipe).moments()
            hits = build_metric("accuracy", self.first)[1]
            misses = min(one.total * (1.0 - one.value(hits)) for one in (self.first, self.second))
            if law is None or law.count < 2 or misses < FEW_EVENTS:  # sums do not tell few surprises apart
                return None
            law = replace(law, mean=sign * law.mean, skewness=sign * law.skewness)
            return law.mean, law.error == 0, partial(mean_ends, law)
        with np.errstate(invalid="ignore"):  # ∞ − ∞, a probability of 0 for what happened in both: no interval
            rows = sign * (self.first.score_rows(recipe) - self.second.score_rows(recipe))
        if not np.isfinite(rows).all() or len(rows) < 2:
            return None
        mean = float(np.average(rows, weights=self.first.weights))
        rare = score_ends(recipe, self.first, self.second, rows, sign) if self.clusters is None else None
        ends = rare or partial(self.ends, rows, self.first.weights, self.clusters)
        return mean, rare is None and np.ptp(rows) == 0, ends

    def _mean(self, recipe: Any, sign: float) -> tuple[Interval | None, float | None]:
        found = self._differences(recipe, sign)
        if found is None:
            return None, None
        mean, constant, ends = found
        a, b = self.first.value(recipe), self.second.value(recipe)
        value = sign * (a - b)
        low, high = ends(self.level)
        if not math.isfinite(low):
            return None, None
        pvalue = (1.0 if mean == 0 else 0.0) if constant else inverted(ends)
        if recipe.link is not None:  # the root of a mean: the difference of roots, by the slope of the root
            slope = 1.0 / (a + b) if a + b > 0 else 0.0
            low, high = value + (low - mean) * slope, value + (high - mean) * slope
        return Interval(value, low, high, self.level, "paired", self.first.n), pvalue


def _verdict(results: list[Difference], first: Evidence, second: Evidence) -> str:
    by_name = {result.name: result for result in results if result.interval is not None}
    chosen = next((by_name[name] for name in _CHOSEN[first.task] if name in by_name), None)
    chosen = chosen or next(iter(by_name.values()), None)
    if chosen is None or chosen.interval is None:
        return "No proper score was compared, so no honest improvement can be stated."
    tail = "" if first.task == "regression" else f" {_accuracy(first, second)}"
    title = lookup(chosen.name.partition("@")[0], task=first.task).title
    span = f"[{chosen.interval.low:.4f}, {chosen.interval.high:.4f}]"
    if chosen.interval.low > 0:
        why = (
            "this equals the drop of its calibration error, because the recalibration keeps every distinction the "
            "model made"
            if chosen.exact
            else "if after is a function of before, its calibration error falls by at least this"
        )
        return f"Better: the {title} falls by {chosen.change:.4f} {span}; {why}.{tail}"
    if chosen.interval.high < 0:
        return f"Worse: the {title} rises by {-chosen.change:.4f} {span}.{tail}"
    return f"No difference beyond noise: the {title} changes by {chosen.change:+.4f} {span}.{tail}"


def _accuracy(first: Evidence, second: Evidence) -> str:
    recipe: Recipe = lookup("accuracy").build()
    change = second.value(recipe) - first.value(recipe)
    return "Accuracy unchanged." if abs(change) < 5e-7 else f"Accuracy changes by {100 * change:+.2f} points."
