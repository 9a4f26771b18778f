"""Changes between two forecasts: the p-value and the interval are one distribution, and both are honest."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binomtest

from calibrant import compare
from calibrant.inference.changes import accuracy_change, exact_mcnemar, tango


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (5, 0), (6, 0), (3, 4), (9, 2), (40, 25)])
def test_mcnemar_is_the_binomial_test(gained, lost):
    expected = binomtest(gained, gained + lost, 0.5).pvalue if gained + lost else 1.0
    assert exact_mcnemar(gained, lost) == pytest.approx(expected)


@pytest.mark.parametrize(("gained", "lost", "n"), [(12, 2, 50), (2, 12, 50), (1, 0, 54), (20, 20, 60)])
def test_tango_inverts_the_score_test(gained, lost, n):
    """At both ends the score statistic, with the likelihood maximized numerically, is the normal quantile."""
    from scipy.optimize import minimize_scalar

    for end, sign in zip(tango(gained, lost, n, 0.95), (1, -1), strict=True):

        def loss(share, end=end):  # P(lost) = share, P(gained) = share + end
            parts = [(gained, share + end), (lost, share), (n - gained - lost, 1 - 2 * share - end)]
            return -sum(count * np.log(p) for count, p in parts if count)

        share = minimize_scalar(loss, bounds=(max(0, -end) + 1e-9, (1 - end) / 2 - 1e-9), method="bounded").x
        z = (gained - lost - n * end) / np.sqrt(n * (2 * share + end - end**2))
        assert z == pytest.approx(sign * 1.959964, abs=2e-3)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_accuracy_never_contradicts_itself(level):
    for gained in range(12):
        for lost in range(12):
            span, pvalue = accuracy_change(gained, lost, 60, 60.0, level)
            assert (span.low <= 0 <= span.high) == (pvalue > 1 - level), (gained, lost)
            assert span.low <= span.value <= span.high


def rows(n: int, slope: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    odds = 1.5 * rng.standard_normal(n)
    return (rng.random(n) < expit(slope * odds)).astype(int), expit(odds)


@pytest.mark.parametrize("method", ["auto", "normal"])
def test_scores_never_contradict_themselves(method):
    from calibrant.core.inputs import check_forecast
    from calibrant.inference import compare_evidence

    seen = set()
    for seed in range(40):
        y, p = rows(150, 0.75, seed)
        first, second = (check_forecast(y, q, caller="compare") for q in (p, expit(0.75 * logit(p))))
        for change in compare_evidence(first, second, metrics=["brier", "nll", "ks", "ece"], method=method, rng=0):
            excluded = change.interval.low > 0 or change.interval.high < 0
            assert excluded == (change.pvalue <= 0.05), (seed, change)
            seen.add(excluded)
    assert seen == {True, False}


def test_errors_have_intervals_and_clear_changes_are_found():
    y, p = rows(3000, 0.5)
    found = compare(y, p, expit(0.5 * logit(p)), metrics=["ece", "ks", "mmce", "tce", "cwce", "mce"])
    for name in ("ece", "ks", "mmce", "tce"):
        assert found[name].interval.low > 0
        assert found[name].pvalue < 0.01
    assert found["mce"].interval is None


def test_few_clusters_give_a_dash_and_the_reason():
    y, p = rows(300, 0.8)
    q = expit(0.8 * logit(p))
    few = compare(y, p, q, groups=np.arange(300) % 9)
    assert all(change.interval is None and change.pvalue is None for change in few)
    assert "9 clusters are too few" in str(few)
    assert few.to_dict()["notes"] == list(few.notes)
    enough = compare(y, p, q, groups=np.arange(300) % 10)
    assert enough["brier"].interval is not None
    assert enough["accuracy"].interval is None  # no top label changes: how far that varies is unknown
    moved = compare(y, p, expit(0.8 * logit(p) + 0.5), groups=np.arange(300) % 10)
    assert moved["accuracy"].interval is not None
    assert not moved.notes


@pytest.mark.slow
@pytest.mark.parametrize(("slope", "after"), [(0.6, 0.6), (0.9, 0.95), (0.7, 0.45), (0.6, 0.75)])
def test_intervals_of_changes_cover(slope, after):
    """Coverage of the change of every error: to calibrated, small, across the diagonal, partly repaired."""
    data = pytest.importorskip("calibrant_papers.validation.generators", reason="calibrant-benchmarks is not installed")

    def draw(n, rng):
        odds = 1.5 * rng.standard_normal(n)
        return data.Draw(expit(odds), expit(slope * odds), other=expit(after * odds))

    names = [f"{name}@{view}" for name in ("ece", "ks", "mmce") for view in ("top-1", "class-1")]
    large = draw(400_000, np.random.default_rng(1))
    one, two = data.truth_of(large), data.truth_of(data.Draw(large.other, large.chance))
    rng = np.random.default_rng(2)
    hits = dict.fromkeys(names, 0)
    for _ in range(200):
        sample = draw(500, rng)
        found = compare(sample.labels(rng), sample.forecast, sample.other, metrics=names)
        for name in names:
            true, span = one[name.removesuffix("@top-1")] - two[name.removesuffix("@top-1")], found[name].interval
            hits[name] += span.low - 1e-9 <= true <= span.high + 1e-9
    assert min(hits.values()) >= 2 * (93 - 3.7), hits


def test_two_classes_are_compared_by_class_1():
    from calibrant.metrics import expected_calibration_error

    y, p = rows(400, 0.5)
    q = expit(0.5 * logit(p))
    found = compare(y, p, q)
    assert [change.name for change in found][1:4] == ["ece@class-1", "ks@class-1", "mmce@class-1"]
    assert found["ks"] is found["ks@class-1"]
    assert found["ece"].before == expected_calibration_error(y, p, view="class-1")
    both = compare(y, p, q, metrics=["ks", "ks@top-1"])
    assert [change.name for change in both] == ["ks@class-1", "ks@top-1"]
    assert both["ks"].before != both["ks@top-1"].before
    three = np.stack([1 - p, p / 2, p / 2], axis=1)
    assert [change.name for change in compare(y, three, three)][1:3] == ["ece", "ks"]


def test_few_surprises_widen_the_change_of_a_score():
    """No event in 300 rows that promise two: the change of the log score is not known to four digits."""
    rng = np.random.default_rng(0)
    chance = np.minimum(np.exp(-5.3 + 0.8 * rng.standard_normal(300)), 0.5)
    other = np.full(300, chance.mean())
    none = compare(np.zeros(300, dtype=int), chance, other, metrics=["nll"])["nll"]
    assert none.interval.high - none.interval.low > 0.005
    assert none.interval.low < chance @ np.log(chance / other) / 300 < none.interval.high
    assert (none.interval.low <= 0 <= none.interval.high) == (none.pvalue > 0.05)
    same = compare(np.zeros(300, dtype=int), chance, chance, metrics=["nll", "brier"])
    assert [change.pvalue for change in same] == [1.0, 1.0]


def rare_pair(n, rng):
    """Two calibrated forecasts of a rare event, the second without half of what the first knows."""
    a, b = 0.8 * rng.standard_normal((2, n))
    chance = np.minimum(np.exp(-4.9 + a + b - 0.64), 0.5)
    return chance, chance, np.exp(-4.9 + a - 0.32)


def sure_pair(n, rng):
    """Confidences above 0.998 with twice and half as many errors as claimed."""
    side = rng.choice([-1, 1], n)
    claim = expit(-(7 + rng.exponential(1, n)))
    chance, first, second = (np.where(side > 0, 1 - k * claim, k * claim) for k in (4, 1, 2))
    return chance, first, second


@pytest.mark.slow
@pytest.mark.parametrize("draw", [rare_pair, sure_pair])
@pytest.mark.parametrize("n", [300, 1000])
def test_changes_of_scores_cover_where_events_are_rare(draw, n):
    def scores(chance, q):
        return np.array([2 * np.mean(chance * (1 - q) ** 2 + (1 - chance) * q**2),
                         -np.mean(chance * np.log(q) + (1 - chance) * np.log1p(-q))])  # fmt: skip

    chance, first, second = draw(400_000, np.random.default_rng(1))
    truth = scores(chance, first) - scores(chance, second)
    rng, hits = np.random.default_rng(2), np.zeros(2)
    for _ in range(400):
        chance, first, second = draw(n, rng)
        found = compare((rng.random(n) < chance).astype(int), first, second, metrics=["brier", "nll"])
        hits += [one.interval.low <= value <= one.interval.high for one, value in zip(found, truth, strict=True)]
    assert (hits >= 400 * (0.93 - 0.0255)).all(), hits / 400
