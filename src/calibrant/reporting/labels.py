"""Where a label goes: beside its dot, inside the picture, and not on another label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrant._typing import Floats
from calibrant.reporting.svg import Markup, markup, tag, text

__all__ = ["Board", "Box", "text_width"]

#: Height of a line of text, and width of an average character of it, in pixels at 13 pixels.
LINE = 16.0
#: How many of the nearest free places are judged by what the line to them crosses.
_NEAREST = 400
_NARROW, _WIDE, _MIDDLE = "iljtf.,:;|'!()[] ", "mwMW%@", 7.8


def text_width(content: str, *, strong: bool = False) -> float:
    """Return about how wide a text is at 13 pixels, rather too wide than too narrow."""
    width = sum(4.3 if c in _NARROW else 12.0 if c in _WIDE else _MIDDLE for c in content)
    return width * (1.1 if strong else 1.0)


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, others: Floats) -> float:
        """Return the area in common with others (`Board.held`), summed."""
        width = np.minimum(self.right, others[:, 2]) - np.maximum(self.left, others[:, 0])
        height = np.minimum(self.bottom, others[:, 3]) - np.maximum(self.top, others[:, 1])
        return float(sum((np.maximum(width, 0.0) * np.maximum(height, 0.0)).tolist()))


@dataclass
class Board:
    """The plot area and what already stands in it."""

    area: Box
    taken: list[Box] = field(default_factory=list)

    def held(self) -> Floats:
        """Return what stands there, one row (left, top, right, bottom) each."""
        return np.array([(box.left, box.top, box.right, box.bottom) for box in self.taken]).reshape(-1, 4)

    def take(self, left: float, top: float, right: float, bottom: float) -> None:
        """Keep a rectangle free of labels."""
        self.taken.append(Box(left, top, right, bottom))

    def nearest(
        self, x: float, y: float, lines: Sequence[str], radius: float, *, below: bool | None = None, reach: float = 1e9
    ) -> Box | None:
        """Return the nearest place for a label on which nothing lies, within `reach`; None where there is none.

        A place costs its distance from (x, y), what the line to it would cross, and the wrong side of the diagonal,
        where `below` says which side is right.
        """
        width = max(text_width(line, strong=i == 0) for i, line in enumerate(lines))
        height, area = LINE * len(lines), self.area
        across = np.arange(area.left, area.right - width + 0.1, 4.0)
        down = np.arange(area.top, area.bottom - height + 0.1, 4.0)
        left, top = (grid.ravel() for grid in np.meshgrid(across, down))
        held = self.held()
        free = np.ones(len(left), dtype=bool)
        for one in held:
            free &= (left > one[2]) | (left + width < one[0]) | (top > one[3]) | (top + height < one[1])
        left, top = left[free], top[free]
        far = np.hypot(x - np.clip(x, left, left + width), y - np.clip(y, top, top + height))
        # the diagonal goes from the lower left to the upper right corner of a square
        beneath = left + width / 2 - area.left + top + height / 2 - area.top > (area.bottom - area.top)
        cost = far + (0.0 if below is None else 90.0 * (beneath != below)) + 1000.0 * (far < radius + 4)
        order = np.argsort(cost, kind="stable")
        order = order[far[order] <= reach][:_NEAREST]
        if not len(order):
            return None
        steps = np.linspace(0.0, 1.0, 24)[:, None]
        others = held[~((held[:, 0] <= x) & (held[:, 2] >= x) & (held[:, 1] <= y) & (held[:, 3] >= y))]
        price = np.where(others[:, 2] - others[:, 0] > 40, 120.0, 12.0)  # a label or corner; a piece of a line
        best, least = order[0], np.inf
        for i in order:
            along = x + steps * (np.clip(x, left[i], left[i] + width) - x)
            drawn = y + steps * (np.clip(y, top[i], top[i] + height) - y)
            hit = (others[:, 0] <= along) & (along <= others[:, 2]) & (others[:, 1] <= drawn) & (drawn <= others[:, 3])
            full = cost[i] + price[hit.any(axis=0)].sum()
            if full < least:
                best, least = i, full
        found = Box(float(left[best]), float(top[best]), float(left[best] + width), float(top[best] + height))
        self.taken.append(found)
        return found

    def callout(
        self, x: float, y: float, lines: Sequence[str], *, radius: float, class_: str, down: bool = True
    ) -> Markup:
        """Return a label of one or two lines with a thin line to its dot; nothing where no place is free."""
        box = self.nearest(x, y, lines, radius, below=down)
        if box is None:
            return Markup()
        anchor = "start" if box.left + box.right > 2 * x else "end"
        at = box.left if anchor == "start" else box.right
        to_x, to_y = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
        parts = []
        if math.hypot(to_x - x, to_y - y) > radius + 8:
            parts.append(tag("path", d=f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}", class_="lead"))
        for i, line in enumerate(lines):
            strong = " strong" if i == 0 and len(lines) > 1 else ""
            parts.append(text(line, at, box.top + LINE * i + 12, class_=f"call {class_}{strong}", text_anchor=anchor))
        return markup(*parts)
