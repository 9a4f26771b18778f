"""Axes and shapes of our own SVG figures: small, readable, styled by the page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

#: Widths of a chart that fills the column: at a desk, on a tablet and on paper, on a phone.
WIDTHS = (1032, 720, 358)


class Markup(str):
    """Text that is markup already: `tag` and the templates write it as it is; any other text is escaped."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


class Picture(Markup):
    """An SVG figure as text: pages show it, JSON and Markdown leave it out."""

    __slots__ = ()


def markup(*parts: str) -> Markup:
    """Join parts into markup; what is not `Markup` yet is escaped, so that no name becomes an element.

    Examples
    --------
    >>> markup(tag("b", "x"), " < y")
    '<b>x</b> &lt; y'
    """
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def tag(name: str, /, *content: str, **attributes: object) -> Markup:
    """Return one element; underscores in attribute names become hyphens, `class_` becomes class.

    Content is text and is escaped; elements made by `tag` are nested as they are, and ``Markup("…")`` says in the code
    that a text is markup.

    Examples
    --------
    >>> tag("g", tag("title", "<script>"), class_="bin")
    '<g class="bin"><title>&lt;script&gt;</title></g>'
    """
    parts = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = markup(*content)
    return Markup(f"<{name}{parts}>{inside}</{name}>" if inside else f"<{name}{parts}/>")


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(content: str, x: float, y: float, **attributes: object) -> Markup:
    """Return a text element."""
    return tag("text", content, x=x, y=y, **attributes)


def path(points: Iterable[tuple[float, float]], **attributes: object) -> Markup:
    """Return a polyline."""
    steps = " ".join(f"{_text(float(x))},{_text(float(y))}" for x, y in points)
    return tag("polyline", points=steps, fill="none", **attributes)


def percent(value: float) -> str:
    """Write a fraction as percent without its sign."""
    return f"{100 * value:.4g}"


def plain(value: float) -> str:
    """Write a number as it is."""
    return f"{value:.4g}"


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between two values, about so many."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def figure(
    width: int, height: float, title: str, description: str, body: Sequence[str], class_: str, **attributes: object
) -> Picture:
    """Return a whole figure with title and description for screen readers."""
    shape = {"viewBox": f"0 0 {width} {height:g}", "role": "img", "class_": class_}
    inside = (tag("title", title), tag("desc", description), *body)
    return Picture(tag("svg", *inside, **shape, xmlns="http://www.w3.org/2000/svg", **attributes))


def drawing(
    width: int, height: float, title: str, description: str, body: Sequence[str], *, small: bool = False
) -> Picture:
    """Return a chart of the page: its width says where it is shown, `small` ones are shown everywhere."""
    desk, tablet, phone = WIDTHS
    class_ = {desk: "chart w wide", tablet: "chart m", phone: "chart n"}.get(width, "chart w")
    return figure(width, height, title, description, body, "chart" if small else class_)


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
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_label: str,
        y_label: str,
        *,
        write: Callable[[float], str] = percent,
    ) -> Markup:
        """Return grid, tick labels and axis names; `write` turns a tick into its label."""
        bottom, right = self.top + self.height, self.left + self.width
        parts = [tag("rect", x=self.left, y=self.top, width=self.width, height=self.height, class_="plot")]
        for value in x_ticks:
            parts.append(tag("line", x1=self.x(value), x2=self.x(value), y1=self.top, y2=bottom, class_="grid"))
            parts.append(text(write(value), self.x(value), bottom + 14, class_="tick", text_anchor="middle"))
        for value in y_ticks:
            parts.append(tag("line", x1=self.left, x2=right, y1=self.y(value), y2=self.y(value), class_="grid"))
            parts.append(text(write(value), self.left - 6, self.y(value) + 4, class_="tick", text_anchor="end"))
        if x_label:
            parts.append(text(x_label, self.left + self.width / 2, bottom + 32, class_="axis", text_anchor="middle"))
        middle = self.top + self.height / 2
        if not y_label:
            return markup(*parts)
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
        return markup(*parts)
