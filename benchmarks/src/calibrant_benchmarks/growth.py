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
from calibrant_benchmarks.arrays import clear, logits, probabilities
from calibrant_papers.studies.writing import markdown

__all__ = ["Growth", "run_growth"]

#: Metrics whose growth is shown: bins of the top label, bins of all classes, a sort, a proper score.
NAMES = ("ece", "sce", "ks", "brier")
ROWS = tuple((10**e, 2) for e in (4, 5, 6, 7, 8))
CLASSES = tuple((10_000_000 // k, k) for k in (2, 10, 100, 1000, 10_000))
#: Seconds after which a metric is not timed again on one shape, so that the largest ones do not take the whole hour.
ENOUGH = 4.0
HEAD = ("rows", "classes", "metric", "ns a number")


@dataclass(frozen=True)
class Point:
    """Nanoseconds per number of the matrix, the best of up to three runs."""

    n: int
    k: int
    metric: str
    nanoseconds: float
    #: The pictures it belongs to: "rows", "classes".
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Growth:
    """All points, with the date."""

    points: tuple[Point, ...]
    date: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"schema": 1, "date": self.date, "points": [asdict(point) for point in self.points]}

    def _rows(self) -> list[tuple[str, ...]]:
        cells = [(f"{p.n:,}", f"{p.k:,}", p.metric, f"{p.nanoseconds:.2f}") for p in self.points]
        return [HEAD, *cells]

    def to_markdown(self) -> str:
        """Return the page ``docs/tables/growth.md``."""
        about = f"Made by `calibrant bench --growth` on {self.date}. Flat is linear; best of three runs, fewer where "
        about += "one takes seconds."
        return "\n".join(["# Growth", "", about, "", "![Time per number](growth.svg)", "", *markdown(self._rows()), ""])

    def draw(self, path: Path) -> None:
        """Write the picture: time per number against rows and against classes."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, of in zip(figure.subplots(1, 2), ("rows", "classes"), strict=True):
            for number, name in enumerate(NAMES):
                here = [p for p in self.points if p.metric == name and of in p.shown]
                x = [p.n if of == "rows" else p.k for p in here]
                axes.plot(x, [p.nanoseconds for p in here], "o-", color=f"C{number}", label=name)
            axes.set(xscale="log", yscale="log", xlabel=of, ylabel="nanoseconds a number")
        figure.axes[0].legend(fontsize=8)
        figure.savefig(path, metadata={"Date": None})

    def __str__(self) -> str:
        """Return the table as text."""
        return "\n".join(table(self._rows()))


def run_growth(*, quick: bool = False, progress: Callable[[str], None] | None = None) -> Growth:
    """Time every metric on every shape; `quick` takes a hundredth of the rows."""
    points = []
    for whole, k in dict.fromkeys((*ROWS, *CLASSES)):
        n = max(whole // 100, 20) if quick else whole
        shown = tuple(of for of, shapes in (("rows", ROWS), ("classes", CLASSES)) if (whole, k) in shapes)
        if progress is not None:
            progress(f"{n:,} × {k:,}")
        p, y = probabilities(n, k)
        logits.cache_clear()  # 10⁸ rows leave no room for them
        for name in NAMES:
            metric = getattr(metrics, name)
            seconds = _seconds(partial(metric, y, p), 1 if quick else 3)
            points.append(Point(n, k, name, seconds * 1e9 / (n * k), shown))
        clear()
    return Growth(tuple(points), datetime.now(UTC).date().isoformat())


def _seconds(run: Callable[[], Any], most: int) -> float:
    """Return the best time of up to `most` runs."""
    taken: list[float] = []
    while len(taken) < most and sum(taken) < ENOUGH:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)
