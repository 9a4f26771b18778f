"""The page of a monitor: evidence against calibration day by day, what was claimed, and what happened."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.core.moments import wilson
from calibrant.core.row_evidence import digest
from calibrant.core.text import count, percent, points, pvalue_phrase
from calibrant.inference.verdict import RARE, event_name, first_lower, rates
from calibrant.monitoring.days import MonitorReport
from calibrant.reporting.content import day_in_words
from calibrant.reporting.downloads import Download
from calibrant.reporting.glossary import monitor_glossary, provenance
from calibrant.reporting.page import Report
from calibrant.reporting.summary import method_note
from calibrant.reporting.svg import WIDTHS, Axes, Picture, drawing, nice_ticks, path, tag, text
from calibrant.reporting.words import Language, tile

__all__ = ["report_monitor"]

_CONVENTIONS = "The e-value multiplies day by day; by Ville's inequality it may be looked at every day."
#: Days listed on the page; the files hold all.
_SHOWN = 31
#: What was claimed and what came true, of the top label and of an event.
_HEADS = (("Claims to be right", "Right"), ("Predicted", "Happens"))
_COLUMNS = ("name", "n", "accuracy", "confidence", "ks", "log_evalue")


def report_monitor(report: MonitorReport, *, title: str = "Calibration monitor") -> Report:
    """Return a page with the history of the monitor; the numbers are those of `report`."""
    state = f"Alarm since {report.since}: calibration has broken." if report.alarm else "No alarm."
    calm = f"model calibrated within {100 * report.tolerance:g} points" if report.tolerance else "calibrated model"
    kept = f"A {calm} {report.promise.replace('raises it', 'raises an alarm')}"
    promise = f"{kept}; {report.assumption}."
    date = dt.datetime.now(dt.UTC).date().isoformat()
    language, days = _spoken(report)
    summary: dict[str, Any] = {
        "title": title,
        "date": date,
        "source": None,
        "headline": f"{report.days} days, the latest {report.name}",
        "verdict": f"{state} {promise}",
        "evidence": [evidence_chart(report, width) for width in WIDTHS],
        "errors": error_charts(report),
        "days": list(report.history),
        "latest_days": [_row(day, language.decimals) for day in days[::-1][:_SHOWN]],
        "window": _window(report),
        "method": method_note(
            digest([np.array([day["log_evalue"] for day in report.history])]), 0, 0, None, _CONVENTIONS
        ),
    }
    summary["page"] = _page(report, date, (f"{kept}.", promise), summary["method"], drawn=bool(summary["errors"]))
    return Report(summary, "monitor")


def _spoken(report: MonitorReport) -> tuple[Language, list[dict[str, Any]]]:
    """Return how the page speaks, and the days with what was said and seen: of the event where all have its numbers."""
    risk = report.event is not None and all(day.get("observed") is not None for day in report.history)
    seen, said = ("observed", "predicted") if risk else ("accuracy", "confidence")
    days = [{**day, "seen": day.get(seen), "said": day.get(said)} for day in report.history]
    if not risk:
        return Language(), days
    rare = min(min(day["seen"], day["said"]) for day in days) < RARE
    return Language(event_name(report.event), 2 if rare else 1), days


def _row(day: dict[str, Any], digits: int) -> dict[str, Any]:
    """Return a day with what its row of the table shows besides."""
    right = day["seen"]
    low, high = (0.0, 0.0) if right is None else wilson(right, max(day["n"], 1), 0.95)
    ends = None if right is None else f"{percent(float(low), digits)} to {percent(float(high), digits)}"
    return {**day, "odds": _evidence(float(day["log_evalue"])), "ends": ends}


def _window(report: MonitorReport) -> str | None:
    """Return what the latest days show beside those before them, as one sentence."""
    window = report.window
    if window is None:
        return None
    return (
        f"Calibration in the last {len(window.current)} days differs from that of the {len(window.reference)} days "
        f"before by {points(window.ks)} points ({pvalue_phrase(window.ks_pvalue)})."
    )


def _page(
    report: MonitorReport, date: str, promises: tuple[str, str], method: dict[str, Any], *, drawn: bool
) -> dict[str, Any]:
    total = sum(int(day["n"]) for day in report.history)
    language, (*_, latest) = _spoken(report)
    known = latest["seen"] is not None and latest["said"] is not None
    headline = "Calibration has broken" if report.alarm else "No alarm so far"
    kept, promise = promises
    latest_day = ""
    if known and language.risk:
        said, seen = rates(latest["said"], latest["seen"])
        latest_day = f"On {report.name} the score predicts {language.event} in {said} of cases; it happens in {seen}. "
    elif known:
        said, seen = (f"{percent(latest[key], 1)} of the time" for key in ("said", "seen"))
        latest_day = f"On {report.name} the model claims to be right {said} and is right {seen}. "
    lead = latest_day + (
        f"Its claims have not matched what happens since {report.since}. {kept}"
        if report.alarm
        else f"In {count(report.days)} days its claims have not left what happens by more than chance allows. {kept}"
    )
    todo = ("Keep monitoring", "Add the next day: calibrant monitor STORE FILE.")
    if report.alarm:
        line = "Fit a new calibrator on recent labeled rows; start the monitor again with --restart."
        todo = ("Recalibrate, then restart", line)
    seen = f"{count(total)} predictions in all; the latest day is {report.name}."
    odds, line = _evidence(report.log_evalue), f"Alarm at {_evidence(report.log_threshold)} to 1."
    tiles = [
        tile("Days monitored", [count(report.days)], "", seen, plain=True),
        tile("Evidence against calibration", [odds], "to 1", line),
    ]
    moved = ""
    if known:
        moved = language.amount(latest["said"] - latest["seen"])
        low, high = (latest["said"] - float(end) for end in wilson(latest["seen"], latest["n"], 0.95)[::-1])
        ends = f"Between {language.signed(low)} and {language.signed(high)} points (95% interval)"
        gap = language.signed(latest["said"] - latest["seen"])
        tiles.append(tile("Gap on the latest day", [gap], "points", f"{ends}; {count(latest['n'])} predictions."))
    if report.run_length is None:
        rate, unit = f"{100 * report.false_alarm_rate:g}%", ""
        foot = "At most, over the whole life of the monitor, however often one looks."
    else:
        rate, unit = "1", f"in {count(report.run_length)} days"
        foot = "On average at most, however often one looks."
    tiles.append(tile("False alarms", [rate], unit, foot, plain=True))
    links = [("diagram", "Evidence"), *[("errors", "Claims")] * drawn, ("days", "Days"), ("read", "How to read")]
    columns = (*_COLUMNS, *("predicted", "observed") * language.risk)
    above = sum(float(day["log_evalue"]) >= report.log_threshold for day in report.history)
    alarms = f"{count(above)} of {count(report.days)} days" if above else "No day"
    return {
        "headline": headline,
        "lead": lead,
        "kick": f"{count(report.days)} days · {count(total)} predictions · {day_in_words(date)}",
        "date": day_in_words(date),
        "states": [
            {
                "kind": "before",
                "label": f"After {report.name}",
                "glyph": "✕" if report.alarm else "○",
                "words": f"Alarm since {report.since}" if report.alarm else "No alarm",
                "line": _window(report) or "Too few days to compare the latest with those before.",
            }
        ],
        "todo": {"words": todo[0], "line": todo[1]},
        "tiles": tiles,
        "contents": [*links, ("method", "Methods and data")],
        "diagram": {
            "title": f"The evidence crossed the alarm line on {report.since}"
            if report.alarm
            else "The evidence stays below the alarm line",
            "sub": "How strongly all days so far speak against “the model is calibrated”, starting at 1. It grows when "
            "outcomes contradict the claims, and does not grow on average while they agree. Above the line: alarm.",
        },
        "errors": {
            "title": moved.replace("Claims", "The model now claims").replace("Predicts", "The score now predicts"),
            "sub": f"{language.x_axis}, and {first_lower(language.y_axis)} with its 95% interval, averaged day by day.",
            "digits": language.decimals,
            **dict(zip(("said", "seen"), _HEADS[language.risk], strict=True)),
        },
        "days": {
            "title": f"{alarms} {'lies' if above < 2 else 'lie'} above the alarm line",
            "sub": f"The latest {_SHOWN} of {count(report.days)} days; the files hold all."
            if report.days > _SHOWN
            else "",
        },
        "download": Download.of("days", columns, [[day.get(name) for name in columns] for day in report.history]),
        "read": monitor_glossary(risk=language.risk),
        "provenance": provenance(
            method,
            data=f"{count(report.days)} days, {count(total)} rows, kept as counts by score",
            repair=None,
            rows=[("Alarm", promise)],
            limits="Why calibration moved, and on whom: evaluate the latest days by group.",
            level="95",
        ),
    }


def _evidence(log_value: float) -> str:
    """Return an e-value as odds a reader takes in."""
    if log_value > math.log(1e6):
        return "> 10⁶"
    value = math.exp(log_value)
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _frame(
    low: float, high: float, names: Sequence[str], y_label: str, width: int, *, share: bool
) -> tuple[Axes, list[str], int]:
    height = 320 if width == WIDTHS[0] else 300
    left = 56
    axes = Axes(left, 16, width - left - 12, height - 74, (0.0, float(max(len(names) - 1, 1))), (low, high))
    bottom = axes.top + axes.height
    parts: list[str] = []
    tens = math.log(10)
    ticks = (
        nice_ticks(low, high, 5) if share else [tens * k for k in nice_ticks(low / tens, high / tens, 5) if k % 1 == 0]
    )
    for value in ticks:
        y = axes.y(value)
        words = f"{100 * value:.4g}%" if share else _power(round(value / tens))
        parts.append(tag("path", d=f"M{left} {y:.1f}h{axes.width:g}", class_="grid"))
        parts.append(text(words, left - 7, y + 4, class_="tick", text_anchor="end"))
    last = len(names) - 1
    step = max(1, math.ceil(last / (width // 140)) if width >= WIDTHS[1] else last)  # back from the latest day
    for i in range(last, -1, -step):
        anchor = "middle" if 0 < i < last else "start" if i == 0 else "end"
        name = names[i] if len(names[i]) <= 12 else f"{names[i][:11]}…"
        parts.append(text(name, axes.x(i), bottom + 17, class_="tick", text_anchor=anchor))
    middle = axes.top + axes.height / 2
    turned = f"translate(12,{middle:g}) rotate(-90)"
    parts.append(tag("text", y_label, class_="axis", text_anchor="middle", transform=turned))
    parts.append(text("Day", left + axes.width / 2, bottom + 38, class_="axis", text_anchor="middle"))
    return axes, parts, height


def _power(k: int) -> str:
    """Return ten to a whole power as odds: ``1``, ``100``, ``10⁶``, ``1/100``."""
    if abs(k) <= 3:
        return f"{10**k:,}" if k >= 0 else f"1/{10**-k:,}"
    return "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def evidence_chart(report: MonitorReport, width: int) -> Picture:
    """Return the log e-value against the alarm line."""
    values = [float(day["log_evalue"]) for day in report.history]
    names = [str(day["name"]) for day in report.history]
    limit = report.log_threshold
    high = max([limit, *values]) * 1.12
    axes, parts, height = _frame(min(0.0, *values) - 0.05 * high, high, names, "Evidence, to 1", width, share=False)
    y = axes.y(limit)
    parts.append(tag("path", d=f"M{axes.left:g} {y:.1f}h{axes.width:g}", class_="alarm"))
    parts.append(text(f"alarm line: {_evidence(limit)} to 1", axes.left + 6, y - 6, class_="region halo"))
    parts.append(path([(axes.x(i), axes.y(value)) for i, value in enumerate(values)], class_="line thick ink"))
    for i, value in enumerate(values):
        label = tag("title", f"{names[i]}: {_evidence(value)} to 1")
        kind = "before" if value >= limit else "ink"
        parts.append(tag("circle", label, cx=axes.x(i), cy=axes.y(value), r=4.5, class_=f"dot {kind}"))
    desc = (
        f"Evidence against calibration by day, starting at 1, with the alarm line at {_evidence(limit)}; the latest is "
        f"{_evidence(values[-1])}."
    )
    return drawing(width, height, "Evidence against calibration", desc, parts)


def error_charts(report: MonitorReport) -> list[Picture]:
    """Return mean confidence and accuracy by day, for each width; nothing where days do not have them."""
    language, every = _spoken(report)
    days = [day for day in every if day["seen"] is not None and day["said"] is not None]
    heads = _HEADS[language.risk]
    return [_error_chart(days, heads, width) for width in WIDTHS] if days else []


def _error_chart(days: Sequence[dict[str, Any]], heads: tuple[str, str], width: int) -> Picture:
    ends = [tuple(float(end) for end in wilson(day["seen"], max(day["n"], 1), 0.95)) for day in days]
    low = min(min(least, day["said"]) for (least, _), day in zip(ends, days, strict=True))
    high = max(max(most, day["said"]) for (_, most), day in zip(ends, days, strict=True))
    pad = 0.16 * (high - low) or 0.01
    names = [str(day["name"]) for day in days]
    axes, parts, height = _frame(low - pad, high + pad, names, "Claim and outcome", width, share=True)
    for i, (least, most) in enumerate(ends):
        parts.append(tag("path", d=f"M{axes.x(i):.1f} {axes.y(least):.1f}V{axes.y(most):.1f}", class_="whisk ink"))
    for key, kind in (("said", "line thick before"), ("seen", "line thick ink")):
        parts.append(path([(axes.x(i), axes.y(day[key])) for i, day in enumerate(days)], class_=kind))
    over = days[-1]["said"] >= days[-1]["seen"]
    right = axes.left + axes.width - 4
    for key, words, class_, up in (
        ("said", heads[0], "call before strong", over),
        ("seen", heads[1], "strong halo", not over),
    ):
        near = range(len(days) - max(1, len(days) // (2 if width < WIDTHS[1] else 5)), len(days))
        reach = [days[i][key] if key == "said" else ends[i][up] for i in near]  # clear of line and whiskers
        y = axes.y(max(reach) if up else min(reach))
        parts.append(text(words, right, y - 10 if up else y + 20, class_=class_, text_anchor="end"))
    desc = "Average claim dashed, outcome solid with 95% intervals, by day."
    return drawing(width, height, "Claim against outcome", desc, parts)
