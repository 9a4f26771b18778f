"""The groups of the reliability diagram: steps a reader knows, joined where they hold few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.core.moments import wilson
from calibrant.core.tables import SLACK, Table
from calibrant.inference.verdict import RARE
from calibrant.reporting.figures import consistency

__all__ = ["FEWEST", "Group", "fewest", "group_edges", "groups_of", "histogram"]

#: Rows below which a step is joined with its neighbor (fewer where there are fewer than 240 rows).
FEWEST = 30
#: Narrow steps at the low end for a rare event.
_RARE_EDGES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True)
class Group:
    """Predictions with similar scores: how many, what they say, what happened, and what chance would show."""

    low: float
    high: float
    n: float
    score: float
    rate: float
    #: Ends of the 95% interval of the rate.
    least: float
    most: float
    #: Where 95% of a calibrated model's rates fall.
    band_low: float
    band_high: float

    @property
    def gap(self) -> float:
        """What the model says minus what happened."""
        return self.score - self.rate

    @property
    def outside(self) -> bool:
        """Whether the group leaves the band."""
        return not self.band_low - 1e-9 <= self.rate <= self.band_high + 1e-9

    @property
    def far(self) -> bool:
        """Whether the group lies twice as far off as the band reaches: 1 in 150 of a calibrated model at most."""
        reach = abs(self.score - (self.band_low if self.gap > 0 else self.band_high))
        return abs(self.gap) > 2 * max(reach, 1.5 / self.n) + 1e-9


def group_edges(tables: Sequence[Table], *, risk: bool) -> Floats:
    """Return the edges for all states of a page: steps of ten points, narrow ones where most rows are."""
    rates = [float(end.sum()) / table.total for table in tables for end in (table.ws, table.wt)]
    tens = [i / 10 for i in range(11)]
    if risk and min(rates) < RARE:
        return np.array([*_RARE_EDGES, *tens[4:]])
    crowded = any(table.w[table.score > 0.9 + SLACK].sum() > 0.5 * table.total for table in tables)
    return np.array([*tens[:10], 0.95, 0.99, 1.0] if crowded else tens)


def groups_of(table: Table, edges: Floats, level: float = 0.95) -> list[Group]:
    """Return the occupied groups of a table; an upper edge belongs to its group."""
    index = np.clip(np.searchsorted(edges[1:], table.score - SLACK, side="left"), 0, len(edges) - 2)
    expected = np.clip(table.we / table.w, 0.0, 1.0)
    sums = np.stack(
        [
            np.bincount(index, values, len(edges) - 1)
            for values in (table.w, table.ws, table.wt, table.w2, table.w * expected * (1 - expected), table.n)
        ]
    )
    spans = _join([(int(i), int(i) + 1) for i in np.flatnonzero(sums[0])], sums[5], fewest(table))
    groups = []
    for start, stop in spans:
        w, ws, wt, w2, noise, _ = sums[:, start:stop].sum(axis=1)
        counted = w * w / w2 if w2 > 0 else w  # Kish's effective number where weights differ
        n = w if abs(w - round(w)) < 1e-9 and abs(w2 - w) < 1e-6 * w else counted
        low, high = (float(end) for end in wilson(wt / w, n, level))
        below, above = consistency(w, ws, noise) if n == w else consistency(n, ws / w * n, noise / w * n)
        ends = (float(edges[start]), float(edges[stop]))
        groups.append(Group(*ends, float(w), float(ws / w), float(wt / w), low, high, below, above))
    return groups


def fewest(table: Table) -> float:
    """Return the rows below which a step is joined with a neighbor: an eighth of few rows, at least four."""
    return min(FEWEST, max(4.0, float(table.n.sum()) / 8))


def _join(spans: list[tuple[int, int]], rows: Floats, least: float) -> list[tuple[int, int]]:
    """Join the smallest span with its smaller neighbor until every span holds enough rows."""

    def size(span: tuple[int, int]) -> float:
        return float(rows[slice(*span)].sum())

    spans = list(spans)
    while len(spans) > 1:
        at = min(range(len(spans)), key=lambda i: size(spans[i]))
        if size(spans[at]) >= least:
            break
        sides = [i for i in (at - 1, at + 1) if 0 <= i < len(spans)]
        other = min(sides, key=lambda i: size(spans[i]))
        first, last = min(at, other), max(at, other)
        spans[first : last + 1] = [(spans[first][0], spans[last][1])]
    return spans


def histogram(table: Table, low: float, high: float, steps: int) -> Floats:
    """Return the fraction of rows in equal steps between two scores; what lies outside counts at the ends."""
    width = (high - low) / steps
    index = np.clip(np.ceil((table.score - SLACK - low) / width) - 1, 0, steps - 1).astype(np.int64)
    return np.asarray(np.bincount(index, table.w, steps) / table.total)
