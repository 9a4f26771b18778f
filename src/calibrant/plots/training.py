"""Measures over the steps of training, on training rows (dashed) and held-out rows (solid)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.inputs import check_words
from calibrant.core.options import check_type
from calibrant.errors import input_error
from calibrant.plots.displays import Display, document


@dataclass(frozen=True)
class TrainingDisplay(Display):
    """Values over `step`, one line per side ("held_out", "train") and metric."""

    step: Floats
    lines: dict[str, dict[str, Floats]]

    def _paint(self, ax: Any) -> None:
        colors: dict[str, str] = {}
        for side, lines in self.lines.items():
            for name, values in lines.items():
                color = colors.setdefault(name, self.ink.cycle[len(colors) % len(self.ink.cycle)])
                dashed = side == "train"
                label = f"{name}, {side.replace('_', ' ')}" if len(self.lines) > 1 else name
                ax.plot(self.step, values, color=color, linestyle="--" if dashed else "-", label=label)
        self.tidy(ax, "training step", "value")
        ax.legend(frameon=False)


@document
def plot_training(
    trace: Mapping[str, Any],
    *,
    metrics: Sequence[str] | None = None,
    ax: Any = None,
    style: str = "calibrant",
) -> TrainingDisplay:
    """Draw metrics over training.

    Parameters
    ----------
    trace : mapping
        ``step`` and, per side ("train", "held_out"), a mapping of metric to values; or ``step`` and metrics directly.
    metrics : names, optional
        Which to draw; default all.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_training({"step": [1, 2], "ece": [0.2, 0.1]}).lines["held_out"]["ece"]
    array([0.2, 0.1])
    >>> pyplot().close("all")
    """
    chosen = None if metrics is None else check_words(metrics, "metrics", "plot_training")
    rule, hint = "map step and names of metrics to lists of numbers", "pass {'step': [1, 2], 'ece': [0.2, 0.1]}"
    if "step" not in check_type(trace, Mapping, "trace", "plot_training", rule, hint):
        raise input_error("trace", "plot_training", rule, f"the keys {list(trace)}", hint)
    step = _numbers(trace["step"])
    sides = {key: trace[key] for key in ("held_out", "train") if isinstance(trace.get(key), Mapping)}
    if not sides:
        plain = {key: values for key, values in trace.items() if key != "step" and np.shape(values) == step.shape}
        sides = {"held_out": plain}
    lines = {
        side: {name: _numbers(values, step.shape) for name, values in found.items() if chosen is None or name in chosen}
        for side, found in sides.items()
    }
    if not any(lines.values()):
        raise input_error("metrics", "plot_training", "name something in the trace", repr(chosen), "leave it out")
    return TrainingDisplay(step, lines).draw(ax, style)


def _numbers(values: Any, shape: tuple[int, ...] | None = None) -> Floats:
    """Return one number for each step; a metric that was undefined at a step is nan there."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.ndim != 1 or (shape is not None and found.shape != shape):
        rule, hint = "hold one number for each step", "pass {'step': [1, 2], 'ece': [0.2, 0.1]}"
        raise input_error("trace", "plot_training", rule, repr(values)[:200], hint)
    return found
