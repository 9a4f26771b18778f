"""Drawing curves: panels of lines with bands; matplotlib is loaded here and only here."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from calibrant.core.atomic import atomic_path
from calibrant.errors import require

__all__ = ["draw_panels", "panel", "panels_svg"]

#: Largest number of panels side by side.
_COLUMNS = 3
#: No date and no address in an SVG: the same curves give the same bytes.
PLAIN = {"Date": None, "Creator": None}


def panel(rows: Iterable[Mapping[str, Any]], x: str, by: str, value: str, name: str = "") -> dict[str, list[float]]:
    """Return what a panel draws of a table: a line of `value` against `x` for every name in the column `by`."""
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(row[by], []).append(row)
    first = next(iter(lines.values()))
    return {name or x: [float(row[x]) for row in first], **{k: [row[value] for row in v] for k, v in lines.items()}}


def _figure(curves: dict[str, dict[str, list[float]]], title: str) -> Any:
    backend = require("matplotlib.figure", "plots", "drawing a figure")
    columns = min(_COLUMNS, len(curves))
    lines = math.ceil(len(curves) / columns)
    figure = backend.Figure(figsize=(4.2 * columns, 3.2 * lines + 0.4), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for i, (name, panel) in enumerate(curves.items()):
        _paint(axes[i // columns][i % columns], name, panel)
    for i in range(len(curves), lines * columns):
        axes[i // columns][i % columns].set_axis_off()
    if title:
        figure.suptitle(title)
    return figure


def draw_panels(curves: dict[str, dict[str, list[float]]], path: Path, title: str = "") -> Path:
    """Draw one panel per entry into a file that appears whole; return its path.

    In a panel the first series is the abscissa; the others are lines; ``"x low"`` and ``"x high"`` are the band of
    ``"x"``. An abscissa named ``"n …"`` is drawn in logarithms, one named ``"class"`` as bars.
    """
    figure = _figure(curves, title)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], metadata=PLAIN if path.suffix == ".svg" else None)
    return path


def panels_svg(curves: dict[str, dict[str, list[float]]]) -> str:
    """Return the figure as an SVG element for an HTML page."""
    text = io.StringIO()
    _figure(curves, "").savefig(text, format="svg", metadata=PLAIN)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _paint(axes: Any, name: str, panel: dict[str, list[float]]) -> None:
    abscissa, *lines = panel
    x = panel[abscissa]
    for series in lines:
        if series.endswith((" low", " high")):
            continue
        if abscissa == "class":
            axes.bar(x, panel[series], label=series, alpha=0.7)
            continue
        (line,) = axes.plot(x, panel[series], label=series, linewidth=1.2, marker="." if len(x) < 30 else None)
        if f"{series} low" in panel:
            axes.fill_between(
                x, panel[f"{series} low"], panel[f"{series} high"], color=line.get_color(), alpha=0.15, linewidth=0
            )
    if abscissa == "n" or abscissa.startswith("n "):
        axes.set_xscale("log")
    axes.set_xlabel(abscissa)
    axes.set_title(name, fontsize="medium")
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize="x-small")
