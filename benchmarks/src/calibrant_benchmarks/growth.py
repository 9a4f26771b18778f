"""Time per number as rows and classes grow: one table, one picture."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from calibrant import metrics
from calibrant.core.text import table
from calibrant.studies.writing import markdown
from calibrant_benchmarks.arrays import clear, probabilities
from calibrant_benchmarks.frame import both

__all__ = ["Growth", "run_growth"]

#: Metrics whose growth is shown: bins of the top label, bins of all classes, a sort, a proper score.
NAMES = ("ece", "sce", "ks", "brier")
ROWS = tuple((10**e, 2) for e in (4, 5, 6, 7, 8))
CLASSES = tuple((10_000_000 // k, k) for k in (2, 10, 100, 1000, 10_000))
HEAD = ("rows", "classes", "metric", "compiled, ns a number", "NumPy alone, ns a number")


@dataclass(frozen=True)
class Point:
    """Nanoseconds per number of the matrix, the best of three runs."""

    n: int
    k: int
    metric: str
    fast: float
    plain: float


@dataclass(frozen=True)
class Growth:
    """All points, with the date."""

    points: tuple[Point, ...]
    date: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"schema": 1, "date": self.date, "points": [asdict(point) for point in self.points]}

    def _rows(self) -> list[tuple[str, ...]]:
        cells = [(f"{p.n:,}", f"{p.k:,}", p.metric, f"{p.fast:.2f}", f"{p.plain:.2f}") for p in self.points]
        return [HEAD, *cells]

    def to_markdown(self) -> str:
        """Return the page ``docs/tables/growth.md``."""
        about = f"Made by `calibrant bench --growth` on {self.date}. Flat is linear; best of three runs."
        return "\n".join(["# Growth", "", about, "", "![Time per number](growth.svg)", "", *markdown(self._rows()), ""])

    def draw(self, path: Path) -> None:
        """Write the picture: time per number against rows and against classes."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, shapes, of in zip(figure.subplots(1, 2), (ROWS, CLASSES), ("rows", "classes"), strict=True):
            for number, name in enumerate(NAMES):
                here = [p for p in self.points if p.metric == name and (p.n, p.k) in shapes]
                x = [p.n if of == "rows" else p.k for p in here]
                axes.plot(x, [p.fast for p in here], "o-", color=f"C{number}", label=name)
                axes.plot(x, [p.plain for p in here], "o:", color=f"C{number}", mfc="white")
            axes.set(xscale="log", yscale="log", xlabel=of, ylabel="nanoseconds a number")
        figure.axes[0].legend(title="solid: compiled\ndotted: NumPy alone", fontsize=8)
        figure.savefig(path, metadata={"Date": None})

    def __str__(self) -> str:
        """Return the table as text."""
        return "\n".join(table(self._rows()))


def run_growth(*, quick: bool = False, progress: Callable[[str], None] | None = None) -> Growth:
    """Time every metric on every shape; `quick` takes a hundredth of the rows."""
    points = []
    for n, k in dict.fromkeys((*ROWS, *CLASSES)):
        rows = max(n // 100, 20) if quick else n
        if progress is not None:
            progress(f"{n:,} × {k:,}")
        p, y = probabilities(rows, k)
        for name in NAMES:
            metric = getattr(metrics, name)
            times = []
            for entrant in both(name, partial(metric, y, p)):
                run = entrant.build()
                times.append(min(_seconds(run) for _ in range(1 if quick else 3)) * 1e9 / (rows * k))
            points.append(Point(n, k, name, *times))
        clear()
    return Growth(tuple(points), datetime.now(UTC).date().isoformat())


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
