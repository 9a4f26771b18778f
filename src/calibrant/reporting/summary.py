"""Everything a report on class probabilities says, as one plain dictionary: numbers, sentences, figures.

It works on evidence, so rows and cells give one content; what a form cannot answer is left out.
"""

from __future__ import annotations

import datetime as dt
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant._typing import RNG, Array
from calibrant.core.declare import lookup
from calibrant.core.parallel import map_chunks
from calibrant.core.results import Result
from calibrant.core.text import count, percent, points
from calibrant.errors import InputError, UndefinedWarning
from calibrant.estimators import Binned, CalibrationError
from calibrant.inference import wording
from calibrant.inference.bias import noise_of
from calibrant.inference.comparison import compare_evidence
from calibrant.inference.evaluation import Evaluation, evaluate_evidence
from calibrant.inference.facts import judged
from calibrant.inference.slices import Slice, evaluate_parts, split, split_column, with_groups
from calibrant.inference.verdict import TOLERANCE
from calibrant.reporting import figures
from calibrant.reporting.cells import BIN_COUNTS, GRID, ViewCells, pair_cells
from calibrant.reporting.content import State, class_page, day_in_words
from calibrant.reporting.glossary import provenance
from calibrant.reporting.recalibration import without_contradiction
from calibrant.reporting.words import PROVE
from calibrant.views import ClassK, Classwise, TopLabel, View, WithinTopR

__all__ = ["Parts", "advised", "changes", "frame", "method_note", "metric_rows", "slices_of", "summarize"]

#: Classes drawn one by one; the table lists all of them.
DRAWN_CLASSES = 20
#: Slices of one column, the largest ones.
MOST_SLICES = 200
CONVENTIONS = (
    "Bins are (lo, hi], the first closed; ties of the top label go to the lowest index; sums are float64. "
    "A calibrated model: labels are drawn from the forecasts themselves."
)
_JOINT = (
    "One joint test for four kinds of gap: added up, too extreme, bent, and by group; with more than two classes, a "
    "part of its 5% is kept for single classes. Each metric has a test of its own, so its p-value differs."
)
#: Parts of a column: its name, and evidence by value.
Parts = Mapping[tuple[Any, ...], Any]


def frame(
    evaluation: Evaluation,
    evidence: Any,
    *,
    title: str,
    source: str | None,
    command: str | None,
    n_resamples: int,
    rng: RNG,
    conventions: str,
) -> dict[str, Any]:
    """Return what the report of every task has: title, verdict, table, and how the numbers were made."""
    verdict = evaluation.verdict
    return {
        "title": title,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "source": source,
        "headline": evaluation.headline,
        "verdict": str(verdict),
        "judgment": verdict.to_dict(),
        "next": wording.next_step(evaluation),
        "evaluation": evaluation.to_dict(),
        "notes": list(evaluation.notes),
        "metrics": metric_rows(evaluation),
        "level": f"{100 * evaluation.level:g}",
        "method": method_note(evidence.checksum(), n_resamples, rng, command, conventions),
    }


