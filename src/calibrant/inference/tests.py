"""Tests of calibration: a statistic, a p-value, and a size that simulation has verified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.core.class_draws import class_draws
from calibrant.core.clusters import FEWEST, TableSigns, few_clusters, number_of_clusters
from calibrant.core.inputs import Forecast, check_clusters, check_forecast, check_names
from calibrant.core.options import check_count, check_rng
from calibrant.core.resampling import Null, draw_labels, draw_outcomes, sequential_pvalue
from calibrant.core.results import TestResult
from calibrant.core.tables import Table
from calibrant.core.weights import WeightKind
from calibrant.errors import InputError, input_error
from calibrant.evidence import NullDistribution
from calibrant.inference.evaluation import build_metric
from calibrant.inference.facts import judged, judged_name
from calibrant.inference.joint import hosmer_lemeshow, joint_test, slope
from calibrant.inference.kernel_test import kernel_test
from calibrant.inference.null import null_distribution
from calibrant.metrics._ks import METRIC as KS
from calibrant.views import ClassK, View, as_view

#: Table entries drawn at once.
_ENTRIES = 1 << 21


def test_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    method: str = "ks",
    metric: str | None = None,
    view: View | str | None = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    weight_kind: WeightKind | None = None,
    rng: RNG = None,
) -> TestResult:
    """Test whether the forecasts are calibrated.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space, normalize, weight_kind
        As in `calibrant.evaluate`; importance weights go with ``"ks"``, ``"joint"`` and ``"resampling"``.
    method : {"ks", "skce", "hosmer-lemeshow", "spiegelhalter", "joint", "resampling"}
        ``"ks"``: largest cumulative gap. ``"skce"``: the kernel test of the whole vector. ``"hosmer-lemeshow"``:
        counts in ten equal-mass groups. ``"spiegelhalter"``: two-sided z of the Brier score. ``"joint"``: KS, slope,
        shape and groups together, the test behind the verdict of `calibrant.evaluate`. ``"resampling"``: any `metric`
        against its distribution under resampled labels.
    metric : str, optional
        Short name for ``method="resampling"``.
    view : View or str, optional
        Whose pairs are tested: ``"class-2"``, ``"rank-2"`` …; default those of the verdict, the positive class of two
        or the top label; for ``"spiegelhalter"`` the whole vector.
    groups : array-like of shape (n,), optional
        Cluster of each row: signs of whole clusters are drawn instead of labels; at least ten clusters.
    n_resamples : int, default 1000
        Label resamplings; up to ten times as many where the p-value is small.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    TestResult
        ``statistic``, ``pvalue``, ``method``, ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.random(500)
    >>> test_calibration(rng.random(500) < 0.7 * p, p, rng=0).pvalue < 0.05
    True
    """
    check_names(method, tuple(_METHODS), "method", "test_calibration")
    if metric is not None and method != "resampling":
        raise input_error(
            "metric", "test_calibration", "go with method='resampling'", f"method={method!r}", "drop one of the two"
        )
    rows: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes, "space": space, "normalize": normalize}
    forecast = check_forecast(y_true, y_proba, caller="test_calibration", **rows).read_weights(weight_kind)
    chosen = None if view is None else as_view(view, "test_calibration")
    return _METHODS[method](_Setup.of(forecast, chosen, groups, n_resamples, rng), metric or "ece")


test_calibration.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


@dataclass(frozen=True)
class _Setup:
    """What every test is asked with."""

    forecast: Forecast
    view: View | None
    clusters: Ints | None
    n_resamples: int
    rng: np.random.Generator

    @classmethod
    def of(cls, forecast: Forecast, view: View | None, groups: ArrayLike | None, n_resamples: int, rng: RNG) -> _Setup:
        """Check what every test takes."""
        check_count(n_resamples, "n_resamples", forecast.caller, 1)
        return cls(forecast, view, _enough_clusters(groups, forecast), n_resamples, check_rng(rng, forecast.caller))

    def no_view(self, method: str) -> None:
        """Refuse a view where the whole vector is tested."""
        if self.view is not None:
            raise input_error(
                "view", "test_calibration", f"be left out with method={method!r}", self.view.name, "use method='ks'"
            )


def _enough_clusters(groups: ArrayLike | None, forecast: Forecast) -> Ints | None:
    clusters = check_clusters(groups, forecast)
    if few_clusters(clusters):
        raise input_error(
            "groups",
            forecast.caller,
            f"hold at least {FEWEST} clusters",
            str(number_of_clusters(clusters)),
            "collect rows of more clusters",
        )
    return clusters


def resampling_test(
    forecast: Forecast, name: str, n_resamples: int, rng: np.random.Generator, clusters: Ints | None = None
) -> TestResult:
    """Compare any metric with its distribution under labels resampled from the forecasts."""
    metric, recipe = build_metric(name, forecast)
    value = forecast.value(recipe)
    if metric.descriptive:
        raise _needs_labels(name)

    def null() -> NullDistribution:
        found = null_distribution({name: recipe}, forecast, n_resamples, rng, clusters)
        if name not in found:
            raise _needs_labels(name)
        return found[name]

    first = null()
    if not isinstance(first, Null) or metric.two_sided:
        return TestResult(
            value, first.pvalue(value, two_sided=bool(metric.two_sided)), f"resampling of {name}", forecast.n
        )
    waiting = [first.values]
    again = first.more or (lambda: null().values)  # type: ignore[attr-defined]  # draws like the first

    def draw(size: int) -> Floats:  # noqa: ARG001 -- as many as there are in one null distribution
        return waiting.pop() if waiting else again()

    pvalue = sequential_pvalue(value, draw, len(first.values))
    return TestResult(value, pvalue, f"resampling of {name}", forecast.n)


def _needs_labels(name: str) -> InputError:
    return input_error("metric", "test_calibration", "depend on the labels", repr(name), "use ece, ks or brier")


def _resampling(setup: _Setup, name: str) -> TestResult:
    short = name.partition("@")[0]
    full = judged_name(setup.forecast, name) if setup.view is None else f"{short}@{setup.view.name}"
    return resampling_test(setup.forecast, full, setup.n_resamples, setup.rng, setup.clusters)


def _ks(setup: _Setup, name: str) -> TestResult:  # noqa: ARG001 -- of any metric only where it is resampled
    result = _resampling(setup, "ks")
    return TestResult(result.statistic, result.pvalue, "ks", setup.forecast.n)


def _joint(setup: _Setup, name: str) -> TestResult:  # noqa: ARG001
    forecast = setup.forecast
    view = judged(forecast) if setup.view is None else setup.view
    found = joint_test(forecast, view, setup.n_resamples, setup.rng, setup.clusters)
    if found is None:
        raise TypeError("clusters were counted before")
    return TestResult(forecast.value(KS.build(view=view)), found.pvalue, "joint", forecast.n)


def _residual_test(
    setup: _Setup, view: View, statistic: Callable[[Table, Floats], Floats], name: str, *, signed: bool
) -> TestResult:
    """Test a function of the residuals of table rows by draws of them."""
    setup.forecast.need_counts(name)
    table = setup.forecast.resampling_table(view)
    value = float(statistic(table, (table.wt - table.we)[None, :])[0])

    def sizes(residual: Floats) -> Floats:
        values = statistic(table, residual)
        return np.abs(values) if signed else values

    def draw(size: int) -> Floats:
        step = max(1, min(size, _ENTRIES // max(1, len(table))))
        counts = [min(step, size - start) for start in range(0, size, step)]
        return np.concatenate([sizes(draw_outcomes(table, count, setup.rng) - table.we) for count in counts])

    if setup.clusters is None:
        pvalue = sequential_pvalue(abs(value), draw, setup.n_resamples)
    else:
        drawn = TableSigns(table, setup.forecast.pairs_of(view), setup.clusters)
        laws = drawn.draws(setup.n_resamples, setup.rng)
        pvalue = max(Null(sizes(residual)).pvalue(abs(value)) for residual in laws)
    return TestResult(value, pvalue, name, setup.forecast.n)


def _spiegelhalter(setup: _Setup, name: str = "") -> TestResult:  # noqa: ARG001
    forecast = setup.forecast
    forecast.need_counts("spiegelhalter")
    if setup.view is not None or forecast.n_classes == 2:
        return _residual_test(setup, setup.view or ClassK(1), slope, "spiegelhalter", signed=True)
    rows = forecast.repeated() if setup.clusters is None else forecast
    excess, variance, probability = _brier_moments(rows)
    scale = math.sqrt(variance) if variance > 0 else 1.0
    z = float(excess.sum()) / scale
    if setup.clusters is not None:  # S − E S = −2·Σ p_k(1[y = k] − p_k)
        laws = class_draws(forecast, setup.clusters, setup.n_resamples, setup.rng, factor=2.0 * probability / scale)
        pvalue = max(Null(np.abs(drawn.sum(axis=1))).pvalue(abs(z)) for drawn in laws)
        return TestResult(z, pvalue, "spiegelhalter", forecast.n)
    square, index = float((probability**2).sum()), np.arange(rows.n)

    def draw(size: int) -> Floats:
        drawn = [probability[index, label].sum() for label in draw_labels(rows, size, setup.rng)]
        return np.abs(2.0 * (square - np.array(drawn))) / scale

    return TestResult(z, sequential_pvalue(abs(z), draw, setup.n_resamples), "spiegelhalter", forecast.n)


def _brier_moments(forecast: Forecast) -> tuple[Floats, float, Floats]:
    """Return w·(S − E S) of each row's Brier score, the variance of their sum under calibration, and probabilities."""
    p = forecast.proba()
    w = np.ones(len(p)) if forecast.weights is None else forecast.weights
    square = (p * p).sum(axis=1)
    truth = p[np.arange(len(p)), forecast.codes]
    excess = w * 2.0 * (square - truth)  # S(y) − E S = 2(Σp² − p_y)
    return excess, float((w * 4.0 * ((p**3).sum(axis=1) - square**2)).sum()), p


