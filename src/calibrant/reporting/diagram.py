"""The diagram at the top of the page: claim against truth, before and after, drawn for a desk and for a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calibrant._typing import Floats
from calibrant.core.tables import Table
from calibrant.core.text import percent, points
from calibrant.reporting.labels import Board, Box, text_width
from calibrant.reporting.steps import Group, histogram
from calibrant.reporting.svg import Axes, Markup, Picture, drawing, nice_ticks, path, tag, text
from calibrant.reporting.words import Language, share

__all__ = ["HEADLINE", "Layer", "Range", "axis_range", "callout_group", "draw", "enlarge", "finding"]

STATES = {"before": "As delivered", "after": "After repair"}
#: A group below this fraction of the rows makes no headline.
HEADLINE = 0.1


@dataclass(frozen=True)
class Layer:
    """One state in the diagram."""

    #: "before" or "after": color, shape and line.
    kind: str
    table: Table
    groups: Sequence[Group]

    @property
    def name(self) -> str:
        """The state in words."""
        return STATES[self.kind]


@dataclass(frozen=True)
class Range:
    """The one range of both axes."""

    low: float
    high: float

    @property
    def step(self) -> float:
        """Distance of the grid lines."""
        ticks = nice_ticks(self.low, self.high, 9)
        return ticks[1] - ticks[0] if len(ticks) > 1 else self.high - self.low


def axis_range(layers: Sequence[Layer], language: Language) -> Range:
    """Return the range that holds every dot and whisker: to 100% for claims, from 0% for risks."""
    groups = [group for layer in layers for group in layer.groups]
    if language.risk:
        top = max(max(group.most, group.score) for group in groups)
        step = 0.05 if top > 0.1 else 0.01
        return Range(0.0, min(1.0, max(math.ceil(top / step - 1e-9) * step, step)))
    bottom = min(min(group.least, group.score) for group in groups)
    return Range(max(0.0, min(0.8, math.floor(bottom * 10 + 1e-9) / 10)), 1.0)


def callout_group(groups: Sequence[Group]) -> Group | None:
    """Return the group to name: the gap that stands out most, for its rows, among those outside the band."""
    outside = [group for group in groups if group.outside]
    return max(outside, key=lambda group: abs(group.gap) * math.sqrt(group.n)) if outside else None


def _where(groups: Sequence[Group], all_groups: Sequence[Group]) -> str:
    """Return the range of neighboring groups in words: ``above 70%``, ``of 20% to 50%``."""
    low, high = groups[0].low, groups[-1].high
    if groups[-1] is all_groups[-1]:
        return f"above {percent(low, _digits(low))}"
    if groups[0] is all_groups[0]:
        return f"up to {percent(high, _digits(high))}"
    return f"of {percent(low, _digits(low))} to {percent(high, _digits(high))}"


def _digits(value: float) -> int:
    return 0 if abs(100 * value - round(100 * value)) < 1e-9 else 1


def _neighbors(side: Sequence[Group], groups: Sequence[Group]) -> bool:
    """Whether groups lie side by side and hold a tenth of the rows: enough for a headline."""
    at = [groups.index(group) for group in side]
    return at[-1] - at[0] == len(at) - 1 and sum(g.n for g in side) >= HEADLINE * sum(g.n for g in groups)


def finding(groups: Sequence[Group], language: Language, *, repaired: bool = False, found: bool | None = None) -> str:
    """Return what the groups of one state show: the rest of the sentence "As delivered, …".

    `found` says whether the verdict finds a gap: where it does not, no single group makes the headline; where it does,
    groups inside the band are no all-clear.
    """
    what, k = language.claims, len(groups)
    over = [group for group in groups if group.outside and group.gap > 0]
    under = [group for group in groups if group.outside and group.gap < 0]
    if not over and not under:
        return "no dot leaves the gray band" if found else f"{what} match what happens, within chance"
    if found is False:
        inside = sum(group.n for group in groups if not group.outside)
        if inside >= 0.5 * sum(group.n for group in groups):
            return f"most {what} match what happens"
        return f"{len(over) + len(under)} of {k} dots lie outside the gray band"
    largest = max(abs(group.gap) for group in (*over, *under))
    if repaired and 0.02 <= largest < 0.1:
        return f"{what} are within about {math.ceil(100 * largest - 0.2)} points of the truth"
    for side, other, word in ((over, under, "high"), (under, over, "low")):
        if side and not other:
            if largest < 0.02:
                return f"{what} are within {points(max(largest, 0.001))} points of the truth"
            if all((group.gap > 0) == (word == "high") for group in groups) and len(side) >= 0.6 * k:
                return f"every {what[:-1]} is too {word}"
            if _neighbors(side, groups):
                return f"{what} {_where(side, groups)} are too {word}"
            return f"{what} are too {word} at {len(side)} of {k} dots"
    if _neighbors(over, groups) and _neighbors(under, groups):
        return f"{what} {_where(over, groups)} are too high, {what} {_where(under, groups)} too low"
    return f"{what} are too high at {len(over)} of {k} dots and too low at {len(under)}"


def draw(layers: Sequence[Layer], language: Language, axis: Range, *, narrow: bool, title: str, desc: str) -> Picture:
    """Return the diagram: square, one range on both axes, histogram below; `narrow` is the phone's own drawing."""
    left, size, strip = (58, 290, 64) if narrow else (60, 562, 84)
    width = 358 if narrow else 640
    axes = Axes(left, 12, size, size, (axis.low, axis.high), (axis.low, axis.high))
    board = Board(Box(left + 4, 14, left + size - 2, 12 + size - 2))
    body: list[str] = [_grid(axes, axis, narrow=narrow)]
    last = layers[-1]
    ribbon = _ribbon(axes, last.groups)
    body.append(ribbon)
    edge = (axes.x(axis.low), axes.y(axis.low), axes.x(axis.high), axes.y(axis.high))
    body.append(tag("path", d="M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*edge), class_="diag"))
    for i in range(40):  # labels keep off the diagonal
        x, y = (axes.x(axis.low + (axis.high - axis.low) * i / 40), axes.y(axis.low + (axis.high - axis.low) * i / 40))
        board.take(x - 2, y - 4, x + 4, y + 2)
    for layer in layers:
        body += _line_and_whiskers(axes, layer, board)
    most = max(group.n for layer in layers for group in layer.groups)
    for layer in layers:
        body += _dots(axes, layer, most, board, language)
    body += _corners(axes, language, board, narrow=narrow)
    body += _callouts(axes, layers, language, board, most, narrow=narrow)
    body += _band_label(axes, last.groups, board, narrow=narrow)
    below = 12 + size
    body.append(text(language.x_axis, left + size / 2, below + 38, class_="axis", text_anchor="middle"))
    turned = f"translate({10 if narrow else 14},{12 + size / 2:g}) rotate(-90)"
    body.append(tag("text", language.y_axis, class_="axis", text_anchor="middle", transform=turned))
    if language.claims == "intervals":  # levels, not scores: there is nothing to count
        return drawing(width, below + 48, title, desc, body)
    bottom = below + 50 + strip
    body += _strip(axes, layers, axis, bottom, strip, narrow=narrow)
    return drawing(width, bottom + 32, title, desc, body)


def _grid(axes: Axes, axis: Range, *, narrow: bool) -> Markup:
    ticks = nice_ticks(axis.low, axis.high, 5 if narrow else 9)
    bottom, right = axes.top + axes.height, axes.left + axes.width
    parts: list[str] = []
    digits = 0 if axis.step >= 0.0099 else 1
    for value in ticks:
        x, y = axes.x(value), axes.y(value)
        parts.append(tag("path", d=f"M{x:.1f} {bottom:g}V{axes.top:g}M{axes.left:g} {y:.1f}H{right:g}", class_="grid"))
        anchor = "end" if narrow and value >= axis.high - 1e-9 else "middle"
        parts.append(text(percent(value, digits), x, bottom + 20, class_="tick", text_anchor=anchor))
        parts.append(text(percent(value, digits), axes.left - 12, y + 4, class_="tick", text_anchor="end"))
    return tag("g", *parts)


def _ribbon(axes: Axes, groups: Sequence[Group]) -> Markup:
    if len(groups) < 2:
        group = groups[0]
        x, high, low = axes.x(group.score), axes.y(group.band_high), axes.y(group.band_low)
        return tag("rect", x=x - 10, y=high, width=20, height=max(low - high, 1.0), class_="ribbon")
    upper = [(axes.x(g.score), axes.y(min(g.band_high, axes.y_range[1]))) for g in groups]
    lower = [(axes.x(g.score), axes.y(max(g.band_low, axes.y_range[0]))) for g in groups]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
    return tag("polygon", points=outline, class_="ribbon")


def _line_and_whiskers(axes: Axes, layer: Layer, board: Board) -> list[str]:
    parts: list[str] = []
    if len(layer.groups) > 1:
        points_ = [(axes.x(g.score), axes.y(g.rate)) for g in layer.groups]
        parts.append(path(points_, class_=f"line {layer.kind}"))
        for (x0, y0), (x1, y1) in pairwise(points_):
            steps = max(2, int(math.hypot(x1 - x0, y1 - y0) / 24))
            for i in range(steps):
                x, y = x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
                board.take(x - 5, y - 5, x + 5, y + 5)
    for g in layer.groups:
        x, low, high = axes.x(g.score), axes.y(g.least), axes.y(g.most)
        parts.append(tag("path", d=f"M{x:.1f} {low:.1f}V{high:.1f}", class_=f"whisk {layer.kind}"))
        board.take(x - 3, high, x + 3, low)
    return parts


def _radius(group: Group, most: float) -> float:
    return 4 + 6 * math.sqrt(group.n / most)


def _dots(axes: Axes, layer: Layer, most: float, board: Board, language: Language) -> list[str]:
    parts: list[str] = []
    for g in layer.groups:
        x, y, r = axes.x(g.score), axes.y(g.rate), _radius(g, most)
        label = language.dot(layer.name, g)
        parts.append(tag("circle", tag("title", label), cx=x, cy=y, r=round(r, 1), class_=f"dot {layer.kind}"))
        board.take(x - r - 2, y - r - 2, x + r + 2, y + r + 2)
    return parts


def _corners(axes: Axes, language: Language, board: Board, *, narrow: bool) -> list[str]:
    right, bottom = axes.left + axes.width - 10, axes.top + axes.height - 12
    left, top = axes.left + 12, axes.top + 20
    parts: list[str] = []
    lower, upper = language.below, language.above
    lines = 1 if narrow else 2
    for i in range(lines):
        class_ = "region" if i == 0 else "regsub"
        y = bottom - 17 * (lines - 1 - i)
        parts.append(text(lower[i], right, y, class_=f"{class_} halo", text_anchor="end"))
        parts.append(text(upper[i], left, top + 17 * i, class_=f"{class_} halo", text_anchor="start"))
    wide = max(text_width(line, strong=True) for line in (*lower[:lines], *upper[:lines]))
    board.take(right - wide, bottom - 17 * lines - 4, right, bottom + 8)
    board.take(left, top - 16, left + wide, top + 17 * lines)
    if not narrow:
        near, far = (axes.left + 10, axes.top + axes.height - 10), (axes.left + axes.width - 10, axes.top + 10)
        (x, y), anchor = (far, "end") if language.risk else (near, "start")
        turned = f"translate({x:g},{y:g}) rotate(-45)"
        parts.append(
            tag("text", language.diagonal, class_="regsub halo", transform=turned, dy="-6", text_anchor=anchor)
        )
        board.take(*((x - 100, y, x, y + 110) if language.risk else (left - 8, bottom - 96, left + 92, bottom + 12)))
    return parts


def _callouts(
    axes: Axes, layers: Sequence[Layer], language: Language, board: Board, most: float, *, narrow: bool
) -> list[str]:
    parts: list[str] = []
    for layer in layers:
        group = callout_group(layer.groups)
        if group is None:
            continue
        who = "" if len(layers) == 1 else f"{layer.name}: "
        lines = language.callout(who, group, narrow=narrow)
        x, y = axes.x(group.score), axes.y(group.rate)
        parts.append(board.callout(x, y, lines, radius=_radius(group, most), class_=layer.kind, down=group.gap > 0))
    return parts


def _band_label(axes: Axes, groups: Sequence[Group], board: Board, *, narrow: bool) -> list[str]:
    lines = ["Gray band:", "chance alone"] if narrow else ["Gray band: where 95% of a", "calibrated model’s dots fall"]
    widest = max(groups, key=lambda g: g.band_high - g.band_low)
    x, y = axes.x(widest.score), axes.y(min(widest.band_high, axes.y_range[1]))
    box = board.nearest(x, y, lines, 14, below=False)
    if box is None:
        return []
    anchor = "start" if box.left + box.right > 2 * x else "end"
    at = box.left if anchor == "start" else box.right
    start, near = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
    parts: list[str] = [tag("path", d=f"M{x:.1f} {y + 2:.1f}L{start:.1f} {near:.1f}", class_="lead")]
    parts += [
        text(line, at, box.top + 16 * i + 12, class_="regsub halo", text_anchor=anchor) for i, line in enumerate(lines)
    ]
    return parts


def _strip(
    axes: Axes, layers: Sequence[Layer], axis: Range, bottom: float, height: float, *, narrow: bool
) -> list[str]:
    """Return the histogram of the scores under the same axis: before outlined, after filled."""
    span = axis.high - axis.low
    steps = max(4, round(span / 0.05)) if span > 0.5 else 20
    counts = {layer.kind: histogram(layer.table, axis.low, axis.high, steps) for layer in layers}
    top = max(float(values.max()) for values in counts.values()) or 1.0
    wide = axes.width / steps
    parts: list[str] = []
    for kind, values in reversed(counts.items()):
        for i in np.flatnonzero(values):
            x, tall = axes.left + wide * i + 1, max(height * float(values[i]) / top, 0.8)
            if kind == "after":
                parts.append(tag("rect", x=x, y=bottom - tall, width=wide - 2, height=tall, class_="hafter"))
            else:
                outline = f"M{x:.1f} {bottom:g}V{bottom - tall:.1f}H{x + wide - 2:.1f}V{bottom:g}"
                parts.append(tag("path", d=outline, class_="hbefore"))
    parts.append(tag("path", d=f"M{axes.left:g} {bottom:g}H{axes.left + axes.width:g}", class_="base"))
    unit = f"{100 * span / steps:.2g}-point"
    parts.append(
        text(
            "Where the predictions are" if narrow else f"Where the predictions are: number per {unit} step",
            axes.left + axes.width / 2,
            bottom + 18,
            class_="tick",
            text_anchor="middle",
        )
    )
    parts += _strip_labels(axes, counts, axis, bottom - height, wide, many=len(layers) > 1)
    return parts


def _strip_labels(
    axes: Axes, counts: dict[str, Floats], axis: Range, top: float, wide: float, *, many: bool
) -> list[str]:
    parts: list[str] = []
    for line, (kind, values) in enumerate(counts.items()):
        peak = int(values.argmax())
        if values[peak] < 0.3:  # many bars of one height: a label would lie on them
            continue
        steps = len(values)
        low, high = (axis.low + (axis.high - axis.low) * (peak + i) / steps for i in (0, 1))
        ends = f"{100 * low:.3g}% to {100 * high:.3g}%"
        who = f"{STATES[kind]}: " if many else ""
        words = f"{who}{share(float(values[peak]))} at {ends}"
        right = peak >= steps / 2
        x = axes.left + wide * peak - 6 if right else axes.left + wide * (peak + 1) + 6
        anchor = "end" if right else "start"
        parts.append(text(words, x, top + 14 + 17 * line, class_=f"call {kind}", text_anchor=anchor))
    return parts


def enlarge(layers: Sequence[Layer], language: Language, high: float, title: str) -> Picture:
    """Return the crowded low end of the diagram on its own axes."""
    axis = Range(0.0, high)
    axes = Axes(52, 10, 260, 260, (0.0, high), (0.0, high))
    body: list[str] = [_grid(axes, axis, narrow=True)]
    inside = [
        Layer(one.kind, one.table, [g for g in one.groups if g.score <= high and g.most <= high]) for one in layers
    ]
    inside = [layer for layer in inside if layer.groups]
    board = Board(Box(54, 12, 310, 268))
    if inside:
        body.append(_ribbon(axes, inside[-1].groups))
    body.append(tag("path", d=f"M{axes.x(0):g} {axes.y(0):g}L{axes.x(high):g} {axes.y(high):g}", class_="diag"))
    most = max((group.n for layer in inside for group in layer.groups), default=1.0)
    for layer in inside:
        body += _line_and_whiskers(axes, layer, board)
    for layer in inside:
        body += _dots(axes, layer, most, board, language)
    body.append(text(language.below[0], 306, 262, class_="region halo", text_anchor="end"))
    body.append(text(language.above[0], 60, 28, class_="region halo", text_anchor="start"))
    body.append(text("Predicted", 182, 308, class_="axis", text_anchor="middle"))
    turned = "translate(10,140) rotate(-90)"
    body.append(tag("text", "Happens", class_="axis", text_anchor="middle", transform=turned))
    return drawing(320, 316, title, "The low end of the diagram on axes of its own.", body, small=True)


def crowded_end(layers: Sequence[Layer], axis: Range) -> float | None:
    """Return up to where 95% of the rows of the last state lie, if that is at most half of the axis."""
    table = layers[-1].table
    reached = np.cumsum(table.w) / table.total
    at = float(table.score[min(int(np.searchsorted(reached, 0.95)), len(table) - 1)])
    step = 0.05 if at > 0.05 else 0.01
    high = math.ceil(at / step - 1e-9) * step
    return high if 0 < high <= 0.5 * axis.high else None
