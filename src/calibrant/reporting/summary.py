"""Everything a report says, as one plain dictionary: numbers, sentences, figures."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant._typing import RNG, Array, ArrayLike
from calibrant.core.declare import lookup
from calibrant.core.inputs import Forecast
from calibrant.core.results import Result
from calibrant.core.tables import value_table
from calibrant.inference import wording
from calibrant.inference.bias import _bias
from calibrant.inference.comparison import compare_forecasts
from calibrant.inference.evaluation import Evaluation, evaluate_forecast
from calibrant.inference.multiplicity import holm
from calibrant.reporting import figures
from calibrant.reporting.cells import BIN_COUNTS, ViewCells, pair_cells, view_cells
from calibrant.views import ClassK, Classwise, TopLabel, WithinTopR

#: Classes drawn one by one; the table lists all of them.
DRAWN_CLASSES = 20


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
        "verdict": evaluation.verdict,
        "next": wording.next_step(evaluation),
        "evaluation": evaluation.to_dict(),
        "measures": [_measure_row(result) for result in evaluation.results],
        "level": f"{100 * level:g}",
        "views": _views(forecast, classes),
        "views_after": [] if after is None else _views(after, classes),
        "bin_counts": list(BIN_COUNTS),
        "ks": figures.cumulative_graphs(value_table(TopLabel().pairs(forecast)), "top label"),
        "classes": classes,
        "slices": _slices(forecast, by, n_resamples, rng),
        "size": _size_note(forecast, evaluation),
        "comparison": None,
        "repair": dict(repair) if repair else None,
        "method": _method(forecast, n_resamples, rng, command),
    }
    cells = summary["views"]
    before = summary["views_after"]
    summary["reliability"] = figures.reliability(before[0] if before else cells[0], 15, cells[0] if before else None)
    if after is not None:
        comparison = compare_forecasts(forecast, after, injective=bool((repair or {}).get("injective")), level=level)
        summary["comparison"] = {
            "verdict": comparison.verdict,
            "rows": [list(wording.comparison_cells(result)) for result in comparison.results],
            "json": comparison.to_dict(),
            "ks": figures.cumulative_graphs(value_table(TopLabel().pairs(after)), "top label, after"),
        }
    if summary["repair"] and summary["repair"].get("league"):
        summary["repair"]["chart"] = figures.league_chart(summary["repair"]["league"])
    return summary


def _measure_row(result: Result) -> dict[str, Any]:
    measure = lookup(result.name.partition("@")[0])
    name, value, null, pvalue, interval, meaning = wording.cells(result)
    row = {
        "name": name,
        "title": measure.title,
        "value": value,
        "null": null,
        "pvalue": pvalue,
        "interval": interval,
        "meaning": meaning,
        "weakness": measure.weakness,
        "paper": measure.paper,
        "notion": measure.notion,
        "cost": measure.cost,
        "fact": measure.notion == "plain fact",
        "bullet": "",
    }
    if result.null_mean is not None and result.null_std is not None and np.isfinite(result.value):
        row["bullet"] = _bullet(result.value, result.null_mean, result.null_std)
    return row


def _bullet(value: float, mean: float, std: float) -> str:
    """Return a tiny chart: grey band = a calibrated model, dot = this one."""
    low, high = min(value, mean - 3 * std), max(value, mean + 3 * std)
    span = (high - low) or 1.0

    def x(v: float) -> float:
        return 4 + 92 * (v - low) / span

    band = figures.tag(
        "rect",
        x=x(mean - 1.96 * std),
        y=4,
        width=max(x(mean + 1.96 * std) - x(mean - 1.96 * std), 1.0),
        height=8,
        class_="band",
    )
    dot = figures.tag(
        "circle", cx=x(value), cy=8, r=3.5, class_="dot " + ("over" if value > mean + 1.96 * std else "calm")
    )
    return figures.tag("svg", band + dot, viewBox="0 0 100 16", class_="bullet", aria_hidden="true")


def _views(forecast: Forecast, classes: Sequence[Mapping[str, Any]]) -> list[ViewCells]:
    views = [view_cells(forecast, TopLabel(), "confidence of the top label")]
    if not forecast.has_vectors:
        return views
    if forecast.n_classes > 2:
        views.append(view_cells(forecast, WithinTopR(2), "probability of the two largest together"))
    drawn = [row for row in classes if row["drawn"]]
    names = forecast.classes or tuple(range(forecast.n_classes))
    views += [
        view_cells(forecast, ClassK(row["index"]), f"probability of class {names[row['index']]}") for row in drawn
    ]
    return views


def _class_rows(forecast: Forecast) -> list[dict[str, Any]]:
    """One row per class: share, mean probability, signed error, KS; the worst and most frequent are drawn."""
    if not forecast.has_vectors:
        return []
    names = forecast.classes or tuple(range(forecast.n_classes))
    rows: list[dict[str, Any]] = []
    for index, pairs in enumerate(Classwise().groups(forecast)):
        cells = pair_cells(pairs, f"class-{index}", str(names[index]))
        total = float(cells.w.sum())
        share, mean = float(cells.wt.sum()) / total, float(cells.ws.sum()) / total
        error = cells.error(15)
        rows.append(
            {
                "index": index,
                "name": str(names[index]),
                "share": share,
                "mean": mean,
                "gap": mean - share,
                "error": error,
                "relative": error / max(share, 1.0 / max(total, 1.0)),
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
    rows = []
    for column, values in by.items():
        array = np.asarray(values)
        for name in np.unique(array)[:200]:
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
    largest = max((abs(row["lean"]) for row in rows), default=0.0) or 1.0
    for row in rows:
        row["heat"] = row["lean"] / largest
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


def _method(forecast: Forecast, n_resamples: int, rng: RNG, command: str | None) -> dict[str, Any]:
    import platform
    from importlib.metadata import version

    digest = hashlib.sha256(np.ascontiguousarray(forecast.codes).tobytes())
    digest.update(np.ascontiguousarray(forecast.top_score).tobytes())
    return {
        "versions": {"calibrant": version("calibrant"), "numpy": np.__version__, "python": platform.python_version()},
        "resamples": n_resamples,
        "seed": rng if isinstance(rng, int) else None,
        "checksum": digest.hexdigest()[:16],
        "command": command,
        "conventions": (
            "Bins are (lo, hi], the first closed; ties of the top label go to the lowest index; sums are float64. "
            "'If calibrated' resamples labels from the forecasts themselves."
        ),
    }
