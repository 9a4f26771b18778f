"""The section on metrics: questions in plain words beside what a calibrated model shows; and methods compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant import metrics
from calibrant.calibrators import get_calibrator
from calibrant.core.declare import Metric, lookup
from calibrant.core.docstrings import read_sections
from calibrant.core.results import Result
from calibrant.core.text import count, first_upper, percent, pvalue_phrase, significant
from calibrant.errors import CalibrantError
from calibrant.inference.evaluation import MAY_HAPPEN, Evaluation
from calibrant.inference.verdict import first_lower
from calibrant.reporting.downloads import Download
from calibrant.reporting.formulas import formula
from calibrant.reporting.tracks import Mark, Scale, scale_of

__all__ = ["explain_metric", "method_section", "method_title", "metric_section"]

_QUESTIONS = {
    "ece": "How far off is the confidence, on average?",
    "ece@class-1": "How far off is the risk, on average?",
    "ks": "How large does the gap grow when added up?",
    "ks@class-1": "How large does the gap grow when added up?",
    "mmce": "Same question, without groups",
    "cwce": "Are the probabilities of {k} classes right?",
    "brier": "How good are the probabilities overall?",
    "nll": "How costly are confident mistakes?",
    "ratio": "Are errors as large as the error bars say?",
    "pit-ks": "Do truths fall where they were expected?",
    "ence": "Do wide error bars mean large errors?",
    "bias": "Are the means too high or too low?",
    "qce": "Do truths fall below each quantile as often as stated?",
    "vce": "Does the variance match the squared error, range by range?",
    "skce": "Do whole forecasts match the outcomes?",
    "mse": "How far off are the means?",
    "dss": "How well do mean and variance fit together?",
    "crps": "How good are the forecasts overall?",
}
_NAMES = {
    "ece": "Calibration error in 15 groups (ECE)",
    "ks": "Largest cumulative gap (KS)",
    "mmce": "Kernel calibration error (MMCE)",
    "cwce": "Class-wise error (CWCE)",
    "brier": "Brier score, lower is better",
    "nll": "Log loss, lower is better",
}

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

#: Metrics of the top label: on a page about an event their names say so.
_TOP_LABEL = ("ece", "ks", "mmce")


def _range(result: Result, *, floor: bool) -> tuple[float, float] | None:
    if result.null_mean is None or result.null_std is None:
        return None
    low, high = result.null_mean - 1.96 * result.null_std, result.null_mean + 1.96 * result.null_std
    return (max(low, 0.0) if floor else low), high


def _words(result: Result, task: str, k: int, *, risk: bool) -> tuple[str, str]:
    """Return question and name of a metric."""
    short, _, view = result.name.partition("@")
    metric = lookup(short, task=task)
    question = _QUESTIONS.get(result.name) or (_QUESTIONS.get(short) if not view else None) or first_upper(metric.plain)
    name = _NAMES.get(short) or f"{metric.title} ({metric.name})"
    if risk and not view and metric.name in _TOP_LABEL:
        name += ", of the likelier outcome"
    whose = f"{name}, of the event" if risk and view == "class-1" else f"{name}, {view}" if view else name
    return question.format(k="both" if k == 2 else f"all {count(k)}"), whose


def metric_section(
    states: Mapping[str, Evaluation], comparison: Any | None, level: float, *, risk: bool = False
) -> dict[str, Any]:
    """Return the section: errors with the range of a calibrated model, and scores with their change alone."""
    first = next(iter(states.values()))
    task, k = first.task, first.n_classes
    errors: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    formulas: list[dict[str, Any]] = []
    records: list[list[list[Any]]] = []
    event = risk and any(result.name in ("ece@class-1", "ks@class-1") for result in first.results)
    for result in sorted(first.results, key=lambda one: event and not one.name.endswith("@class-1")):
        metric = lookup(result.name.partition("@")[0], task=task)
        if metric.descriptive or result.name == "confidence":
            continue
        results = {kind: _find(evaluation, result.name) for kind, evaluation in states.items()}
        question, name = _words(result, task, k, risk=risk)
        records.append(_record(result.name, results))
        if event and result.name in _TOP_LABEL:  # the page speaks of the event; the files have all metrics
            continue
        formulas.append({"name": name, "lines": explain_metric(metric, result), "math": formula(metric.name)})
        row = {"question": question, "name": name, "percent": metric.percent, "results": results, "metric": metric}
        if metric.proper or (task == "regression" and not metric.percent and metric.perfect is None):
            scores.append(_score_row(row, comparison, result.name))
        else:
            errors.append(row)
    shares = [row for row in errors if row["percent"]]
    if shares:
        ends = [
            value
            for row in shares
            for r in row["results"].values()
            if r is not None
            for value in (r.value, (_range(r, floor=True) or (None, None))[1])
        ]
        scale = scale_of(ends, form="percent")
    else:  # numbers of different units: how far from a calibrated model, in its standard deviations
        scale = Scale(-4.0, 8.0, [-4.0, 0.0, 4.0, 8.0], "plain")
    rows = [_error_row(row, scale) for row in errors]
    outside, found = any(row["outside"] for row in rows), list(states.values())[-1].verdict.found
    alone = (
        " Each row is a test of its own, and one may differ by chance; the verdict at the top rests on one joint test."
    )
    return {
        "title": _metric_title(errors, list(states.values())[-1]),
        "sub": f"Even a perfectly calibrated model shows small errors on {count(first.n)} rows. Compare each value "
        f"with that range, not with zero.{alone if outside != found else ''}",
        "rows": rows,
        "scale": scale,
        "head": "Error" if shares else "Distance from calibrated, in standard deviations",
        "scores": scores,
        "formulas": formulas,
        "states": list(states),
        "compared": comparison is not None,
        "why": list(dict.fromkeys(note for one in states.values() for note in one.notes if MAY_HAPPEN in note)),
        "level": f"{100 * level:g}",
        "download": Download.of("metrics", _COLUMNS, [v for record in records for v in record]),
    }


_COLUMNS = ["metric", "state", "value", "null_mean", "null_std", "pvalue", "low", "high"]


def _record(name: str, results: Mapping[str, Result | None]) -> list[list[Any]]:
    return [
        [name, kind, r.value, r.null_mean, r.null_std, r.pvalue, *_bounds(r)]
        for kind, r in results.items()
        if r is not None
    ]


def _find(evaluation: Evaluation, name: str) -> Result | None:
    return next((result for result in evaluation.results if result.name == name), None)


def _error_row(row: dict[str, Any], scale: Scale) -> dict[str, Any]:
    results: Mapping[str, Result | None] = row["results"]
    last_kind, last = list(results.items())[-1]
    as_percent = row["percent"]
    band = None if last is None else _range(last, floor=bool(row["metric"].range[0] == 0.0))
    marks = [Mark(r.value, *_bounds(r), kind) for kind, r in results.items() if r is not None]
    write = percent if as_percent else _alike([r.value for r in results.values() if r is not None], 3)
    ends = None if last is None else last.interval
    return {
        "question": row["question"],
        "name": row["name"],
        "values": {k: "–" if r is None else write(r.value) for k, r in results.items()},
        "interval": None if ends is None else f"{write(ends.low)} to\u00a0{write(ends.high)}",
        "far": as_percent is False and band is not None and len(f"{write(band[0])}{write(band[1])}") > 18,
        "range": "–" if band is None else f"{write(band[0])} to\u00a0{write(band[1])}",
        "pvalue": "–" if last is None or last.pvalue is None else pvalue_phrase(last.pvalue, last.draws),
        "outside": last is not None and last.pvalue is not None and last.pvalue < 0.05,
        "track": scale.track(marks, band) if as_percent else _standardized(scale, results),
        "last": last_kind,
    }


def _bounds(result: Result) -> tuple[float | None, float | None]:
    interval = result.interval
    return (None, None) if interval is None else (interval.low, interval.high)


def _alike(values: Sequence[float], digits: int) -> Callable[[float], str]:
    """Return how the numbers of one row are written: with the decimals that the largest of `values` needs.

    Examples
    --------
    >>> write = _alike([0.1102, 0.09785], 4)
    >>> write(0.1102), write(0.09785), write(-0.5)
    ('0.1102', '0.0979', '−0.5000')
    """
    size = max(map(abs, values), default=0.0)
    if not 1e-3 <= size < 1e5:
        return lambda value: _three(value, digits)
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return lambda value: f"{value:.{decimals}f}".replace("-", "−")


def _three(value: float, digits: int = 3) -> str:
    """Return a number with its minus sign, very small and large ones as a power of ten: ``1.54 × 10⁻⁷``."""
    base, power, exponent = significant(value, digits).replace("-", "−").partition("e")
    if not power:
        return base
    return f"{base}\u00a0×\u00a010{str(int(exponent.replace('−', '-'))).translate(_RAISED)}"


def _standardized(scale: Scale, results: Mapping[str, Result | None]) -> str:
    """Return the bar of a metric on the scale of its own standard deviations under calibration."""
    if scale.form != "plain":
        return ""
    marks = [
        Mark((r.value - r.null_mean) / r.null_std, None, None, kind)
        for kind, r in results.items()
        if r is not None and r.null_mean is not None and r.null_std
    ]
    return scale.track(marks, (-1.96, 1.96)) if marks else ""


def _score_row(row: dict[str, Any], comparison: Any | None, name: str) -> dict[str, Any]:
    results: Mapping[str, Result | None] = row["results"]
    write = _alike([r.value for r in results.values() if r is not None], 4)
    out: dict[str, Any] = {
        "question": row["question"],
        "name": row["name"],
        "values": {k: "–" if r is None else write(r.value) for k, r in results.items()},
        "interval": None,
        "change": None,
    }
    last = list(results.values())[-1]
    if last is not None and last.interval is not None:
        out["interval"] = f"{write(last.interval.low)} to {write(last.interval.high)}"
    difference = next((r for r in comparison.results if r.name == name), None) if comparison is not None else None
    if difference is not None:
        change = -difference.change
        out["change"] = _signed(change, write)
        if difference.interval is not None:
            low, high = -difference.interval.high, -difference.interval.low
            out["change_span"] = f"{_signed(low, write)} to {_signed(high, write)}"
            out["verdict"] = (
                "Better" if high < 0 else "Worse" if low > 0 else "No clear change" if change else "Unchanged"
            )
        else:
            out["change_span"], out["verdict"] = None, ""
    return out


def _signed(value: float, write: Callable[[float], str] = "{:.4f}".format) -> str:
    text = write(abs(value))
    return text if not any(digit in text for digit in "123456789") else f"{'+' if value > 0 else '−'}{text}"


def _metric_title(errors: Sequence[dict[str, Any]], judged: Evaluation) -> str:
    tested = [list(row["results"].values())[-1] for row in errors]
    known = [result for result in tested if result is not None and result.pvalue is not None]
    if not known:
        return "The metrics, without a test"
    off = sum(result.pvalue < 0.05 for result in known)
    after = "after" in errors[0]["results"]
    start = "After the repair, " if after else ""
    if not off:
        few = f": {first_lower(judged.verdict.headline)}" if judged.verdict.status == "cannot tell" else ""
        text = f"no metric lies outside the calibrated range{few}"
    elif off == len(known):
        text = "every metric lies outside the calibrated range"
    else:
        text = f"{off} of {len(known)} metrics {'lies' if off == 1 else 'lie'} outside the calibrated range"
    return f"{start}{text}" if start else first_upper(text)


def explain_metric(metric: Metric, result: Result) -> list[str]:
    """Return what a click shows: the metric in plain words, its formula, its weakness, its paper."""
    function = getattr(metrics, metric.function, None)
    sections = read_sections(getattr(function, "__doc__", None) or "")
    lines = [f"{metric.title} ({metric.notion}). {sections[''].partition(chr(10))[0]}"]
    notes = sections.get("Notes", "").partition("\n\n")[0]
    formula = " ".join(line for line in notes.replace("`", "").splitlines() if not line.startswith("Cost "))
    if formula:
        lines.append(" ".join(formula.split()))
    side = {"lower": "lower bound of ", "upper": "upper bound of "}.get(result.bound or "", "")
    lines.append(f"Estimates: {side}{metric.estimates}. Weakness: {metric.weakness}. Cost {metric.cost}.")
    lines.append(f"{metric.paper}.")
    return lines


def method_section(repair: Mapping[str, Any] | None, used: str | None) -> dict[str, Any] | None:
    """Return the methods compared: gain over the uncalibrated forecast with intervals; the used one in blue."""
    rows = [
        row for row in (repair or {}).get("methods", ()) if row.get("low") is not None and row["method"] != "identity"
    ]
    if not rows or repair is None:
        return None
    rows = sorted(rows, key=lambda row: -row["gain"])[:14]
    scale = scale_of([v for row in rows for v in (row["gain"], row["low"], row["high"])], form="plain")
    best = rows[0]
    out = []
    for row in rows:
        mine = used is not None and row["method"] == used
        kind = ("after" if mine else "gray") + ("" if row.get("preserves_argmax", True) else "h")
        weight = row.get("weight")
        out.append(
            {
                "name": method_title(row["method"]),
                "note": "Used in this report"
                if mine
                else f"{100 * weight:.0f}% of the chosen mixture"
                if weight and weight < 0.995
                else "",
                "keeps": "Yes" if row.get("preserves_argmax", True) else "No",
                "gain": _signed(row["gain"]),
                "span": f"{_signed(row['low'])} to {_signed(row['high'])}",
                "mine": mine,
                "track": scale.track([Mark(row["gain"], row["low"], row["high"], kind)]),
            }
        )
    return {
        "title": _method_title(rows, best, used),
        "sub": "Gain in log loss over the uncalibrated forecast, on held-out parts of the rows (cross-validation). "
        "Farther right is better. Hollow dots may change the predicted class.",
        "rows": out,
        "scale": scale,
        "note": repair.get("note"),
        "best": method_title(best["method"]) if best["gain"] > 0 else None,
        "download": Download.of(
            "methods",
            ["method", "gain", "low", "high", "keeps_predicted_class", "weight"],
            [[r["method"], r["gain"], r["low"], r["high"], r.get("preserves_argmax"), r.get("weight")] for r in rows],
        ),
    }


def method_title(name: str) -> str:
    """Return the title of a method by its short name."""
    try:
        return str(get_calibrator(name).title)
    except (CalibrantError, KeyError, AttributeError):
        return first_upper(name)


def _method_title(rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any], used: str | None) -> str:
    if best["low"] <= 0:
        return "One repair for all rows is not sure to help"
    mine = next((row for row in rows if row["method"] == used), None)
    if mine is not None and mine is not best and mine["gain"] > 0:
        part = 100 * mine["gain"] / best["gain"]
        return f"{method_title(mine['method'])} gets {part:.0f}% of the best gain"
    close = [row for row in rows if row["gain"] >= 0.9 * best["gain"]]
    if len(close) > 2:
        return f"{method_title(best['method'])} gains most; {len(close) - 1} others come close"
    return f"{method_title(best['method'])} gains most"
