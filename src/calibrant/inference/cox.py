"""Calibration slope, intercept, calibration-in-the-large and observed-to-expected ratio of two classes."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.core.clusters import FEWEST, clustered_error, few_clusters, few_surprises, number_of_clusters
from calibrant.core.inputs import check_forecast, check_groups
from calibrant.core.moments import FEW_EVENTS, clopper_pearson, normal_quantile, t_quantile
from calibrant.core.options import check_share
from calibrant.core.results import Interval, Record, TestResult
from calibrant.core.tables import Pairs
from calibrant.core.text import DASH, pvalue_phrase, significant
from calibrant.errors import UndefinedWarning, input_error
from calibrant.views import as_view

__all__ = ["CoxCalibration", "cox_calibration", "cox_of"]

#: Scores are kept this far from 0 and 1, where their log-odds are infinite.
EDGE = 1e-12
#: Events (of the rarer outcome) below which the fit of two numbers has no interval.
FEWEST_EVENTS = 10
#: Variance of all outcomes together below which the fitted map is a step: it could be steeper without end.
SEPARATED = 1e-6
_TESTS = ("cox", "calibration-in-the-large", "slope given the intercept")


@dataclass(frozen=True)
class CoxCalibration(Record):
    """What a logistic regression of the outcome on the log-odds of the forecast says; `str()` is a table.

    Attributes
    ----------
    slope, intercept : Interval
        ζ and a of logit P(y) = a + ζ·logit(p): 1 and 0 if calibrated; a slope below 1 means too extreme.
    in_the_large : Interval
        α of logit P(y) = α + logit(p): 0 if the mean risk is right.
    ratio : Interval
        Observed over expected events: 1 if the mean risk is right.
    test, in_the_large_test, slope_test : TestResult
        Likelihood-ratio tests of slope 1 and intercept 0 together, of α = 0, and of slope 1 given α.
    events : int
        Rows with the rarer outcome; with fewer than ten slope and intercept have no interval.
    edge : int
        Rows with a forecast of exactly 0 or 1, which count as 1e-12 and 1 − 1e-12.
    """

    slope: Interval
    intercept: Interval
    in_the_large: Interval
    ratio: Interval
    test: TestResult
    in_the_large_test: TestResult
    slope_test: TestResult
    edge: int = 0
    #: Rows with the rarer outcome.
    events: int = 0

    @property
    def few(self) -> bool:
        """Whether there are too few events for intervals of slope and intercept."""
        return self.events < FEWEST_EVENTS

    @property
    def short(self) -> str:
        """What is too few for which intervals, in words; nothing where all are shown."""
        if math.isnan(self.ratio.low):
            return "too few clusters hold events for intervals and tests"
        return f"{self.events} events are too few for intervals of slope and intercept" if self.few else ""

    def __str__(self) -> str:
        lines = []
        for name, span, perfect in (
            ("slope", self.slope, 1),
            ("intercept", self.intercept, 0),
            ("calibration-in-the-large", self.in_the_large, 0),
            ("observed/expected", self.ratio, 1),
        ):
            ends = f"[{significant(span.low)}, {significant(span.high)}]" if math.isfinite(span.low) else DASH
            lines.append(f"{name} {significant(span.value)} {ends} (calibrated: {perfect})")
        lines.append(f"slope 1 and intercept 0: {pvalue_phrase(self.test.pvalue)}")
        lines += [self.short] if self.short else []
        if self.edge:
            lines.append(f"{self.edge} forecasts of exactly 0 or 1 count as 1e-12 and 1 - 1e-12")
        return "\n".join(lines)


def cox_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: str = "class-1",
    level: float = 0.95,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> CoxCalibration:
    """Return calibration slope, intercept, calibration-in-the-large and the observed-to-expected ratio, with intervals.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`; weights must be counts.
    view : str, default "class-1"
        Which probability is judged.
    level : float, default 0.95
        Level of the intervals.
    groups : array-like of shape (n,), optional
        Cluster of each row: intervals then use cluster-robust errors with t quantiles; at least ten clusters.

    Returns
    -------
    CoxCalibration

    Notes
    -----
    Intervals of slope, intercept and α are Wald's; that of the ratio is log(O/E) ± z·√((1 − O/n)/O) [2]. With fewer
    than twenty events those of the ratio and of α come from Clopper and Pearson's exact bounds of the event rate. The
    tests are likelihood-ratio tests with forecasts fixed beforehand; that of both parameters is the sum of the other
    two [3]. With `groups` they are Wald's, with the covariance of whole clusters (CR3), and there is neither interval
    nor test where fewer than ten clusters hold a surprise.
    Forecasts fitted to these very rows have slope 1 by construction: use held-out rows.

    References
    ----------
    [1] Cox (1958), Two further applications of a model for binary regression, Biometrika 45.
    [2] Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model performance, BMJ 356.
    [3] Miller, Hui & Tierney (1991), Validation techniques for logistic regression models, Statistics in Medicine 10.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(size=4000)
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-0.7 * odds))  # the forecast is too extreme
    >>> found = cox_calibration(y, 1 / (1 + np.exp(-odds)))
    >>> 0.6 < found.slope.low < 0.7 < found.slope.high < 0.85
    True
    """
    caller = "cox_calibration"
    check_share(level, "level", caller)
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    forecast.need_counts("a regression")
    clusters = check_groups(groups, forecast)
    if few_clusters(clusters):
        got = f"{number_of_clusters(clusters)} clusters"
        raise input_error(
            "groups", caller, f"name at least {FEWEST} clusters", got, "leave it out for independent rows"
        )
    chosen = as_view(view, caller)
    if not chosen.single_group or chosen.canonical:
        raise input_error("view", caller, "have one group of pairs", chosen.name, "ask for one class: view='class-0'")
    return cox_of(forecast.pairs_of(chosen), forecast.n, level=level, clusters=clusters)


def cox_of(pairs: Pairs, rows: int, *, level: float = 0.95, clusters: Ints | None = None) -> CoxCalibration:
    """Return slope, intercept, calibration-in-the-large and ratio of pairs: rows, or cells by their number."""
    raw = pairs.score.astype(np.float64)
    p = np.clip(raw, EDGE, 1 - EDGE)
    t = pairs.outcome.astype(np.float64)
    w = np.ones(len(t)) if pairs.weight is None else pairs.weight
    odds = np.log(p) - np.log1p(-p)
    n = float(w.sum())
    both, large = _fit(odds, t, w, slope=True), _fit(odds, t, w, slope=False)
    spread, worth = _covariance(odds, t, w, both, clusters, slope=True)
    alone, whole_worth = _covariance(odds, t, w, np.array([large[0], 1.0]), clusters, slope=False)
    worth = np.append(worth, whole_worth)
    z = np.full(3, normal_quantile(0.5 + level / 2))
    if clusters is None:
        ends = [_likelihood(odds, t, w, *theta) for theta in ((0.0, 1.0), (large[0], 1.0), tuple(both))]
        steps = ((ends[2] - ends[0], 2), (ends[1] - ends[0], 1), (ends[2] - ends[1], 1))
        tests = [_test(2 * gain, freedom, name, rows) for (gain, freedom), name in zip(steps, _TESTS, strict=True)]
    else:
        z = np.array([t_quantile(0.5 + level / 2, max(count - 1.0, 1.0)) for count in np.nan_to_num(worth).tolist()])
        z = z + (math.nan if few_surprises(pairs, clusters) else 0.0)
        gap = both - np.array([0.0, 1.0])
        joint = float(gap @ np.linalg.pinv(spread) @ gap) if np.isfinite(spread).all() else math.nan
        values = np.array([joint, large[0] ** 2 / alone[0, 0], gap[1] ** 2 / spread[1, 1]]) + 0 * z[0]
        cases = zip(values.tolist(), (2, 1, 1), (float(worth[:2].min()), worth[2], worth[1]), _TESTS, strict=True)
        tests = [_robust(*case, rows) for case in cases]
    events = min(float(w @ t), n - float(w @ t))

    def span(value: float, variance: float, z: float, least: float = FEWEST_EVENTS) -> Interval:
        step = z * math.sqrt(max(float(variance), 0.0)) if events >= least else math.nan
        return Interval(float(value), float(value - step), float(value + step), level, "wald", rows)

    ratio = _ratio(t, p, w, n, z[2], level, rows, clusters)
    whole = span(large[0], alone[0, 0], z[2], 0)
    if ratio.method == "clopper-pearson" and events > 0:
        low, high = (_moved(odds, w, end * float(w @ p)) for end in (ratio.low, ratio.high))
        whole = Interval(whole.value, low, high, level, ratio.method, rows)
    return CoxCalibration(
        span(both[1], spread[-1, -1], z[1]),
        span(both[0], spread[0, 0], z[0]),
        whole,
        ratio,
        tests[0],
        tests[1],
        tests[2],
        int(w[(raw <= 0) | (raw >= 1)].sum()),
        round(events),
    )


def _fit(odds: Floats, t: Floats, w: Floats, *, slope: bool) -> Floats:
    """Return (intercept, slope) of the most likely logistic map by Newton's method; nan where labels are separated."""
    theta = np.array([0.0, 1.0])
    free = 2 if slope else 1
    design = np.stack([np.ones_like(odds), odds])[:free]
    for _ in range(100 if not slope or np.ptp(odds) > 0 else 0):  # one score has no slope
        q = _sigmoid(theta[0] + theta[1] * odds)
        gradient = design @ (w * (t - q))
        curvature = (design * (w * q * (1 - q))) @ design.T
        try:
            step = np.linalg.solve(curvature + 1e-12 * np.eye(free) * max(float(np.trace(curvature)), 1e-300), gradient)
        except np.linalg.LinAlgError:
            break
        step = step / max(1.0, float(np.abs(step).max()) / 2.0)
        theta[:free] += step
        if np.abs(step).max() < 1e-10:
            if float((w * q * (1 - q)).sum()) < SEPARATED:
                break
            return theta
        if np.abs(theta).max() > 1e3:
            break
    warnings.warn(
        "outcomes are all alike or separated by the score: slope and intercept are undefined, nan is returned",
        UndefinedWarning,
        stacklevel=3,
    )
    theta[:free] = math.nan
    return theta


def _moved(odds: Floats, w: Floats, events: float) -> float:
    """Return by how much all log-odds must move for so many expected events."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(w @ _sigmoid(odds + middle)) < events else (low, middle)
    return 0.5 * (low + high)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _likelihood(odds: Floats, t: Floats, w: Floats, intercept: float, slope: float) -> float:
    if not (math.isfinite(intercept) and math.isfinite(slope)):
        return math.nan
    x = intercept + slope * odds
    return float((w * (t * x - np.logaddexp(0.0, x))).sum())


def _test(statistic: float, freedom: int, name: str, n: int) -> TestResult:
    from scipy.special import gammaincc

    if not math.isfinite(statistic):
        return TestResult(math.nan, math.nan, name, n)
    return TestResult(max(statistic, 0.0), float(gammaincc(freedom / 2, max(statistic, 0.0) / 2)), name, n)


def _robust(value: float, freedom: int, clusters: float, name: str, n: int) -> TestResult:
    """Return Wald's test with the covariance of whole clusters: Hotelling's F."""
    from scipy.special import fdtrc

    if not math.isfinite(value):
        return TestResult(math.nan, math.nan, name, n)
    left = max(clusters - freedom, 1.0)
    return TestResult(value, float(fdtrc(freedom, left, value * left / (freedom * (left + freedom - 1)))), name, n)


def _covariance(
    odds: Floats, t: Floats, w: Floats, theta: Floats, clusters: Ints | None, *, slope: bool
) -> tuple[Floats, Floats]:
    """Return the covariance from the curvature, or the cluster-robust one of a sandwich, and how many clusters count.

    A cluster counts for a coefficient by how far it would move it if its rows moved as one: for a slope those at the
    ends of the scores, so that they are fewer than for a mean.
    """
    q = _sigmoid(theta[0] + theta[1] * odds)
    design = np.stack([np.ones_like(odds), odds])[: 2 if slope else 1]
    if not np.isfinite(q).all():
        return np.full((len(design), len(design)), math.nan), np.full(len(design), math.nan)
    inverse = np.linalg.pinv((design * (w * q * (1 - q))) @ design.T)
    worth = np.full(len(design), math.nan)
    if clusters is not None:
        moved = inverse @ (design * (w * np.sqrt(q * (1 - q))))
        spreads = np.stack([np.bincount(clusters, row) for row in moved]) ** 2
        worth = spreads.sum(axis=1) ** 2 / np.maximum((spreads**2).sum(axis=1), 1e-300)
        sums = np.stack([np.bincount(clusters, w * row * (t - q)) for row in design])
        parts = np.stack([[np.bincount(clusters, w * q * (1 - q) * one * two) for one in design] for two in design])
        left = np.eye(len(design)) - np.moveaxis(parts, -1, 0) @ inverse  # what the fit takes from a cluster's own sum
        sums = np.einsum("gij,jg->ig", np.linalg.pinv(left), sums)
        inverse = inverse @ (sums @ sums.T * (1 - 1 / sums.shape[1])) @ inverse
    return np.asarray(inverse), worth


def _ratio(
    t: Floats, p: Floats, w: Floats, n: float, z: float, level: float, rows: int, clusters: Ints | None
) -> Interval:
    """Return observed over expected events; with clusters the error of the log ratio is that of cluster sums."""
    observed, expected = float(w @ t), float(w @ p)
    value = observed / expected
    if clusters is None and min(observed, n - observed) < FEW_EVENTS:
        low, high = clopper_pearson(observed, n, level)
        return Interval(value, low * n / expected, high * n / expected, level, "clopper-pearson", rows)
    if observed <= 0:
        return Interval(0.0, 0.0, math.inf, level, "log", rows)
    if clusters is None:
        error = math.sqrt(max(1 - observed / n, 0.0) / observed)  # [2]
    else:
        sums, sizes = (np.asarray(np.bincount(clusters, x), dtype=np.float64) for x in (w * (t - value * p), w * p))
        error, freedom = clustered_error(sums, sizes)
        error, z = error / value, 0 * z + t_quantile(0.5 + level / 2, freedom)  # nan stays
    return Interval(value, value * math.exp(-z * error), value * math.exp(z * error), level, "log", rows)