def _single(view: View | str, caller: str) -> View:
    """Return a view with one group of pairs, or say that a test needs one."""
    chosen = as_view(view, caller)
    if not chosen.single_group or chosen.canonical:
        raise input_error("view", caller, "have one group of pairs", chosen.name, "ask for one class: view='class-0'")
    return chosen


def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str | None = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = None,
) -> TestResult:
    """Test calibration in the large and in spread by the z-score of the Brier score, two-sided.

    Notes
    -----
    z = Σ(S_i − E S_i)/√ΣVar S_i with the moments the forecasts themselves imply; for K classes
    S(y) − E S = 2(Σp² − p_y). The p-value comes from labels drawn from the forecasts, or signs of clusters (`groups`):
    with rare events the normal distribution rejects too often. Blind to errors that leave the mean Brier score as
    expected. `view` takes the pairs of a view in place of the whole vector.

    References
    ----------
    [1] Spiegelhalter (1986), Probabilistic prediction in patient management, Statistics in Medicine 5.

    Examples
    --------
    >>> round(spiegelhalter_test([1, 1, 1, 1], [0.6, 0.7, 0.8, 0.6]).statistic, 3)
    -1.204
    """
    forecast = check_forecast(
        y_true, y_proba, caller="spiegelhalter_test", sample_weight=sample_weight, classes=classes, space=space
    )
    chosen = None if view is None else _single(view, "spiegelhalter_test")
    return _spiegelhalter(_Setup.of(forecast, chosen, groups, n_resamples, rng))


