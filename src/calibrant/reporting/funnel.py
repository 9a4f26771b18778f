"""The funnel plot for many classes: gap against rows, with the limits that chance keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.reporting.labels import Board, Box
from calibrant.reporting.svg import WIDTHS, Axes, Picture, drawing, nice_ticks, tag, text

__all__ = ["LIMITS", "funnel"]

#: Standard deviations of the two limits, and what they are called.
LIMITS = ((3.09, "99.8% limit", "limit2"), (1.96, "95% limit", "limit1"))
_LABELED = 6


def funnel(rows: Sequence[dict[str, Any]], noise: float, kind: str, *, width: int, title: str) -> Picture:
    """Return the funnel of classes; each row has ``name``, ``n``, ``gap`` and ``beyond``; `noise` is mean s(1 − s)."""
    narrow = width < WIDTHS[1]
    height, left, right = (360, 54, 10) if narrow else (440 if width > WIDTHS[1] else 380, 56, 104)
    top, bottom = 14, height - 52
    gaps = np.array([row["gap"] for row in rows])
    sizes = np.array([row["n"] for row in rows])
    reach = max(3.4 * math.sqrt(noise / max(float(np.median(sizes)), 1.0)), 0.01)
    high, low = max(float(gaps.max()) * 1.08, 0.3 * reach), min(float(gaps.min()) * 1.08, -0.3 * reach)
    most = float(sizes.max()) * 1.04
    axes = Axes(left, top, width - left - right, bottom - top, (0.0, most), (low, high))
    x = np.linspace(most / 200, most, 80)
    body: list[str] = []
    for size, name, class_ in LIMITS:
        half = np.minimum(size * np.sqrt(noise / x), max(high, -low) * 1.001)
        upper = [(axes.x(float(a)), axes.y(min(float(b), high))) for a, b in zip(x, half, strict=True)]
        lower = [(axes.x(float(a)), axes.y(max(-float(b), low))) for a, b in zip(x, half, strict=True)]
        outline = " ".join(f"{a:.1f},{b:.1f}" for a, b in [*upper, *reversed(lower)])
        body.append(tag("polygon", points=outline, class_=class_))
        if not narrow:
            body.append(text(name, width - right + 6, upper[-1][1] + (2 if class_ == "limit2" else 8), class_="tick"))
    for value in nice_ticks(low, high, 7):
        y = axes.y(value)
        number = round(100 * value, 6)
        body.append(tag("path", d=f"M{left} {y:.1f}H{width - right}", class_="grid" if number else "zero"))
        words = f"{number:+g}".replace("-", "−") if number else "0"
        body.append(text(words, left - 7, y + 4, class_="tick", text_anchor="end"))
    board = Board(Box(left + 2, top, width - right, bottom))
    outside = sorted((r for r in rows if r["beyond"]), key=lambda r: -abs(r["gap"]) * math.sqrt(r["n"]))
    places = [(axes.x(row["n"]), axes.y(row["gap"])) for row in rows]
    quiet = "".join(f"M{x:.0f} {y:.0f}h0" for row, (x, y) in zip(rows, places, strict=True) if not row["beyond"])
    if quiet:  # one path of round points, not a thousand circles
        body.append(tag("path", d=quiet, class_="fdots"))
    for row, (cx, cy) in zip(rows, places, strict=True):
        if row["beyond"]:
            inside = (tag("title", row["title"]),) if len(outside) <= 100 else ()
            body.append(tag("circle", *inside, cx=round(cx), cy=round(cy), r=4.5, class_=f"fdot out {kind}"))
            board.take(cx - 5, cy - 5, cx + 5, cy + 5)
    for row in outside[: 3 if narrow else _LABELED]:
        cx, cy = axes.x(row["n"]), axes.y(row["gap"])
        box = board.nearest(cx, cy, [row["short"]], 2, reach=14)  # nearer to its dot than to most others
        if box is not None:
            right = box.left + box.right > 2 * cx
            at, anchor = (box.left, "start") if right else (box.right, "end")
            body.append(text(row["short"], at, box.top + 12, class_=f"call {kind} strong", text_anchor=anchor))
    body += [
        text(f"{value:,.0f}", axes.x(value), bottom + 17, class_="tick", text_anchor="middle")
        for value in nice_ticks(0.0, most, 4 if narrow else 6)
    ]
    body.append(
        text("Predictions of this class", left + axes.width / 2, bottom + 38, class_="axis", text_anchor="middle")
    )
    turned = f"translate(12,{(top + bottom) / 2:g}) rotate(-90)"
    body.append(tag("text", "Gap, points", class_="axis", text_anchor="middle", transform=turned))
    desc = f"{len(rows)} classes; {len(outside)} leave the 99.8% limits."
    return drawing(width, height, title, desc, body)
