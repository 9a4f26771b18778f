"""Where a label goes: beside its dot, inside the picture, and not on another label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calibrant.reporting.svg import Markup, markup, tag, text

__all__ = ["Board", "Box", "text_width"]

#: Height of a line of text, and width of an average character of it, in pixels at 13 pixels.
LINE = 16.0
#: Directions in which a label may stand from its dot, the first ones preferred.
WAYS = ((1, 0), (-1, 0), (1, -0.7), (-1, -0.7), (1, 0.7), (-1, 0.7), (0.4, 1), (-0.4, -1))
#: The same, away from the diagonal: below it, or above it.
DOWN = (
    (-0.5, 1.0),
    (0.5, 1.0),
    (-0.05, 1.0),
    (-0.2, 1.0),
    (0.2, 1.0),
    (-1.0, 0.8),
    (-0.8, 1.2),
    (1.0, 0.5),
    (1.0, 1.0),
    (1.0, 0.0),
)
UP = ((-1.0, -0.5), (-0.5, -1.0), (-1.0, -1.0), (-0.1, -1.2), (0.3, -1.0), (-1.0, 0.0))
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

    def overlap(self, other: Box) -> float:
        """Return the common area."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


@dataclass
class Board:
    """The plot area and what already stands in it."""

    area: Box
    taken: list[Box] = field(default_factory=list)

    def take(self, left: float, top: float, right: float, bottom: float) -> None:
        """Keep a rectangle free of labels."""
        self.taken.append(Box(left, top, right, bottom))

    def place(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        *,
        reach: float = 8.0,
        ways: Sequence[tuple[float, float]] = WAYS,
        clear: bool = False,
    ) -> tuple[Box, str] | None:
        """Return where a label for (x, y) stands, and its anchor: the nearest free place, None where none is free.

        `clear` takes only a place where the label lies on nothing else.
        """
        width = max(text_width(line, strong=i == 0) for i, line in enumerate(lines))
        height = LINE * len(lines)
        best: tuple[float, Box, str] | None = None
        for distance in (reach, 22.0, 44.0, 70.0, 100.0, 140.0, 190.0, 240.0):
            for dx, dy in ways:
                across = x + dx * distance
                left = across if dx > 0 else across - width
                top = y + dy * distance - height / 2
                box = Box(left, top, left + width, top + height)
                if not self._inside(box):
                    continue
                overlap = sum(box.overlap(other) for other in self.taken)
                if clear and overlap > 0:
                    continue
                cost = 3 * overlap + 0.6 * distance
                if best is None or cost < best[0]:
                    best = (cost, box, "start" if dx > 0 else "end")
            if best is not None and best[0] <= 0.6 * distance + 1e-9:
                break
        if best is None or best[0] > 0.75 * width * height + 115:
            return None
        self.taken.append(best[1])
        return best[1], best[2]

    def _inside(self, box: Box) -> bool:
        area = self.area
        return box.left >= area.left and box.right <= area.right and box.top >= area.top and box.bottom <= area.bottom

    def callout(
        self, x: float, y: float, lines: Sequence[str], *, radius: float, class_: str, down: bool = True
    ) -> Markup:
        """Return a label of one or two lines with a thin line to its dot; nothing where no place is free."""
        side = DOWN if down else UP
        found = (
            self.place(x, y, lines, reach=radius + 6, ways=side, clear=True)
            or self.place(x, y, lines, reach=radius + 6, ways=(*WAYS, *UP, *DOWN), clear=True)
            or self.place(x, y, lines, reach=radius + 6, ways=side)
            or self.place(x, y, lines)
        )
        if found is None:
            return Markup()
        box, anchor = found
        at = box.left if anchor == "start" else box.right
        middle = (box.top + box.bottom) / 2
        parts = []
        if abs(at - x) > radius + 8 or abs(middle - y) > 12:
            end = at - 4 if anchor == "start" else at + 4
            parts.append(tag("path", d=f"M{x:.1f} {y:.1f}L{end:.1f} {middle:.1f}", class_="lead"))
        for i, line in enumerate(lines):
            strong = " strong" if i == 0 and len(lines) > 1 else ""
            parts.append(text(line, at, box.top + LINE * i + 12, class_=f"call {class_}{strong}", text_anchor=anchor))
        return markup(*parts)
