"""The comparison of methods: gain of each method over the uncalibrated forecast, with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Bools, Floats
from calibrant.core.options import check_type
from calibrant.errors import input_error
from calibrant.plots.displays import INK, Display, document


@dataclass(frozen=True)
class MethodsDisplay(Display):
    """Gain with interval per method, best first; `chosen` ones are marked, those that may change the class hollow."""

    method: tuple[str, ...]
    gain: Floats
    low: Floats
    high: Floats
    chosen: Bools
    preserves_argmax: Bools

    @property
    def _size(self) -> tuple[float, float]:
        return (6.0, 0.9 + 0.3 * len(self.method))

    def _paint(self, ax: Any) -> None:
        ax.axvline(0.0, color=INK, linewidth=1.8)
        for i in range(len(self.method)):
            color = self.ink.under if self.chosen[i] else self.ink.neutral
            ax.hlines(i, self.low[i], self.high[i], color=color, linewidth=1.8)
            face = color if self.preserves_argmax[i] else "white"
            ax.plot(self.gain[i], i, marker="o", color=color, markerfacecolor=face, markersize=7)
        ax.set_yticks(range(len(self.method)), self.method)
        for label, chosen in zip(ax.get_yticklabels(), self.chosen, strict=True):
            label.set_fontweight("bold" if chosen else "normal")
        ax.set_ylim(len(self.method) - 0.4, -0.6)
        self.tidy(ax, "gain over the uncalibrated forecast (right is better)", "")
        hollow = "" if self.preserves_argmax.all() else "; hollow: may change the predicted class"
        ax.set_title(f"lines: 95% interval{hollow}", loc="left", fontsize="small")


@document
def plot_methods(methods: Any, *, ax: Any = None, style: str = "calibrant") -> MethodsDisplay:
    """Draw the methods compared, by their gain over the uncalibrated forecast.

    Parameters
    ----------
    methods : AutoCalibrator, its ``cv_results_`` (a frame), or rows as mappings
        With method, gain, low, high, preserves_argmax, chosen.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> row = {"method": "temperature", "gain": 0.1, "low": 0.05, "high": 0.15}
    >>> row |= {"preserves_argmax": True, "chosen": True}
    >>> plot_methods([row]).gain
    array([0.1])
    >>> pyplot().close("all")
    """
    rows = _rows(getattr(methods, "cv_results_", methods))
    gain, low, high = (np.array([row[key] for row in rows], dtype=np.float64) for key in ("gain", "low", "high"))
    chosen, keeps = (np.array([row[key] for row in rows], dtype=np.bool_) for key in ("chosen", "preserves_argmax"))
    return MethodsDisplay(tuple(str(row["method"]) for row in rows), gain, low, high, chosen, keeps).draw(ax, style)


def _rows(methods: Any) -> Sequence[Mapping[str, Any]]:
    rule, hint = "be an automatic choice that was fitted, or its cv_results_", "fit AutoCalibrator() first"
    if hasattr(methods, "to_dicts"):
        methods = methods.to_dicts()
    elif hasattr(methods, "to_dict"):
        methods = methods.to_dict("records")
    rows = list(check_type(methods, Iterable, "methods", "plot_methods", rule, hint))
    for row in rows:
        if not (isinstance(row, Mapping) and set(row) >= _KEYS):
            raise input_error("methods", "plot_methods", rule, f"the row {row!r}"[:200], hint)
    return rows


#: What is drawn of each method.
_KEYS = {"method", "gain", "low", "high", "chosen", "preserves_argmax"}
