"""The table of `calibrant.evaluate` from a `Summary`: values and bounds from its cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.declare import Measure, Recipe, declared, lookup
from calibrant.core.inputs import check_pairs, check_rng
from calibrant.core.results import Interval, Result
from calibrant.core.tables import Table
from calibrant.engines.cells import bounds
from calibrant.engines.summary_null import BrownianNull, null_from_cells, path_variance
from calibrant.errors import InputError, input_error
from calibrant.estimators import KDE, Binned, Cumulative, Kernel, Local, Smooth
from calibrant.inference.evaluation import Evaluation
from calibrant.inference.null import Null
from calibrant.inference.verdict import ALPHA, Facts, class_gaps, main_claim, verdict
from calibrant.metrics.recipes import CalibrationError, MeanScore
from calibrant.views import Classwise, Entropy, Pooled, TopLabel, View

if TYPE_CHECKING:
    from calibrant.engines.summary import Summary


@dataclass(frozen=True)
class Precision:
    """How far a value from cells may be from the value from rows: `bound` 0 is exact, None has no useful bound."""

    bound: float | None
    sentence: str


EXACT = Precision(0.0, "exact")


def precision(summary: Summary, recipe: Recipe) -> Precision:
    """State the error of a measure computed from this summary's own cells."""
    if not isinstance(recipe, CalibrationError):
        return EXACT
    estimator = recipe.estimator
    tables = summary.tables(recipe.view)
    grid = max(table.grid for table in tables)
    if isinstance(estimator, Binned):
        if estimator.bins == "width":
            return EXACT
        return Precision(None, "approximate: range edges fall on cell borders, without a useful worst-case bound")
    if isinstance(estimator, Cumulative):
        bound = _join(recipe.view, [_ks_bound(table) for table in tables])
        return Precision(bound, f"from cells: at most {bound:.2g} below the value from rows")
    if isinstance(estimator, Kernel):
        factor = math.sqrt(2.0 / (grid * estimator.width))  # ‖k(s) − k(s')‖² = 2 − 2e^{−|s − s'|/width}
        bound = _join(recipe.view, [factor * _mean_gap(table) for table in tables])
        return Precision(bound, f"from cells: within {bound:.2g} of the value from rows")
    if isinstance(estimator, Smooth):
        bound = _join(recipe.view, [_smooth_bound(table, estimator) for table in tables])
        return Precision(bound, f"from cells: within {bound:.2g} of the value from rows")
    if isinstance(estimator, KDE | Local):
        return Precision(None, f"approximate: scores are placed to the width of a cell ({1 / grid:.1g})")
    return Precision(None, "approximate: scores within a cell are pooled, without a useful worst-case bound")


def _join(view: View, errors: Sequence[float]) -> float:
    return float(view.join(np.array(errors)))


def _ks_bound(table: Table) -> float:
    """Largest part of the path hidden inside a cell: hits raise it by 1 − s, misses lower it by s, in any order."""
    if not len(table):
        return 0.0
    low, high = bounds(table)
    hidden = np.maximum(table.wt * (1.0 - low), (table.w - table.wt) * high)
    return float(np.where((table.n > 1) & (high > low), hidden, 0.0).max() / table.total)


def _gaps(table: Table) -> tuple[Floats, Floats]:
    """Upper bound of Σ|t − s| in every cell, and the width of the cell."""
    low, high = bounds(table)
    return table.wt * (1.0 - low) + (table.w - table.wt) * high, high - low


def _mean_gap(table: Table) -> float:
    """Upper bound of the mean |t − s|."""
    return float(_gaps(table)[0].sum() / table.total) if len(table) else 0.0


def _smooth_bound(table: Table, estimator: Smooth) -> float:
    """Largest change of the fixed point σ = f(σ) when rows move within their cells, f non-increasing.

    A score moved by d (its cell and a step of the estimator's grid) moves a Gaussian of width σ by at most
    d·√(2/π)/σ in the integral of |·|, so f by c/σ: the fixed point falls by at most x = c/(σ − x) and rises by c/σ.
    """
    if not len(table):
        return 0.0
    gap, width = _gaps(table)
    moved = np.where(width > 0, width + 1.0 / estimator.grid, 0.0)
    c = math.sqrt(2 / math.pi) * float(gap @ moved) / table.total
    sigma = float(estimator.table_power(table, 1.0))
    if sigma * sigma >= 4 * c:
        return (sigma - math.sqrt(sigma * sigma - 4 * c)) / 2
    return min(max(sigma, c / sigma), 1.0) if sigma > 0 else 1.0


