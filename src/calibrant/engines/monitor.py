"""`monitor`: add a day to a store, compare windows, and raise an alarm with a stated false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.edges import COARSE, PARTS
from calibrant.core.inputs import check_rng
from calibrant.core.results import Difference, Interval, Record, format_pvalue, format_value
from calibrant.core.tables import Table
from calibrant.engines.row_sums import recipe_of
from calibrant.engines.sequential import log_evalue, log_increments, threshold
from calibrant.engines.store import Day, Store
from calibrant.engines.summary import Summary
from calibrant.errors import input_error
from calibrant.views import TopLabel

__all__ = ["MonitorReport", "Window", "compare_windows", "monitor"]

SCHEMA = 1
#: Numbers of each day kept for charts.
CHART = ("ece", "ks", "accuracy", "confidence", "nll", "brier")


@dataclass(frozen=True)
class Window(Record):
    """The latest days against the days before them: changes of mean scores, and one test of the calibration curve."""

    reference: tuple[str, ...]
    current: tuple[str, ...]
    changes: tuple[Difference, ...]
    #: Largest distance of the two cumulative paths, and its p-value given the scores.
    ks: float
    ks_pvalue: float


@dataclass(frozen=True)
class MonitorReport(Record):
    """State of the watch after the latest day."""

    name: str
    n: int
    days: int
    alarm: bool
    #: First day whose e-value reached the threshold.
    since: str | None
    log_evalue: float
    log_threshold: float
    false_alarm_rate: float
    tolerance: float
    window: Window | None
    history: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {"schema": SCHEMA, **super().to_dict()}

    def __str__(self) -> str:
        state = f"ALARM since {self.since}" if self.alarm else "no alarm"
        lines = [
            f"{self.name}: {_count(self.n)} predictions, day {self.days} of the watch",
            (
                f"{state}: log e-value {self.log_evalue:.2f}, alarm at {self.log_threshold:.2f} "
                f"(a model calibrated within {100 * self.tolerance:g} points ever raises it with probability at most "
                f"{100 * self.false_alarm_rate:g} %)"
            ),
        ]
        if self.window is not None:
            lines.append(
                f"Last {len(self.window.current)} against the {len(self.window.reference)} before: "
                f"calibration moved by {100 * self.window.ks:.2f} points ({format_pvalue(self.window.ks_pvalue)})"
            )
            lines += [
                f"  {c.name} {format_value(c.before)} -> {format_value(c.after)} ({format_pvalue(c.pvalue)})"
                for c in self.window.changes
            ]
        return "\n".join(lines)


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def monitor(
    store: str | Path,
    summary: Summary | None = None,
    *,
    name: str | None = None,
    window: int = 7,
    alpha: float | None = None,
    tolerance: float | None = None,
    restart: bool = False,
    rng: RNG = 0,
) -> MonitorReport:
    """Add a day's summary to a store and say how things stand; without a summary only say it.

    Parameters
    ----------
    store : str or Path
        Directory of the watch; made on the first day.
    summary : Summary, optional
        The day's predictions.
    name : str, optional
        Name of the day, unique in the store; needed with `summary`.
    window : int, default 7
        Days compared with as many days before them.
    alpha : float, optional
        False-alarm rate over the whole life of the watch, fixed when the store is made; default 0.01.
    tolerance : float, optional
        Miscalibration of any score that is still allowed (0.02 = two points), fixed when the store is made;
        default 0. No real model is perfect: with millions of rows a day set it to what you can accept.
    restart : bool, default False
        Start a new watch with this day (after a repair); it has its own false-alarm rate.
    rng : None, int or Generator
        Randomness of the window's p-value.

    Returns
    -------
    MonitorReport
        ``.alarm`` is what the command line turns into exit code 3.

    Notes
    -----
    44 bets (a shift or a slope of the log-odds, small to large, both signs), each starting on every day with
    a share fixed beforehand, hold all the wealth; the e-value is its sum. If t given s is Bernoulli(p) with
    abs(p − s) ≤ tolerance, it is a supermartingale and P(ever ≥ 1/α) ≤ α (Ville's inequality), whatever the
    number and the size of the days.
    """
    for label, value in (("alpha", alpha), ("tolerance", tolerance)):
        if value is not None and not (0 < value < 1 or (label == "tolerance" and value == 0)):
            raise input_error(label, "monitor", "lie between 0 and 1", repr(value), "for example alpha=0.01")
    if window < 1:
        raise input_error("window", "monitor", "be at least one day", repr(window), "use 7")
    wishes = {key: value for key, value in (("alpha", alpha), ("tolerance", tolerance)) if value is not None}
    fresh = not (Path(store) / "store.json").exists()
    book = Store(store, {"alpha": 0.01, "tolerance": 0.0, **wishes} if fresh else wishes)
    settings = book.settings
    if summary is not None:
        if not name:
            raise input_error("name", "monitor", "name the day", repr(name), "for example name='2026-11-15'")
        if summary.fractional:
            raise input_error(
                "sample_weight", "monitor", "be whole numbers: the test counts rows", "fractional weights", "drop them"
            )
        book.add(name, summary, _facts(summary, settings["tolerance"], restart))
    days = book.days()
    if not days:
        raise input_error("store", "monitor", "hold at least one day", "none", "give a file to add")
    return _report(days, settings, window, rng)


def _facts(summary: Summary, tolerance: float, restart: bool) -> dict[str, Any]:
    if not summary.n:
        raise input_error("summary", "monitor", "hold at least one row", "none", "check the day's file")
    (table,) = summary.tables(TopLabel())
    kept = [m for m in CHART if not (summary.pairs and m in ("nll", "brier"))]
    values = {m: summary.measure(m) for m in kept}
    return {
        "gains": log_increments(table, tolerance).tolist(),
        "values": {m: value if math.isfinite(value) else None for m, value in values.items()},
        "rejected": summary.rejected,
        "restart": restart,
    }


def _report(days: Sequence[Day], settings: dict[str, Any], window: int, rng: RNG) -> MonitorReport:
    start = max([i for i, day in enumerate(days) if day.facts["restart"]], default=0)
    watch = days[start:]
    path = log_evalue([np.array(day.facts["gains"]) for day in watch])
    limit = threshold(settings["alpha"])
    crossed = np.flatnonzero(path >= limit)
    history = tuple(
        {"name": day.name, "n": day.n, "log_evalue": float(value), **day.facts["values"]}
        for day, value in zip(watch, path, strict=True)
    )
    return MonitorReport(
        watch[-1].name,
        watch[-1].n,
        len(watch),
        bool(len(crossed)),
        watch[int(crossed[0])].name if len(crossed) else None,
        float(path[-1]),
        limit,
        settings["alpha"],
        settings["tolerance"],
        _window(watch, window, rng),
        history,
    )


def _window(watch: Sequence[Day], window: int, rng: RNG) -> Window | None:
    if len(watch) < 2:
        return None
    size = min(window, len(watch) // 2)
    current, reference = watch[-size:], watch[-2 * size : -size]
    new, old = _sum(current), _sum(reference)
    if new._shape() != old._shape():
        return None
    return compare_windows(old, new, [d.name for d in reference], [d.name for d in current], rng=rng)


def _sum(days: Sequence[Day]) -> Summary:
    total = days[0].summary()
    for day in days[1:]:
        total = total + day.summary()
    return total


def compare_windows(
    reference: Summary,
    current: Summary,
    reference_names: Sequence[str] = (),
    current_names: Sequence[str] = (),
    *,
    level: float = 0.95,
    n_resamples: int = 999,
    rng: RNG = None,
) -> Window:
    """Compare two sets of predictions: differences of mean scores, and whether one calibration curve fits both."""
    names = [
        name for name in ("accuracy", "confidence", "brier", "nll") if name in reference.sums and name in current.sums
    ]
    changes = tuple(_difference(name, reference, current, level) for name in names)
    ks, pvalue = curve_test(
        reference.tables(TopLabel())[0], current.tables(TopLabel())[0], n_resamples, check_rng(rng, "compare_windows")
    )
    return Window(tuple(reference_names), tuple(current_names), changes, ks, pvalue)


def _difference(name: str, reference: Summary, current: Summary, level: float) -> Difference:
    from scipy.stats import norm

    recipe = recipe_of(name)
    (before, v1), (after, v2) = (_mean_variance(one.score_sums(recipe)) for one in (reference, current))
    change, spread = before - after, math.sqrt(v1 + v2)
    if not math.isfinite(change) or spread == 0:
        return Difference(name, before, after, change)
    half = float(norm.ppf(0.5 + level / 2)) * spread
    interval = Interval(change, change - half, change + half, level, "normal", reference.n + current.n)
    return Difference(name, before, after, change, interval, float(2 * norm.sf(abs(change) / spread)))


def _mean_variance(sums: Any) -> tuple[float, float]:
    mean = sums.wx / sums.w
    return mean, max(sums.wx2 / sums.w - mean * mean, 0.0) / max(sums.w - 1, 1.0)


def curve_test(one: Table, two: Table, n_resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Test that E[t | s] is the same in two tables: hits are dealt anew between them within every cell.

    Returns the largest distance of the cumulative paths Σ(t − s)/n and its p-value, exact given the scores.
    """
    a, b = _thin(one), _thin(two)
    keys = np.union1d(a[0], b[0])
    (w1, s1, t1), (w2, s2, t2) = (_spread(part, keys) for part in (a, b))
    drift = np.cumsum(s1) / w1.sum() - np.cumsum(s2) / w2.sum()

    def distance(hits1: Floats, hits2: Floats) -> Floats:
        path = np.cumsum(hits1, axis=-1) / w1.sum() - np.cumsum(hits2, axis=-1) / w2.sum() - drift
        return np.asarray(np.abs(path).max(axis=-1))

    observed = float(distance(t1, t2))
    hits, total = t1 + t2, w1 + w2
    large = total > 1e8  # beyond the range of the hypergeometric generator: its normal limit
    share = hits / np.maximum(total, 1)
    spread = np.sqrt(np.where(total > 1, w1 * share * (1 - share) * w2 / np.maximum(total - 1, 1), 0.0))
    count = 0
    step = max(1, (1 << 20) // max(1, len(keys)))
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        drawn = np.where(large, w1 * share + spread * rng.standard_normal((size, len(keys))), 0.0)
        good, bad, taken = (np.rint(x[~large]).astype(np.int64) for x in (hits, total - hits, w1))
        drawn[:, ~large] = rng.hypergeometric(good, bad, taken, size=(size, len(good)))
        count += int((distance(drawn, hits - drawn) >= observed - 1e-12).sum())
    return observed, (1 + count) / (n_resamples + 1)


def _thin(table: Table) -> tuple[Any, ...]:
    """Collect into coarse cells; parts of the first and last cell stay."""
    cell, part = table.key // PARTS, table.key % PARTS
    ends = (cell == 0) | (cell == table.grid - 1)
    key = (cell // (table.grid // COARSE)) * PARTS + np.where(
        ends, part, np.where(cell < table.grid // 2, PARTS - 1, 0)
    )
    keys, where = np.unique(key, return_inverse=True)
    return keys, *(np.bincount(where, x, len(keys)) for x in (table.w, table.ws, table.wt))


def _spread(part: tuple[Any, ...], keys: Any) -> tuple[Floats, Floats, Floats]:
    out = np.zeros((3, len(keys)))
    out[:, np.searchsorted(keys, part[0])] = part[1:]
    return out[0], out[1], out[2]
