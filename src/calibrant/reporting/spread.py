"""The pictures of error bars: where truths fall in their forecasts, and errors against predicted deviations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.regression import PitTable, VarianceTable
from calibrant.reporting.svg import Axes, Picture, drawing, nice_ticks, tag, text

__all__ = ["pit_figure", "variance_figure"]


def _names(axes: Axes, x: str, y: str, bottom: float, left: float) -> list[str]:
    middle = axes.top + axes.height / 2
    turned = f"translate({left:g},{middle:g}) rotate(-90)"
    return [
        text(x, axes.left + axes.width / 2, bottom, class_="axis", text_anchor="middle"),
        tag("text", y, class_="axis", text_anchor="middle", transform=turned),
    ]


def pit_figure(tables: Mapping[str, PitTable], *, narrow: bool = False) -> Picture:
    """Return the histogram of the positions of the truths, with the band a calibrated model stays in.

    `tables` holds the states: the last one filled, one before it outlined.
    """
    width, height = (358, 320) if narrow else (500, 380)
    *before, (kind, table) = tables.items()
    top = 1.08 * max(*(v for one in tables.values() for v in one.share), table.expected + 3 * table.expected_std)
    axes = Axes(56, 34, width - 68, height - 92, (0.0, 1.0), (0.0, top))
    bottom = axes.top + axes.height
    parts: list[str] = []
    for value in nice_ticks(0.0, top, 4):
        y = axes.y(value)
        parts.append(tag("path", d=f"M{axes.left:g} {y:.1f}h{axes.width:g}", class_="grid"))
        parts.append(text(f"{100 * value:g}%", axes.left - 7, y + 4, class_="tick", text_anchor="end"))
    for low, high, share in zip(table.edges, table.edges[1:], table.share, strict=False):
        words = f"{100 * low:g}% to {100 * high:g}%: {100 * share:.1f}% of the rows"
        x, y = axes.x(low) + 1, axes.y(share)
        shape = {"x": x, "y": y, "width": axes.x(high) - x - 1, "height": bottom - y}
        parts.append(tag("rect", tag("title", words), class_=f"bar {kind}", **shape))
    for _, one in before:
        parts.append(tag("path", d=_outline(axes, one, bottom), class_="hbefore"))
    above, below = table.expected + 1.96 * table.expected_std, max(table.expected - 1.96 * table.expected_std, 0.0)
    tall = axes.y(below) - axes.y(above)
    parts.append(tag("rect", x=axes.left, width=axes.width, y=axes.y(above), height=tall, class_="ribbon clear"))
    parts += _key(axes, tables, "Gray: 95% of a calibrated model’s bars")
    for value in (0.0, 0.5, 1.0):
        anchor = "start" if value == 0 else "end" if value == 1 else "middle"
        parts.append(text(f"{100 * value:g}%", axes.x(value), bottom + 17, class_="tick", text_anchor=anchor))
    parts += _names(axes, "Position of the truth in its forecast", "Fraction of rows", bottom + 38, 12)
    description = "Fraction of rows by where the truth falls in its own forecast; a calibrated model is flat."
    return drawing(width, height, "PIT histogram", description, parts)


def _outline(axes: Axes, table: PitTable, bottom: float) -> str:
    """Return the steps of a histogram as a line."""
    steps = (
        f"V{axes.y(share):.1f}H{axes.x(high):.1f}" for high, share in zip(table.edges[1:], table.share, strict=False)
    )
    return f"M{axes.left:g} {bottom:g}{''.join(steps)}V{bottom:g}"


def _key(axes: Axes, tables: Mapping[str, Any], more: str = "") -> list[str]:
    """Return the line above a picture: which state is which, and what is gray."""
    words = {"before": "Outlined: as delivered", "after": "filled: after repair"} if len(tables) > 1 else {}
    line = ". ".join(filter(None, (", ".join(words.values()), "" if words else more)))
    return [text(line, axes.left, axes.top - 12, class_="regsub")] if line else []


def variance_figure(tables: Mapping[str, VarianceTable], *, narrow: bool = False) -> Picture:
    """Return root mean squared error against predicted standard deviation by range, on logarithmic axes."""
    width, height = (358, 360) if narrow else (500, 380)
    least = np.finfo(float).tiny
    dots = [
        (kind, n, math.sqrt(v), math.sqrt(e), n / max(table.count))
        for kind, table in tables.items()
        for n, v, e in zip(table.count, table.variance, table.mse, strict=True)
        if e > 4 * least
    ]
    values = np.log10([value for dot in dots for value in dot[2:4]] or [1.0])
    low, high = float(values.min()) - 0.08, float(values.max()) + 0.08
    side = height - 96
    axes = Axes(62, 34, side, side, (low, high), (low, high))
    bottom, right = axes.top + side, axes.left + side
    parts: list[str] = []
    for value in log_ticks(low, high):
        x, y = axes.x(value), axes.y(value)
        parts.append(tag("path", d=f"M{x:.1f} {bottom:g}V{axes.top:g}M{axes.left:g} {y:.1f}H{right:g}", class_="grid"))
        parts.append(text(f"{10**value:.3g}", x, bottom + 17, class_="tick", text_anchor="middle"))
        parts.append(text(f"{10**value:.3g}", axes.left - 7, y + 4, class_="tick", text_anchor="end"))
    parts.append(tag("path", d=f"M{axes.left:g} {bottom:g}L{right:g} {axes.top:g}", class_="diag"))
    for kind, n, s, e, fraction in dots:
        x, y = axes.x(math.log10(s)), axes.y(math.log10(e))
        parts.append(tag("path", d=f"M{x:.1f} {axes.y(math.log10(s)):.1f}V{y:.1f}", class_=f"whisk {kind}"))
        words = f"predicted {s:.3g}, error {e:.3g} ({n:g} rows)"
        parts.append(
            tag("circle", tag("title", words), cx=x, cy=y, r=4 + 3 * math.sqrt(fraction), class_=f"dot {kind}")
        )
    parts += _key(axes, tables)
    parts.append(text("Errors larger", axes.left + 8, axes.top + 18, class_="region halo"))
    parts.append(text("Errors smaller", right - 8, bottom - 8, class_="region halo", text_anchor="end"))
    parts += _names(axes, "Predicted standard deviation", "Actual error (RMS)", bottom + 38, 12)
    description = "Root mean squared error of each range of the predicted standard deviation; calibrated: the diagonal."
    return drawing(width, height, "Variance against error", description, parts)


def log_ticks(low: float, high: float) -> list[float]:
    """Return logarithms of 1, 2, 5 times powers of ten inside the range; at most six of them."""
    ticks = [e + math.log10(m) for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [t for t in ticks if low <= t <= high]
    if len(inside) > 6:
        inside = [t for t in inside if abs(t - round(t)) < 1e-9]
        inside = inside[:: math.ceil(len(inside) / 6)]
    return inside or nice_ticks(low, high, 3)
