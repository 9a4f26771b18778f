"""The state of monitors as OpenMetrics text, for a scraper or the folder of a node exporter."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.core.jsonable import jsonable

if TYPE_CHECKING:
    from calibrant.monitoring.days import MonitorReport

__all__ = ["exposition"]

#: Names stay: alerts are written against them.
_HELP = {
    "calibrant_days": "Days since the monitor started or was restarted.",
    "calibrant_rows": "Usable rows of the latest day.",
    "calibrant_rejected_rows": "Rows of the latest day that could not be used, by reason.",
    "calibrant_log_evalue": "Logarithm of the evidence against calibration.",
    "calibrant_log_evalue_limit": "Value of calibrant_log_evalue that raises the alarm.",
    "calibrant_alarm": "Whether an alarm is raised, by kind: calibration, rejected, volume.",
    "calibrant_metric": "Metrics of the latest day.",
    "calibrant_window_pvalue": "P-value of a change of calibration between the last two windows.",
}
_KINDS = ("calibration", "rejected", "volume")
_CHART = ("accuracy", "brier", "confidence", "ece", "ks", "nll")
#: Labels of our own.
_OURS = ("reason", "kind", "metric")


def exposition(reports: Sequence[MonitorReport]) -> str:
    """Return gauges with one sample a report; the columns that name a model are labels.

    Examples
    --------
    >>> exposition([]).splitlines()[-1]
    '# EOF'
    """
    samples: dict[str, list[str]] = {name: [] for name in _HELP}

    def add(name: str, value: Any, labels: Mapping[str, Any]) -> None:
        if value is not None and math.isfinite(value):
            held = ",".join(f'{key}="{_text(text)}"' for key, text in labels.items())
            samples[name].append(f"{name}{{{held}}} {float(value):.10g}" if held else f"{name} {float(value):.10g}")

    for report in reports:
        by = _labels(report.by or {})
        add("calibrant_days", report.days, by)
        add("calibrant_rows", report.n, by)
        for reason, count in report.rejected.items():
            add("calibrant_rejected_rows", count, {**by, "reason": reason})
        add("calibrant_log_evalue", report.log_evalue, by)
        add("calibrant_log_evalue_limit", report.log_threshold, by)
        raised = {alarm["kind"] for alarm in report.alarms}
        for kind in _KINDS:
            add("calibrant_alarm", kind in raised, {**by, "kind": kind})
        for name in _CHART:
            add("calibrant_metric", report.history[-1].get(name), {**by, "metric": name})
        if report.window is not None:
            add("calibrant_window_pvalue", report.window.ks_pvalue, by)
    lines = []
    for name, held in samples.items():
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {_HELP[name]}", *held]
    return "\n".join([*lines, "# EOF", ""])


def _labels(by: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns under names that labels may have: no two alike, none of ours, none that are reserved."""
    found: dict[str, Any] = {}
    for name, value in by.items():
        label = re.sub(r"^(?=[0-9]|$)|^_+", "_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
        while label in found or label in _OURS:
            label += "_"
        found[label] = value
    return found


def _text(value: Any) -> str:
    """Return a value as JSON has it; a missing one is an empty label."""
    text = "" if value is None else str(jsonable(value))
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
