"""The pictures of the report: reliability diagram, league, bullets, sparklines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.reporting.cells import ViewCells
from calibrant.reporting.svg import Axes, figure, nice_ticks, path, plain, tag, text

#: Rows of a bin up to which its band is counted out.
_FEW = 100
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability_body(cells: ViewCells, n_bins: int, before: ViewCells | None = None) -> list[str]:
    """Return the shapes of the reliability diagram: counts strip, band, diagonal, gaps and dots.

    The script draws the same shapes for other bins and views; what it replaces is marked ``drawn``.
    """
    axes = Axes(52, 10, 320, 320, (0, 1), (0, 1))
    frame = [tag("g", axes.frame(_TICKS, _TICKS, f"{cells.label}, %", "how often it happens, %"), class_="frame")]
    frame.append(text("rows", 46, 406, class_="tick", text_anchor="end"))
    w, ws, _, noise = cells.rebin(n_bins)
    kept, largest = np.flatnonzero(w), w.max()
    parts = []
    for b in kept:
        height = 36 * w[b] / largest
        x, width = axes.x(b / n_bins) + 0.5, max(axes.width / n_bins - 1, 0.5)
        parts.append(tag("rect", x=x, y=410 - height, width=width, height=max(height, 0.5), class_="count"))
    if len(kept) > 1:
        ends = [(ws[b] / w[b], *consistency(w[b], ws[b], noise[b])) for b in kept]
        upper = [(axes.x(mean), axes.y(high)) for mean, _, high in ends]
        lower = [(axes.x(mean), axes.y(low)) for mean, low, _ in ends]
        outline = " ".join(f"{x:.2f},{y:.2f}" for x, y in [*upper, *reversed(lower)])
        parts.append(tag("polygon", points=outline, class_="band"))
    parts.append(tag("line", x1=axes.x(0), y1=axes.y(0), x2=axes.x(1), y2=axes.y(1), class_="diagonal"))
    if before is not None:
        parts.append(tag("g", "".join(_dots(axes, before, n_bins)), class_="before"))
    parts.extend(_dots(axes, cells, n_bins))
    return [*frame, tag("g", "".join(parts), class_="drawn")]


def _dots(axes: Axes, cells: ViewCells, n_bins: int) -> list[str]:
    """Return one group per occupied bin: gap, Wilson whisker (shown on hover or focus), dot with its sentence."""
    w, ws, wt, _ = cells.rebin(n_bins)
    largest = w.max()
    parts = []
    for b in np.flatnonzero(w):
        s, t = ws[b] / w[b], wt[b] / w[b]
        kind = "over" if t < s else "under"
        low, high = wilson(t, w[b])
        label = (
            f"says {100 * s:.1f} %, happens {100 * t:.1f} % [{100 * low:.1f}, {100 * high:.1f}] "
            f"({_count(w[b])} rows, {kind}-confident by {100 * abs(t - s):.1f} points)"
        )
        x, radius = axes.x(s), 2.5 + 5.5 * math.sqrt(w[b] / largest)
        shapes = [
            tag("title", label),
            tag("line", x1=x, x2=x, y1=axes.y(s), y2=axes.y(t), class_=f"gap {kind}"),
            tag("line", x1=x, x2=x, y1=axes.y(low), y2=axes.y(high), class_="wilson"),
            tag("circle", cx=x, cy=axes.y(t), r=radius, class_=f"dot {kind}"),
        ]
        parts.append(tag("g", "".join(shapes), class_="bin", tabindex=0, role="img", aria_label=label))
    return parts


def consistency(w: float, ws: float, noise: float) -> tuple[float, float]:
    """Return where 95 % of a calibrated model's frequencies fall: binomial for few rows, normal for many."""
    mean = ws / w
    if w > _FEW or w != round(w) or not 0 < mean < 1:
        half = 1.96 * math.sqrt(noise) / w
        return max(0.0, mean - half), min(1.0, mean + half)
    n, chance, reached, low = round(w), (1 - mean) ** w, 0.0, -1
    for k in range(n + 1):
        reached += chance
        if low < 0 and reached >= 0.025:
            low = k
        if reached >= 0.975:
            return low / n, k / n
        chance *= (n - k) / (k + 1) * mean / (1 - mean)
    return low / n, 1.0


