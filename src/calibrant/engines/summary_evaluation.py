"""The table of `calibrant.evaluate` from a `Summary`: values, null distributions and bounds, all from cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.declare import Measure, Recipe, declared, lookup
from calibrant.core.edges import COARSE, PARTS, width_index
from calibrant.core.inputs import check_pairs, check_rng
from calibrant.core.parallel import map_chunks
from calibrant.core.results import Interval, Result
from calibrant.core.tables import Bins, Table
from calibrant.engines.cells import bounds, mirror
from calibrant.errors import InputError, input_error
from calibrant.estimators import KDE, Binned, Cumulative, Estimator, Kernel, Local, Smooth
from calibrant.inference.evaluation import Evaluation
from calibrant.inference.null import Null, draw_outcomes
from calibrant.inference.verdict import ALPHA, Facts, class_gaps, main_claim, verdict
from calibrant.metrics.recipes import CalibrationError, MeanScore
from calibrant.views import Classwise, Entropy, Pooled, TopLabel, View

if TYPE_CHECKING:
    from calibrant.engines.summary import Summary

#: Cells times replicates worked on at once per thread.
_ENTRIES = 1 << 19
#: Cells times replicates above which neighbouring cells draw their labels together.
_DRAWS = 20_000_000
#: Equal steps of the cumulative path from which its limit law is closer than a thousand replicates.
_STEPS = 5_000


@dataclass(frozen=True)
class Precision:
    """How far a value from cells may be from the value from rows: `bound` 0 is exact, None has no useful bound."""

    bound: float | None
    sentence: str


EXACT = Precision(0.0, "exact")


def precision(summary: Summary, recipe: Recipe) -> Precision:
    """State the error of a measure computed from this summary's own cells."""
    if not isinstance(recipe, CalibrationError):
        return EXACT
    estimator = recipe.estimator
    tables = summary.tables(recipe.view)
    grid = max(table.grid for table in tables)
    if isinstance(estimator, Binned):
        if estimator.bins == "width":
            return EXACT
        return Precision(None, "approximate: range edges fall on cell borders, without a useful worst-case bound")
    if isinstance(estimator, Cumulative):
        bound = _join(recipe.view, [_ks_bound(table) for table in tables])
        return Precision(bound, f"from cells: at most {bound:.2g} below the value from rows")
    if isinstance(estimator, Kernel):
        factor = math.sqrt(2.0 / (grid * estimator.width))  # ‖k(s) − k(s')‖² = 2 − 2e^{−|s − s'|/width}
        bound = _join(recipe.view, [factor * _mean_gap(table) for table in tables])
        return Precision(bound, f"from cells: within {bound:.2g} of the value from rows")
    if isinstance(estimator, Smooth):
        bound = _join(recipe.view, [_smooth_bound(table, estimator) for table in tables])
        return Precision(bound, f"from cells: within {bound:.2g} of the value from rows")
    if isinstance(estimator, KDE | Local):
        return Precision(None, f"approximate: scores are placed to the width of a cell ({1 / grid:.1g})")
    return Precision(None, "approximate: scores within a cell are pooled, without a useful worst-case bound")


def _join(view: View, errors: Sequence[float]) -> float:
    return float(view.join(np.array(errors)))


def _ks_bound(table: Table) -> float:
    """Largest part of the path hidden inside a cell: hits raise it by 1 − s, misses lower it by s, in any order."""
    if not len(table):
        return 0.0
    low, high = bounds(table)
    hidden = np.maximum(table.wt * (1.0 - low), (table.w - table.wt) * high)
    return float(np.where((table.n > 1) & (high > low), hidden, 0.0).max() / table.total)


def _gaps(table: Table) -> tuple[Floats, Floats]:
    """Upper bound of Σ|t − s| in every cell, and the width of the cell."""
    low, high = bounds(table)
    return table.wt * (1.0 - low) + (table.w - table.wt) * high, high - low


def _mean_gap(table: Table) -> float:
    """Upper bound of the mean |t − s|."""
    return float(_gaps(table)[0].sum() / table.total) if len(table) else 0.0


