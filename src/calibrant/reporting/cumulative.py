"""The four calibration graphs of Gupta et al. (2021), each a figure of its own; a repair is drawn over the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.tables import Table
from calibrant.reporting.svg import Axes, figure, nice_ticks, path, tag, text

_TICKS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Curves:
    """Cumulative share of rows, score and hits, with moving averages of score and frequency."""

    fractile: Floats
    score: Floats
    hits: Floats
    middle: Floats
    local_score: Floats
    local_frequency: Floats
    #: Position of the largest distance between the cumulative curves, and its size: KS.
    peak: int
    ks: float

    @classmethod
    def of(cls, table: Table, windows: int = 40) -> Curves:
        """Add up a table in the order of its scores; averages run over windows of equal mass."""
        total = table.total
        fractile, score, hits = (
            np.concatenate([[0.0], np.cumsum(values) / total]) for values in (table.w, table.ws, table.wt)
        )
        gap = np.abs(hits - score)
        peak = int(gap.argmax())
        bins = table.mass_bins(min(windows, max(2, round(total / 25))))
        w = bins.w[0]
        kept = w > 0
        middle = (np.cumsum(w) - 0.5 * w)[kept] / total
        local_score, local_frequency = bins.ws[0][kept] / w[kept], bins.wt[0][kept] / w[kept]
        return cls(fractile, score, hits, middle, local_score, local_frequency, peak, float(gap[peak]))

    def thin(self, most: int = 200) -> Ints:
        """Return the points worth drawing, ends and peak among them."""
        n = len(self.fractile)
        return np.union1d(np.linspace(0, n - 1, min(n, most)).astype(np.int64), [self.peak])


def _line(axes: Axes, x: Floats, y: Floats, class_: str) -> str:
    return path(((axes.x(float(a)), axes.y(float(b))) for a, b in zip(x, y, strict=True)), class_=class_)


def cumulative_graphs(table: Table, label: str, before: Table | None = None) -> list[str]:
    """Return four figures: cumulative against fractile (large), warped, local against fractile, local against score."""
    main = Curves.of(table)
    layers = [(main, "")] if before is None else [(Curves.of(before), " before"), (main, "")]
    return [_against_fractile(layers, label), _warped(layers, label), _local(layers, label), _by_score(layers, label)]


Layers = list[tuple[Curves, str]]


def _against_fractile(layers: Layers, label: str) -> str:
    main, _ = layers[-1]
    top = max(max(float(c.score[-1]), float(c.hits[-1])) for c, _ in layers) or 1.0
    axes = Axes(52, 14, 440, 340, (0, 1), (0, top))
    ticks = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    parts = [axes.frame(ticks, nice_ticks(0, top), "share of rows, least confident first, %", "added up, %")]
    for curves, faint in layers:
        keep = curves.thin()
        parts.append(_line(axes, curves.fractile[keep], curves.score[keep], "curve score" + faint))
        parts.append(_line(axes, curves.fractile[keep], curves.hits[keep], "curve hits" + faint))
    x, y1, y2 = (float(values[main.peak]) for values in (main.fractile, main.score, main.hits))
    parts.append(tag("line", x1=axes.x(x), x2=axes.x(x), y1=axes.y(y1), y2=axes.y(y2), class_="largest"))
    note = f"largest distance: KS {100 * main.ks:.2f} %"
    parts.append(text(note, axes.left + axes.width - 10, axes.y(0) - 12, class_="mark", text_anchor="end"))
    parts += [
        _line(axes, np.array([0.04, 0.1]), np.array([0.95, 0.95]) * top, "curve score"),
        text("what the model claims", axes.x(0.115), axes.y(0.95 * top) + 4, class_="tick"),
        _line(axes, np.array([0.04, 0.1]), np.array([0.88, 0.88]) * top, "curve hits"),
        text("what happened", axes.x(0.115), axes.y(0.88 * top) + 4, class_="tick"),
    ]
    description = "Scores and hits added up over the rows; where the curves part, the model is off."
    return figure(510, 400, f"Cumulative graph: {label}", description, parts)


def _small(x: tuple[float, float], y: tuple[float, float]) -> Axes:
    return Axes(46, 10, 190, 170, x, y)


def _warped(layers: Layers, label: str) -> str:
    top = max(max(float(c.score[-1]), float(c.hits[-1])) for c, _ in layers) or 1.0
    axes = _small((0, top), (0, top))
    ticks = nice_ticks(0, top, 3)
    parts = [axes.frame(ticks, ticks, "claimed, added up, %", "happened, added up, %"), _diagonal(axes, top)]
    for curves, faint in layers:
        keep = curves.thin()
        parts.append(_line(axes, curves.score[keep], curves.hits[keep], "curve hits" + faint))
    return figure(250, 224, f"Cumulative hits against cumulative score: {label}", "Calibrated: the diagonal.", parts)


def _local(layers: Layers, label: str) -> str:
    axes = _small((0, 1), (0, 1))
    parts = [axes.frame(_TICKS, _TICKS, "share of rows, %", "score, frequency, %")]
    for curves, faint in layers:
        parts.append(_line(axes, curves.middle, curves.local_score, "curve score" + faint))
        parts.append(_line(axes, curves.middle, curves.local_frequency, "curve hits" + faint))
    return figure(250, 224, f"Score and frequency against the share of rows: {label}", "Averages of windows.", parts)


def _by_score(layers: Layers, label: str) -> str:
    axes = _small((0, 1), (0, 1))
    parts = [axes.frame(_TICKS, _TICKS, "score, %", "frequency, %"), _diagonal(axes, 1.0)]
    for curves, faint in layers:
        parts.append(_line(axes, curves.local_score, curves.local_frequency, "curve hits" + faint))
    return figure(250, 224, f"Frequency against score: {label}", "Windows of rows; calibrated: the diagonal.", parts)


def _diagonal(axes: Axes, top: float) -> str:
    return tag("line", x1=axes.x(0), y1=axes.y(0), x2=axes.x(top), y2=axes.y(top), class_="diagonal")
