"""Calibrated within ε: a test whose rejection clears a model, not its acceptance."""

from __future__ import annotations

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.inputs import check_clusters, check_forecast
from calibrant.core.options import check_rng, check_share, check_type
from calibrant.core.results import Result, TestResult
from calibrant.core.weights import WeightKind
from calibrant.errors import InputError
from calibrant.inference.evaluation import build_metric
from calibrant.inference.facts import judged_name
from calibrant.inference.intervals import offered_interval
from calibrant.inference.limits import decide

#: Between these the p-value is searched, by so many halvings of its logarithm.
_STRONGEST, _WEAKEST, _HALVINGS = 1e-4, 0.499, 20


def equivalence_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    epsilon: float,
    error: str = "ks",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    groups: ArrayLike | None = None,
    weight_kind: WeightKind | None = None,
    rng: RNG = None,
) -> TestResult:
    """Test the hypothesis that the error is at least `epsilon`; a small p-value clears the model.

    The error it bounds is named by `error`, for example ``"ks"``, ``"ks@top-1"`` or ``"tce"`` (binned error of order
    2, 15 equal-width bins). At error = epsilon it rejects in at most 5% of samples. It is the gate of
    `calibrant.check` with a p-value: the answer there is "within" where the p-value is at most 0.025.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space, weight_kind
        As in `calibrant.evaluate`.
    epsilon : float
        The largest error that still counts as calibrated.
    error : str, default "ks"
        A metric that has an interval; without a view (``"name@view"``) that of the verdict: class 1 of two classes.
    groups : array-like of shape (n,), optional
        Cluster of each row.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    TestResult
        The observed error with the p-value of "the error is at least epsilon".

    Notes
    -----
    The p-value is the level at which the one-sided upper confidence limit falls below epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 20_000)
    >>> equivalence_test(rng.random(20_000) < p, p, epsilon=0.03, rng=0).pvalue < 0.05
    True
    """
    check_share(epsilon, "epsilon", "equivalence_test", "0.02")
    check_type(error, str, "error", "equivalence_test", "be the name of a metric", "use error='ks'")
    forecast = check_forecast(
        y_true, y_proba, caller="equivalence_test", sample_weight=sample_weight, classes=classes, space=space
    ).read_weights(weight_kind)
    clusters = check_clusters(groups, forecast)
    try:
        error = judged_name(forecast, error)
        metric, recipe = build_metric(error, forecast)
    except InputError as problem:
        raise problem.renamed(argument="error") from None
    seeds = check_rng(rng, "equivalence_test").integers(0, 2**63)
    value, name = forecast.value(recipe), f"{error} < {epsilon:g}"

    def within(alpha: float) -> bool:
        found = offered_interval(
            metric, recipe, forecast, level=1 - 2 * alpha, groups=clusters, rng=np.random.default_rng(seeds)
        )
        return decide(Result(error, value, interval=found), epsilon).answer == "within"

    if not within(_WEAKEST):
        return TestResult(value, 1.0 if value >= epsilon else 0.5, name, forecast.n)
    low, high = _STRONGEST, _WEAKEST
    if within(low):
        return TestResult(value, low, name, forecast.n)
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if within(middle) else (middle, high)
    return TestResult(value, high, name, forecast.n)
