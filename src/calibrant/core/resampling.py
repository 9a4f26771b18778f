"""What a calibrated model would score: labels drawn from the forecasts themselves, or the limit distribution of a path.

Everything that resamples goes through here, so that rows and cells follow one rule. Outcomes of tables (distinct
scores or cells) are binomial with the mean the forecast expects; where one label decides several pairs, whole labels
are drawn. Chunks of replicates run on all cores, each with a generator of its own, so the numbers do not depend on
the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.cells import joined
from calibrant.core.clusters import TableSigns
from calibrant.core.moments import supported
from calibrant.core.parallel import map_chunks
from calibrant.core.surprises import RareLabels, RareNull, chance_of_none, draw_surprises, likely_outcomes, mostly_none
from calibrant.core.tables import Table, width_index

if TYPE_CHECKING:
    from calibrant.core.declare import Recipe
    from calibrant.core.inputs import Forecast

__all__ = [
    "Null", "PathNull", "brownian_excursion", "class_cells", "class_outcomes", "draw_labels", "draw_outcomes",
    "equal_steps", "event_variance", "hit_law", "hits_of_bins", "path_variance", "replicate_labels",
    "replicate_signs", "replicate_tables", "sequential_pvalue"
]  # fmt: skip

#: Table entries worked on at once per thread.
_ENTRIES = 1 << 19
#: Rows of a table whose outcomes are put into their shared order at once.
_BLOCK = 8
#: Rows × classes × replicates of label draws that a call may cost; beyond it there are fewer replicates.
_LABEL_WORK = 400_000_000
#: Labels that are always affordable: each costs a search among the classes, and all of a row one look at it.
_LABELS = 2_000_000
_FEWEST = 20
#: Scores of a matrix whose bins may be kept.
KEPT_CELLS = 5_000_000
#: Equal steps of the cumulative path from which its limit distribution is closer than a thousand replicates.
ENOUGH_STEPS = 5_000
#: Variance of the number of events from which on the limit distribution holds in the tails.
ENOUGH_EVENTS = 400
#: Draws at least as large as the observed value after which a p-value is known well enough.
ENOUGH_ABOVE = 20
#: Cells times replicates above which neighboring cells draw their labels together.
MANY_DRAWS = 20_000_000


@dataclass(frozen=True, slots=True)
class Null:
    """Replicates of a metric under calibration; `more` draws as many further ones from the same generator."""

    values: Floats
    more: Callable[[], Floats] | None = field(default=None, repr=False, compare=False)

    @property
    def mean(self) -> float:
        """Mean over replicates."""
        return float(self.values.mean())

    @property
    def std(self) -> float:
        """Standard deviation over replicates."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else 0.0

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:
        """Return (1 + #{replicate ≥ observed})/(B + 1); two-sided: twice the smaller tail.

        Replicates within rounding of the observed value count as equal to it.
        """
        slack = 1e-12 * max(1.0, abs(observed))
        above = (1 + int((self.values >= observed - slack).sum())) / (len(self.values) + 1)
        if not two_sided:
            return above
        below = (1 + int((self.values <= observed + slack).sum())) / (len(self.values) + 1)
        return min(1.0, 2.0 * min(above, below))

    def quantile(self, q: float) -> float:
        """Return a quantile of the replicates."""
        return float(np.quantile(self.values, q))


def sequential_pvalue(observed: float, draw: Callable[[int], Floats], n_resamples: int) -> float:
    """Return the p-value of a large value by draws that go on while it is small.

    After `n_resamples` draws it is (1 + g)/(B + 1) with g draws at least as large, if g has reached twenty. Otherwise
    drawing goes on until it has, at the L-th draw: 20/L; at most ten times as many are drawn. That is a p-value
    whichever way it ends, because each level is decided by a number of draws that was fixed before.

    References
    ----------
    [1] Besag & Clifford (1991), Sequential Monte Carlo p-values, Biometrika 78.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> round(sequential_pvalue(3.0902, rng.standard_normal, 1000), 3)  # the tail is 0.001
    0.001
    """
    slack = 1e-12 * max(1.0, abs(observed))
    above, drawn = 0, 0
    while drawn < 10 * n_resamples:
        large = np.flatnonzero(draw(n_resamples) >= observed - slack)
        if drawn and above + len(large) >= ENOUGH_ABOVE:
            return ENOUGH_ABOVE / (drawn + int(large[ENOUGH_ABOVE - above - 1]) + 1)
        above, drawn = above + len(large), drawn + n_resamples
        if above >= ENOUGH_ABOVE:
            break
    return (1 + above) / (drawn + 1)