def _smooth_bound(table: Table, estimator: Smooth) -> float:
    """Largest change of the fixed point σ = f(σ) when rows move within their cells, f non-increasing.

    A score moved by d (its cell and a step of the estimator's grid) moves a Gaussian of width σ by at most
    d·√(2/π)/σ in the integral of |·|, so f by c/σ: the fixed point falls by at most x = c/(σ − x) and rises by c/σ.
    """
    if not len(table):
        return 0.0
    gap, width = _gaps(table)
    moved = np.where(width > 0, width + 1.0 / estimator.grid, 0.0)
    c = math.sqrt(2 / math.pi) * float(gap @ moved) / table.total
    sigma = float(estimator.table_power(table, 1.0))
    if sigma * sigma >= 4 * c:
        return (sigma - math.sqrt(sigma * sigma - 4 * c)) / 2
    return min(max(sigma, c / sigma), 1.0) if sigma > 0 else 1.0


def evaluate_summary(
    summary: Summary,
    *,
    measures: Iterable[str] | str | None,
    n_bins: int,
    level: float,
    n_resamples: int,
    rng: RNG,
) -> Evaluation:
    """Return the table of results of a summary."""
    if not summary.n:
        raise input_error("Summary", "evaluate", "hold at least one row", "none", "update it first")
    if not 0 < level < 1:
        raise input_error("level", "evaluate", "lie between 0 and 1", repr(level), "use 0.95")
    generator = check_rng(rng, "Summary.evaluate")
    built = _build(summary, measures, n_bins)
    values = {name: summary.value(recipe) for name, (_, recipe) in built.items()}
    whole = summary.fractional == 0
    ks = lookup("ks").build()
    errors = {name: r for name, (_, r) in built.items() if isinstance(r, CalibrationError)}
    nulls: dict[str, Null | BrownianNull] = {}
    if whole and n_resamples > 0:
        nulls.update(null_from_cells(summary, {**errors, "ks": ks}, n_resamples, generator))  # type: ignore[dict-item]
    elif whole:
        nulls["ks"] = BrownianNull(summary.tables(TopLabel())[0])
    results = tuple(
        _result(summary, name, measure, recipe, values[name], nulls.get(name), level if whole else None)
        for name, (measure, recipe) in built.items()
    )
    if whole and n_resamples > 0:
        results = tuple(
            replace(result, interval=error_interval(summary, *built[result.name], result.value, level, generator))
            if isinstance(built[result.name][1], CalibrationError)
            else result
            for result in results
        )
    facts = _facts(summary, nulls.get("ks"))
    return Evaluation(
        results,
        summary.n,
        summary.n_classes,
        verdict(facts),
        facts,
        level,
        n_resamples,
        summary.total != summary.n,
        summary.classes,
        _notes(summary, built),
    )


def _build(summary: Summary, measures: Iterable[str] | str | None, n_bins: int) -> dict[str, tuple[Measure, Recipe]]:
    """Return measure and recipe by name; the panel and "all" leave out what this summary cannot answer."""
    asked = measures is not None and measures != "all"
    if measures is None:
        names = [measure.name for measure in declared() if measure.panel]
        if summary.n_classes == 2:
            names.insert(names.index("ece") + 1, "ece@class-1")
    elif measures == "all":
        names = [measure.name for measure in declared()]
    else:
        names = [measures] if isinstance(measures, str) else list(measures)
    built = {}
    for name in names:
        short, _, view = name.partition("@")
        measure = lookup(short, "Summary.evaluate")
        params: dict[str, Any] = {"view": view} if view else {}
        if "n_bins" in measure.parameters():
            params["n_bins"] = n_bins
        recipe = measure.build(**params)
        try:
            summary.value(recipe)
        except InputError as error:
            if asked or "n_bins of" in str(error):
                raise
            continue
        built[name] = (measure, recipe)
    return built


