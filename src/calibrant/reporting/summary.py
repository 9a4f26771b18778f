"""Everything a report says, as one plain dictionary: numbers, sentences, figures."""

from __future__ import annotations

import datetime as dt
import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant._typing import RNG, Array, ArrayLike
from calibrant.core.declare import Measure, lookup
from calibrant.core.inputs import Forecast
from calibrant.core.results import Result
from calibrant.core.tables import Table, value_table
from calibrant.errors import input_error
from calibrant.inference import wording
from calibrant.inference.bias import _bias
from calibrant.inference.comparison import compare_forecasts
from calibrant.inference.evaluation import Evaluation, evaluate_forecast
from calibrant.inference.multiplicity import holm
from calibrant.reporting import figures
from calibrant.reporting.cells import BIN_COUNTS, GRID, ViewCells, view_cells
from calibrant.reporting.cumulative import cumulative_graphs
from calibrant.views import ClassK, Classwise, TopLabel, WithinTopR

#: Classes drawn one by one; the table lists all of them.
DRAWN_CLASSES = 20
#: Slices of one column, the largest ones.
MOST_SLICES = 200
CONVENTIONS = (
    "Bins are (lo, hi], the first closed; ties of the top label go to the lowest index; sums are float64. "
    "'If calibrated' draws labels from the forecasts themselves."
)


def summarize(
    forecast: Forecast,
    *,
    after: Forecast | None = None,
    repair: Mapping[str, Any] | None = None,
    by: Mapping[str, Array] | None = None,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: RNG = 0,
) -> dict[str, Any]:
    """Return the content of a report as a plain dictionary.

    `after` is the repaired forecast of the same rows; `repair` describes how it came about (name, injective,
    league rows, reason, command).
    """
    evaluation = evaluate_forecast(forecast, level=level, n_resamples=n_resamples, rng=rng)
    classes = _class_rows(forecast)
    summary: dict[str, Any] = {
        "title": title,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "source": source,
        "headline": wording.headline(evaluation),
        "facts": _facts(evaluation),
        "verdict": evaluation.verdict,
        "next": wording.next_step(evaluation),
        "evaluation": evaluation.to_dict(),
        "measures": [_measure_row(result) for result in evaluation.results],
        "level": f"{100 * level:g}",
        "views": _views(forecast, classes),
        "views_after": [] if after is None else _views(after, classes),
        "bin_counts": list(BIN_COUNTS),
        "ks": _cumulative(forecast, after),
        "classes": classes,
        "digits": 2 if len(classes) <= 100 else 3,
        "classes_drawn": sum(row["drawn"] for row in classes),
        "slices": _slices(forecast, by, n_resamples, rng),
        "size": _size_note(forecast, evaluation),
        "comparison": None,
        "repair": dict(repair) if repair else None,
        "method": method_note((forecast.codes, forecast.top_score), n_resamples, rng, command, CONVENTIONS),
    }
    summary["pickers"] = _pickers(summary["views"], classes)
    first, repaired = summary["views"][0], summary["views_after"][0] if after is not None else None
    summary["reliability"] = figures.reliability(repaired or first, 15, first if repaired else None)
    if after is not None:
        names = None if forecast.has_vectors else ["brier@top-1", "ece", "ks", "mmce"]  # what pairs can tell
        injective = bool((repair or {}).get("injective"))
        comparison = compare_forecasts(forecast, after, measures=names, injective=injective, level=level)
        summary["comparison"] = {
            "verdict": comparison.verdict,
            "rows": [list(wording.comparison_cells(result)) for result in comparison.results],
            "json": comparison.to_dict(),
        }
    if summary["repair"] and summary["repair"].get("league"):
        summary["repair"]["chart"] = figures.league_chart(summary["repair"]["league"])
    return summary


