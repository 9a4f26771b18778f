"""Rejection, risk–coverage and out-of-distribution data against brute force, theory and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.links import softmax
from calibrant.errors import InputError
from calibrant.selective import (
    coverage_at_risk,
    ood_detection,
    rejection_curve,
    risk_coverage_curve,
    risk_coverage_interval,
    uncertainty,
)
from helpers import load_data


def forecasts(seed=0, n=300, k=4, scale=2.0, decimals=None):
    """Calibrated forecasts with labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = softmax(rng.normal(size=(n, k)) * scale)
    if decimals is not None:
        p = np.round(p, decimals)
        p[:, -1] = 1 - p[:, :-1].sum(axis=1)
        p = np.abs(p)
        p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return y, p


def test_uncertainty_by_formula():
    _, p = forecasts()
    np.testing.assert_allclose(uncertainty(p), -(p * np.log(p)).sum(axis=1) / np.log(4), atol=1e-12)
    np.testing.assert_allclose(uncertainty(p, by="confidence"), 1 - p.max(axis=1), atol=1e-15)
    np.testing.assert_allclose(uncertainty(np.log(p), space="logit"), uncertainty(p), atol=1e-11)
    assert uncertainty([[1.0, 0.0], [0.5, 0.5]]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("by", ["entropy", "confidence"])
def test_rejection_by_hand(by):
    y, p = forecasts(1)
    u = uncertainty(p, by=by)
    curve = rejection_curve(y, p, by=by)
    np.testing.assert_allclose(curve.threshold, np.arange(1.0, 0.01, -0.05), atol=1e-12)
    wrong = p.argmax(axis=1) != y
    for t, error, coverage in zip(curve.threshold, curve.error, curve.coverage, strict=True):
        kept = u <= t
        assert coverage == pytest.approx(kept.mean())
        assert error == pytest.approx(wrong[kept].mean() if kept.any() else np.nan, nan_ok=True)
    inside = ~np.isnan(curve.error)
    assert (curve.low[inside] <= curve.error[inside]).all()
    assert (curve.error[inside] <= curve.high[inside]).all()
    np.testing.assert_array_equal(curve.error, rejection_curve(y, p, by=u).error)


def test_threshold_counts_decimals_as_on_it():
    p = np.float32([[0.95, 0.05], [0.9, 0.1]])
    assert rejection_curve([0, 0], p, by="confidence", thresholds=[0.05]).coverage.tolist() == [0.5]


def test_real_network_error_falls_with_the_threshold():
    data = load_data("cifar10_resnet110")
    for by in ("entropy", "confidence"):
        curve = rejection_curve(data["labels_test"], data["logits_test"], by=by, space="logit")
        assert (np.diff(curve.error) <= 0).all()
        assert curve.error[-1] < 0.6 * curve.error[0]
    best = risk_coverage_curve(data["labels_test"], data["logits_test"], space="logit")
    assert best.risk[-1] == pytest.approx(0.0644, abs=1e-9)
    assert 0 < best.excess_aurc < best.aurc < best.risk[-1]


def mean_area(score, wrong, rng, repeats=4000):
    """AURC as printed, averaged over random orders of tied rows."""
    areas = []
    for _ in range(repeats):
        order = np.lexsort((rng.random(len(score)), score))
        areas.append((np.cumsum(wrong[order]) / np.arange(1, len(score) + 1)).mean())
    return np.mean(areas), np.std(areas) / np.sqrt(repeats)


def test_aurc_without_ties_is_the_printed_sum():
    y, p = forecasts(2)
    curve = risk_coverage_curve(y, p, by="confidence")
    order = np.argsort(-p.max(axis=1))
    wrong = (p.argmax(axis=1) != y)[order]
    risks = np.cumsum(wrong) / np.arange(1, len(y) + 1)
    np.testing.assert_allclose(curve.risk, risks)
    assert curve.aurc == pytest.approx(risks.mean(), abs=1e-12)
    best = np.sort(wrong)
    assert curve.excess_aurc == pytest.approx(
        risks.mean() - (np.cumsum(best) / np.arange(1, len(y) + 1)).mean(), abs=1e-12
    )


def test_aurc_with_ties_is_the_mean_over_orders():
    y, p = forecasts(3, n=60, decimals=1)
    u = uncertainty(p)
    assert len(np.unique(u)) < 50
    value, error = mean_area(u, p.argmax(axis=1) != y, np.random.default_rng(0))
    assert risk_coverage_curve(y, p).aurc == pytest.approx(value, abs=5 * error)


def test_constant_score_has_the_error_rate_as_area():
    y, p = forecasts(4)
    curve = risk_coverage_curve(y, p, by=np.zeros(len(y)))
    assert curve.aurc == pytest.approx((p.argmax(axis=1) != y).mean())
    assert len(curve.coverage) == 1


@pytest.mark.parametrize("decimals", [None, 1])
def test_weights_repeat_rows_and_order_is_nothing(decimals):
    y, p = forecasts(5, n=120, decimals=decimals)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, len(y))
    again, order = np.repeat(np.arange(len(y)), w), rng.permutation(len(y))
    weighted, repeated = risk_coverage_curve(y, p, sample_weight=w), risk_coverage_curve(y[again], p[again])
    assert weighted.aurc == pytest.approx(repeated.aurc, abs=1e-12)
    assert weighted.excess_aurc == pytest.approx(repeated.excess_aurc, abs=1e-12)
    np.testing.assert_allclose(weighted.risk, repeated.risk)
    assert risk_coverage_curve(y[order], p[order]).aurc == pytest.approx(risk_coverage_curve(y, p).aurc, abs=1e-13)
    a, b = rejection_curve(y, p, sample_weight=w), rejection_curve(y[again], p[again])
    for name in ("error", "coverage", "low", "high"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
    for delta in (None, 0.1):
        one = coverage_at_risk(y, p, risk=0.2, delta=delta, sample_weight=w)
        two = coverage_at_risk(y[again], p[again], risk=0.2, delta=delta)
        assert (one.coverage, one.threshold, one.risk) == pytest.approx(
            (two.coverage, two.threshold, two.risk), nan_ok=True
        )


def test_interval_holds_the_value_and_repeats_itself():
    y, p = forecasts(6, n=400)
    for what in ("aurc", "excess_aurc"):
        found = risk_coverage_interval(y, p, what=what, n_resamples=300, rng=1)
        assert found.low < found.value < found.high
        assert found == risk_coverage_interval(y, p, what=what, n_resamples=300, rng=1)
        assert found.value == pytest.approx(getattr(risk_coverage_curve(y, p), what))
    w = np.full(len(y), 2)
    twice = risk_coverage_interval(y, p, sample_weight=w, n_resamples=300, rng=1)
    once = risk_coverage_interval(y, p, n_resamples=300, rng=1)
    assert twice.high - twice.low < 0.85 * (once.high - once.low)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["aurc", "excess_aurc"])