def _result(
    summary: Summary,
    name: str,
    measure: Measure,
    recipe: Recipe,
    value: float,
    null: Null | BrownianNull | None,
    level: float | None,
) -> Result:
    mean = std = pvalue = None
    interval = None
    if null is not None:
        mean, std, pvalue = null.mean, null.std, null.pvalue(value)
    elif level is not None and isinstance(recipe, MeanScore) and measure.proper and math.isfinite(value):
        mean, std, pvalue = _score_null(summary, measure, recipe)
    if level is not None and isinstance(recipe, MeanScore) and measure.proper and math.isfinite(value):
        interval = _score_interval(summary, recipe, value, level)
    return Result(name, value, mean, std, pvalue, interval, measure.estimates, measure.bound)


def error_interval(
    summary: Summary, measure: Measure, recipe: Recipe, value: float, level: float, rng: np.random.Generator
) -> Interval | None:
    """Return the interval `calibrant.interval` offers, with each cell's hits and misses at the cell's mean score."""
    from calibrant.inference.intervals import offered_interval

    if not isinstance(recipe, CalibrationError) or isinstance(recipe.view, Classwise | Pooled | Entropy):
        return None
    (table,) = summary.tables(recipe.view)
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    hits = np.repeat([True, False], len(score))
    weight = np.concatenate([table.wt, table.w - table.wt])
    kept = weight > 0
    forecast = check_pairs(hits[kept], np.tile(score, 2)[kept], caller="Summary", sample_weight=weight[kept])
    alone = replace(recipe, view=TopLabel())
    found = offered_interval(measure, alone, forecast, level=level, n_resamples=0, groups=None, rng=rng)
    return None if found is None else replace(found, value=value, n=summary.n)


def _score_null(
    summary: Summary, measure: Measure, recipe: MeanScore
) -> tuple[float | None, float | None, float | None]:
    """Mean and spread of a mean score over labels drawn from the forecasts: sums of independent rows."""
    from scipy.stats import norm

    total = summary.total
    if measure.name in ("brier", "rbs") and not recipe.top_label_only:
        mean, variance = summary.sums["brier.mean"].wx, summary.sums["brier.var"].wx
    elif measure.name == "nll":
        mean, variance = summary.sums["entropy"].wx, summary.sums["nll.var"].wx
    else:
        return None, None, None
    centre, spread = mean / total, math.sqrt(max(variance, 0.0)) / total
    observed = summary.score_sums(recipe)
    z = (observed.wx / observed.w - centre) / spread if spread > 0 else math.inf
    pvalue = float(2 * norm.sf(abs(z)))
    if recipe.link is not None:
        low, high = recipe.link(max(centre - spread, 0.0)), recipe.link(centre + spread)
        return recipe.link(centre), (high - low) / 2, pvalue
    return centre, spread, pvalue


def _score_interval(summary: Summary, recipe: MeanScore, value: float, level: float) -> Interval | None:
    from scipy.stats import norm

    w, wx, wx2 = summary.score_sums(recipe)
    if w < 2:
        return None
    mean = wx / w
    half = float(norm.ppf(0.5 + level / 2)) * math.sqrt(max(wx2 / w - mean * mean, 0.0) / (w - 1))
    low, high = mean - half, mean + half
    if recipe.link is not None:
        low, high = recipe.link(max(low, 0.0)), recipe.link(high)
    return Interval(value, low, high, level, "normal", round(w))


def _facts(summary: Summary, null: Null | BrownianNull | None) -> Facts:
    (top,) = summary.tables(TopLabel())
    total = top.total
    accuracy, confidence = float(top.wt.sum() / total), float(top.ws.sum() / total)
    noise = math.sqrt(_variance(top)) / total
    ks = float(lookup("ks").build().finish((top,)))
    gaps: tuple[Any, ...] = ()
    if null is not None and not summary.pairs and any(isinstance(view, Classwise) for view in summary.views):
        tables = summary.tables(Classwise())
        moments = np.array([[t.ws.sum(), _variance(t), t.wt.sum()] for t in tables]).T
        gaps = class_gaps(moments[0], moments[1], moments[2], total, summary.classes or tuple(range(summary.n_classes)))
    return Facts(
        summary.n,
        summary.n_classes,
        accuracy,
        confidence,
        ks,
        None if null is None else null.mean,
        None if null is None else null.std,
        None if null is None else null.pvalue(ks),
        None if null is None else null.quantile(1 - ALPHA) + 0.84 * noise,
        main_claim(top.bins(20), confidence - accuracy),
        gaps,
    )


