"""Sums of row scores a `Summary` keeps: those of every mean score in the registry."""

from __future__ import annotations

from typing import Any, TypeAlias

from calibrant.core.declare import Metric, metrics_of
from calibrant.core.inputs import Forecast
from calibrant.metrics.recipes import MeanScore, ScoreSums, score_columns

RowSums: TypeAlias = dict[str, ScoreSums]


def kept_scores() -> dict[str, MeanScore]:
    """Return the declared mean scores by name, each row score once; ``name@top-1`` is its top-label form."""
    metrics = metrics_of("classes")
    if _last[:1] != [id(metrics)]:
        _last[:] = [id(metrics), metrics, _kept_scores(metrics)]
    kept: dict[str, MeanScore] = _last[2]
    return kept


#: The metrics that were asked for last (their tuple stays the same as long as they do), and their scores.
_last: list[Any] = []


def _kept_scores(metrics: tuple[Metric, ...]) -> dict[str, MeanScore]:
    found: dict[str, MeanScore] = {}
    for metric in metrics:
        recipe = metric.build()
        if not isinstance(recipe, MeanScore):
            continue
        forms = {metric.name: recipe}
        if "view" in metric.parameters():
            forms[f"{metric.name}@top-1"] = metric.build(view="top-1")  # type: ignore[assignment]  # a MeanScore again
        known = {other.score for other in found.values()}
        found |= {name: form for name, form in forms.items() if form.score not in known}
    return found


def scores_of(*, pairs: bool) -> tuple[dict[str, MeanScore], dict[str, MeanScore]]:
    """Return the scores of top-label pairs, and those of the whole vector (none if only `pairs` are known)."""
    kept = kept_scores()
    top = {name: recipe for name, recipe in kept.items() if recipe.pairs_suffice}
    return top, {} if pairs else {name: recipe for name, recipe in kept.items() if not recipe.pairs_suffice}


def score_name(recipe: MeanScore) -> str | None:
    """Return the name under which the sums of a recipe are kept, by its row score."""
    return next((name for name, kept in kept_scores().items() if kept.score == recipe.score), None)


def row_sums(forecast: Forecast) -> RowSums:
    """Return the sums of every score these predictions allow."""
    sums: RowSums = {}
    for pairs, chosen in zip((True, False), scores_of(pairs=not forecast.has_vectors), strict=True):
        if chosen:
            columns = score_columns(tuple(r.score for r in chosen.values()), forecast, pairs=pairs, null=True)
            sums |= {
                name: ScoreSums.of_columns(columns[4 * i : 4 * i + 4], forecast.weights, recipe.zeros(forecast))
                for i, (name, recipe) in enumerate(chosen.items())
            }
    return sums
