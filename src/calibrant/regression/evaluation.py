"""`evaluate`: every measure of a regression forecast with what a calibrated one would show, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike
from calibrant.core.inputs import check_names, check_rng
from calibrant.core.notebook import notebook_html
from calibrant.core.results import Record, Result, format_value
from calibrant.regression import nulls
from calibrant.regression._inputs import check_levels, check_share
from calibrant.regression.intervals import ROW_SCORES, is_dominated, mean_interval
from calibrant.regression.kernel import (
    ALL_PAIRS,
    block_values,
    check_lengths,
    null_draws,
    row_points,
    unbiased_value,
)
from calibrant.regression.nulls import Null
from calibrant.regression.pit import coverage, ks_distance, pit_rows, quantile_gap
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows
from calibrant.regression.variance_errors import collect, ence_of, vce_of

__all__ = ["MEASURES", "RegressionEvaluation", "evaluate"]

#: Short name -> (what it estimates, bound); in the order of the table.
MEASURES: dict[str, tuple[str, str | None]] = {
    "mse": ("mean squared error; a calibrated model's average variance", None),
    "dss": ("mean and variance together (proper score)", None),
    "nll": ("normal log score (proper score)", None),
    "crps": ("the whole distribution (proper score)", "upper"),
    "bias": ("mean standardised residual; 0 is perfect", "exact"),
    "ratio": ("squared error over variance; 1 is perfect, above it over-confident", "exact"),
    "pit-ks": ("distance of the PIT from uniform", "lower"),
    "qce": ("error of quantile levels", "lower"),
    "ence": ("relative error of the spread by variance range", "lower"),
    "vce": ("error of the variance by variance range", "lower"),
    "skce": ("kernel calibration error, squared", None),
}
#: What the verdict rests on, each at a quarter of the error rate.
DECISIVE = ("bias", "ratio", "pit-ks", "ence")
ALARM = 0.05
#: Pairs that blocks may compare at most, about: the block size shrinks from 50 as the rows grow.
PAIRS = 5_000_000


@dataclass(frozen=True)
class RegressionEvaluation(Record):
    """A table of results with a verdict; `str()` is the terminal text."""

    results: tuple[Result, ...]
    n: int
    verdict: str
    level: float = 0.95
    headline: str = ""
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name!r} is not in this evaluation; it has {', '.join(r.name for r in self.results)}")

    def __iter__(self) -> Any:
        return iter(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "n": self.n,
            "measures": {
                r.name: {
                    "value": r.value, "null_mean": r.null_mean, "null_std": r.null_std, "pvalue": r.pvalue,
                    "low": None if r.interval is None else r.interval.low,
                    "high": None if r.interval is None else r.interval.high,
                    "estimates": r.estimates, "bound": r.bound,
                }
                for r in self.results
            },
            "verdict": self.verdict,
        }

    def to_frame(self) -> Any:
        """Return the table as a Polars frame, one row per measure."""
        import polars as pl

        rows = [{"measure": name, **values} for name, values in self.to_dict()["measures"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def _cells(self) -> list[tuple[str, ...]]:
        head = ("measure", "value", "if calibrated", "p-value", f"{100 * self.level:g} % interval", "estimates")
        return [head, *(_cells(result) for result in self.results)]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join([self.headline, *lines, *self.notes, f"Verdict: {self.verdict}"])

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return notebook_html(self.headline, self.verdict, head, body)


def _cells(r: Result) -> tuple[str, ...]:
    null = "–" if r.null_mean is None else f"{format_value(r.null_mean)} ± {format_value(r.null_std)}"
    p = "–" if r.pvalue is None else ("< 0.001" if r.pvalue < 0.001 else f"{r.pvalue:.3f}")
    span = "–" if r.interval is None else f"{format_value(r.interval.low)} … {format_value(r.interval.high)}"
    bound = f"{r.bound} bound: " if r.bound in ("lower", "upper") else ""
    return r.name, format_value(r.value), null, p, span, bound + (r.estimates or "")


def evaluate(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    measures: Iterable[str] | str | None = None, sample_weight: ArrayLike | None = None, n_bins: int = 15,
    levels: int | ArrayLike = 99, level: float = 0.95, n_resamples: int = 1000, groups: ArrayLike | None = None,
    rng: RNG = None,
) -> RegressionEvaluation:
    """Measure the calibration of mean and variance, say how sure that is, and put it into words.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    measures : iterable of str, optional
        Short names, see `MEASURES`; default all.
    sample_weight : array of shape (n,), optional
        Frequencies; weights that are not whole numbers give values alone.
    n_bins : int, default 15
        Equal-mass ranges of the variance for "ence" and "vce".
    levels : int or increasing levels in (0, 1), default 99
        Levels of "qce".
    level : float, default 0.95
        Level of the intervals.
    n_resamples : int, default 1000
        Draws of simulated null distributions; 0 gives the values alone.
    groups : array of shape (n,), optional
        Clusters of rows for the intervals.
    rng : None, int or Generator

    Returns
    -------
    RegressionEvaluation
        ``.results``, ``["dss"]``, ``.verdict``, ``.to_dict()``, ``.to_frame()``; ``str()`` is the terminal text.

    Notes
    -----
    An interval is withheld where one row makes more than a fifth of a score's variance.
    "If calibrated" assumes y ~ N(μ, v) row by row; samples and quantiles have it for the PIT measures only. p-values
    of scores, bias and ratio are two-sided, those of errors one-sided. "skce" uses all pairs up to 5 000 rows and
    blocks of 50 (fewer beyond 100 000) rows above. The verdict rests on bias, ratio, PIT and ENCE together at an error
    rate of 5 %.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> y = mean + rng.normal(size=1000)
    >>> print(evaluate(y, mean, np.full(1000, 0.25), rng=0).verdict)
    Not calibrated: over-confident, squared errors are 4.18 times the predicted variances. Repair it ...
    """
    caller = "evaluate"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    names = list(MEASURES) if measures is None or measures == "all" else (
        [measures] if isinstance(measures, str) else list(measures)
    )
    for name in names:
        check_names(name, tuple(MEASURES), "measures", caller)
    generator = check_rng(rng, caller)
    counts = rows.weights is None or bool((rows.weights == np.floor(rows.weights)).all())
    bench = _Bench(
        rows, counts and n_resamples > 0, n_bins, check_levels(levels, caller), n_resamples, generator,
        check_share(level, "level", caller), groups,
    )
    table = {name: bench.result(name) for name in dict.fromkeys([*names, *DECISIVE])}
    notes = () if counts else ("weights are not whole numbers: no p-values or intervals",)
    results = tuple(table[name] for name in names)
    return RegressionEvaluation(results, rows.n, _verdict(table, rows.total), level, _headline(rows), notes)


@dataclass(frozen=True, eq=False)
class _Bench:
    """One call's rows and options; computes one line of the table at a time."""

    rows: Rows
    inference: bool
    n_bins: int
    levels: Any
    n_resamples: int
    rng: np.random.Generator
    level: float
    groups: ArrayLike | None

    def result(self, name: str) -> Result:
        estimates, bound = MEASURES[name]
        if name in ROW_SCORES:
            values = ROW_SCORES[name](self.rows)
            value = self.rows.average(values)
            null = self._score_null(name, value) if self.inference and self.rows.is_normal else None
            shaky = not self.inference or is_dominated(values, self.rows.weights, self.groups, "evaluate")
            span = None if shaky else mean_interval(
                values, self.rows.weights, level=self.level, method="normal", groups=self.groups, n_resamples=0,
                rng=self.rng, caller="evaluate",
            )
        else:
            finder = {"pit-ks": self._ks, "qce": self._qce, "ence": self._ence, "vce": self._vce, "skce": self._skce}
            (value, null), span = finder[name](), None
        if null is None:
            return Result(name, value, interval=span, estimates=estimates, bound=bound)
        return Result(name, value, null.mean, null.std, null.pvalue, span, estimates, bound)

    def _score_null(self, name: str, value: float) -> Null:
        rows, total = self.rows, self.rows.total
        if name == "mse":
            first = rows.average(rows.variance) * total
            return nulls.null_sum(first, rows.average(rows.variance**2) * total, total, value)
        if name == "crps":
            return nulls.null_crps(rows, value)
        if name == "bias":
            from scipy.special import ndtr

            return Null(0.0, total**-0.5, float(2 * ndtr(-abs(value) * np.sqrt(total))))
        ratio = rows.average(rows.ratio)
        if name == "ratio":
            return nulls.null_ratio(total, ratio)
        shift = rows.average(np.log(rows.variance))
        if name == "dss":
            return nulls.null_ratio(total, ratio, shift=shift)
        return nulls.null_ratio(total, ratio, shift=shift + float(np.log(2 * np.pi)), factor=0.5)

    def _ks(self) -> tuple[float, Null | None]:
        value = ks_distance(pit_rows(self.rows, self.rng), self.rows.weights)
        return value, nulls.null_ks(value, round(self.rows.total)) if self.inference else None

    def _qce(self) -> tuple[float, Null | None]:
        observed = coverage(pit_rows(self.rows, self.rng), self.rows.weights, self.levels, "quantile")
        value = float(quantile_gap(observed, self.levels, 1))
        if not self.inference:
            return value, None
        n = round(self.rows.total)
        return value, nulls.null_coverage(self.levels, "quantile", 1, value, n, self.n_resamples, self.rng)

    def _ence(self) -> tuple[float, Null | None]:
        binning = collect(self.rows, self.n_bins, "mass", key="std", caller="evaluate")
        value = float(ence_of(binning.error, binning))
        if not (self.inference and self.rows.is_normal):
            return value, None
        draws = nulls.null_errors(binning, self.n_resamples, self.rng)
        return value, nulls.from_draws(ence_of(draws, binning), value)

    def _vce(self) -> tuple[float, Null | None]:
        binning = collect(self.rows, self.n_bins, "mass", key="variance", caller="evaluate")
        value = float(vce_of(binning.error, binning))
        if not (self.inference and self.rows.is_normal):
            return value, None
        draws = nulls.null_errors(binning, self.n_resamples, self.rng)
        return value, nulls.from_draws(vce_of(draws, binning), value)

    def _skce(self) -> tuple[float, Null | None]:
        rows, points = self.rows, row_points(self.rows)
        lengths = check_lengths("median", points, "evaluate")
        if rows.total < 2:
            return float("nan"), None
        if rows.n <= ALL_PAIRS:
            value = unbiased_value(points, rows.weights, lengths)
            if not (self.inference and rows.is_normal):
                return value, None
            return value, nulls.from_draws(null_draws(points, rows.total, lengths, self.n_resamples, self.rng), value)
        if rows.weights is not None:  # blocks know no weights: draw rows by weight
            pick = self.rng.choice(rows.n, ALL_PAIRS, p=rows.weights / rows.total)
            points = type(points)(*(column[pick] for column in points))
        values = block_values(points, int(np.clip(PAIRS // rows.n, 2, 50)), lengths)
        value, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
        if not (self.inference and rows.is_normal):
            return value, None
        from scipy.special import ndtr

        return value, Null(0.0, error, float(ndtr(-value / error)))


def _headline(rows: Rows) -> str:
    ratio = rows.average(rows.ratio)
    n = f"{rows.n:,}".replace(",", " ")
    error, spread = (np.sqrt(rows.average(v)) for v in (rows.squared_error, rows.variance))
    return f"{n} predictions · RMSE {error:.4g} · predicted {spread:.4g} · squared error / variance {ratio:.3g}"


def _verdict(table: dict[str, Result], total: float) -> str:
    pvalues = {name: table[name].pvalue for name in DECISIVE}
    known = {name: p for name, p in pvalues.items() if p is not None}
    if not known:
        return "No test of calibration was possible (it needs whole-number weights and n_resamples > 0)."
    if min(known.values()) * len(known) >= ALARM:
        hidden = 2.5 * (2 / total) ** 0.5  # the ratio has standard deviation √(2/n); 2.5 of them at the corrected level
        if hidden > 0.5:
            return f"Cannot tell: {total:g} rows would hide variances wrong by a factor of {1 + hidden:.2g}."
        looks = "bias, spread, PIT and variance ranges look as a calibrated model's would"
        return f"No sign of miscalibration: {looks} (variances wrong by {100 * hidden:.2g} % could hide at this n)."
    clear = {name for name, p in known.items() if p * len(known) < ALARM}
    faults = []
    ratio, bias = table["ratio"].value, table["bias"].value
    if "ratio" in clear:
        faults.append(
            f"over-confident, squared errors are {ratio:.3g} times the predicted variances" if ratio > 1
            else f"under-confident, squared errors are only {ratio:.3g} times the predicted variances"
        )
    if "bias" in clear:
        side = "low" if bias > 0 else "high"
        faults.append(f"means are too {side} by {abs(bias):.2g} predicted standard deviations")
    if not faults:
        faults.append(
            "variances are right on average but not range by range" if "ence" in clear
            else "the shape of the predictive law is wrong"
        )
    repair = "AutoVarianceCalibrator().fit(mean, variance, y) on held-out calibration rows"
    return f"Not calibrated: {'; '.join(faults)}. Repair it with {repair}."