class PathNull:
    """The limit distribution of KS under calibration: the path is a random walk, its maximum that of a Brownian motion.

    P(sup |W| ≤ x) = (4/π) Σ_k (−1)^k/(2k + 1) · exp(−π²(2k + 1)²/(8x²)), scaled by √(Σw·s(1 − s))/Σw.

    References
    ----------
    [1] Feller (1971), An Introduction to Probability Theory and Its Applications II, section X.5.
    """

    def __init__(self, table: Table) -> None:
        self.scale = math.sqrt(path_variance(table)) / table.total

    @property
    def mean(self) -> float:
        """Mean √(π/2)·σ."""
        return math.sqrt(math.pi / 2) * self.scale

    @property
    def std(self) -> float:
        """Standard deviation: E sup² = 2·Catalan's constant."""
        return math.sqrt(2 * 0.915965594177219 - math.pi / 2) * self.scale

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:  # noqa: ARG002 -- a distance has one tail
        """Return P(sup ≥ observed)."""
        if self.scale <= 0:
            return 1.0 if observed <= 1e-12 else 0.0
        return supported(brownian_excursion(observed / self.scale))

    def quantile(self, q: float) -> float:
        """Return a quantile by bisection."""
        low, high = 0.0, 20.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if 1.0 - brownian_excursion(middle) < q else (low, middle)
        return high * self.scale


def brownian_excursion(x: float) -> float:
    """Return P(sup_{0≤t≤1} |W(t)| > x) of Brownian motion.

    Examples
    --------
    >>> round(brownian_excursion(2.2414), 3)
    0.05
    """
    if x <= 0:
        return 1.0
    root = math.sqrt(2.0)
    if x > 3:  # the series below loses digits; the reflections do not
        return min(1.0, 2.0 * math.erfc(x / root) - 2.0 * math.erfc(3.0 * x / root))
    inside = sum((-1) ** k / (2 * k + 1) * math.exp(-(math.pi**2) * (2 * k + 1) ** 2 / (8 * x * x)) for k in range(50))
    return min(1.0, max(0.0, 1.0 - 4.0 / math.pi * inside))


def event_variance(table: Table) -> Floats:
    """Return w·s(1 − s) of every table row at its mean expected outcome: the variance of Σw·t under calibration."""
    expected = np.clip(table.we / table.w, 0.0, 1.0)
    return np.asarray(table.w * expected * (1 - expected))


def path_variance(table: Table) -> float:
    """Return Σw·s(1 − s), each table row at its mean."""
    return float(event_variance(table).sum())


def equal_steps(table: Table) -> float:
    """Return the number of equal steps whose path varies like the one through these table rows."""
    variance = event_variance(table)
    squares = float(variance @ variance)
    return float(variance.sum()) ** 2 / squares if squares > 0 else 0.0


def long_path(table: Table) -> bool:
    """Whether the path has so many steps, and so many events, that its limit distribution beats replicates."""
    return equal_steps(table) >= ENOUGH_STEPS and path_variance(table) >= ENOUGH_EVENTS


# -- outcomes of tables ---------------------------------------------------------------------------


def draw_outcomes(table: Table, size: int, rng: np.random.Generator) -> Floats:
    """Draw Σw·t of every table row `size` times: binomial with the mean the forecast expects."""
    count = np.rint(table.w).astype(np.int64)
    p = np.clip(table.we / table.w, 0.0, 1.0)
    single = count == 1
    drawn = rng.random((size, int(single.sum())), dtype=np.float32) < p[single]
    if single.all():
        return drawn.astype(np.float64)
    out, many = np.empty((size, len(p))), ~single
    out[:, single] = drawn
    out[:, many] = rng.binomial(count[many], p[many], size=(size, int(many.sum())))
    return out


