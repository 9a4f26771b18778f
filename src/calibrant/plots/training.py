"""Measures over the steps of training, on training rows (dashed) and held-out rows (solid)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.plots.displays import Display, tidy
from calibrant.plots.palette import CYCLE


@dataclass(frozen=True)
class TrainingDisplay(Display):
    """Values over `step`, one line per side ("held_out", "train") and measure."""

    step: Floats
    lines: dict[str, dict[str, Floats]]

    def _paint(self, ax: Any) -> None:
        colours: dict[str, str] = {}
        for side, lines in self.lines.items():
            for name, values in lines.items():
                colour = colours.setdefault(name, CYCLE[len(colours) % len(CYCLE)])
                dashed = side == "train"
                label = f"{name}, {side.replace('_', ' ')}" if len(self.lines) > 1 else name
                ax.plot(self.step, values, color=colour, linestyle="--" if dashed else "-", label=label)
        tidy(ax, "training step", "value")
        ax.legend(frameon=False)


def plot_training(
    trace: Mapping[str, Any], *, measures: Sequence[str] | None = None, ax: Any = None
) -> TrainingDisplay:
    """Draw measures over training.

    Parameters
    ----------
    trace : mapping
        ``step`` and, per side ("train", "held_out"), a mapping of measure to values; or ``step`` and measures directly.
    measures : names, optional
        Which to draw; default all.
    ax : matplotlib Axes, optional
        Where to draw.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_training({"step": [1, 2], "ece": [0.2, 0.1]}).lines["held_out"]["ece"]
    array([0.2, 0.1])
    >>> pyplot().close("all")
    """
    step = np.asarray(trace["step"], dtype=np.float64)
    sides = {key: trace[key] for key in ("held_out", "train") if isinstance(trace.get(key), Mapping)}
    if not sides:
        plain = {key: values for key, values in trace.items() if key != "step" and np.shape(values) == step.shape}
        sides = {"held_out": plain}
    lines = {
        side: {
            name: np.asarray(values, dtype=np.float64)
            for name, values in found.items()
            if measures is None or name in measures
        }
        for side, found in sides.items()
    }
    return TrainingDisplay(step, lines).draw(ax)
