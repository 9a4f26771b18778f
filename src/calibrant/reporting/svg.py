"""Axes and shapes of our own SVG figures: small, readable, styled by the page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Return one element; underscores in attribute names become hyphens, `class_` becomes class."""
    parts = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{parts}>{content}</{name}>" if content else f"<{name}{parts}/>"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(content: str, x: float, y: float, **attributes: object) -> str:
    """Return an escaped text element."""
    return tag("text", html.escape(content), x=x, y=y, **attributes)


def path(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    """Return a polyline."""
    steps = " ".join(f"{_text(float(x))},{_text(float(y))}" for x, y in points)
    return tag("polyline", points=steps, fill="none", **attributes)


def figure(width: int, height: int, title: str, description: str, body: Sequence[str], **attributes: object) -> str:
    """Return a whole figure with title and description for screen readers."""
    head = tag("title", html.escape(title)) + tag("desc", html.escape(description))
    return tag(
        "svg",
        head + "".join(body),
        viewBox=f"0 0 {width} {height}",
        role="img",
        class_="figure",
        xmlns="http://www.w3.org/2000/svg",
        **attributes,
    )


class Axes:
    """A plot area with linear axes over [x0, x1] × [y0, y1]."""

    def __init__(
        self, left: float, top: float, width: float, height: float, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_range, self.y_range = x, y

    def x(self, value: float) -> float:
        """Horizontal position of a value."""
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Vertical position of a value (upwards)."""
        low, high = self.y_range
        return self.top + self.height * (1 - (value - low) / (high - low))

    def frame(
        self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str, *, percent: bool = True
    ) -> str:
        """Return grid, tick labels and axis names."""
        bottom, right = self.top + self.height, self.left + self.width
        parts = [tag("rect", x=self.left, y=self.top, width=self.width, height=self.height, class_="plot")]
        for value in x_ticks:
            parts.append(tag("line", x1=self.x(value), x2=self.x(value), y1=self.top, y2=bottom, class_="grid"))
            parts.append(text(_tick(value, percent), self.x(value), bottom + 14, class_="tick", text_anchor="middle"))
        for value in y_ticks:
            parts.append(tag("line", x1=self.left, x2=right, y1=self.y(value), y2=self.y(value), class_="grid"))
            parts.append(
                text(_tick(value, percent), self.left - 6, self.y(value) + 4, class_="tick", text_anchor="end")
            )
        parts.append(text(x_label, self.left + self.width / 2, bottom + 32, class_="axis", text_anchor="middle"))
        middle = self.top + self.height / 2
        parts.append(
            text(
                y_label,
                self.left - 38,
                middle,
                class_="axis",
                text_anchor="middle",
                transform=f"rotate(-90 {self.left - 38:g} {middle:g})",
            )
        )
        return "".join(parts)


def _tick(value: float, percent: bool) -> str:
    return f"{100 * value:g}" if percent else f"{value:g}"