def summarize(
    evidence: Any,
    *,
    after: Any = None,
    repair: Mapping[str, Any] | None = None,
    by: Mapping[str, Array] | None = None,
    parts: tuple[Sequence[str], Parts] | None = None,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    tolerance: float = TOLERANCE,
    rng: RNG = 0,
    groups: Array | None = None,
    evaluation: Evaluation | None = None,
    advise: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return the content of a report as a plain dictionary.

    `after` is the recalibrated forecast of these rows and `repair` how it came about; `by` holds columns whose values
    make slices, `parts` slices made before (cells from an engine), `evaluation` what `evaluate_evidence` said of these
    rows with the same settings; `advise` puts the file at hand into a command. The rest is as in `calibrant.report`.
    """
    settings: dict[str, Any] = {"level": level, "n_resamples": n_resamples, "tolerance": tolerance, "rng": rng}
    risk = evidence.task == "classes" and not judged(evidence).top_label_only
    if evaluation is None or risk:
        evaluation = _evaluated(evidence, groups=groups, risk=risk, **settings)
    slices = slices_of(evidence, by or {}, parts, settings, groups)
    evaluation = advised(with_groups(evaluation, slices), advise)
    repair = without_contradiction(repair, evaluation.verdict)
    if repair is not None and repair["command"] is not None:
        repair = {**repair, "command": advise(repair["command"])}
    states = [State("before", evidence, evaluation, slices)]
    comparison = None
    if after is not None:
        kept = bool((repair or {}).get("injective"))
        repaired = _evaluated(after, groups=groups, risk=risk, **settings)
        again = slices_of(after, by or {}, None, settings, groups)
        states.append(State("after", after, with_groups(repaired, again), again))
        comparison = compare_evidence(evidence, after, injective=kept, level=level, groups=groups, rng=rng)
    classes = _class_rows(evidence)
    views, after_views = _views(evidence, classes), [] if after is None else _views(after, classes)
    summary: dict[str, Any] = {
        **frame(
            evaluation,
            evidence,
            title=title,
            source=source,
            command=command,
            n_resamples=n_resamples,
            rng=rng,
            conventions=CONVENTIONS,
        ),
        "views": views,
        "views_after": after_views,
        "bin_counts": list(BIN_COUNTS),
        "classes": classes,
        "digits": 2 if len(classes) <= 100 else 3,
        "slices": [_slice_row(part) for part in slices],
        "size": _size_note(evidence, evaluation),
        **changes(comparison, states[-1].evaluation, repair),
        "pickers": _pickers(views, classes),
        "reliability": figures.reliability((after_views or views)[0], 15, views[0] if after_views else None),
    }
    page = class_page(
        states,
        repair=repair,
        comparison=comparison,
        level=level,
        n_resamples=n_resamples,
        rng=rng,
        date=summary["date"],
    )
    if page["classes"] is not None:
        keys = ("index", "name", "n", "rate", "gaps", "low", "high", "verdict")
        summary["class_gaps"] = [{key: row[key] for key in keys} for row in page["classes"]["all_rows"]]
    if page["decisions"] is not None:
        table = page["decisions"]["download"]
        summary["decisions"] = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    summary["page"] = page | {
        "date": day_in_words(summary["date"]),
        "commands": (repair or {}).get("command"),
        "prove": advise(PROVE),
        "provenance": provenance(
            summary["method"],
            data=_data_line(evidence, source),
            repair=repair if after is not None else None,
            rows=[
                ("Verdict", _JOINT),
                ("Intervals", _INTERVALS),
                ("Many comparisons", "Verdicts on classes and groups are corrected for their number, at 5%."),
                ("Groups in the diagram", page["diagram"]["steps"]),
            ],
            limits=_LIMITS,
            level=f"{100 * level:g}",
        ),
    }
    return summary


def advised(evaluation: Evaluation, advise: Callable[[str], str]) -> Evaluation:
    """Return the evaluation with the command to run next."""
    return replace(evaluation, next_step=advise(evaluation.verdict.advice))


def changes(comparison: Any | None, after: Evaluation, repair: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a recalibration changed: the paired comparison, the state after it, and how it came about."""
    found: dict[str, Any] = {"comparison": None, "repair": dict(repair) if repair else None}
    if comparison is not None:
        found["comparison"] = {
            "verdict": comparison.verdict,
            "rows": [list(wording.comparison_cells(result, comparison.task)) for result in comparison.results],
            "json": comparison.to_dict(),
        }
        found["after"] = {"judgment": after.verdict.to_dict(), **after.to_dict()}
    return found


def _evaluated(evidence: Any, **settings: Any) -> Evaluation:
    """Evaluate; a slope that cannot be known is a dash on the page, not a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "outcomes are all alike", UndefinedWarning)
        return evaluate_evidence(evidence, **settings)


_INTERVALS = (
    "{level}%. Fractions: Wilson. Gap: interval of a mean, corrected for skewness; of a class: Wilson around its mean "
    "claim. Changes of scores: paired."
)
_LIMITS = (
    "How the model behaves on data unlike these rows, or later in time. Calibration says nothing about fairness or "
    "about why a prediction is wrong."
)


def _data_line(evidence: Any, source: str | None) -> str:
    what = f"{count(evidence.n_classes)} classes" if evidence.n_classes else "top-label pairs"
    weights = "weighted" if evidence.weighted else "unweighted"
    return f"{source + ': ' if source else ''}{count(evidence.n)} rows, {what}, {weights}"


def metric_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the rows of the table as texts."""
    return [_metric_row(result, evaluation.task) for result in evaluation.results]


def _metric_row(result: Result, task: str) -> dict[str, Any]:
    metric = lookup(result.name.partition("@")[0], task=task)
    name, value, null, pvalue, interval, meaning = wording.cells(result, task)
    return {
        "name": name,
        "title": metric.title,
        "value": value,
        "null": null,
        "pvalue": pvalue,
        "interval": interval,
        "meaning": meaning,
    }


def _pickers(views: Sequence[ViewCells], classes: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, str]]]:
    """Return what the two pickers of the diagram offer: positions in the list of views, and words."""
    names = {f"class-{row['index']}": row["name"] for row in classes}
    entries = list(enumerate(views))
    return {
        "views": [(i, view.label) for i, view in entries if view.name not in names or i == 0],
        "classes": [(i, names[view.name]) for i, view in entries if view.name in names],
    }