def _measure_row(result: Result) -> dict[str, Any]:
    measure = lookup(result.name.partition("@")[0])
    name, value, null, pvalue, interval, meaning = wording.cells(result)
    return {
        "name": name,
        "title": measure.title,
        "value": value,
        "null": null,
        "pvalue": pvalue,
        "interval": interval,
        "meaning": meaning,
        "explained": _explain(measure),
        "bullet": figures.bullet(result.value, result.null_mean, result.null_std),
    }


def _pickers(views: Sequence[ViewCells], classes: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, str]]]:
    """Return what the two pickers of the diagram offer: positions in the list of views, and words."""
    names = {f"class-{row['index']}": row["name"] for row in classes}
    entries = list(enumerate(views))
    return {
        "views": [(i, view.label) for i, view in entries if view.name not in names],
        "classes": [(i, names[view.name]) for i, view in entries if view.name in names],
    }


def _top_table(forecast: Forecast) -> Table:
    """Return the exact table of the top label; the measures made it already."""
    view = TopLabel()
    table: Table = forecast.keep(("values", view), lambda: value_table(view.pairs(forecast)))
    return table


def _cumulative(forecast: Forecast, after: Forecast | None) -> list[str]:
    table = _top_table(forecast)
    return cumulative_graphs(table, "top label") if after is None else cumulative_graphs(
        _top_table(after), "top label", before=table
    )


