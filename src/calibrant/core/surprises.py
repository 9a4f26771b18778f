"""Null distributions where hardly any row goes against its forecast: the chance that none does is known exactly.

With one expected error in two hundred samples, a thousand draws hold five samples with an error, give or take two. So
draws are made only of samples in which something surprising happens (at least one row has its less likely outcome);
the sample in which nothing does has a known chance and one value. Tails then are those of exact enumeration wherever
one surprise decides, and Monte Carlo error is that of the share of surprising samples alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.parallel import map_chunks, row_chunks
from calibrant.core.tables import Table

if TYPE_CHECKING:
    from calibrant.core.inputs import Forecast

__all__ = ["RareLabels", "RareNull", "chance_of_none", "draw_surprises", "likely_outcomes", "mostly_none"]

#: From this chance of a sample without a surprise on, draws are made of the others.
MOSTLY_NONE = 0.5
#: Below one surprise in so many rows, labels are drawn of the rows that may have one.
_RARELY = 8


def _expected(table: Table) -> tuple[Floats, Floats]:
    """Return the number of rows and the chance of the less likely outcome of every table row."""
    p = np.clip(table.we / table.w, 0.0, 1.0)
    return np.rint(table.w), np.minimum(p, 1.0 - p)


def chance_of_none(table: Table) -> float:
    """Return the probability that every row has its likelier outcome.

    Examples
    --------
    >>> from calibrant.core.tables import Pairs, value_table
    >>> rows = value_table(Pairs(np.full(100, 0.99995), np.ones(100, dtype=bool), None))
    >>> round(chance_of_none(rows), 4)
    0.995
    """
    count, rare = _expected(table)
    return math.exp(float(count @ np.log1p(-rare)))


def mostly_none(table: Table) -> bool:
    """Whether samples without a surprise are the rule, though not certain."""
    return MOSTLY_NONE < chance_of_none(table) < 1.0 - 1e-12


def likely_outcomes(table: Table) -> Floats:
    """Return Σw·t of every table row when nothing surprising happens."""
    return np.where(table.we <= 0.5 * table.w, 0.0, np.rint(table.w))


def draw_surprises(table: Table, size: int, rng: np.random.Generator) -> Floats:
    """Draw Σw·t of every table row `size` times, given that at least one row has its less likely outcome.

    The first surprise is drawn by its place; rows before it have none, rows after it are free.
    """
    count, rare = _expected(table)
    none = np.exp(count * np.log1p(-rare))  # of each table row
    reached = 1.0 - np.cumprod(none)
    first = np.searchsorted(reached, rng.random(size) * reached[-1], side="right").clip(0, len(count) - 1)
    drawn = rng.binomial(count.astype(np.int64), rare, size=(size, len(count))).astype(np.float64)
    drawn[np.arange(len(count)) < first[:, None]] = 0.0
    some = 1.0 - none[first]
    before = np.floor(np.log1p(-rng.random(size) * some) / np.log1p(-rare[first]))  # rows of that cell before it
    left = np.maximum(count[first] - 1.0 - before, 0.0)
    drawn[np.arange(size), first] = 1.0 + rng.binomial(left.astype(np.int64), rare[first])
    return np.where(table.we <= 0.5 * table.w, drawn, np.rint(table.w) - drawn)


@dataclass(frozen=True, slots=True)
class RareNull:
    """A metric under calibration: its value without a surprise, the chance of that, and draws of the other samples."""

    base: float
    none: float
    values: Floats

    @property
    def mean(self) -> float:
        """Mean over samples."""
        return self.none * self.base + (1.0 - self.none) * float(self.values.mean())

    @property
    def std(self) -> float:
        """Standard deviation over samples."""
        square = self.none * (self.base - self.mean) ** 2 + (1.0 - self.none) * ((self.values - self.mean) ** 2).mean()
        return math.sqrt(float(square))

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:
        """Return the chance of a value at least as large; two-sided: twice the smaller tail."""
        slack = 1e-12 * max(1.0, abs(observed))
        above = self._tail(self.base >= observed - slack, int((self.values >= observed - slack).sum()))
        if not two_sided:
            return above
        below = self._tail(self.base <= observed + slack, int((self.values <= observed + slack).sum()))
        return min(1.0, 2.0 * min(above, below))

    def _tail(self, base: bool, beyond: int) -> float:
        return min(1.0, self.none * base + (1.0 - self.none) * (1 + beyond) / (len(self.values) + 1))

    def quantile(self, q: float) -> float:
        """Return the smallest value that a share q of the samples does not pass."""
        values = np.append(self.base, self.values)
        mass = np.append(self.none, np.full(len(self.values), (1.0 - self.none) / len(self.values)))
        order = np.argsort(values, kind="stable")
        place = int(np.searchsorted(np.cumsum(mass[order]), q - 1e-12))
        return float(values[order][min(place, len(order) - 1)])


# -- whole labels ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RareLabels:
    """Labels drawn `size` times: each row has its likeliest class, but in `draw` `row` got `label`, of that `score`."""

    forecast: Forecast
    size: int
    draw: Ints
    row: Ints
    label: Ints
    score: Floats

    def __iter__(self) -> Iterator[Ints]:
        for one in range(self.size):
            labels, mine = self.forecast.top.copy(), self.draw == one
            labels[self.row[mine]] = self.label[mine]
            yield labels

    @classmethod
    def law(cls, forecast: Forecast) -> Callable[[int, np.random.Generator], RareLabels] | None:
        """Return a function that draws one label per row from its forecast, so many times; None: nothing is rare.

        Rows are put together by the power of 2 above their chance of a surprise. Each is looked at with that chance,
        independently, and then has its surprise with the rest of its own: the law is that of `draw_labels`.
        """
        sums = map_chunks(lambda rows: forecast.block(rows).sum(axis=1, dtype=np.float64), forecast.chunks())
        risk = 1.0 - forecast.top_score / np.concatenate(list(sums))
        halvings = -np.frexp(np.clip(risk, 2.0**-40, 0.75))[1]
        order, rows = np.argsort(halvings.astype(np.int8), kind="stable"), np.bincount(halvings)
        bounds, levels = 0.5 ** np.arange(len(rows)), np.split(order, np.cumsum(rows)[:-1])
        if rows @ bounds * _RARELY > forecast.n:
            return None

        def draw(size: int, rng: np.random.Generator) -> RareLabels:
            places = [_successes(size * len(level), bound, rng) for level, bound in zip(levels, bounds, strict=True)]
            number = np.repeat(rows, [len(place) for place in places])
            reach = rng.random(len(number)) * np.repeat(bounds, [len(place) for place in places])
            row = np.concatenate(
                [level[place % max(len(level), 1)] for place, level in zip(places, levels, strict=True)]
            )
            label, score = np.empty(len(row), dtype=np.int64), np.empty(len(row))
            for some in row_chunks(len(row), 8 * forecast.n_classes):
                part = forecast.take(row[some])
                p = part.block(slice(0, part.n)).astype(np.float64)
                reach[some] *= p.sum(axis=1)
                p[np.arange(part.n), part.top] = 0.0
                label[some] = (np.cumsum(p, axis=1, out=p) <= reach[some, None]).sum(axis=1)
                score[some] = part.with_codes(np.minimum(label[some], forecast.n_classes - 1)).true_score
            found = np.flatnonzero(label < forecast.n_classes)
            return cls(
                forecast, size, (np.concatenate(places) // number)[found], row[found], label[found], score[found]
            )

        return draw


def _successes(trials: int, chance: float, rng: np.random.Generator) -> Ints:
    """Return which of so many trials succeed, each with the same chance, by the gaps between them."""
    found, last = [np.empty(0, dtype=np.int64)], -1
    while trials and last < trials:
        due = chance * (trials - last)
        found.append(last + np.cumsum(rng.geometric(chance, int(due + 4.0 * math.sqrt(due)) + 8)))
        last = int(found[-1][-1])
    place = np.concatenate(found)
    return place[: np.searchsorted(place, trials)]