def test_interval_covers(what):
    rng = np.random.default_rng(0)
    y, p = forecasts(7, n=200_000)
    truth = getattr(risk_coverage_curve(y, p), what)
    inside = 0
    for _ in range(300):
        rows = rng.choice(len(y), 1000)
        found = risk_coverage_interval(y[rows], p[rows], what=what, n_resamples=300, rng=rng)
        inside += found.low <= truth <= found.high
    assert inside / 300 > 0.91


def test_coverage_at_risk_by_hand():
    y, p = forecasts(8)
    u, wrong = uncertainty(p), p.argmax(axis=1) != y
    best = 0.0
    for t in np.unique(u):
        kept = u <= t
        if wrong[kept].mean() <= 0.2:
            best = kept.mean()
    point = coverage_at_risk(y, p, risk=0.2)
    assert point.coverage == pytest.approx(best)
    assert point.risk <= 0.2
    assert (u <= point.threshold).mean() == pytest.approx(point.coverage)
    nothing = coverage_at_risk([0, 0], [[0.1, 0.9], [0.2, 0.8]], risk=0.1)
    assert (nothing.coverage, nothing.threshold) == (0.0, -np.inf)
    assert "no coverage" in str(nothing)


def test_guarantee_holds_and_costs_coverage():
    y, p = forecasts(9, n=100_000, scale=3.0)
    u, wrong = uncertainty(p), p.argmax(axis=1) != y
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(200):
        rows = rng.choice(len(y), 500, replace=False)
        point = coverage_at_risk(y[rows], p[rows], risk=0.15, delta=0.1)
        assert point.coverage <= coverage_at_risk(y[rows], p[rows], risk=0.15).coverage
        kept = u <= point.threshold
        broken += bool(kept.any() and wrong[kept].mean() > 0.15)
    assert broken / 200 <= 0.1


def test_auroc_and_fpr_against_brute_force():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(2)
    known, foreign = np.round(rng.normal(size=300), 1), np.round(rng.normal(1.0, 1.5, 200), 1)
    found = ood_detection(known, foreign, by="score", rng=0, n_resamples=300)
    truth = np.r_[np.zeros(300), np.ones(200)]
    assert found.auroc.value == pytest.approx(roc_auc_score(truth, np.r_[known, foreign]), abs=1e-12)
    threshold = min(t for t in known if (known <= t).mean() >= 0.95)
    assert found.threshold == threshold
    assert found.fpr95.value == pytest.approx((foreign <= threshold).mean())
    assert found.auroc.low < found.auroc.value < found.auroc.high
    assert found.fpr95.low < found.fpr95.value < found.fpr95.high
    assert found == ood_detection(known, foreign, by="score", rng=0, n_resamples=300)