def _facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the few numbers that stand beside the verdict."""
    facts = evaluation.facts
    lean = 100 * (facts.confidence - facts.accuracy)
    rows = [
        ("right", f"{100 * facts.accuracy:.1f} %"),
        ("claimed", f"{100 * facts.confidence:.1f} %"),
        ("claimed − right", f"{lean:+.1f} points".replace("-", "−")),
    ]
    if facts.resolvable is not None:
        rows.append(("this n shows errors above", f"{100 * facts.resolvable:.1f} points"))
    return rows


def _explain(measure: Measure) -> list[str]:
    """Return what a click shows: the measure in plain words, its formula, its weakness, its paper."""
    from calibrant import metrics

    document = inspect.getdoc(getattr(metrics, measure.function, None)) or ""
    formula = re.search(r"^Notes\n-+\n(.*?)(?:^Cost|\n\n|\Z)", document, re.DOTALL | re.MULTILINE)
    lines = [f"{measure.title} ({measure.notion}). {document.partition(chr(10))[0]}"]
    if formula:
        lines.append(" ".join(formula[1].replace("`", "").split()))
    lines.append(f"Weakness: {measure.weakness}. Cost {measure.cost}.")
    lines.append(measure.paper + ".")
    return lines


def _views(forecast: Forecast, classes: Sequence[Mapping[str, Any]]) -> list[ViewCells]:
    views = [view_cells(forecast, TopLabel(), "confidence of the top label")]
    if not forecast.has_vectors:
        return views
    if forecast.n_classes > 2:
        views.append(view_cells(forecast, WithinTopR(2), "the two largest probabilities together"))
    drawn = [row for row in classes if row["drawn"]]
    names = forecast.classes or tuple(range(forecast.n_classes))
    views += [
        view_cells(forecast, ClassK(row["index"]), f"probability of class {names[row['index']]}") for row in drawn
    ]
    return views


def _class_rows(forecast: Forecast) -> list[dict[str, Any]]:
    """One row per class: share, mean probability, signed error, binned error; the worst and most frequent are drawn."""
    if not forecast.has_vectors:
        return []
    names = forecast.classes or tuple(range(forecast.n_classes))
    bins = Classwise().width_bins(forecast, GRID)
    total = forecast.total
    rows: list[dict[str, Any]] = []
    for index, (w, ws, wt) in enumerate(zip(bins.w, bins.ws, bins.wt, strict=True)):
        cells = ViewCells(f"class-{index}", str(names[index]), w, ws, wt, np.zeros(GRID))
        share, mean = float(wt.sum()) / total, float(ws.sum()) / total
        rows.append(
            {
                "index": index,
                "name": str(names[index]),
                "share": share,
                "mean": mean,
                "gap": mean - share,
                "error": cells.error(15),
                "drawn": False,
                "spark": "",
                "cells": cells,
            }
        )
    worst = sorted(rows, key=lambda row: -row["error"])[: DRAWN_CLASSES // 2]
    frequent = sorted(rows, key=lambda row: -row["share"])
    chosen = {row["index"] for row in worst}
    for row in frequent:
        if len(chosen) >= min(DRAWN_CLASSES, len(rows)):
            break
        chosen.add(row["index"])
    largest = max((abs(row["gap"]) for row in rows), default=0.0) or 1.0
    for row in rows:
        row["drawn"] = row["index"] in chosen
        row["bar"] = 50 * row["gap"] / largest
        cells = row.pop("cells")
        if row["drawn"]:
            row["spark"] = figures.spark(cells)
    return sorted(rows, key=lambda row: -row["error"])


def _slices(forecast: Forecast, by: Mapping[str, ArrayLike] | None, n_resamples: int, rng: RNG) -> list[dict[str, Any]]:
    if not by:
        return []
    from calibrant.inference.null import null_values
    from calibrant.inference.tests import ks_pvalue
    from calibrant.metrics.ks import MEASURE as KS

    generator = np.random.default_rng(rng)
    rows: list[dict[str, Any]] = []
    for column, values in by.items():
        array = np.asarray(values)
        if len(array) != forecast.n:
            raise input_error("by", "report", f"have one value per row ({forecast.n})", f"{len(array)} for {column!r}",
                              "give whole columns")
        if array.dtype == object:
            array = array.astype(str)
        names, sizes = np.unique(array, return_counts=True)
        largest = np.sort(np.argsort(-sizes, kind="stable")[:MOST_SLICES])
        for name in names[largest]:
            part = forecast.take(np.flatnonzero(array == name))
            recipe = KS.build()
            value = recipe.value(part)
            resampled = null_values({"ks": recipe}, part, min(n_resamples, 200), generator)["ks"].pvalue(value)
            accuracy, confidence = float(np.mean(part.hit)), float(np.mean(part.top_score.astype(np.float64)))
            rows.append(
                {
                    "column": column,
                    "name": str(name),
                    "n": part.n,
                    "accuracy": accuracy,
                    "confidence": confidence,
                    "lean": confidence - accuracy,
                    "ks": value,
                    "pvalue": ks_pvalue(part, value, resampled, min(n_resamples, 200)),
                }
            )
    if rows:
        for row, corrected in zip(rows, holm(np.array([row["pvalue"] for row in rows])), strict=True):
            row["corrected"] = float(corrected)
    widest = max((abs(row["lean"]) for row in rows), default=0.0) or 1.0
    for row in rows:
        row["heat"] = row["lean"] / widest
    return rows


def _size_note(forecast: Forecast, evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation.facts
    note: dict[str, Any] = {"resolvable": facts.resolvable, "n": forecast.n}
    if facts.resolvable is None:
        note["text"] = "No resampling was made, so it is not known which errors this many rows can show."
        return note
    bias = _bias(forecast, 15)
    note["text"] = (
        f"{wording.count(forecast.n)} rows resolve errors above {100 * facts.resolvable:.1f} points "
        "(with probability 0.8, level 0.05). "
        f"Of the ECE of {100 * bias.value:.2f} %, about {100 * bias.excess:.2f} points are expected from noise alone; "
        f"a calibrated model would show {100 * bias.if_calibrated:.2f} %."
    )
    return note


def method_note(
    arrays: Sequence[Array], n_resamples: int, rng: RNG, command: str | None, conventions: str
) -> dict[str, Any]:
    """Return how the numbers were made: versions, seed, checksum of the data, command."""
    import platform

    from calibrant import __version__

    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "versions": {"calibrant": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "resamples": n_resamples,
        "seed": rng if isinstance(rng, int) else None,
        "checksum": digest.hexdigest()[:16],
        "command": command,
        "conventions": conventions,
    }