def evaluate_summary(
    summary: Summary,
    *,
    measures: Iterable[str] | str | None,
    n_bins: int,
    level: float,
    n_resamples: int,
    rng: RNG,
) -> Evaluation:
    """Return the table of results of a summary."""
    if not summary.n:
        raise input_error("Summary", "evaluate", "hold at least one row", "none", "update it first")
    if not 0 < level < 1:
        raise input_error("level", "evaluate", "lie between 0 and 1", repr(level), "use 0.95")
    generator = check_rng(rng, "Summary.evaluate")
    built = _build(summary, measures, n_bins)
    values = {name: summary.value(recipe) for name, (_, recipe) in built.items()}
    whole = summary.fractional == 0
    ks = lookup("ks").build()
    errors = {name: r for name, (_, r) in built.items() if isinstance(r, CalibrationError)}
    nulls: dict[str, Null | BrownianNull] = {}
    if whole and n_resamples > 0:
        nulls.update(null_from_cells(summary, {**errors, "ks": ks}, n_resamples, generator))  # type: ignore[dict-item]
    elif whole:
        nulls["ks"] = BrownianNull(summary.tables(TopLabel())[0])
    results = tuple(
        _result(summary, name, measure, recipe, values[name], nulls.get(name), level if whole else None)
        for name, (measure, recipe) in built.items()
    )
    if whole and n_resamples > 0:
        results = tuple(
            replace(result, interval=error_interval(summary, *built[result.name], result.value, level, generator))
            if isinstance(built[result.name][1], CalibrationError)
            else result
            for result in results
        )
    facts = _facts(summary, nulls.get("ks"))
    return Evaluation(
        results,
        summary.n,
        summary.n_classes,
        verdict(facts),
        facts,
        level,
        n_resamples,
        summary.total != summary.n,
        summary.classes,
        _notes(summary, built),
    )


def _build(summary: Summary, measures: Iterable[str] | str | None, n_bins: int) -> dict[str, tuple[Measure, Recipe]]:
    """Return measure and recipe by name; the panel and "all" leave out what this summary cannot answer."""
    asked = measures is not None and measures != "all"
    if measures is None:
        names = [measure.name for measure in declared() if measure.panel]
        if summary.n_classes == 2:
            names.insert(names.index("ece") + 1, "ece@class-1")
    elif measures == "all":
        names = [measure.name for measure in declared()]
    else:
        names = [measures] if isinstance(measures, str) else list(measures)
    built = {}
    for name in names:
        short, _, view = name.partition("@")
        measure = lookup(short, "Summary.evaluate")
        params: dict[str, Any] = {"view": view} if view else {}
        if "n_bins" in measure.parameters():
            params["n_bins"] = n_bins
        recipe = measure.build(**params)
        try:
            summary.value(recipe)
        except InputError as error:
            if asked or "n_bins of" in str(error):
                raise
            continue
        built[name] = (measure, recipe)
    return built


def _result(
    summary: Summary,
    name: str,
    measure: Measure,
    recipe: Recipe,
    value: float,
    null: Null | BrownianNull | None,
    level: float | None,
) -> Result:
    mean = std = pvalue = None
    interval = None
    if null is not None:
        mean, std, pvalue = null.mean, null.std, null.pvalue(value)
    elif level is not None and isinstance(recipe, MeanScore) and measure.proper and math.isfinite(value):
        mean, std, pvalue = _score_null(summary, measure, recipe)
    if level is not None and isinstance(recipe, MeanScore) and measure.proper and math.isfinite(value):
        interval = _score_interval(summary, recipe, value, level)
    return Result(name, value, mean, std, pvalue, interval, measure.estimates, measure.bound)