def _cell_variance(table: Table) -> Floats:
    """w·s(1 − s) of every cell at its mean score."""
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    return np.asarray(table.w * score * (1 - score))


def _variance(table: Table) -> float:
    return float(_cell_variance(table).sum())


def _notes(summary: Summary, built: Mapping[str, tuple[Measure, Recipe]]) -> tuple[str, ...]:
    notes = []
    if summary.fractional:
        notes.append("weights are not whole numbers: no resampling, p-values or intervals")
    for name, (_, recipe) in built.items():
        said = precision(summary, recipe)
        if said is not EXACT:
            notes.append(f"{name} is {said.sentence}")
    if summary.n_classes > 2 and any(isinstance(getattr(r, "view", None), Classwise) for _, r in built.values()):
        notes.append("class-wise null values treat classes as independent: mean exact, spread approximate")
    out = {reason: count for reason, count in summary.rejected.items() if count}
    if out:
        listed = ", ".join(f"{count} {reason}" for reason, count in out.items())
        notes.append(f"{sum(out.values())} rows were left out ({listed})")
    return tuple(notes)


def null_from_cells(
    summary: Summary, recipes: Mapping[str, CalibrationError], n_resamples: int, rng: np.random.Generator
) -> dict[str, Null | BrownianNull]:
    """Resample the outcomes of cells with the probability the forecasts give them; a view's measures share draws."""
    by_view: dict[View, dict[str, CalibrationError]] = {}
    for name, recipe in recipes.items():
        by_view.setdefault(recipe.view, {})[name] = recipe
    out: dict[str, Null | BrownianNull] = {}
    for view, members in by_view.items():
        tables = summary.tables(view)
        if getattr(view, "by", None):
            tables = tuple(table for table in tables if len(table))
        if len(tables) == 1 and _steps(tables[0]) >= _STEPS:
            walks = {name for name, recipe in members.items() if isinstance(recipe.estimator, Cumulative)}
            out.update({name: BrownianNull(tables[0]) for name in walks})
        drawn = {name: recipe for name, recipe in members.items() if name not in out}
        if not drawn:
            continue
        if sum(map(len, tables)) * n_resamples > _DRAWS:
            tables = _coarser(tables, [recipe.estimator for recipe in drawn.values()])
        mirrored = isinstance(view, Classwise) and summary.n_classes == 2 and view.threshold is None
        out.update(_replicates(drawn, tables[1:] if mirrored else tables, mirrored, n_resamples, rng))
    return out


def _steps(table: Table) -> float:
    """Number of equal steps whose path varies like the one through these cells."""
    variance = _cell_variance(table)
    squares = float(variance @ variance)
    return float(variance.sum()) ** 2 / squares if squares > 0 else 0.0


