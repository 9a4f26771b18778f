"""The league of repairs: gain of each method over doing nothing, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Bools, Floats
from calibrant.plots.displays import INK, Display, tidy
from calibrant.plots.palette import NEUTRAL, UNDER


@dataclass(frozen=True)
class LeagueDisplay(Display):
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
            colour = UNDER if self.chosen[i] else NEUTRAL
            ax.hlines(i, self.low[i], self.high[i], color=colour, linewidth=1.8)
            face = colour if self.preserves_argmax[i] else "white"
            ax.plot(self.gain[i], i, marker="o", color=colour, markerfacecolor=face, markersize=7)
        ax.set_yticks(range(len(self.method)), self.method)
        for label, chosen in zip(ax.get_yticklabels(), self.chosen, strict=True):
            label.set_fontweight("bold" if chosen else "normal")
        ax.set_ylim(len(self.method) - 0.4, -0.6)
        tidy(ax, "gain over doing nothing (right is better)", "")


def plot_league(league: Any, *, ax: Any = None) -> LeagueDisplay:
    """Draw a league of repairs.

    Parameters
    ----------
    league : AutoCalibrator, its ``league_`` (a frame), or rows as mappings
        With method, gain, low, high, preserves_argmax, chosen.
    ax : matplotlib Axes, optional
        Where to draw.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> row = {"method": "temperature", "gain": 0.1, "low": 0.05, "high": 0.15}
    >>> row |= {"preserves_argmax": True, "chosen": True}
    >>> plot_league([row]).gain
    array([0.1])
    >>> pyplot().close("all")
    """
    rows = _rows(getattr(league, "league_", league))
    return LeagueDisplay(
        tuple(str(row["method"]) for row in rows),
        *(np.array([row[key] for row in rows], dtype=np.float64) for key in ("gain", "low", "high")),
        *(np.array([row[key] for row in rows], dtype=bool) for key in ("chosen", "preserves_argmax")),
    ).draw(ax)


def _rows(league: Any) -> Sequence[Mapping[str, Any]]:
    if hasattr(league, "to_dicts"):
        rows: Sequence[Mapping[str, Any]] = league.to_dicts()
        return rows
    return league.to_dict("records") if hasattr(league, "to_dict") else list(league)