class SharedOrder:
    """Draws of many tables at a small part of the price of `draw_outcomes`, with the same law for each.

    Every step has one sorted row of uniform numbers, which each table turns around the circle by a random angle of its
    own and inverts by its own law. Which draw gets which count is a random order that all tables share, forwards or
    backwards by the sign of the angle; tables are independent once the caller shuffles what it makes of the draws of
    each. Blocks of a few rows go to memory that the caller keeps: fresh pages for every table cost more than the draws.
    """

    def __init__(self, rows: int, size: int, rng: np.random.Generator) -> None:
        self.size, self.places = size, rng.permuted(np.tile(np.arange(size, dtype=np.int32), (rows, 1)), axis=1)
        self.uniform = np.sort(rng.random((rows, size)), axis=1)

    @staticmethod
    def law(table: Table) -> tuple[Floats, Floats, Floats, Floats]:
        """Return of every table row its number, its probability, and the lowest and highest count that may come."""
        count, p = np.rint(table.w), np.clip(table.we / table.w, 1e-15, 1.0 - 1e-15)
        reach = 7.0 * np.sqrt(count * p * (1.0 - p)) + 8.0
        return count, p, np.maximum(np.floor(count * p - reach), 0.0), np.minimum(np.ceil(count * p + reach), count)

    def residuals(self, table: Table, rng: np.random.Generator, room: Floats) -> Floats:
        """Put Σw·(t − e) of every table row and of `size` draws of it into `room`, as a (1 + size, rows) array."""
        out, rows = room[: len(table)], np.arange(len(table))[:, None]
        out[:, 0] = table.wt - table.we
        count, p, low, high = self.law(table)
        values = low[:, None] + np.arange(int((high - low).max()) + 1)
        reached = np.zeros(values.shape)
        odds = np.maximum(count[:, None] - values[:, :-1], 1e-300) / (values[:, :-1] + 1.0)  # no more events than rows
        np.cumsum(np.log(odds) + np.log(p / (1.0 - p))[:, None], axis=1, out=reached[:, 1:])
        np.exp(reached - reached.max(axis=1, keepdims=True), out=reached)
        np.cumsum(reached, axis=1, out=reached)
        reached /= reached[:, -1:]
        signed = rng.uniform(-1.0, 1.0, len(table))[:, None]
        angle, line = np.abs(signed), (self.uniform[: len(table)] + rows).ravel()

        def below(share: Floats) -> Ints:
            return np.asarray(np.searchsorted(line, np.clip(share, 0.0, 1.0) + rows, side="right")) - rows * self.size

        times = below(reached + (1.0 - angle)) - below(1.0 - angle) + below(reached - angle)
        times[:, -1] = self.size
        times = np.diff(times, axis=1, prepend=0)
        places = self.places[: len(table)]
        inside = np.where(signed < 0.0, self.size - 1 - places, places) + rows % _BLOCK * self.size
        for start in range(0, len(p), _BLOCK):
            block = slice(start, min(start + _BLOCK, len(p)))
            ordered = np.repeat(values[block].ravel(), times[block].ravel())
            np.subtract(ordered.take(inside[block]), table.we[block, None], out=out[block, 1:])
        return out.T


