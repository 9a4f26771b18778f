"""The report on forecasts with mean and variance: verdict, PIT histogram, variance against error, table."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any, Protocol

import numpy as np

from calibrant._typing import RNG, Array
from calibrant.core.results import Result, format_value
from calibrant.errors import input_error
from calibrant.regression import PitTable, VarianceTable, compute_pit, compute_variance_table, evaluate
from calibrant.reporting.figures import bullet
from calibrant.reporting.page import Report
from calibrant.reporting.summary import method_note
from calibrant.reporting.svg import Axes, figure, nice_ticks, percent, tag


class MeanVariance(Protocol):
    """What a file of regression forecasts holds."""

    @property
    def scores(self) -> Array:
        """Predicted means."""

    @property
    def truth(self) -> Array | None:
        """Observed values."""

    @property
    def variance(self) -> Array | None:
        """Predicted variances."""

    @property
    def weights(self) -> Array | None:
        """Frequencies of the rows."""


def report_regression(
    predictions: MeanVariance,
    *,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: RNG = 0,
) -> Report:
    """Write a report on means and variances.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> y = 2 * rng.normal(size=500)
    >>> rows = SimpleNamespace(scores=np.zeros(500), variance=np.ones(500), truth=y, weights=None)
    >>> page = report_regression(rows, n_resamples=100)
    >>> page.summary["verdict"].startswith("Not calibrated: over-confident")
    True
    """
    if predictions.truth is None or predictions.variance is None:
        raise input_error("predictions", "report_regression", "hold truths and variances", "none", "check the columns")
    y, mean, variance, weight = predictions.truth, predictions.scores, predictions.variance, predictions.weights
    evaluation = evaluate(
        y, mean, variance, sample_weight=weight, level=level, n_resamples=n_resamples, rng=rng
    )
    pit = compute_pit(y, mean, variance, sample_weight=weight, rng=rng)
    ranges = compute_variance_table(y, mean, variance, sample_weight=weight)
    return Report(
        {
            "title": title,
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "source": source,
            "headline": evaluation.headline,
            "verdict": evaluation.verdict,
            "level": f"{100 * level:g}",
            "evaluation": evaluation.to_dict(),
            "measures": [_row(result) for result in evaluation.results],
            "pit_table": pit.to_dict(),
            "variance_table": ranges.to_dict(),
            "pit": pit_figure(pit),
            "variance": variance_figure(ranges),
            "method": method_note(
                (y, mean, variance), n_resamples, rng, command,
                "'If calibrated' takes the truths as normal with the forecast's mean and variance, row by row.",
            ),
        },
        kind="regression",
    )


def _row(result: Result) -> dict[str, Any]:
    known = result.null_mean is not None and result.null_std is not None
    interval = result.interval
    side = f"{result.bound} bound: " if result.bound in ("lower", "upper") else ""
    return {
        "name": result.name,
        "value": format_value(result.value),
        "null": f"{format_value(result.null_mean)} ± {format_value(result.null_std)}" if known else "–",
        "pvalue": "–" if result.pvalue is None else "< 0.001" if result.pvalue < 0.001 else f"{result.pvalue:.3f}",
        "interval": "–" if interval is None else f"{format_value(interval.low)} – {format_value(interval.high)}",
        "meaning": side + (result.estimates or "–"),
        "explained": [],
        "bullet": bullet(result.value, result.null_mean, result.null_std),
    }


def pit_figure(table: PitTable) -> str:
    """Return the histogram of the PIT with the band a calibrated model stays in."""
    top = 1.08 * max(*table.share, table.expected + 3 * table.expected_std)
    axes = Axes(52, 10, 420, 300, (0.0, 1.0), (0.0, top))
    parts = [
        axes.frame(
            (0.0, 0.25, 0.5, 0.75, 1.0), nice_ticks(0.0, top), "PIT: where the truth falls in its forecast, %",
            "share of rows, %", write=percent,
        )
    ]
    for low, high, share in zip(table.edges, table.edges[1:], table.share, strict=False):
        shape = tag("title", f"{100 * low:g}–{100 * high:g} %: {100 * share:.1f} % of the rows")
        x, y = axes.x(low) + 0.5, axes.y(share)
        parts.append(
            tag("rect", shape, x=x, y=y, width=axes.x(high) - x - 0.5, height=axes.y(0) - y, class_="count", tabindex=0)
        )
    above, below = table.expected + 1.96 * table.expected_std, max(table.expected - 1.96 * table.expected_std, 0.0)
    parts.append(
        tag(
            "rect", x=axes.left, width=axes.width, y=axes.y(above), height=axes.y(below) - axes.y(above), class_="band"
        )
    )
    level = axes.y(table.expected)
    parts.append(tag("line", x1=axes.left, x2=axes.left + axes.width, y1=level, y2=level, class_="diagonal"))
    description = "Share of rows by the probability integral transform; a calibrated model is flat."
    return figure(490, 356, "PIT histogram", description, parts)


def variance_figure(table: VarianceTable) -> str:
    """Return root mean squared error against predicted standard deviation by range, on logarithmic axes."""
    spread = np.sqrt(np.asarray(table.variance))
    error = np.sqrt(np.maximum(np.asarray(table.mse), np.finfo(float).tiny))
    seen = error > math.sqrt(np.finfo(float).tiny) * 2
    values = np.log10(np.concatenate([spread, error[seen]]))
    low, high = float(values.min()) - 0.08, float(values.max()) + 0.08
    axes = Axes(92, 10, 300, 300, (low, high), (low, high))
    ticks = _log_ticks(low, high)
    parts = [
        axes.frame(
            ticks, ticks, "predicted standard deviation", "root mean squared error", write=lambda v: f"{10**v:.3g}"
        ),
        tag("line", x1=axes.x(low), y1=axes.y(low), x2=axes.x(high), y2=axes.y(high), class_="diagonal"),
    ]
    largest = max(table.count)
    for n, s, e, ok in zip(table.count, spread, error, seen, strict=True):
        if not ok:
            continue
        kind = "over" if e > s else "under"
        x, y = axes.x(math.log10(s)), axes.y(math.log10(e))
        parts.append(tag("line", x1=x, x2=x, y1=axes.y(math.log10(s)), y2=y, class_=f"gap {kind}"))
        label = f"predicted {s:.3g}, error {e:.3g} ({n:g} rows, {kind}-confident)"
        parts.append(
            tag(
                "circle", tag("title", label), cx=x, cy=y, r=2.5 + 4 * math.sqrt(n / largest), class_=f"dot {kind}",
                tabindex=0,
            )
        )
    description = "Root mean squared error of each range of the predicted standard deviation; calibrated: the diagonal."
    return figure(490, 356, "Variance against error", description, parts)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return logarithms of 1, 2, 5 times powers of ten inside the range; at most six of them."""
    ticks = [e + math.log10(m) for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [t for t in ticks if low <= t <= high]
    if len(inside) > 6:
        inside = [t for t in inside if abs(t - round(t)) < 1e-9]
        inside = inside[:: math.ceil(len(inside) / 6)]
    return inside or nice_ticks(low, high, 3)