def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_groups: int = 10,
    view: View | str | None = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = None,
) -> TestResult:
    """Test observed against expected counts in equal-mass groups of the score.

    Notes
    -----
    Σ_g (O_g − E_g)²/V_g with V_g = Σ s(1 − s). The p-value comes from labels drawn from the forecasts, or signs of
    clusters (`groups`): with rare events χ² rejects too often. No parameter was fitted on held-out data, so none is
    taken off. Without a view it is that of the verdict: class 1 of two classes, else the top label.

    References
    ----------
    [1] Hosmer & Lemeshow (1980), Goodness of fit tests for the multiple logistic regression model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> hosmer_lemeshow_test(rng.random(500) < p**2, p, view="class-1").pvalue < 0.01
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="hosmer_lemeshow_test", sample_weight=sample_weight, classes=classes, space=space
    )
    chosen = None if view is None else _single(view, "hosmer_lemeshow_test")
    setup = _Setup.of(forecast, chosen, groups, n_resamples, rng)
    return _hosmer_lemeshow(setup, check_count(n_groups, "n_groups", "hosmer_lemeshow_test", 2, "10"))


def _hosmer_lemeshow(setup: _Setup, n_groups: int) -> TestResult:
    def statistic(table: Table, residual: Floats) -> Floats:
        return hosmer_lemeshow(table, residual, n_groups)[0]

    view = judged(setup.forecast) if setup.view is None else setup.view
    return _residual_test(setup, view, statistic, "hosmer-lemeshow", signed=False)


def _skce(setup: _Setup, name: str) -> TestResult:  # noqa: ARG001
    setup.no_view("skce")
    setup.forecast.need_counts("skce")
    if setup.clusters is not None:
        raise input_error(
            "groups", "test_calibration", "be left out with method='skce'", "some", "use method='joint' or 'ks'"
        )
    return kernel_test(setup.forecast, setup.n_resamples, setup.rng)


_METHODS: dict[str, Callable[[_Setup, str], TestResult]] = {
    "ks": _ks,
    "skce": _skce,
    "hosmer-lemeshow": lambda setup, _: _hosmer_lemeshow(setup, 10),
    "spiegelhalter": _spiegelhalter,
    "joint": _joint,
    "resampling": _resampling,
}
