"""The reliability diagram of equal-width bins that the script re-bins in the browser."""

from __future__ import annotations

import math

import numpy as np

from calibrant.reporting.cells import ViewCells
from calibrant.reporting.svg import Axes, Markup, Picture, figure, tag, text

#: Rows of a bin up to which its band is counted out.
_FEW = 100
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability_body(cells: ViewCells, n_bins: int, before: ViewCells | None = None) -> list[Markup]:
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
        parts.append(tag("g", *_dots(axes, before, n_bins), class_="before"))
    parts.extend(_dots(axes, cells, n_bins))
    return [*frame, tag("g", *parts, class_="drawn")]


def _dots(axes: Axes, cells: ViewCells, n_bins: int) -> list[Markup]:
    """Return one group per occupied bin: gap, Wilson whisker (shown on hover or focus), dot with its sentence."""
    w, ws, wt, _ = cells.rebin(n_bins)
    largest = w.max()
    parts = []
    for b in np.flatnonzero(w):
        s, t = ws[b] / w[b], wt[b] / w[b]
        kind = "too high" if t < s else "too low"
        low, high = wilson(t, w[b])
        label = (
            f"says {100 * s:.1f}%, happens {100 * t:.1f}% [{100 * low:.1f}, {100 * high:.1f}] "
            f"({_count(w[b])} rows, {kind} by {100 * abs(t - s):.1f} points)"
        )
        x, radius = axes.x(s), 2.5 + 5.5 * math.sqrt(w[b] / largest)
        shapes = [
            tag("title", label),
            tag("line", x1=x, x2=x, y1=axes.y(s), y2=axes.y(t), class_="gap"),
            tag("line", x1=x, x2=x, y1=axes.y(low), y2=axes.y(high), class_="wilson"),
            tag("circle", cx=x, cy=axes.y(t), r=radius, class_="dot"),
        ]
        parts.append(tag("g", *shapes, class_="bin", tabindex=0, role="img", aria_label=label))
    return parts


def consistency(w: float, ws: float, noise: float) -> tuple[float, float]:
    """Return where 95% of a calibrated model's frequencies fall: binomial for few rows, normal for many."""
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
    """Return the 95% score interval of a frequency (Wilson 1927)."""
    center, half = share + z * z / (2 * n), z * math.sqrt(max(share * (1 - share) / n + z * z / (4 * n * n), 0.0))
    scale = 1 + z * z / n
    return max(0.0, (center - half) / scale), min(1.0, (center + half) / scale)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def reliability(cells: ViewCells, n_bins: int = 15, before: ViewCells | None = None) -> Picture:
    """Return the reliability diagram with what a calibrated model would show as a gray ribbon."""
    description = (
        "Mean score of each bin against how often the event happened; the gray ribbon is what a calibrated model shows."
    )
    name, body = f"Reliability diagram: {cells.label}", reliability_body(cells, n_bins, before)
    class_ = "figure" if before is None else "figure repaired"
    return figure(390, 414, name, description, body, class_, id="reliability")
