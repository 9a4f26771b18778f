"""The pictures of the report: reliability, cumulative graphs, league, class bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.tables import Table
from calibrant.reporting.cells import ViewCells
from calibrant.reporting.svg import Axes, figure, path, tag, text

_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability_body(cells: ViewCells, n_bins: int, before: ViewCells | None = None) -> list[str]:
    """Return the shapes of the reliability diagram: band, diagonal, gaps, dots, counts strip."""
    axes = Axes(52, 10, 320, 320, (0, 1), (0, 1))
    parts = [axes.frame(_TICKS, _TICKS, f"{cells.label}, %", "how often it happens, %")]
    w, ws, _, noise = cells.rebin(n_bins)
    kept = np.flatnonzero(w)
    mean = ws[kept] / w[kept]
    half = 1.96 * np.sqrt(noise[kept]) / w[kept]
    upper = [(axes.x(m), axes.y(min(1.0, m + h))) for m, h in zip(mean, half, strict=True)]
    lower = [(axes.x(m), axes.y(max(0.0, m - h))) for m, h in zip(mean, half, strict=True)]
    if len(kept) > 1:
        outline = " ".join(f"{x:.2f},{y:.2f}" for x, y in [*upper, *reversed(lower)])
        parts.append(tag("polygon", points=outline, class_="band"))
    parts.append(tag("line", x1=axes.x(0), y1=axes.y(0), x2=axes.x(1), y2=axes.y(1), class_="diagonal"))
    if before is not None:
        parts.append(f'<g class="before">{"".join(_dots(axes, before, n_bins))}</g>')
    parts.extend(_dots(axes, cells, n_bins))
    largest = w.max()
    for b in kept:
        height = 36 * w[b] / largest
        parts.append(
            tag(
                "rect",
                x=axes.x(b / n_bins) + 0.5,
                y=400 - height,
                width=max(axes.width / n_bins - 1, 0.5),
                height=max(height, 0.5),
                class_="count",
            )
        )
    parts.append(text("rows", 46, 396, class_="tick", text_anchor="end"))
    return parts


def _dots(axes: Axes, cells: ViewCells, n_bins: int) -> list[str]:
    w, ws, wt, _ = cells.rebin(n_bins)
    largest = w.max()
    parts = []
    for b in np.flatnonzero(w):
        s, t = ws[b] / w[b], wt[b] / w[b]
        kind = "over" if t < s else "under"
        parts.append(tag("line", x1=axes.x(s), x2=axes.x(s), y1=axes.y(s), y2=axes.y(t), class_=f"gap {kind}"))
        label = (
            f"says {100 * s:.1f} %, happens {100 * t:.1f} % "
            f"({_count(w[b])} rows, {kind}-confident by {100 * abs(t - s):.1f} points)"
        )
        shape = tag("title", label)
        parts.append(
            tag(
                "circle",
                shape,
                cx=axes.x(s),
                cy=axes.y(t),
                r=2.5 + 5.5 * math.sqrt(w[b] / largest),
                class_=f"dot {kind}",
                tabindex=0,
            )
        )
    return parts


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def reliability(cells: ViewCells, n_bins: int = 15, before: ViewCells | None = None) -> str:
    """Return the reliability diagram with what a calibrated model would show as a grey ribbon."""
    description = (
        "Mean score of each bin against how often the event happened; the grey ribbon is what a calibrated model shows."
    )
    return figure(
        390,
        410,
        f"Reliability diagram: {cells.label}",
        description,
        reliability_body(cells, n_bins, before),
        id="reliability",
    )


def cumulative_graphs(table: Table, label: str) -> str:
    """Return the four calibration graphs of Gupta et al. (2021): cumulative, warped, against fractile, against score."""
    total = table.total
    fractile = np.concatenate([[0.0], np.cumsum(table.w) / total])
    score = np.concatenate([[0.0], np.cumsum(table.ws) / total])
    hits = np.concatenate([[0.0], np.cumsum(table.wt) / total])
    keep = _thin(len(fractile))
    gap = np.abs(hits - score)
    peak = int(gap.argmax())
    parts: list[str] = []
    top = max(float(score[-1]), float(hits[-1]), 1e-9)
    first = Axes(46, 22, 210, 200, (0, 1), (0, top))
    ticks = (0.0, 0.5, 1.0)
    parts.append(first.frame(ticks, (0.0, round(top, 2)), "share of rows, %", "cumulative, %"))
    parts.append(
        path(((first.x(f), first.y(s)) for f, s in zip(fractile[keep], score[keep], strict=True)), class_="curve score")
    )
    parts.append(
        path(((first.x(f), first.y(h)) for f, h in zip(fractile[keep], hits[keep], strict=True)), class_="curve hits")
    )
    x = first.x(float(fractile[peak]))
    parts.append(
        tag("line", x1=x, x2=x, y1=first.y(float(score[peak])), y2=first.y(float(hits[peak])), class_="largest")
    )
    parts.append(text(f"largest gap {100 * float(gap[peak]):.2f} %", 60, 36, class_="note"))
    second = Axes(316, 22, 210, 200, (0, top), (0, top))
    parts.append(second.frame((0.0, round(top, 2)), (0.0, round(top, 2)), "cumulative score, %", "cumulative hits, %"))
    parts.append(tag("line", x1=second.x(0), y1=second.y(0), x2=second.x(top), y2=second.y(top), class_="diagonal"))
    parts.append(
        path(((second.x(s), second.y(h)) for s, h in zip(score[keep], hits[keep], strict=True)), class_="curve hits")
    )
    smooth_f, smooth_s, smooth_t = _window(table)
    third = Axes(46, 282, 210, 200, (0, 1), (0, 1))
    parts.append(third.frame(ticks, ticks, "share of rows, %", "score and frequency, %"))
    parts.append(
        path(((third.x(f), third.y(s)) for f, s in zip(smooth_f, smooth_s, strict=True)), class_="curve score")
    )
    parts.append(path(((third.x(f), third.y(t)) for f, t in zip(smooth_f, smooth_t, strict=True)), class_="curve hits"))
    fourth = Axes(316, 282, 210, 200, (0, 1), (0, 1))
    parts.append(fourth.frame(ticks, ticks, "score, %", "frequency, %"))
    parts.append(tag("line", x1=fourth.x(0), y1=fourth.y(0), x2=fourth.x(1), y2=fourth.y(1), class_="diagonal"))
    parts.append(
        path(((fourth.x(s), fourth.y(t)) for s, t in zip(smooth_s, smooth_t, strict=True)), class_="curve hits")
    )
    description = (
        "Cumulative score and cumulative hits against the share of rows; where the curves part, the model is off."
    )
    return figure(540, 528, f"KS calibration graphs: {label}", description, parts)


def _thin(n: int, most: int = 220) -> Floats:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def _window(table: Table, windows: int = 40) -> tuple[Floats, Floats, Floats]:
    """Mean fractile, score and frequency over equal-mass windows of the sorted rows."""
    bins = table.mass_bins(min(windows, max(2, round(table.total / 25))))
    w = bins.w[0]
    kept = w > 0
    middle = (np.cumsum(w) - 0.5 * w)[kept] / table.total
    return middle, bins.ws[0][kept] / w[kept], bins.wt[0][kept] / w[kept]


def league_chart(rows: Sequence[dict[str, Any]]) -> str:
    """Return dots with intervals: gain of each method against doing nothing; argmax-changing ones hollow."""
    rows = [row for row in rows if row.get("low") is not None][:14]
    if not rows:
        return ""
    low = min(0.0, *(row["low"] for row in rows))
    high = max(0.0, *(row["high"] for row in rows))
    pad = 0.05 * (high - low or 1.0)
    height = 30 + 22 * len(rows)
    axes = Axes(190, 8, 320, height - 40, (low - pad, high + pad), (0, 1))
    parts = [tag("line", x1=axes.x(0), x2=axes.x(0), y1=4, y2=height - 30, class_="zero")]
    for i, row in enumerate(rows):
        y = 16 + 22 * i
        chosen = " chosen" if row.get("chosen") else ""
        hollow = " hollow" if not row.get("preserves_argmax", True) else ""
        parts.append(text(str(row["method"]), 182, y + 4, class_="tick" + chosen, text_anchor="end"))
        parts.append(tag("line", x1=axes.x(row["low"]), x2=axes.x(row["high"]), y1=y, y2=y, class_="whisker" + chosen))
        parts.append(
            tag(
                "circle",
                tag("title", f"gain {row['gain']:.4f} [{row['low']:.4f}, {row['high']:.4f}]"),
                cx=axes.x(row["gain"]),
                cy=y,
                r=4.5,
                class_="league" + chosen + hollow,
            )
        )
    parts.append(
        text(
            "gain in log score against doing nothing (right is better)",
            350,
            height - 8,
            class_="axis",
            text_anchor="middle",
        )
    )
    return figure(530, height, "League of repairs", "Cross-validated gain of each repair with its interval.", parts)


def spark(cells: ViewCells, n_bins: int = 10) -> str:
    """Return a sparkline of a reliability diagram."""
    w, ws, wt, _ = cells.rebin(n_bins)
    points = [(4 + 32 * ws[b] / w[b], 36 - 32 * wt[b] / w[b]) for b in np.flatnonzero(w)]
    line = tag("line", x1=4, y1=36, x2=36, y2=4, class_="diagonal")
    return tag("svg", line + path(points, class_="curve hits"), viewBox="0 0 40 40", class_="spark", aria_hidden="true")