def _chunks(n_resamples: int, width: int, least: int = 1) -> list[int]:
    step = max(1, min(n_resamples, max(least, _ENTRIES // max(1, width))))
    full, rest = divmod(n_resamples, step)
    return [step] * full + ([rest] if rest else [])


def _replicate(
    sizes: list[int], rng: np.random.Generator, run: Callable[[int, np.random.Generator], dict[str, Floats]]
) -> dict[str, Floats]:
    """Run each chunk of replicates with its own generator and join the values."""
    jobs = list(zip(sizes, rng.spawn(len(sizes)), strict=True))
    parts = list(map_chunks(lambda job: run(*job), jobs))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _nulls(
    sizes: list[int], rng: np.random.Generator, run: Callable[[int, np.random.Generator], dict[str, Floats]]
) -> dict[str, Null]:
    """Return the replicates of each metric, ready to draw more in the same way."""

    def more(name: str) -> Floats:
        return _replicate(sizes, rng, run)[name]

    return {name: Null(values, partial(more, name)) for name, values in _replicate(sizes, rng, run).items()}


def replicate_tables(
    members: Mapping[str, Recipe],
    tables: Sequence[Table],
    n_resamples: int,
    rng: np.random.Generator,
    complete: Callable[[list[Table]], list[Table]] = list,
    *,
    limit: bool = True,
) -> dict[str, Null | PathNull | RareNull]:
    """Return the null distributions of metrics of one view by drawing the outcomes of its tables together.

    The largest excursion of a long path follows its limit distribution, on rows and on cells from the same number of
    equal steps on; where hardly any row goes against its forecast, samples in which one does are drawn (`RareNull`).
    Neither unless `limit`. `complete` adds tables whose outcomes follow from the drawn ones (the other class of two).
    """
    out: dict[str, Null | PathNull | RareNull] = {}
    if limit and len(tables) == 1 and long_path(tables[0]):
        out.update({name: PathNull(tables[0]) for name, recipe in members.items() if recipe.is_path})
    drawn = {name: recipe for name, recipe in members.items() if name not in out}
    if not drawn:
        return out
    whole = len(tables) == 1 and complete is list and not (limit and mostly_none(tables[0]))
    start = _bin_starts(tables[0], list(drawn.values())) if whole else None
    if start is None and sum(map(len, tables)) * n_resamples > MANY_DRAWS:
        tables = _coarser(tables, list(drawn.values()))
    rare = start is None and limit and len(tables) == 1 and mostly_none(tables[0])
    draws: list[Callable[[int, np.random.Generator], Floats]]
    draws = [partial(draw_surprises if rare else draw_outcomes, table) for table in tables]
    if start is not None:
        draws, tables = [hits_of_bins(tables[0], start)], [tables[0].joined(start)]

    def values(outcomes: list[Floats]) -> dict[str, Floats]:
        replicated = complete([table.with_outcomes(each) for table, each in zip(tables, outcomes, strict=True)])
        return {name: np.asarray(recipe.from_tables(replicated)) for name, recipe in drawn.items()}

    def run(size: int, generator: np.random.Generator) -> dict[str, Floats]:
        return values([draw(size, generator) for draw in draws])

    # many classes: calls cost, not cells
    sizes = _chunks(n_resamples, sum(map(len, tables)), 64 if len(tables) > 1 else 1)
    if rare:
        found = _replicate(sizes, rng, run)
        base, none = values([likely_outcomes(tables[0])[None, :]]), chance_of_none(tables[0])
        return out | {name: RareNull(float(base[name][0]), none, each) for name, each in found.items()}
    return out | _nulls(sizes, rng, run)


def _bin_starts(table: Table, recipes: Sequence[Recipe]) -> Ints | None:
    """Return the first table row of each bin if the metrics need only sums of bins and their law is soon known."""
    known = 0 < table.total <= _MOST_ROWS and float(table.w.min()) >= 1
    bins = [recipe.row_bins(table) if known else None for recipe in recipes]
    changes = [index[1:] != index[:-1] for index in bins if index is not None]
    whole = len(changes) == len(bins)
    return np.flatnonzero(np.concatenate([[True], np.logical_or.reduce(changes)])) if whole else None


def _coarser(tables: Sequence[Table], recipes: Sequence[Recipe]) -> Sequence[Table]:
    """Join neighboring cells that lie in one bin and close together, so that fewer labels need be drawn."""
    grid = max(table.grid for table in tables)
    blocks = [recipe.joint_cells(grid) for recipe in recipes]
    if not grid or any(block is None for block in blocks):
        return tables
    block = math.gcd(*(block for block in blocks if block is not None))
    return [joined(table, block) for table in tables]


# -- hits of whole bins ---------------------------------------------------------------------------

#: Rows up to which the law of the hits of bins is worked out; beyond, rows are drawn.
_MOST_ROWS = 1 << 20
#: Rows whose polynomial is multiplied out row by row.
_LEAF = 32


def hits_of_bins(table: Table, start: Ints) -> Callable[[int, np.random.Generator], Floats]:
    """Return a function that draws Σw·t of every bin so many times; `start` is the first table row of each bin."""
    count = np.rint(table.w).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(count)])[start]
    lowest, law = hit_law(np.repeat(np.clip(table.we / table.w, 0.0, 1.0), count), first)
    flat, bins, width = law.ravel(), np.arange(len(law)), law.shape[1]

    def draw(size: int, rng: np.random.Generator) -> Floats:
        uniform = rng.random((size, len(bins)))
        uniform += bins
        place = np.searchsorted(flat, uniform, side="right") - bins * width
        return np.asarray(lowest + np.minimum(place, width - 1))

    return draw


def hit_law(chance: Floats, start: Ints) -> tuple[Floats, Floats]:
    """Return the smallest number of hits with a weight and the cumulative law from it on, j added to that of bin j.

    `chance` is that of every row, bin after bin; `start` the first row of each bin. The polynomial of a bin,
    Π (1 − p_i) + p_i·z, is multiplied out row by row in blocks and then by FFT (rounding of the order of 1e-15), and
    cut ten standard deviations and forty hits from its mean, where less than 1e-20 is left.
    """
    rows = np.diff(np.append(start, len(chance)))
    spread = float(np.sqrt(np.add.reduceat(chance * (1.0 - chance), start).max()))
    width = 1 << int(np.ceil(np.log2(20.0 * spread + 80.0)))
    block = _LEAF
    while 4 * block <= width and block * len(start) < len(chance):
        block *= 2
    blocks = -(-rows // block)
    first = np.concatenate([[0], np.cumsum(blocks)])
    padded = np.zeros(int(first[-1]) * block)  # rows that never hit fill the last block of a bin
    padded[np.arange(len(chance)) + np.repeat(first[:-1] * block - start, rows)] = chance
    leaves = np.ascontiguousarray(padded.reshape(-1, _LEAF).T)
    series = np.zeros((_LEAF + 1, leaves.shape[1]))
    series[0] = 1.0
    for i, p in enumerate(leaves):
        moved = series[: i + 1] * p
        series[: i + 1] -= moved
        series[1 : i + 2] += moved
    series = series.T
    while (degree := series.shape[1] - 1) < block:
        factors = np.fft.rfft(series, 3 * degree)
        series = np.fft.irfft(factors[::2] * factors[1::2], 3 * degree)[:, : 2 * degree + 1]
    wrapped = np.fft.irfft(np.multiply.reduceat(np.fft.rfft(series, width), first[:-1], axis=0), width)
    lowest = np.floor(np.add.reduceat(chance, start)) - width // 2
    hits = lowest[:, None] + np.arange(width)
    law = np.take_along_axis(wrapped, hits.astype(np.int64) % width, axis=1)
    law = np.cumsum(np.where((hits >= 0) & (hits <= rows[:, None]), np.maximum(law, 0.0), 0.0), axis=1)
    law /= law[:, -1:]
    return lowest, law + np.arange(len(start))[:, None]


# -- clusters -------------------------------------------------------------------------------------

#: Rows × replicates of signs that a call may cost; beyond it there are fewer replicates.
SIGN_WORK = 100_000_000


def replicate_signs(
    members: Mapping[str, Recipe], table: Table, drawn: TableSigns, n_resamples: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Return the null distributions of metrics of one view where rows come in clusters.

    Of the laws that may hold (`TableSigns.draws`) each metric takes the one that reaches farthest in one of twenty.
    """
    width = drawn.width
    n_resamples = min(n_resamples, max(10 * _FEWEST, SIGN_WORK // width))

    def run(size: int, generator: np.random.Generator) -> dict[str, Floats]:
        laws = [[table.with_outcomes(table.we + moved)] for moved in drawn.draws(size, generator)]
        return {
            name: np.stack([np.asarray(recipe.from_tables(law)) for law in laws], 1) for name, recipe in members.items()
        }

    found = _replicate(_chunks(n_resamples, width), rng, run)
    farthest = {name: np.argmax(np.quantile(values, 0.95, axis=0)) for name, values in found.items()}
    return {name: Null(values[:, farthest[name]]) for name, values in found.items()}


# -- whole labels ---------------------------------------------------------------------------------


def draw_labels(forecast: Forecast, size: int, rng: np.random.Generator) -> Ints:
    """Draw one label per row from its forecast, `size` times: shape (size, n)."""
    out = np.empty((size, forecast.n), dtype=np.int64)
    n_classes = forecast.n_classes
    for rows in forecast.chunks():
        block = forecast.block(rows)
        uniform = rng.random((size, len(block)))
        cumulative = np.cumsum(block, axis=1, dtype=np.float64)
        cumulative /= cumulative[:, -1:]
        if n_classes > 64:
            offset = np.arange(len(cumulative))  # one sorted vector for all rows: row i lives in (i, i + 1]
            label = np.searchsorted((cumulative + offset[:, None]).ravel(), uniform + offset) - offset * n_classes
            np.clip(label, 0, n_classes - 1, out=out[:, rows])
        else:
            label, above = np.zeros(uniform.shape, dtype=np.int8), np.empty(uniform.shape, dtype=bool)
            for reached in np.ascontiguousarray(cumulative.T[:-1]):
                label += np.greater(uniform, reached, out=above).view(np.int8)
            out[:, rows] = label
    return out


def replicate_labels(
    recipes: Mapping[str, Recipe], forecast: Forecast, n_resamples: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Return the null distributions of metrics that need whole labels; a very large matrix gets fewer replicates."""
    affordable = max(_FEWEST, _LABEL_WORK // (forecast.n * forecast.n_classes), _LABELS // forecast.n)
    n_resamples = min(n_resamples, affordable)
    finishers = {name: recipe.label_values(forecast) for name, recipe in recipes.items()}
    draw = RareLabels.law(forecast) if forecast.n * n_resamples > MANY_DRAWS else None

    def run(size: int, generator: np.random.Generator) -> dict[str, Floats]:
        labels: Any = draw_labels(forecast, size, generator) if draw is None else draw(size, generator)
        return {name: finisher(labels) for name, finisher in finishers.items()}

    # a few replicates at a time even of many rows: the cumulative probabilities are added up once for all of them
    return _nulls(_chunks(n_resamples, min(forecast.n, _ENTRIES // 5)), rng, run)


def class_cells(forecast: Forecast, m: int, kind: str) -> Ints:
    """Return the cell of every row and class: `m` bins of each class, counted on from class to class."""
    k = forecast.n_classes
    index = np.empty((forecast.n, k), dtype=np.int32)
    for j in range(k):
        column = forecast.column(j)
        if kind == "mass":
            edges = np.sort(column)[-(-np.arange(1, m) * forecast.n // m) - 1]
            index[:, j] = np.searchsorted(edges, column, side="left")
        else:
            index[:, j] = width_index(column, m)
    index += np.arange(k, dtype=np.int32) * m
    return index  # type: ignore[return-value]  # half the memory


def class_outcomes(forecast: Forecast, m: int, kind: str) -> Callable[[Ints | RareLabels], Floats]:
    """Return a function from labels to hits by class and bin, shape (size, K, m).

    The bin of every score is kept, but of equal widths in a large matrix: there the drawn class alone is looked up.
    """
    k = forecast.n_classes
    wide = kind == "width" and forecast.n * k > KEPT_CELLS
    index = None if wide else class_cells(forecast, m, kind)
    each = np.arange(forecast.n)

    def cells_of(labels: Ints, score: Floats | None = None, rows: Ints = each) -> Ints:
        if index is not None:
            return index[rows, labels]
        return labels * m + width_index(forecast.with_codes(labels).true_score if score is None else score, m)

    def hits(labels: Ints | RareLabels) -> Floats:
        if isinstance(labels, RareLabels):  # those of the likeliest classes, and what the others move
            likely: Ints = forecast.keep(("likely cells", m, kind), lambda: cells_of(forecast.top))
            first, most = labels.draw * (k * m), labels.size * k * m
            moved = np.bincount(first + cells_of(labels.label, labels.score, labels.row), minlength=most)
            moved -= np.bincount(first + likely[labels.row], minlength=most)
            return np.add(moved.reshape(-1, k, m), np.bincount(likely, minlength=k * m).reshape(k, m), dtype=np.float64)
        size = len(labels)
        if index is not None:
            cells = cells_of(labels) + (np.arange(size) * (k * m))[:, None]
            return np.bincount(cells.ravel(), minlength=size * k * m).astype(np.float64).reshape(size, k, m)
        found = [np.bincount(cells_of(row), minlength=k * m).astype(np.float64).reshape(k, m) for row in labels]
        return np.stack(found)

    return hits