def _names(evidence: Any) -> tuple[Any, ...]:
    return evidence.classes or tuple(range(evidence.n_classes))


def _cells(evidence: Any, view: View) -> ViewCells | None:
    """Collect one view into the cells of the page; None where the evidence does not have it."""
    try:
        return pair_cells(evidence.pairs_of(view), view.name, view.label(_names(evidence)))
    except InputError:
        return None


def _views(evidence: Any, classes: Sequence[Mapping[str, Any]]) -> list[ViewCells]:
    """Return the views of the diagram, the judged one first."""
    wanted: list[View] = [judged(evidence), TopLabel()]
    if evidence.n_classes > 2:
        wanted.append(WithinTopR(2))
    wanted += [ClassK(row["index"]) for row in classes if row["drawn"]]
    found = map_chunks(lambda view: _cells(evidence, view), dict.fromkeys(wanted))
    return [cells for cells in found if cells is not None]


def _class_rows(evidence: Any) -> list[dict[str, Any]]:
    """One row per class: fraction, mean probability, gap, binned error; the worst and most frequent are drawn."""
    recipe = CalibrationError(Classwise(), Binned(GRID))
    if not evidence.n_classes or not evidence.answers(recipe):
        return []
    names, bins, total = _names(evidence), evidence.state(recipe), evidence.total
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
    for row in rows:
        row["drawn"] = row["index"] in chosen
        row.pop("cells")
    return sorted(rows, key=lambda row: -row["error"])


def slices_of(
    evidence: Any,
    by: Mapping[str, Array],
    parts: tuple[Sequence[str], Parts] | None,
    settings: Mapping[str, Any],
    groups: Array | None = None,
) -> list[Slice]:
    """Return the slices of a report, each column a family of its own; the tests are those of ``evaluate --by``."""
    families: list[tuple[Sequence[str], Parts]] = [((name,), split(evidence, {name: by[name]})) for name in by]
    families += [] if parts is None else [parts]
    slices: list[Slice] = []
    for names, found in families:
        largest = set(sorted(found, key=lambda key: -found[key].n)[:MOST_SLICES])
        kept = {key: part for key, part in found.items() if key in largest}
        resamples = settings["n_resamples"] if evidence.task == "regression" else 0  # classes are tested by cells
        own = None if groups is None else split_column(groups, {name: by[name] for name in names})
        slices += evaluate_parts(kept, names, groups=own, **{**settings, "metrics": [], "slice_resamples": resamples})
    return slices


def _slice_row(part: Slice) -> dict[str, Any]:
    facts = part.evaluation.facts
    return {
        "column": ", ".join(part.by),
        "name": ", ".join(str(value) for value in part.by.values()),
        "n": facts.n,
        "accuracy": facts.accuracy,
        "confidence": facts.confidence,
        "observed": facts.observed,
        "predicted": facts.predicted,
        "gap": facts.bias,
        "ks": facts.ks,
        "pvalue": facts.pvalue,
        "corrected": part.corrected,
    }


def _size_note(evidence: Any, evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation.facts
    note: dict[str, Any] = {"resolvable": facts.resolvable, "n": evidence.n}
    if facts.resolvable is None:
        note["text"] = "No resampling was made, so it is not known which gaps this many rows can show."
        return note
    bias = noise_of(evidence.pairs_of(judged(evidence)), 15, evidence.n)
    note["text"] = (
        f"A one-directional gap above {points(facts.resolvable)} points would be detected 4 times in 5 with "
        f"{count(evidence.n)} rows. Of the ECE of {percent(bias.value)}, about {points(bias.excess)} points are "
        f"expected from noise alone; a calibrated model would show {percent(bias.if_calibrated)}."
    )
    return note


def method_note(checksum: str, n_resamples: int, rng: RNG, command: str | None, conventions: str) -> dict[str, Any]:
    """Return how the numbers were made: versions, seed, checksum of the data, command."""
    return {
        "versions": {"calibrant": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "resamples": n_resamples,
        "seed": rng if isinstance(rng, int) else None,
        "checksum": checksum,
        "command": command,
        "conventions": conventions,
    }