def error_interval(
    summary: Summary, measure: Measure, recipe: Recipe, value: float, level: float, rng: np.random.Generator
) -> Interval | None:
    """Return the interval `calibrant.interval` offers, with each cell's hits and misses at the cell's mean score."""
    from calibrant.inference.intervals import offered_interval

    if not isinstance(recipe, CalibrationError) or isinstance(recipe.view, Classwise | Pooled | Entropy):
        return None
    (table,) = summary.tables(recipe.view)
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    hits = np.repeat([True, False], len(score))
    weight = np.concatenate([table.wt, table.w - table.wt])
    kept = weight > 0
    forecast = check_pairs(hits[kept], np.tile(score, 2)[kept], caller="Summary", sample_weight=weight[kept])
    alone = replace(recipe, view=TopLabel())
    found = offered_interval(measure, alone, forecast, level=level, n_resamples=0, groups=None, rng=rng)
    return None if found is None else replace(found, value=value, n=summary.n)


def _score_null(
    summary: Summary, measure: Measure, recipe: MeanScore
) -> tuple[float | None, float | None, float | None]:
    """Mean and spread of a mean score over labels drawn from the forecasts: sums of independent rows."""
    from scipy.stats import norm

    total = summary.total
    if measure.name in ("brier", "rbs") and not recipe.top_label_only:
        mean, variance = summary.sums["brier.mean"].wx, summary.sums["brier.var"].wx
    elif measure.name == "nll":
        mean, variance = summary.sums["entropy"].wx, summary.sums["nll.var"].wx
    else:
        return None, None, None
    centre, spread = mean / total, math.sqrt(max(variance, 0.0)) / total
    observed = summary.score_sums(recipe)
    z = (observed.wx / observed.w - centre) / spread if spread > 0 else math.inf
    pvalue = float(2 * norm.sf(abs(z)))
    if recipe.link is not None:
        low, high = recipe.link(max(centre - spread, 0.0)), recipe.link(centre + spread)
        return recipe.link(centre), (high - low) / 2, pvalue
    return centre, spread, pvalue


def _score_interval(summary: Summary, recipe: MeanScore, value: float, level: float) -> Interval | None:
    from scipy.stats import norm

    w, wx, wx2 = summary.score_sums(recipe)
    if w < 2:
        return None
    mean = wx / w
    half = float(norm.ppf(0.5 + level / 2)) * math.sqrt(max(wx2 / w - mean * mean, 0.0) / (w - 1))
    low, high = mean - half, mean + half
    if recipe.link is not None:
        low, high = recipe.link(max(low, 0.0)), recipe.link(high)
    return Interval(value, low, high, level, "normal", round(w))


def _facts(summary: Summary, null: Null | BrownianNull | None) -> Facts:
    (top,) = summary.tables(TopLabel())
    total = top.total
    accuracy, confidence = float(top.wt.sum() / total), float(top.ws.sum() / total)
    noise = math.sqrt(path_variance(top)) / total
    ks = float(lookup("ks").build().finish((top,)))
    gaps: tuple[Any, ...] = ()
    if null is not None and not summary.pairs and any(isinstance(view, Classwise) for view in summary.views):
        tables = summary.tables(Classwise())
        moments = np.array([[t.ws.sum(), path_variance(t), t.wt.sum()] for t in tables]).T
        gaps = class_gaps(moments[0], moments[1], moments[2], total, summary.classes or tuple(range(summary.n_classes)))
    return Facts(
        summary.n,
        summary.n_classes,
        accuracy,
        confidence,
        ks,
        None if null is None else null.mean,
        None if null is None else null.std,
        None if null is None else null.pvalue(ks),
        None if null is None else null.quantile(1 - ALPHA) + 0.84 * noise,
        main_claim(top.bins(20), confidence - accuracy),
        gaps,
    )


def _notes(summary: Summary, built: Mapping[str, tuple[Measure, Recipe]]) -> tuple[str, ...]:
    notes = []
    if summary.fractional:
        notes.append("weights are not whole numbers: no resampling, p-values or intervals")
    for name, (_, recipe) in built.items():
        said = precision(summary, recipe)
        if said is not EXACT:
            notes.append(f"{name} is {said.sentence}")
    if summary.n_classes > 2 and any(isinstance(getattr(r, "view", None), Classwise) for _, r in built.values()):
        notes.append("class-wise null values treat classes as independent: mean exact, spread approximate")
    out = {reason: count for reason, count in summary.rejected.items() if count}
    if out:
        listed = ", ".join(f"{count} {reason}" for reason, count in out.items())
        notes.append(f"{sum(out.values())} rows were left out ({listed})")
    return tuple(notes)
