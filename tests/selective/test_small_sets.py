"""Few rows: intervals of AUROC near perfect separation, and guarantees that small sets can still give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import norm

from calibrant.selective import coverage_at_risk, ood_detection
from calibrant.selective.risk_coverage import _guaranteed


def test_perfect_separation_has_an_exact_interval():
    rng = np.random.default_rng(0)
    found = ood_detection(rng.random(40), 2 + rng.random(25), by="score", n_resamples=10, rng=0).auroc
    assert (found.value, found.high, found.method) == (1.0, 1.0, "exact")
    assert found.low == pytest.approx(0.025 ** (1 / 25))
    turned = ood_detection(2 + rng.random(25), rng.random(40), by="score", n_resamples=10, rng=0).auroc
    assert (turned.value, turned.low, turned.high) == pytest.approx((0.0, 0.0, 1 - 0.025 ** (1 / 25)))


@pytest.mark.parametrize(("area", "least"), [(0.8, 0.92), (0.97, 0.92), (0.99, 0.91)])
def test_auroc_near_one_is_covered(area, least):
    """The normal interval of 0.1 covered 0.84 of the time at 0.97 with 30 rows a side."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(500):
        known, foreign = rng.normal(size=30), rng.normal(size=30) + 2**0.5 * norm.ppf(area)
        found = ood_detection(known, foreign, by="score", n_resamples=0, rng=rng).auroc
        inside += found.low <= area <= found.high
    assert inside / 500 > least


def bisection(kept, errors, risk, delta):
    """Algorithm 1 of Geifman and El-Yaniv (2017), as version 0.1 had it."""
    rounds = max(1, int(np.ceil(np.log2(len(kept) + 1))))
    low, high, best = 0, len(kept) - 1, -1
    for _ in range(rounds):
        if low > high:
            break
        middle = (low + high + 1) // 2
        n, k = kept[middle], errors[middle]
        if k < n and betaincinv(k + 1, n - k, 1 - delta / rounds) <= risk:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


@pytest.mark.parametrize(
    ("n", "floor", "scale", "risk", "delta"),
    [(50, 0.0, 0.3, 0.1, 0.1), (100, 0.0, 0.4, 0.1, 0.1), (200, 0.0, 0.5, 0.05, 0.05), (300, 0.03, 0.0, 0.05, 0.1)],
)
def test_small_sets_get_twice_as_many_answers_and_the_guarantee_holds(n, floor, scale, risk, delta):
    """A row at quantile u is wrong with probability floor + scale·u², so the true risk of a threshold is known."""
    rng = np.random.default_rng(0)
    answers = before = broken = 0
    repeats = 400
    for _ in range(repeats):
        u = np.sort(rng.random(n))
        kept, errors = np.arange(1.0, n + 1), np.cumsum(rng.random(n) < floor + scale * u**2).astype(float)
        place, bound = _guaranteed(kept, errors, risk, delta)
        if place >= 0:
            assert bound <= risk
            answers += 1
            broken += floor + scale * u[place] ** 2 / 3 > risk
        before += bisection(kept, errors, risk, delta) >= 0
    assert answers >= 2 * before
    assert answers > 0.15 * repeats
    assert broken <= delta * repeats + 2 * np.sqrt(delta * (1 - delta) * repeats)


@pytest.mark.slow
def test_the_guarantee_is_not_used_up_at_the_worst_case():
    """Risk exactly at the target for every threshold: whatever is returned is at the edge, so nothing may be."""
    rng = np.random.default_rng(2)
    for n in (100, 1000):
        broken = 0
        for _ in range(4000):
            errors = np.cumsum(rng.random(n) < 0.1).astype(float)
            broken += _guaranteed(np.arange(1.0, n + 1), errors, 0.0999, 0.1)[0] >= 0
        assert broken / 4000 <= 0.1 + 0.01


def test_all_right_rows_are_all_kept():
    p = np.linspace(0.6, 0.99, 120)
    found = coverage_at_risk(np.ones(120, int), np.stack([1 - p, p], axis=1), risk=0.05, delta=0.05)
    assert found.coverage == 1
    assert found.bound <= 0.05
