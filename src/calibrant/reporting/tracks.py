"""Bars of a table row on the one scale of their column: band, zero line, dots and whiskers in CSS percentages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calibrant.reporting.svg import Markup, nice_ticks, tag

__all__ = ["Mark", "Scale", "scale_of"]

#: Width of the narrowest column, and of a character of its ticks, in pixels.
_NARROWEST, _TICK = 178.0, 7.8


@dataclass(frozen=True)
class Mark:
    """A value with its interval and its look: before, after, gray; hollow ones end in ``h``."""

    value: float
    low: float | None
    high: float | None
    kind: str


@dataclass(frozen=True)
class Scale:
    """The ends and ticks of a column."""

    low: float
    high: float
    ticks: Sequence[float]
    #: How a tick is written: "points" (of a proportion, with its sign), "percent" or "plain".
    form: str = "points"

    def at(self, value: float) -> float:
        """Return the position in percent, inside the column."""
        return 100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def write(self, value: float) -> str:
        """Return a tick as text."""
        if self.form == "percent":
            return f"{100 * value:g}%".replace("-", "−")
        if self.form == "plain":
            return f"{value:g}".replace("-", "−")
        number = round(100 * value, 6)
        return f"{number:+g}".replace("-", "−") if number else "0"

    def axis(self) -> Markup:
        """Return the ticks of the head of the column."""
        ticks = []
        for value in self._shown():
            at = self.at(value)
            back = at if at in (0.0, 100.0) else 50.0  # labels at the ends stay inside the column
            style = f"left:{at:.2f}%;transform:translateX(-{back:.0f}%)"
            ticks.append(tag("span", self.write(value), style=style))
        return tag("span", *ticks, class_="tr axis", aria_hidden="true")

    def _shown(self) -> list[float]:
        """Return every tick, or every second, third … from zero on: evenly spaced labels that do not meet."""
        ticks = list(self.ticks)
        start = ticks.index(0.0) if 0.0 in ticks else 0
        for stride in range(1, len(ticks)):
            shown = ticks[start % stride :: stride]
            spans = [self._ends(value) for value in shown]
            if all(left[1] + 6 <= right[0] for left, right in pairwise(spans)):
                return shown
        return ticks[:1]

    def _ends(self, value: float) -> tuple[float, float]:
        """Return from where to where the label of a tick reaches in the narrowest column."""
        width, at = _TICK * len(self.write(value)), self.at(value) / 100
        left = _NARROWEST * at - width * (at if at in (0.0, 1.0) else 0.5)
        return left, left + width

    @property
    def words(self) -> str:
        """The scale in words, for a phone where the head of the table is not shown."""
        unit = " points" if self.form == "points" else ""
        return f"Scale of the bars: {self.write(self.low)} to {self.write(self.high)}{unit}"

    def track(self, marks: Iterable[Mark], band: tuple[float, float] | None = None) -> Markup:
        """Return the bar of one row; what lies beyond the ends is cut off with an arrow."""
        parts: list[Markup] = []
        if band is not None:
            left, right = (self.at(end) for end in band)
            parts.append(
                tag("i", Markup(" "), class_="band", style=f"left:{left:.2f}%;width:{max(right - left, 0.4):.2f}%")
            )
        if self.low <= 0 <= self.high:
            parts.append(tag("i", Markup(" "), class_="z", style=f"left:{self.at(0.0):.2f}%"))
        shown = list(marks)
        for mark in shown:
            if mark.low is not None and mark.high is not None:
                left, right = self.at(mark.low), self.at(mark.high)
                kind = mark.kind.removesuffix("h")
                style = f"left:{left:.2f}%;width:{right - left:.2f}%"
                parts.append(tag("i", Markup(" "), class_=f"w {kind}", style=style))
        for mark in shown:
            beyond = "‹" if mark.value < self.low else "›" if mark.value > self.high else ""
            style = f"left:{self.at(mark.value):.2f}%"
            if beyond:
                parts.append(tag("b", beyond, class_=f"out {mark.kind}", style=style))
            else:
                parts.append(tag("b", Markup(" "), class_=mark.kind, style=style))
        return tag("span", *parts, class_="tr", aria_hidden="true")


def scale_of(values: Iterable[float | None], *, form: str = "points", zero: bool = True, about: int = 5) -> Scale:
    """Return a scale with round ends that holds the values (and zero).

    Examples
    --------
    >>> scale = scale_of([0.012, 0.103, -0.021])
    >>> scale.low, scale.high, scale.write(scale.ticks[-1])
    (-0.05, 0.15, '+15')
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    known += [0.0] if zero or not known else []
    low, high = min(known), max(known)
    if high - low < 1e-12:
        low, high = low - 0.01, high + 0.01
    ticks = nice_ticks(low, high, about)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if first == last:
        last += 1
    ticks = [round(i * step, 12) for i in range(first, last + 1)]
    return Scale(ticks[0], ticks[-1], ticks, form)
