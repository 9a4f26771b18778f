"""Two windows of days side by side: changes of mean scores, and one test of the calibration curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.clusters import FEWEST, clustered_error, signs
from calibrant.core.declare import lookup
from calibrant.core.moments import t_quantile
from calibrant.core.options import check_count, check_rng, check_share, listed
from calibrant.core.results import Difference, Interval, Record
from calibrant.core.tables import COARSE, PARTS, Table
from calibrant.core.text import pvalue_phrase, significant
from calibrant.core.weights import observations
from calibrant.inference.changes import inverted
from calibrant.inference.intervals import offered_interval
from calibrant.summary.summary import Summary
from calibrant.summary.sums import kept_scores
from calibrant.views import TopLabel, View

__all__ = ["Window", "compare_windows", "curve_test"]

#: Groups of scores whose mean residual is that of both windows, where whole days are drawn.
_GROUPS = 10
#: Rows of a window below which nothing is said of its means, as of calibration errors.
_FEWEST_ROWS = 30


@dataclass(frozen=True)
class Window(Record):
    """The latest days against the days before them: changes of mean scores, and one test of the calibration curve."""

    reference: tuple[str, ...]
    current: tuple[str, ...]
    changes: tuple[Difference, ...]
    #: Largest distance of the two cumulative paths, and its p-value given the scores; None for fewer than ten units.
    ks: float
    ks_pvalue: float | None

    def __str__(self) -> str:
        head = (
            f"Last {len(self.current)} against the {len(self.reference)} before: "
            f"calibration moved by {100 * self.ks:.2f} points ({pvalue_phrase(self.ks_pvalue)})"
        )
        changes = [
            f"  {c.name} {significant(c.before)} -> {significant(c.after)} ({pvalue_phrase(c.pvalue)})"
            for c in self.changes
        ]
        return "\n".join([head, *changes])


def compare_windows(
    reference: Summary,
    current: Summary,
    reference_names: Sequence[str] = (),
    current_names: Sequence[str] = (),
    *,
    level: float = 0.95,
    n_resamples: int = 999,
    view: View | None = None,
    days: tuple[Sequence[Summary], Sequence[Summary]] = ((), ()),
    rng: RNG = None,
) -> Window:
    """Compare two sets of predictions: differences of mean scores, and whether one calibration curve fits both.

    `days` are the parts of both whose rows vary together; at least ten, else there is neither p-value nor interval.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import Summary
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = rng.random(2000) < p
    >>> before, after = Summary(2).update(y, p), Summary(2).update(y, p**2)
    >>> compare_windows(before, after, rng=0).ks_pvalue < 0.01
    True
    """
    check_count(n_resamples, "n_resamples", "compare_windows", 1)
    check_share(level, "level", "compare_windows")
    names = [
        name for name in ("accuracy", "confidence", "brier", "nll") if name in reference.sums and name in current.sums
    ]
    changes = tuple(_difference(name, (reference, current), days, level) for name in names)
    ((one,), (two,)) = (part.tables(view or TopLabel()) for part in (reference, current))
    each = [[part.tables(view or TopLabel())[0] for part in side] for side in days]
    ks, pvalue = curve_test(one, two, n_resamples, check_rng(rng, "compare_windows"), each)
    old = tuple(listed(reference_names, "reference_names", "compare_windows"))
    new = tuple(listed(current_names, "current_names", "compare_windows"))
    return Window(old, new, changes, ks, pvalue)


def _difference(name: str, sides: Sequence[Summary], days: Sequence[Sequence[Summary]], level: float) -> Difference:
    """Return the change of a mean from the intervals of both sides (MOVER); with days, by whichever law is wider."""
    metric, recipe = lookup(name, "compare_windows"), kept_scores()[name]
    (before, e1, f1), (after, e2, f2) = (_mean_error(recipe, *side) for side in zip(sides, days, strict=True))
    change, spread = before - after, math.hypot(e1, e2)
    few = min(map(observations, sides)) < _FEWEST_ROWS or _few(days)
    if few or not math.isfinite(change + spread) or (days[0] and spread == 0):
        return Difference(name, before, after, change)
    freedom = spread**4 / (e1**4 / f1 + e2**4 / f2) if spread else 1.0  # Welch's
    rng = np.random.default_rng(0)

    def ends(level: float) -> tuple[float, float]:
        one, two = (offered_interval(metric, recipe, side, level=level, rng=rng) for side in sides)
        if one is None or two is None:
            return -math.inf, math.inf
        half = t_quantile(0.5 + level / 2, freedom) * spread if days[0] else 0.0
        below = max(math.hypot(before - one.low, two.high - after), half)  # Zou & Donner (2008) eq. (3)
        return change - below, change + max(math.hypot(one.high - before, after - two.low), half)

    interval = Interval(change, *ends(level), level, "mover", sum(map(observations, sides)))
    if not math.isfinite(interval.low + interval.high):
        return Difference(name, before, after, change)
    return Difference(name, before, after, change, interval, inverted(ends, 25))


def _few(days: Sequence[Sequence[Any]]) -> bool:
    """Whether there are days, but too few to infer anything from them."""
    return 0 < len(days[0]) + len(days[1]) < FEWEST


def _mean_error(recipe: Any, one: Summary, days: Sequence[Summary]) -> tuple[float, float, float]:
    """Return a mean, its standard error and the degrees of freedom, those of whole days if there are any."""
    sums = one.score_sums(recipe)
    mean = sums.wx / sums.w
    if not days:
        return mean, 0.0, 1.0
    if len(days) < 2:
        return mean, math.nan, 1.0
    w, wx = np.array([day.score_sums(recipe)[:2] for day in days]).T
    return mean, *clustered_error(wx - mean * w, w)


def curve_test(
    one: Table, two: Table, n_resamples: int, rng: np.random.Generator, days: Sequence[Sequence[Table]] = ((), ())
) -> tuple[float, float | None]:
    """Test that E[t | s] is the same in two tables: hits are dealt anew between them within every cell.

    Returns the largest distance of the cumulative paths Σ(t − s)/n and its p-value, exact given the scores. With the
    tables of `days` the signs of what each day adds to the distance are drawn instead (`calibrant.core.clusters`).
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
    if _few(days):
        return observed, None
    if days[0]:
        group = np.minimum(_GROUPS * (np.cumsum(total) - total / 2) // total.sum(), _GROUPS - 1).astype(np.int64)
        lean = (np.bincount(group, hits - s1 - s2) / np.maximum(np.bincount(group, total), 1e-300))[group]
        sizes = zip(days, (w1.sum(), -w2.sum()), strict=True)
        parts = [(_spread(_thin(table), keys), size) for side, size in sizes for table in side]
        moved = [(t - s - w * lean) / size / (1 - w.sum() / total.sum()) for (w, s, t), size in parts]
        mean = np.cumsum(lean * (w1 / w1.sum() - w2 / w2.sum()))
        drawn = np.abs(signs(n_resamples, len(moved), rng) @ np.cumsum(moved, axis=1) + mean).max(axis=1)
        return observed, (1 + int((drawn >= observed - 1e-12).sum())) / (n_resamples + 1)
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