def _coarser(tables: Sequence[Table], estimators: Sequence[Estimator]) -> tuple[Table, ...]:
    """Join neighbouring cells that lie in one bin and close together, so that fewer labels need be drawn.

    The hits of a joined cell are binomial with its mean probability: the mean is exact, the variance too large by the
    spread of the scores inside, at most 1/(4·120²) of a row (1/(4·1 200²) where a measure looks between the bins).
    """
    if any(isinstance(e, Cumulative) for e in estimators):
        return tuple(tables)
    grid = max(table.grid for table in tables)
    bins = [e.n_bins for e in estimators if isinstance(e, Binned) and e.bins == "width"]
    if any(grid % m for m in bins):
        return tuple(tables)
    block = math.gcd(grid // (120 if len(bins) == len(estimators) else COARSE), *(grid // m for m in bins))
    return tuple(_joined(table, block) for table in tables)


def _joined(table: Table, block: int) -> Table:
    if not len(table):
        return table
    cell, part = table.key // PARTS, table.key % PARTS
    end = (cell == 0) | (cell == table.grid - 1)
    group = np.where(end, -1 - cell * PARTS - part // 4, cell // block)  # a quarter of an octave at both ends
    start = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    sums = (np.add.reduceat(x, start) for x in (table.n, table.w, table.ws, table.wt, table.we, table.w2))
    return Table(table.grid, table.key[start], *sums)


def _replicates(
    members: dict[str, CalibrationError],
    tables: Sequence[Table],
    mirrored: bool,
    n_resamples: int,
    rng: np.random.Generator,
) -> dict[str, Null]:
    cells = max(1, sum(len(table) for table in tables))
    step = min(n_resamples, max(_ENTRIES // cells, 64 if len(tables) > 1 else 1))  # many classes: calls cost, not cells
    sizes = [min(step, n_resamples - start) for start in range(0, n_resamples, step)]

    def run(job: tuple[int, np.random.Generator]) -> dict[str, Floats]:
        size, generator = job
        drawn = [table.with_outcomes(draw_outcomes(table, size, generator)) for table in tables]
        if mirrored:
            drawn = [mirror(drawn[0]), *drawn]
        return {name: np.asarray(r.finish(_state(r, drawn, size))) for name, r in members.items()}

    parts = list(map_chunks(run, zip(sizes, rng.spawn(len(sizes)), strict=True)))
    return {name: Null(np.concatenate([part[name] for part in parts])) for name in members}


def _state(recipe: CalibrationError, tables: Sequence[Table], size: int) -> Any:
    estimator = recipe.estimator
    if not isinstance(estimator, Binned):
        return tuple(tables)
    m = estimator.n_bins
    parts = []
    for table in tables:
        if not len(table):
            parts.append(Bins(np.zeros((1, m)), np.zeros((1, m)), np.zeros((size, 1, m))))
        elif estimator.bins == "width" and table.grid % m:
            parts.append(table._collect(width_index(table.score, m), m))  # bins kept apart: cells by their mean score
        else:
            parts.append(estimator.state(table))
    return Bins.stack(parts)


class BrownianNull:
    """The limit law of KS under calibration: the path is a random walk, its maximum that of a Brownian motion.

    P(sup |W| ≤ x) = (4/π) Σ_k (−1)^k/(2k + 1) · exp(−π²(2k + 1)²/(8x²)), scaled by √(Σw·s(1 − s))/Σw.

    References
    ----------
    [1] Feller (1971), An Introduction to Probability Theory and Its Applications II, section X.5.
    """

    def __init__(self, table: Table) -> None:
        self.scale = math.sqrt(_variance(table)) / table.total

    @property
    def mean(self) -> float:
        """Mean √(π/2)·σ."""
        return math.sqrt(math.pi / 2) * self.scale

    @property
    def std(self) -> float:
        """Standard deviation: E sup² = 2·Catalan's constant."""
        return math.sqrt(2 * 0.915965594177219 - math.pi / 2) * self.scale

    def pvalue(self, observed: float) -> float:
        """Return P(sup ≥ observed)."""
        if self.scale <= 0:
            return 1.0 if observed <= 1e-12 else 0.0
        return 1.0 - _brownian_cdf(observed / self.scale)

    def quantile(self, q: float) -> float:
        """Return a quantile by bisection."""
        low, high = 0.0, 20.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _brownian_cdf(middle) < q else (low, middle)
        return high * self.scale


def _brownian_cdf(x: float) -> float:
    if x <= 0:
        return 0.0
    if x > 3:  # tail by reflection: sums that cancel lose digits
        from scipy.stats import norm

        return float(1 - 4 * norm.sf(x) + 4 * norm.sf(3 * x))
    k = np.arange(30)
    terms = (-1.0) ** k / (2 * k + 1) * np.exp(-((np.pi * (2 * k + 1)) ** 2) / (8 * x * x))  # [1]
    return float(np.clip(4 / np.pi * terms.sum(), 0.0, 1.0))
