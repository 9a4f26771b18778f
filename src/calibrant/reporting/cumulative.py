"""The added-up gap: claimed minus right, accumulated from least to most sure, inside the band of a calibrated model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.tables import Table
from calibrant.reporting.labels import Board, Box, text_width
from calibrant.reporting.svg import WIDTHS, Axes, Markup, Picture, drawing, nice_ticks, path, tag, text

__all__ = ["Curves", "added_up"]


@dataclass(frozen=True)
class Curves:
    """Cumulative fraction of rows, and score minus outcome added up over them."""

    fractile: Floats
    gap: Floats
    #: Position of the largest distance from zero, and its size: KS.
    peak: int
    ks: float

    @classmethod
    def of(cls, table: Table) -> Curves:
        """Add up a table in the order of its scores."""
        total = table.total
        fractile = np.concatenate([[0.0], np.cumsum(table.w) / total])
        gap = np.concatenate([[0.0], np.cumsum(table.ws - table.wt) / total])
        peak = int(np.abs(gap).argmax())
        return cls(fractile, gap, peak, float(abs(gap[peak])))

    def thin(self, most: int = 200) -> Ints:
        """Return the points worth drawing, ends and peak among them."""
        n = len(self.fractile)
        at = np.searchsorted(self.fractile, np.linspace(0.0, 1.0, min(n, most)))
        return np.union1d(np.minimum(at, n - 1), [0, self.peak, n - 1])


def _points(value: float) -> str:
    number = round(100 * value, 6)
    return f"{number:+g}".replace("-", "−") if number else "0"


def added_up(
    layers: Sequence[tuple[str, str, Curves]],
    limit: float | None,
    ends: tuple[str, str],
    width: int,
    write: Callable[[float], str],
) -> Picture:
    """Return the chart of the added-up gaps; `layers` are (kind, name, curves), `limit` the edge of the band.

    The band holds the largest excursion of a calibrated model in 95 of 100 cases, so that a line that leaves it and a
    p-value below 0.05 are the same thing.
    """
    narrow = width < WIDTHS[1]
    height, left, right = (320, 54, 10) if narrow else (380 if width > WIDTHS[1] else 320, 62, 12)
    top, bottom = 16, height - 58
    extreme = [0.0, *(float(v) for _, _, c in layers for v in (c.gap.min(), c.gap.max()))]
    if limit is not None:
        extreme += [-limit, limit]
    low, high = min(extreme), max(extreme)
    pad = 0.14 * (high - low) or 0.01
    axes = Axes(left, top, width - left - right, bottom - top, (0.0, 1.0), (low - pad, high + pad))
    body: list[str] = []
    if limit is not None:
        y0, y1 = axes.y(limit), axes.y(-limit)
        body.append(tag("rect", x=left, y=y0, width=axes.width, height=y1 - y0, class_="ribbon"))
    for value in nice_ticks(low - pad, high + pad, 4 if narrow else 6):
        y = axes.y(value)
        body.append(tag("path", d=f"M{left} {y:.1f}H{width - right}", class_="grid" if abs(value) > 1e-12 else "zero"))
        body.append(text(_points(value), left - 7, y + 4, class_="tick", text_anchor="end"))
    for kind, _, curves in layers:
        keep = curves.thin()
        places = [
            (axes.x(float(a)), axes.y(float(b))) for a, b in zip(curves.fractile[keep], curves.gap[keep], strict=True)
        ]
        body.append(path(places, class_=f"line thick {kind}"))
    taken = []
    if limit is not None:
        words = "Gray: 95% of calibrated models" if narrow else "95% of calibrated models stay inside the gray band"
        end, at = width - right - 4, axes.y(-limit) + 15
        body.append(text(words, end, at, class_="regsub halo", text_anchor="end"))
        taken = [Box(end - text_width(words), at - 14, end, at + 4)]
    words_of = [f"{name if len(layers) > 1 else 'Largest gap'}: {write(c.ks)} points" for _, name, c in layers]
    body += _labels(axes, layers, taken, words_of)
    ticks = (0.0, 0.5, 1.0) if narrow else (0.0, 0.25, 0.5, 0.75, 1.0)
    for value in ticks:
        words = f"{100 * value:g}%"
        if not narrow and value in (0.0, 1.0):
            words += f" ({ends[int(value)]})"
        anchor = "start" if value == 0 else "end" if value == 1 else "middle"
        body.append(text(words, axes.x(value), bottom + 18, class_="tick", text_anchor=anchor))
    label = "Fraction of predictions" if narrow else f"Fraction of predictions, {ends[0]} to {ends[1]}"
    body.append(text(label, left + axes.width / 2, bottom + 40, class_="axis", text_anchor="middle"))
    turned = f"translate(12,{(top + bottom) / 2:g}) rotate(-90)"
    body.append(tag("text", "Added-up gap, points", class_="axis", text_anchor="middle", transform=turned))
    desc = "; ".join(f"{name}: largest distance from zero {write(c.ks)} points" for _, name, c in layers)
    return drawing(width, height, "Added-up gap", f"{desc}.", body)


def _labels(axes: Axes, layers: Sequence[tuple[str, str, Curves]], taken: list[Box], labels: list[str]) -> list[Markup]:
    """Return one label per line, near its largest distance from zero, where no line or other text runs through it."""
    area = Box(axes.left, axes.top, axes.left + axes.width, axes.top + axes.height)
    board = Board(area, taken)
    for _, _, curves in layers:
        for fraction in np.linspace(0.0, 1.0, 150):
            x, y = axes.x(float(fraction)), axes.y(float(np.interp(fraction, curves.fractile, curves.gap)))
            board.take(x - 4, y - 2, x + 4, y + 2)
    parts: list[Markup] = []
    for (kind, _, curves), words in zip(layers, labels, strict=True):
        half, peak = text_width(words, strong=True) / 2, float(curves.fractile[curves.peak])
        best: tuple[float, float, float, Box] | None = None
        held = board.held()
        for fraction in (peak, 0.95, 0.8, 0.65, 0.5, 0.35, 0.2):
            x, y = axes.x(fraction), axes.y(float(np.interp(fraction, curves.fractile, curves.gap)))
            x = min(max(x, area.left + half + 4), area.right - half - 4)
            for down in (y - 10, y + 20, y - 26, y + 36):
                at = min(max(down, area.top + 12), area.bottom - 6)
                box = Box(x - half, at - 12, x + half, at + 4)
                side = (at > y) == (curves.gap[curves.peak] >= 0)
                cost = 3 * box.overlap(held) + 60 * abs(fraction - peak)
                cost += 20 * side + abs(at - y)
                if best is None or cost < best[0]:
                    best = (cost, x, at, box)
        if best is not None:
            board.taken.append(best[3])
            parts.append(text(words, best[1], best[2], class_=f"call {kind} strong", text_anchor="middle"))
    return parts