def wilson(share: float, n: float, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % score interval of a frequency (Wilson 1927)."""
    centre, half = share + z * z / (2 * n), z * math.sqrt(max(share * (1 - share) / n + z * z / (4 * n * n), 0.0))
    scale = 1 + z * z / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def reliability(cells: ViewCells, n_bins: int = 15, before: ViewCells | None = None) -> str:
    """Return the reliability diagram with what a calibrated model would show as a grey ribbon."""
    description = (
        "Mean score of each bin against how often the event happened; the grey ribbon is what a calibrated model shows."
    )
    return figure(
        390,
        414,
        f"Reliability diagram: {cells.label}",
        description,
        reliability_body(cells, n_bins, before),
        id="reliability",
    )


def league_chart(rows: Sequence[dict[str, Any]]) -> str:
    """Return dots with intervals: gain of each method against doing nothing; argmax-changing ones hollow."""
    rows = [row for row in rows if row.get("low") is not None][:14]
    if not rows:
        return ""
    low = min(0.0, *(row["low"] for row in rows))
    high = max(0.0, *(row["high"] for row in rows))
    pad = 0.05 * (high - low or 1.0)
    bottom = 14 + 24 * len(rows)
    axes = Axes(170, 4, 470, bottom - 4, (low - pad, high + pad), (0, 1))
    label = "gain in log score over doing nothing: right is better"
    parts = [axes.frame(nice_ticks(low, high), (), label, "", write=plain)]
    parts.append(tag("line", x1=axes.x(0), x2=axes.x(0), y1=4, y2=bottom, class_="zero"))
    for i, row in enumerate(rows):
        y = 18 + 24 * i
        chosen = " chosen" if row.get("chosen") else ""
        hollow = " hollow" if not row.get("preserves_argmax", True) else ""
        parts.append(text(str(row["method"]), 162, y + 4, class_="tick" + chosen, text_anchor="end"))
        parts.append(tag("line", x1=axes.x(row["low"]), x2=axes.x(row["high"]), y1=y, y2=y, class_="whisker" + chosen))
        weight = f", {100 * row['weight']:.0f} % of the chosen map" if row.get("weight") else ""
        parts.append(
            tag(
                "circle",
                tag("title", f"{row['method']}: gain {row['gain']:.4f} [{row['low']:.4f}, {row['high']:.4f}]{weight}"),
                cx=axes.x(row["gain"]),
                cy=y,
                r=5,
                class_="league" + chosen + hollow,
                tabindex=0,
            )
        )
    description = "Cross-validated gain of each repair with its interval."
    return figure(660, bottom + 40, "League of repairs", description, parts, wide=True)


def bullet(value: float, mean: float | None, std: float | None) -> str:
    """Return a tiny chart: grey band = a calibrated model, dot = this one; nothing where nothing is known."""
    if mean is None or std is None or not math.isfinite(value):
        return ""
    low, high = min(value, mean - 3 * std), max(value, mean + 3 * std)
    span = (high - low) or 1.0

    def x(v: float) -> float:
        return 4 + 92 * (v - low) / span

    left, right = x(mean - 1.96 * std), x(mean + 1.96 * std)
    outside = abs(value - mean) > 1.96 * std
    band = tag("rect", x=left, y=3, width=max(right - left, 2.0), height=10, class_="band")
    line = tag("line", x1=4, x2=96, y1=8, y2=8, class_="grid")
    dot = tag("circle", cx=x(value), cy=8, r=3.5, class_="dot " + ("out" if outside else "calm"))
    return tag("svg", line + band + dot, viewBox="0 0 100 16", class_="bullet", aria_hidden="true")


def spark(cells: ViewCells, n_bins: int = 10) -> str:
    """Return a sparkline of a reliability diagram."""
    w, ws, wt, _ = cells.rebin(n_bins)
    points = [(4 + 32 * ws[b] / w[b], 36 - 32 * wt[b] / w[b]) for b in np.flatnonzero(w)]
    line = tag("line", x1=4, y1=36, x2=36, y2=4, class_="diagonal")
    return tag("svg", line + path(points, class_="curve hits"), viewBox="0 0 40 40", class_="spark", aria_hidden="true")
