"""Figures of a run: rejection, out-of-distribution data, and calibration over training steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.core.atomic import atomic_path
from calibrant.errors import require
from calibrant_papers.training.plan import METHODS, PENALTIES
from calibrant_papers.training.report import TrainingReport


def draw(report: TrainingReport, folder: Path) -> list[Path]:
    """Draw every figure the run has numbers for, as SVG files; return their paths."""
    figures: dict[str, tuple[bool, Callable[[Any, TrainingReport], None]]] = {
        "penalties": (bool(report.cells), draw_penalties),
        "rejection": (bool(report.cells), draw_rejection),
        "foreign": (bool(report.cells), draw_foreign),
        "traces": (bool(report.traces), draw_traces),
    }
    backend = require("matplotlib.figure", "plots", "drawing figures")
    written = []
    for name, (wanted, paint) in figures.items():
        if wanted:
            figure = backend.Figure(figsize=(6.4, 4.0), layout="constrained")
            paint(figure.subplots(), report)
            path = folder / f"{name}.svg"
            with atomic_path(path) as temporary:
                figure.savefig(temporary, format="svg", metadata={"Date": None})
            written.append(path)
    return written


def _lines(axes: Any, report: TrainingReport, result: str, x: str, y: str) -> None:
    """One line per method without a penalty, optimal temperature, mean over seeds."""
    penalty = report.cells[0]["penalty"]
    for method in METHODS:
        curves = [
            cell["results"]["optimal"][result]
            for cell in report.cells
            if cell["method"] == method and cell["penalty"] == penalty
        ]
        if curves:
            mean = np.mean([np.array(curve[y], dtype=float) for curve in curves], axis=0)
            axes.plot(curves[0][x], mean, label=method, marker=".", linewidth=1.2)
    axes.legend(frameon=False)


def draw_penalties(axes: Any, report: TrainingReport) -> None:
    """Draw the ECE of every model as trained (open) and at its optimal temperature (filled), by method and penalty."""
    methods = [m for m in METHODS if any(cell["method"] == m for cell in report.cells)]
    penalties = [p for p in PENALTIES if any(cell["penalty"] == p for cell in report.cells)]
    for j, penalty in enumerate(penalties):
        for at, face in (("1", "none"), ("optimal", f"C{j}")):
            points = [
                (
                    methods.index(cell["method"]) + 0.2 * (j - (len(penalties) - 1) / 2),
                    cell["results"][at]["measures"]["ece"],
                )
                for cell in report.cells
                if cell["penalty"] == penalty
            ]
            x, y = np.array(points).T
            axes.scatter(x, 100 * y, s=16, facecolors=face, edgecolors=f"C{j}", label=f"{penalty}, T {at}")
    axes.set_xticks(range(len(methods)), methods)
    axes.set(ylabel="ECE in %, one dot per seed", title=report.data, ylim=(0, None))
    axes.legend(frameon=False, ncols=len(penalties), fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def draw_rejection(axes: Any, report: TrainingReport) -> None:
    """Draw the error of kept rows against the threshold on the normalized entropy."""
    _lines(axes, report, "rejection", "threshold", "error")
    axes.invert_xaxis()
    axes.set(xlabel="largest normalized entropy kept", ylabel="error of kept rows", title=report.data)


def draw_foreign(axes: Any, report: TrainingReport) -> None:
    """Draw the mean uncertainty of a batch against its fraction of out-of-distribution rows."""
    _lines(axes, report, "swap_in", "share", "uncertainty")
    axes.set(
        xlabel=f"fraction of out-of-distribution rows ({report.foreign})",
        ylabel="mean normalized entropy",
        title=report.data,
    )


def draw_traces(axes: Any, report: TrainingReport) -> None:
    """Draw ECE over training steps, training and held-out rows, good and poor start."""
    for trace in report.traces:
        if trace["seed"] == report.traces[0]["seed"]:
            for side, style in (("train", "--"), ("held_out", "-")):
                color = "C0" if trace["initialization"] == "glorot" else "C3"
                name = f"{trace['initialization']}, {side.replace('_', '-')} rows"
                axes.plot(trace["step"], trace[side]["ece"], style, color=color, label=name, linewidth=1.2)
    axes.set(xlabel="training step", ylabel="ECE", title=report.data)
    axes.legend(frameon=False)