def test_delong_covers_a_known_area():
    from scipy.stats import norm

    truth = norm.cdf(1 / np.sqrt(2))
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(300):
        found = ood_detection(rng.normal(size=150), rng.normal(1, 1, 150), by="score", n_resamples=1, rng=rng)
        inside += found.auroc.low <= truth <= found.auroc.high
    assert 0.91 <= inside / 300 <= 0.985


def test_foreign_digits_are_less_sure():
    """Real images: forecasts of a linear model on digits and on clothes."""
    from sklearn.linear_model import LogisticRegression

    digits, clothes = load_data("mnist_images"), load_data("fashion_mnist_subset")

    def flat(images):
        return images.reshape(len(images), -1)[:, ::3] / 255.0

    model = LogisticRegression(max_iter=60, tol=0.05).fit(flat(clothes["x_train"]), clothes["y_train"])
    known, foreign = (model.predict_proba(flat(x["x_test"][:1500])) for x in (clothes, digits))
    assert ood_detection(known, foreign, rng=0, n_resamples=50).auroc.low > 0.6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda y, p: rejection_curve(y, p, by="margin"), "by of rejection_curve must be one of entropy, confidence"),
        (lambda y, p: rejection_curve(y, p, by=[0.1]), "one score for each of the 300 rows"),
        (lambda y, p: rejection_curve(y, p, level=1), "level"),
        (lambda y, p: rejection_curve(y, p, thresholds=[np.nan]), "thresholds"),
        (lambda y, p: risk_coverage_curve(y, p * 2), r"lie in \[0, 1\]"),
        (lambda y, p: coverage_at_risk(y, p, risk=0), "risk of coverage_at_risk"),
        (lambda y, p: coverage_at_risk(y, p, risk=0.1, delta=2), "delta"),
        (lambda y, p: risk_coverage_interval(y, p, sample_weight=np.full(300, 0.5)), "whole numbers"),
        (lambda y, p: risk_coverage_interval(y, p, what="auc"), "what"),
        (lambda y, p: ood_detection([np.nan], [1.0], by="score"), "nan at row 0"),
        (lambda y, p: ood_detection([], [1.0], by="score"), "no rows"),
    ],
)
def test_misuse_is_named(call, words):
    y, p = forecasts()
    with pytest.raises(InputError, match=words):
        call(y, p)


def test_results_are_plain():
    y, p = forecasts()
    import json

    for result in (
        rejection_curve(y, p),
        risk_coverage_curve(y, p),
        coverage_at_risk(y, p, risk=0.2),
        ood_detection(p, p, rng=0, n_resamples=10),
    ):
        assert isinstance(result.to_dict(), dict)
        assert str(result)
        json.dumps(result.to_dict(), default=lambda array: array.tolist())


def test_rejection_takes_weights_that_are_no_counts_for_what_they_are_worth():
    y, p = forecasts(2)
    plain = rejection_curve(y, p)
    for weight in (0.013, 1000.5):
        curve = rejection_curve(y, p, sample_weight=np.full(300, weight))
        np.testing.assert_allclose(curve.low, plain.low)
        np.testing.assert_allclose(curve.high, plain.high)
        assert "300 rows are worth 300" in curve.notes[0]
        assert curve.notes[0] in str(curve)
    weight = np.random.default_rng(0).gamma(0.5, 1.0, 300)
    uneven = rejection_curve(y, p, sample_weight=weight, thresholds=[1.0])
    even = rejection_curve(y, p, thresholds=[1.0])
    assert uneven.high[0] - uneven.low[0] > 1.3 * (even.high[0] - even.low[0])


def test_n_of_every_curve_is_the_sum_of_counts():
    y, p = forecasts(3)
    weight = np.random.default_rng(0).integers(0, 5, 300)
    n = int(weight.sum())
    assert risk_coverage_interval(y, p, sample_weight=weight, n_resamples=10, rng=0).n == n
    assert risk_coverage_curve(y, p, sample_weight=weight).n == n
    assert coverage_at_risk(y, p, risk=0.3, sample_weight=weight).n == n
    assert rejection_curve(y, p, sample_weight=weight).n == n
    assert risk_coverage_curve(y, p, sample_weight=weight + 0.5).n == 300


def test_no_resamples_print_no_interval():
    found = ood_detection([0.1, 0.2, 0.3, 0.4], [0.35, 0.6, 0.7, 0.8], by="score", n_resamples=0)
    assert "nan" not in str(found)
    assert "FPR at 95% TPR 0.2500 (4 known" in str(found)
