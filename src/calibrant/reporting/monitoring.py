"""The chart of a watch: evidence against calibration day by day, and the day's errors."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from calibrant.engines.monitor import MonitorReport
from calibrant.reporting.page import Report
from calibrant.reporting.summary import method_note
from calibrant.reporting.svg import Axes, figure, nice_ticks, path, percent, plain, tag, text

_WIDTH, _HEIGHT = 540, 250


def report_monitor(report: MonitorReport, *, title: str = "Calibration watch") -> Report:
    """Return a page with the course of the watch; the numbers are those of `report`."""
    state = f"Alarm since {report.since}: calibration has broken." if report.alarm else "No alarm."
    promise = (
        f"A model calibrated within {100 * report.tolerance:g} points ever raises an alarm with probability "
        f"at most {100 * report.false_alarm_rate:g} %."
    )
    summary: dict[str, Any] = {
        "title": title,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "source": None,
        "headline": f"{report.days} days, the latest {report.name}",
        "verdict": f"{state} {promise}",
        "evidence": evidence_chart(report),
        "errors": error_chart(report),
        "days": list(report.history),
        "window": None if report.window is None else str(report.window),
        "method": method_note(
            [np.array([day["log_evalue"] for day in report.history])],
            0,
            0,
            None,
            "The e-value multiplies day by day; by Ville's inequality it may be looked at every day.",
        ),
    }
    return Report(summary, "monitor")


def _frame(low: float, high: float, days: int, y_label: str, *, share: bool) -> tuple[Axes, list[str]]:
    axes = Axes(52, 12, 470, 190, (0, max(days - 1, 1)), (low, high))
    frame = axes.frame([], nice_ticks(low, high), "days of the watch", y_label, write=percent if share else plain)
    return axes, [frame]


def evidence_chart(report: MonitorReport) -> str:
    """Return the log e-value against the alarm line."""
    values = [float(day["log_evalue"]) for day in report.history]
    limit = report.log_threshold
    axes, parts = _frame(min(0.0, *values), max([limit, *values]) * 1.08, len(values), "log e-value", share=False)
    y = axes.y(limit)
    parts.append(tag("line", x1=axes.left, x2=axes.left + axes.width, y1=y, y2=y, class_="largest"))
    parts.append(text("alarm", axes.left + 6, y - 4, class_="note"))
    parts.append(path([(axes.x(i), axes.y(value)) for i, value in enumerate(values)], class_="curve hits"))
    for i, value in enumerate(values):
        label = tag("title", f"{report.history[i]['name']}: log e-value {value:.2f}")
        parts.append(tag("circle", label, cx=axes.x(i), cy=axes.y(value), r=3.5, class_="dot under"))
    return figure(_WIDTH, _HEIGHT, "Evidence against calibration", "Log e-value by day, with the alarm line.", parts)


def error_chart(report: MonitorReport) -> str:
    """Return mean confidence (dashed) and accuracy (solid) by day."""
    days = [day for day in report.history if day.get("accuracy") is not None and day.get("confidence") is not None]
    if not days:
        return ""
    low = min(min(day["accuracy"], day["confidence"]) for day in days)
    high = max(max(day["accuracy"], day["confidence"]) for day in days)
    pad = 0.1 * (high - low) or 0.01
    axes, parts = _frame(low - pad, high + pad, len(days), "accuracy and confidence, %", share=True)
    for key, kind in (("confidence", "score"), ("accuracy", "hits")):
        points = [(axes.x(i), axes.y(day[key])) for i, day in enumerate(days)]
        parts.append(path(points, class_=f"curve {kind}"))
    return figure(_WIDTH, _HEIGHT, "Accuracy against confidence", "Mean confidence dashed, accuracy solid.", parts)
