"""Inference that claims no more than the rows allow: rare events, families, clusters, weights."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit, ndtr

import calibrant
from calibrant import Summary
from calibrant.core.clusters import TableSigns, clustered_error, few_surprises
from calibrant.core.counts import count_law, family_pvalues
from calibrant.core.inputs import check_forecast
from calibrant.core.resampling import sequential_pvalue
from calibrant.core.surprises import chance_of_none, draw_surprises, likely_outcomes
from calibrant.core.tables import Pairs, value_table
from calibrant.errors import InputError
from calibrant.inference import (
    classwise_tests,
    equivalence_test,
    hosmer_lemeshow_test,
    interval,
    multiplicity,
    sliced_tests,
    spiegelhalter_test,
    test_calibration,
)
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.inference.joint import joint_test
from calibrant.views import ClassK
from helpers import where_installed


def clustered(rng, sizes, correlation=0.5):
    """Calibrated in the population; the labels of a cluster move together."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    shared = np.sqrt(correlation) * rng.standard_normal(len(sizes))[group]
    u = ndtr(shared + np.sqrt(1 - correlation) * rng.standard_normal(len(group)))
    p = rng.random(len(group))
    return u < p, p, group


def rare_classes(rng, n):
    """A hundred classes of which ninety are rare, calibrated."""
    z = np.where(np.arange(100) < 10, 3.0, -3.0) + 1.5 * rng.standard_normal((n, 100))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 99), p


# -- tails and families ---------------------------------------------------------------------------


def test_one_error_in_a_hundred_sure_rows():
    one = count_law(0.005, 0.005 * (1 - 5e-5), np.zeros(3)).smaller(1)
    assert one == pytest.approx(1 - 0.99995**100, rel=1e-3)
    y, p = np.arange(100) > 0, np.full(100, 0.99995)
    for method in ("ks", "hosmer-lemeshow", "spiegelhalter", "joint"):
        assert test_calibration(y, p, method=method, rng=0).pvalue == pytest.approx(0.005, abs=0.004), method


def test_a_rare_tail_is_exact():
    """One error in a hundred rows of 0.99995: 0.0050, whatever the seed; a thousand draws said 0.002 to 0.009."""
    y, p = np.arange(100) > 0, np.full(100, 0.99995)
    for seed in range(3):
        found = calibrant.evaluate(y, p, metrics=["ks", "ece", "mmce@class-1"], rng=seed)
        for result in found:
            assert result.pvalue == pytest.approx(1 - 0.99995**100, rel=1e-6), result.name
        assert found.verdict.pvalue == pytest.approx(1 - 0.99995**100, rel=1e-6)


def test_draws_of_surprising_samples_are_the_conditional_ones():
    rng = np.random.default_rng(0)
    score = np.repeat([0.002, 0.01, 0.997, 0.9999], [40, 9, 12, 30])
    table = value_table(Pairs(score, rng.random(len(score)) < score, None))
    free = rng.binomial(table.w.astype(int), table.we / table.w, size=(200_000, len(table))).astype(float)
    kept = free[(free != likely_outcomes(table)).any(axis=1)]
    assert len(kept) / len(free) == pytest.approx(1 - chance_of_none(table), abs=0.005)
    found = draw_surprises(table, 50_000, rng)
    assert (found != likely_outcomes(table)).any(axis=1).all()
    assert found.mean(axis=0) == pytest.approx(kept.mean(axis=0), abs=0.015)
    assert found.std(axis=0) == pytest.approx(kept.std(axis=0), abs=0.015)


def test_tails_of_unequal_coins():
    p = np.random.default_rng(0).beta(0.3, 20, 500)
    exact = np.ones(1)
    for each in p:
        exact = np.convolve(exact, [1 - each, each])
    law = count_law(float(p.sum()), float((p * (1 - p)).sum()), np.zeros(3))
    above, below = law.above[:20], law.below[:20]
    assert above == pytest.approx(1 - np.concatenate([[0], np.cumsum(exact)])[:20], rel=0.03)
    assert below == pytest.approx(np.cumsum(exact)[:20], rel=0.03)


def test_a_class_of_sharp_rows_is_seen_from_both_sides():
    # half of the rows all but certain: the exact law is narrow, whichever way the count is off
    p = np.concatenate([np.full(200, 0.995), np.full(1800, 0.0005)])
    exact = np.ones(1)
    for each in p:
        exact = np.convolve(exact, [1 - each, each])
    above = np.cumsum(exact[::-1])[::-1]
    likely = np.array([[200.0], [200 * 0.005], [200 * 0.005 * 0.995]])
    mean, variance = np.array([p.sum()]), np.array([(p * (1 - p)).sum()])
    for observed in (204.0, 205.0, 207.0):  # the family of one count adds what the lower tail can attain
        found = float(family_pvalues(mean, variance, np.array([observed]), likely=likely)[0])
        assert above[int(observed)] * 0.97 <= found <= 2.1 * above[int(observed)]
    # a tenth of the rows said to be class 2 are class 3: both are named
    rng = np.random.default_rng(0)
    said, doubt = rng.integers(0, 5, 1000), 10 ** rng.uniform(-4, -1, 1000)
    q = np.repeat(doubt[:, None] / 4, 5, axis=1)
    q[np.arange(1000), said] = 1 - doubt
    y = np.where((said == 2) & (rng.random(1000) < 0.1), 3, said)
    counts = check_forecast(y, q, caller="test").class_counts()
    assert set(np.flatnonzero(counts.pvalues() < 0.001)) == {2, 3}


def test_classes_are_drawn_together(monkeypatch):
    rng = np.random.default_rng(3)
    p = rng.beta(2, 5, 400)
    y, q, weights = (rng.random(400) < p).astype(int), np.stack([1 - p, p], axis=1), rng.integers(1, 4, 400)
    for weight in (None, weights):
        found = classwise_tests(y, q, sample_weight=weight, n_resamples=99, rng=0)
        one = calibrant.metric("ks", y, p, view="class-1", sample_weight=weight)
        assert found[1].statistic == pytest.approx(one, abs=1e-3)
    # the gaps of two classes mirror each other: one test, corrected for nothing, however its draws are made
    alone = test_calibration(y, p, view="class-1", n_resamples=3000, rng=0).pvalue
    for labels in (multiplicity._LABELS, 0):
        monkeypatch.setattr(multiplicity, "_LABELS", labels)
        found = classwise_tests(y, q, n_resamples=3000, rng=0)
        assert found[0] == found[1]
        assert found[1].pvalue == pytest.approx(alone, abs=0.035)


def test_many_rows_are_drawn_class_by_class(monkeypatch):
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1, 1, 1], 500)
    y = (rng.random(500)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, 2)
    shared = classwise_tests(y, p, n_resamples=499, rng=0)
    monkeypatch.setattr(multiplicity, "_LABELS", 0)
    single = classwise_tests(y, p, n_resamples=499, rng=0)
    for k in range(3):
        assert single[k].statistic == pytest.approx(shared[k].statistic, abs=1e-12)
        assert single[k].pvalue == pytest.approx(shared[k].pvalue, abs=0.12)


def test_family_of_rare_counts_keeps_its_level_and_sees_a_common_one():
    rng = np.random.default_rng(1)
    expected = np.concatenate([np.full(90, 0.1), np.full(10, 30.0)])
    false = [(family_pvalues(expected, expected, rng.poisson(expected) * 1.0) < 0.05).any() for _ in range(1000)]
    assert np.mean(false) <= 0.065
    assert np.mean(false) >= 0.02  # and is not asleep
    more = expected + 25.0 * (np.arange(100) == 99)
    assert family_pvalues(expected, expected, more)[99] < 0.05


def test_draws_go_on_while_the_pvalue_is_small():
    rng = np.random.default_rng(0)
    drawn = []

    def draw(size):
        drawn.append(size)
        return rng.standard_normal(size)

    assert sequential_pvalue(0.0, draw, 1000) == pytest.approx(0.5, abs=0.06)
    assert len(drawn) == 1
    assert sequential_pvalue(9.0, draw, 1000) == 1 / 10_001
    assert len(drawn) == 11


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000])
def test_classes_keep_the_family_error(n):
    false = 0
    for seed in range(200):
        y, p = rare_classes(np.random.default_rng(seed), n)
        found = classwise_tests(y, p, n_resamples=200, rng=seed)
        false += min(test.pvalue for test in found.values()) < 0.05
    assert false <= 18  # 5% of 200, and 2.6 standard errors


@pytest.mark.slow
def test_slices_keep_the_family_error():
    false = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p = 1 - 0.01 * rng.random(2000)
        found = sliced_tests(rng.random(2000) < p, p, np.arange(2000) // 40, n_resamples=200, rng=seed)
        false += min(test.pvalue for test in found.values()) < 0.05
    assert false <= 24


@pytest.mark.slow
@pytest.mark.parametrize("test", [hosmer_lemeshow_test, spiegelhalter_test])
@pytest.mark.parametrize("kind", ["rare", "sharp"])
def test_classical_tests_keep_their_size(test, kind):
    false = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 99, 300) if kind == "rare" else 1 - 0.002 * rng.random(300)
        false += test(rng.random(300) < p, p, view="class-1", n_resamples=200, rng=seed).pvalue < 0.05
    assert false <= 32


# -- clusters -------------------------------------------------------------------------------------


def test_clusters_reach_null_pvalue_verdict_and_intervals():
    y, p, group = clustered(np.random.default_rng(4), [20] * 50, 0.8)
    names = ["ece@class-1", "ks@class-1", "mmce@class-1", "cwce"]
    alone = calibrant.evaluate(y, p, metrics=names, n_resamples=200, rng=0)
    together = calibrant.evaluate(y, p, metrics=names, groups=group, n_resamples=200, rng=0)
    for name in names:
        one, two = alone[name], together[name]
        assert two.null_mean > 1.2 * one.null_mean, name
        assert two.pvalue >= one.pvalue, name
        if name != "cwce":
            assert two.interval.high > one.interval.high, name
    assert alone.verdict.found
    assert not together.verdict.found
    assert test_calibration(y, p, view="class-1", groups=group, n_resamples=200, rng=0).pvalue > 0.05


def test_nine_clusters_are_too_few():
    y, p, group = clustered(np.random.default_rng(0), [40] * 9)
    found = calibrant.evaluate(y, p, groups=group, n_resamples=100, rng=0)
    assert found.verdict.status == "cannot tell"
    assert "9 clusters are too few" in str(found)
    assert all(result.pvalue is None and result.interval is None for result in found)
    with pytest.raises(InputError, match="at least 10 clusters"):
        test_calibration(y, p, groups=group)


def test_few_large_clusters_count_as_few():
    _, even = clustered_error(np.ones(40), np.ones(40))
    _, uneven = clustered_error(np.ones(40), np.array([30.0] * 4 + [1.0] * 36))
    assert even == pytest.approx(39.0)
    assert uneven < 6


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[20] * 50, [50] * 20, "unequal"])
def test_verdict_on_clusters_keeps_its_level(sizes):
    false = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        y, p, group = clustered(rng, rng.geometric(1 / 25, 40) if sizes == "unequal" else sizes)
        false += calibrant.evaluate(y, p, groups=group, metrics=[], n_resamples=200, rng=seed).verdict.found
    assert false <= 30  # 7% of 300, and 2.2 standard errors


def test_clusters_reach_slices():
    """Clusters that lie in two slices vary as one; slices of one cluster show dashes."""
    y, p, group = clustered(np.random.default_rng(5), [20] * 60, 0.8)
    half = np.arange(len(y)) % 2
    alone = calibrant.evaluate(y, p, by={"half": half}, metrics=[], n_resamples=200)
    together = calibrant.evaluate(y, p, by={"half": half}, groups=group, metrics=[], n_resamples=200)
    assert min(part.corrected for part in alone.slices) < 0.05
    assert all(part.corrected > 0.05 for part in together.slices)
    for part in (*alone.slices, *together.slices):
        assert part.evaluation.verdict.pvalue <= part.corrected
    found = sliced_tests(y, p, half, groups=group, n_resamples=200, rng=0)
    assert {key: test.pvalue for key, test in found.items()} == {
        part.by["half"]: part.corrected for part in together.slices
    }
    whole = calibrant.evaluate(y, p, by={"cluster": group // 30}, groups=group // 30, metrics=["ece"], n_resamples=50)
    assert all(part.corrected is None and part.evaluation["ece"].pvalue is None for part in whole.slices)


def test_slices_see_what_the_verdict_sees():
    """Errors that cancel: KS hardly moves, the joint test finds them, and the corrected p-value is that test's."""
    rng = np.random.default_rng(0)
    p = rng.random(6000)
    by = np.arange(6000) % 3
    y = rng.random(6000) < np.where(by == 0, expit(0.6 * logit(p)), p)
    found = calibrant.evaluate(y, p, by={"by": by}, metrics=["ks@class-1"], n_resamples=200)
    first, *rest = found.slices
    assert first.corrected < 0.05 <= min(part.corrected for part in rest)
    assert first.evaluation.verdict.found
    assert all(part.evaluation.verdict.pvalue <= part.corrected for part in found.slices)


# -- the verdict ----------------------------------------------------------------------------------


def test_rows_and_cells_give_one_verdict():
    rng = np.random.default_rng(5)
    p = rng.random(3000)
    for slope, status in ((0.8, "right on average"), (1.0, "no gap found")):
        y = rng.random(3000) < expit(slope * logit(p))
        rows = calibrant.evaluate(y, p, n_resamples=200, rng=0)
        cells = evaluate_evidence(Summary(2).update(y, p), n_resamples=200, rng=0)
        assert rows.verdict.pvalue == cells.verdict.pvalue
        assert rows.verdict.status == cells.verdict.status == status


def test_verdict_does_not_depend_on_what_is_shown():
    rng = np.random.default_rng(6)
    p = rng.random(500)
    y = rng.random(500) < p
    few = calibrant.evaluate(y, p, metrics=["ece"], n_resamples=200, rng=0).verdict
    many = calibrant.evaluate(y, p, n_resamples=200, rng=0).verdict
    assert few.pvalue == many.pvalue


def test_what_it_says_is_what_happens():
    """True gap 6 points, 300 rows: the bin with the largest gap showed 17 on average."""
    gaps = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.5, 1.0, 300)
        facts = calibrant.evaluate(rng.random(300) < p - 0.06, p, metrics=[], n_resamples=20, rng=0).facts
        assert facts.claim_rows >= 30
        assert facts.claim_interval.low <= facts.claim[1] <= facts.claim_interval.high
        gaps.append(facts.claim[0] - facts.claim[1])
    assert np.mean(gaps) == pytest.approx(0.06, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rare", "sharp", "rounded", "uniform"])
def test_verdict_keeps_its_level(kind):
    false = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = {
            "rare": lambda rng=rng: rng.beta(1, 99, 300),
            "sharp": lambda rng=rng: 1 - 1e-3 * rng.random(300),
            "rounded": lambda rng=rng: np.round(rng.random(300), 1),
            "uniform": lambda rng=rng: rng.random(300),
        }[kind]()
        false += calibrant.evaluate(rng.random(300) < p, p, metrics=[], n_resamples=200, rng=seed).verdict.found
    assert false <= 33  # 5% of 400, and 3 standard errors


# -- few events -----------------------------------------------------------------------------------


def test_an_interval_without_events_begins_at_zero_and_reaches_far():
    p = np.full(100, 0.01)
    for name in ("ece", "ks", "mmce"):
        found = interval(name, np.zeros(100), p, view="class-1", n_resamples=200, rng=0)
        assert found.low == 0.0, name
        assert found.high >= 0.0369, name  # no event in a hundred rows: up to 3.69 may have been due
    for name in ("brier", "nll"):
        found = interval(name, np.zeros(100), p)
        assert found.high - found.value > 0.03, name


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 3.0, 0.25])
def test_intervals_of_rare_events_cover(factor):
    """1% positives: calibrated, predicted three times too high, four times too low."""
    hits = {"ece": 0, "ks": 0, "mmce": 0, "brier": 0}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        true = rng.beta(1, 99 if factor >= 1 else 24, 300)
        p = np.clip(factor * true, 0, 1)
        gap = abs(float((p - true).mean()))
        y = rng.random(300) < true
        for name in hits:
            view = {} if name == "brier" else {"view": "class-1"}
            found = interval(name, y, p, n_resamples=200, rng=seed, **view)
            truth = 2 * float((true * (1 - p) ** 2 + (1 - true) * p**2).mean()) if name == "brier" else gap
            hits[name] += found.low - 0.002 <= truth <= found.high + 0.002
    assert min(hits.values()) >= 137, hits  # 93% of 150 would be 140


# -- weights --------------------------------------------------------------------------------------


def test_an_aggregated_table_counts_its_observations():
    score = np.linspace(0.1, 0.9, 18)
    weight = np.array([22.0] * 17 + [26.0])
    found = calibrant.evaluate(np.arange(18) % 2, score, sample_weight=weight, n_resamples=50, rng=0)
    assert found.n == 400
    assert "18 rows stand for 400" in str(found)


def test_importance_weights():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = rng.random(400) < p
    weight = rng.choice([0.5, 3.25], 400)
    found = calibrant.evaluate(y, p, sample_weight=weight, n_resamples=100, rng=0)
    assert found["brier"].interval is not None
    assert found["ece"].pvalue is not None
    assert "importance" in str(found)
    scaled = calibrant.evaluate(y, p, sample_weight=7.7 * weight, n_resamples=100, rng=0)
    assert scaled["brier"].interval.low == pytest.approx(found["brier"].interval.low)
    assert scaled.verdict.pvalue == found.verdict.pvalue
    whole = np.rint(2 * weight)
    counted = calibrant.evaluate(y, p, sample_weight=whole, n_resamples=100, rng=0)["brier"].interval
    mattered = calibrant.evaluate(
        y, p, sample_weight=whole, weight_kind="importance", n_resamples=100, rng=0
    )["brier"].interval  # fmt: skip
    assert mattered.high - mattered.low > 1.5 * (counted.high - counted.low)
    with pytest.raises(InputError, match="weight_kind"):
        calibrant.evaluate(y, p, sample_weight=weight, weight_kind="frequency")
    with pytest.raises(InputError, match="weight_kind"):
        calibrant.evaluate(y, p, weight_kind="importance")


@pytest.mark.slow
def test_brier_interval_of_undersampled_rows_covers():
    """Rows sampled at 1/20 carry weight 20: read as counts, the interval covered 42%."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(20_000)
        y = rng.random(20_000) < p
        kept = rng.random(20_000) < np.where(p < 0.5, 0.1, 0.005)
        found = calibrant.evaluate(
            y[kept], p[kept], sample_weight=np.where(p < 0.5, 1.0, 20.0)[kept], weight_kind="importance",
            metrics=["brier"], n_resamples=20, rng=seed,
        )["brier"].interval  # fmt: skip
        hits += found.low <= 1 / 3 <= found.high
    assert hits >= 182


def test_weight_kind_reaches_every_verb():
    """Weights 1 or 20: as counts they claim many rows, as importance few; every verb takes the user's word."""
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < 0.2 + 0.5 * p).astype(int)
    weight = rng.choice([1.0, 20.0], 300)
    kinds = ("frequency", "importance")

    def width(one):
        return one.high - one.low

    gates = [
        calibrant.check(y, p, sample_weight=weight, weight_kind=kind, max_values={"brier": 0.5}, n_resamples=50)
        for kind in kinds
    ]
    assert width(gates[1]["brier"]) > 2 * width(gates[0]["brier"])
    pages = [
        calibrant.report(y, p, sample_weight=weight, weight_kind=kind, compare_methods=False, n_resamples=50).to_dict()
        for kind in kinds
    ]
    brier = [page["evaluation"]["metrics"]["brier"] for page in pages]
    assert brier[1]["high"] - brier[1]["low"] > 2 * (brier[0]["high"] - brier[0]["low"])
    changes = [
        calibrant.compare(y, p, 0.2 + 0.5 * p, sample_weight=weight, weight_kind=kind, metrics=["brier"])
        for kind in kinds
    ]
    assert width(changes[1]["brier"].interval) > 2 * width(changes[0]["brier"].interval)
    maps = [calibrant.fit(y, p, sample_weight=weight, weight_kind=kind, method="platt") for kind in kinds]
    assert not np.allclose(*(one.calibrator.predict_proba(p) for one in maps))
    scaled = calibrant.fit(y, p, sample_weight=weight / 20, method="platt")  # no counts: importance by themselves
    assert np.allclose(scaled.calibrator.predict_proba(p), maps[1].calibrator.predict_proba(p))
    inner = [calibrant.evaluate(y, p, sample_weight=weight, weight_kind=kind, n_resamples=50) for kind in kinds]
    assert width(inner[1]["brier"].interval) > 2 * width(inner[0]["brier"].interval)


def test_weight_kind_reaches_intervals_and_tests():
    """What `evaluate` says of importance weights, the single functions say too; left out, whole numbers count rows."""
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < p).astype(int)
    weight = rng.choice([1.0, 20.0], 300)
    rows = {"sample_weight": weight, "weight_kind": "importance"}
    whole = calibrant.evaluate(y, p, metrics=["brier", "ks@class-1"], **rows)
    for name in ("brier", "ks"):
        counted, mattered = (calibrant.interval(name, y, p, rng=0, **how) for how in ({"sample_weight": weight}, rows))
        assert mattered.high - mattered.low > 1.5 * (counted.high - counted.low)
        assert mattered == calibrant.interval(name, y, p, sample_weight=weight / 32, rng=0)  # importance by themselves
    assert calibrant.interval("brier", y, p, **rows) == whole["brier"].interval
    for method in ("ks", "joint", "resampling"):
        counted, mattered = (
            calibrant.test_calibration(y, p, method=method, n_resamples=200, rng=0, **how)
            for how in ({"sample_weight": weight}, rows)
        )
        assert mattered.pvalue > 2 * counted.pvalue, method
    kinds = [equivalence_test(y, p, epsilon=0.13, rng=0, **how).pvalue for how in ({"sample_weight": weight}, rows)]
    assert kinds[0] < 0.1 * kinds[1]
    for call in (calibrant.test_calibration, lambda *xy, **how: calibrant.interval("ks", *xy, **how)):
        with pytest.raises(InputError, match="weight_kind"):
            call(y, p, weight_kind="importance")
        with pytest.raises(InputError, match="weight_kind"):
            call(y, p, sample_weight=weight / 32, weight_kind="frequency")
        with pytest.raises(InputError, match=r"sample_weight.* equally weighted"):
            call(y, p, sample_weight=np.where(np.arange(300) < 3, 1e6, 1.0), weight_kind="importance")
    for method in ("hosmer-lemeshow", "spiegelhalter", "skce"):
        with pytest.raises(InputError, match=r"weight_kind.*counts"):
            calibrant.test_calibration(y, p, method=method, **rows)


@pytest.mark.slow
def test_intervals_of_importance_weights_cover():
    """Weights that count rows 1 or 20 times claim too much: 19 of 80 such intervals covered."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(300)
        y = rng.random(300) < p
        weight = rng.choice([1.0, 20.0], 300)
        found = calibrant.interval("brier", y, p, sample_weight=weight, weight_kind="importance", rng=seed)
        hits += found.low <= 1 / 3 <= found.high
    assert hits >= 182


def test_clusters_reach_the_report():
    y, p, group = clustered(np.random.default_rng(4), [20] * 50, 0.8)
    half = np.arange(len(y)) % 2
    settings = {"compare_methods": False, "n_resamples": 100, "by": {"half": half}}
    alone = calibrant.report(y, p, **settings).to_dict()
    together = calibrant.report(y, p, groups=group, **settings).to_dict()
    assert alone["judgment"]["pvalue"] < 0.05 < together["judgment"]["pvalue"]
    assert [one["corrected"] for one in alone["slices"]] != [one["corrected"] for one in together["slices"]]


# -- slope, intercept and observed over expected ----------------------------------------------------


def test_risk_numbers_of_rows_and_cells():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, 3000)
    y = rng.random(3000) < expit(0.7 * logit(p) - 0.2)
    rows = calibrant.evaluate(y, p, metrics=[], n_resamples=20, risk=True)
    cells = evaluate_evidence(Summary(2).update(y, p), metrics=[], n_resamples=20, risk=True)
    for name in ("slope", "intercept", "in_the_large", "ratio"):
        one, two = getattr(rows.risk, name), getattr(cells.risk, name)
        assert (one.value, one.low, one.high) == pytest.approx((two.value, two.low, two.high), abs=2e-3), name
    assert rows.risk.slope.high < 1
    assert rows.risk.test.pvalue < 0.001
    assert "observed/expected 1.09" in str(rows)
    assert rows.to_dict()["risk"]["slope"]["value"] == rows.risk.slope.value
    assert "risk" not in calibrant.evaluate(y, p, metrics=[], n_resamples=20).to_dict()
    with pytest.raises(InputError, match="two classes"):
        calibrant.evaluate([0, 1, 2], np.eye(3), classes=[0, 1, 2], risk=True)


def test_few_events_have_a_count_in_place_of_an_interval():
    p = np.linspace(0.001, 0.03, 300)
    y = np.arange(300) % 75 == 74
    found = calibrant.evaluate(y, p, metrics=[], n_resamples=20, risk=True)
    assert np.isnan(found.risk.slope.low)
    assert "4 events are too few for intervals of slope and intercept" in str(found)
    assert found.risk.ratio.low < 4 / p.sum() < found.risk.ratio.high  # exact: Clopper and Pearson


def test_few_events_still_say_where_the_average_lies():
    """It was a dash below ten events, so that it was shown only where chance had brought ten: 74% of those covered."""
    p = np.linspace(0.001, 0.03, 300)
    odds = logit(p)
    found = calibrant.inference.cox_calibration(np.arange(300) % 75 == 74, p)
    for end, ratio in ((found.in_the_large.low, found.ratio.low), (found.in_the_large.high, found.ratio.high)):
        assert expit(odds + end).sum() == pytest.approx(ratio * p.sum(), rel=1e-9)  # exact bounds of the event rate
    assert found.in_the_large.method == "clopper-pearson"


@pytest.mark.slow
def test_calibration_in_the_large_covers_with_few_events():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        p = expit(-4.2 + 0.9 * rng.standard_normal(300))  # 6.5 events are due
        span = calibrant.inference.cox_calibration(rng.random(300) < p, p).in_the_large
        hits += [span.low <= 0 <= span.high] if np.isfinite(span.low) else []
    assert len(hits) > 380
    assert np.mean(hits) > 0.93


def test_slope_of_clusters_that_hold_few_surprises_is_a_dash():
    """Cluster-robust errors know nothing of the clusters that were missed: 11% of calibrated samples were rejected."""
    group, p = np.repeat(np.arange(20), 50), np.tile(np.linspace(0.01, 0.05, 50), 20)
    y = (group < 6) & (np.arange(1000) % 10 == 0)
    found = calibrant.inference.cox_calibration(y, p, groups=group)
    assert np.isnan([found.slope.low, found.in_the_large.low, found.ratio.low, found.test.pvalue]).all()
    assert "too few clusters hold events" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size"), [(20, 50), (50, 40)])
def test_slope_and_intercept_of_clusters_with_rare_events(clusters, size):
    rng = np.random.default_rng(clusters)
    hits, false = [], []
    for _ in range(400):
        shares = rng.dirichlet(np.full(clusters, 2.0)) if clusters == 50 else np.full(clusters, 1 / clusters)
        group = np.repeat(np.arange(clusters), rng.multinomial(clusters * size, shares))
        p = expit(-3.5 + rng.standard_normal(len(group)))
        shared = np.sqrt(0.3) * rng.standard_normal(clusters)[group]
        y = ndtr(shared + np.sqrt(0.7) * rng.standard_normal(len(group))) < p
        found = calibrant.inference.cox_calibration(y, p, groups=group)
        if np.isfinite(found.test.pvalue):
            false.append(found.test.pvalue <= 0.05)
            hits.append([one.low <= at <= one.high for one, at in ((found.slope, 1), (found.in_the_large, 0))])
    assert np.mean(false) <= 0.07 + 2 * 0.013
    assert (np.mean(hits, axis=0) >= 0.92 - 2 * 0.014).all()


def test_clusters_reach_the_tests_of_slope_and_intercept():
    y, p, group = clustered(np.random.default_rng(4), [20] * 50, 0.8)
    alone = calibrant.evaluate(y, p, metrics=[], n_resamples=20, risk=True).risk
    together = calibrant.evaluate(y, p, metrics=[], n_resamples=20, groups=group, risk=True).risk
    assert alone.in_the_large_test.pvalue < 0.05 < together.in_the_large_test.pvalue
    assert together.ratio.high - together.ratio.low > 1.5 * (alone.ratio.high - alone.ratio.low)


# -- engines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rare", "sharp"])
@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
def test_cells_of_an_engine_obey_the_bounds_of_rows(tmp_path, engine, kind):
    """Few events: the same verdict, the same tails and intervals that reach as far, from cells as from rows."""
    rng = np.random.default_rng(8)
    p = rng.beta(0.5, 49.5, 400) if kind == "rare" else 1 - 1e-3 * rng.random(400)
    y = (rng.random(400) < p).astype(int)
    if kind == "sharp":
        y[7] = 0
    pl.DataFrame({"score": p, "label": y}).write_parquet(tmp_path / "rows.parquet")
    names = ["ece@class-1", "ks@class-1", "mmce@class-1", "brier", "nll"]
    rows = calibrant.evaluate(y, p, metrics=names, n_resamples=500)
    cells = calibrant.evaluate(str(tmp_path / "rows.parquet"), engine=engine, metrics=names, n_resamples=500)
    assert cells.verdict.pvalue == pytest.approx(rows.verdict.pvalue, abs=1e-9)
    assert cells.verdict.status == rows.verdict.status
    for name in names:
        one, two = rows[name], cells[name]
        assert two.pvalue == pytest.approx(one.pvalue, abs=0.1 if "@" in name else 0.01), name
        if one.interval is not None and two.interval is not None:
            assert two.interval.low == pytest.approx(one.interval.low, abs=2e-3), name
            assert two.interval.high == pytest.approx(one.interval.high, rel=0.05, abs=2e-3), name
        if "@" in name and one.pvalue > 0.1:
            assert one.interval.low == two.interval.low == 0.0, name


def test_clusters_that_rarely_surprise_make_no_verdict():
    """Rows of a cluster share nine tenths of their noise: a sample without surprises is all of one sign."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng([3, seed])
        groups = np.repeat(np.arange(30), 20)
        score = -0.5 + np.sqrt(0.6) * rng.standard_normal(30)[groups] + np.sqrt(0.4) * rng.standard_normal(600)
        noise = np.sqrt(0.9) * rng.standard_normal(30)[groups] + np.sqrt(0.1) * rng.standard_normal(600)
        evidence = check_forecast((noise < score).astype(int), ndtr(score), caller="evaluate")
        found += joint_test(evidence, ClassK(1), 99, rng, groups).pvalue < 0.05
    assert found <= 8  # 5% of 60, three standard errors allowed; signs of clusters alone: 13


def test_likeness_of_clusters():
    """λ² is 1 where all rows of a cluster share one uniform number, and about 0 where none do."""
    rng = np.random.default_rng(0)
    groups, p = np.repeat(np.arange(400), 10), rng.uniform(0.1, 0.9, 4000)
    for uniform, expected in ((rng.random(400)[groups], 1.0), (rng.random(4000), 0.0)):
        evidence = check_forecast((uniform < p).astype(int), p, caller="evaluate")
        drawn = TableSigns(evidence.test_table(ClassK(1)), evidence.pairs_of(ClassK(1)), groups)
        assert drawn.likeness() == pytest.approx(expected, abs=0.1)
        labels = drawn.labels(400, rng, np.sqrt(drawn.likeness()))
        assert np.abs(labels.mean(axis=0)).max() < 0.5  # labels have the chances of the forecasts
        assert (labels.sum(axis=1) > 0).mean() == pytest.approx(0.5, abs=0.12)


def test_copies_of_rare_rows_make_no_verdict():
    """Twenty rows fifty times each, events of 5%: where none came, nothing tells how alike the rows are."""
    found = low = 0
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        groups = np.repeat(np.arange(20), 50)
        p = expit(-3.2 + 1.2 * rng.standard_normal(20))
        y = (rng.random(20) < p).astype(int)
        shown = calibrant.evaluate(
            y[groups], p[groups], classes=[0, 1], groups=groups, metrics=["ks@class-1"], n_resamples=99, rng=rng
        )
        found += shown.verdict.found
        low += shown["ks@class-1"].interval.low > 0
    assert found <= 3  # 5% of 40 and a standard error; 6 where labels were as alike as seen
    assert low <= 3


def few_struck(seed: int, struck: int, clusters: int = 20):
    """Rare events, all of them in a few of the clusters; on average over clusters the forecast is right."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(clusters), 50)
    p = np.exp(rng.uniform(np.log(0.002), np.log(0.1), len(groups)))
    hot = np.isin(groups, rng.choice(clusters, struck, replace=False))
    return (rng.random(len(p)) < np.where(hot, p * clusters / max(struck, 1), 0.0)).astype(int), p, groups


@pytest.mark.parametrize("struck", [0, 1, 2, 5])
def test_means_over_clusters_that_rarely_surprise_have_a_dash_and_the_reason(struck):
    """Their intervals held the truth in 36-99% of samples, mostly below 92%: nothing tells of the clusters a sample missed."""
    y, p, groups = few_struck(struck, struck)
    found = calibrant.evaluate(
        y, p, metrics=["brier", "nll", "accuracy", "ks@class-1"], groups=groups, n_resamples=99, rng=0
    )
    for name in ("brier", "nll", "accuracy"):
        assert found[name].interval is None
        assert found[name].pvalue is None
    assert found["ks@class-1"].interval is not None
    assert found.facts.gap is None
    assert any("too few clusters hold a surprise" in note for note in found.notes)
    other = calibrant.compare(y, p, np.sqrt(p), metrics=["brier"], groups=groups)
    assert other["brier"].interval is None
    assert any("too few clusters hold a surprise" in note for note in other.notes)
    alone = calibrant.evaluate(y, p, metrics=["brier"], n_resamples=99, rng=0)
    assert alone["brier"].interval is not None


def test_surprises_of_clusters_are_counted_by_what_is_seen_and_by_what_is_due():
    groups = np.repeat(np.arange(30), 4)
    sure = np.full(120, 0.999)
    wrong = np.arange(120) % 8 == 0  # in 15 clusters, though if clusters moved as one none would be due
    assert few_surprises(Pairs(sure, ~wrong, None), groups)
    unsure = np.full(120, 0.6)
    assert not few_surprises(Pairs(unsure, ~wrong, None), groups)
    assert few_surprises(Pairs(unsure, groups > 8, None), groups)  # nine clusters with a wrong row
    assert few_surprises(Pairs(unsure, groups <= 8, None), groups)  # nine with a right one
    assert not few_surprises(Pairs(sure, ~wrong, None), np.arange(120))  # rows of their own
    assert not few_surprises(Pairs(sure, ~wrong, None), None)


def test_a_family_finds_every_count_that_holds_after_correction():
    from calibrant.core.counts import count_law, family_pvalues

    rng = np.random.default_rng(3)
    expected = rng.uniform(3.0, 9.0, 300)
    observed = rng.poisson(expected * np.where(np.arange(300) < 120, rng.uniform(1.0, 5.0, 300), 1.0)).astype(float)
    laws = [count_law(float(mean), float(mean), np.zeros(3)) for mean in expected]
    tails = np.array([law.smaller(float(n)) for law, n in zip(laws, observed, strict=True)])
    chance = np.array([sum(law.attained(tail * (1 + 1e-9)) for law in laws) for tail in tails])
    found = family_pvalues(expected, expected, observed)
    assert 12 < np.count_nonzero(chance < 0.05) < 120  # more than the steps at which p-values are written down
    np.testing.assert_array_equal(found < 0.05, chance < 0.05)
    assert np.all(found[found < 1] >= chance[found < 1] - 1e-12)


def test_a_sample_without_surprises_clears_no_sharp_forecast_of_two_classes():
    """Class 1 has many hits and misses there, but no outcome against its forecast: 78% of such samples were cleared."""
    data = pytest.importorskip("calibrant_papers.validation.generators", reason="calibrant-benchmarks is not installed")

    model, rng = "confidences above 0.999, 5 times the errors", np.random.default_rng(0)
    for _ in range(20):
        rows = data.draw(model, 100, rng)
        y = rows.labels(rng)
        for name in ("ks", "ece", "mmce"):
            epsilon = data.truth(model)[f"{name}@class-1"]
            assert (
                calibrant.inference.equivalence_test(y, rows.forecast, epsilon=epsilon, error=name, rng=0).pvalue > 0.05
            )


def test_no_event_of_many_that_were_due():
    """Sixty events are due and none comes: the interval of a mean score is not a point."""
    y, p = np.zeros(3000, dtype=int), np.full(3000, 0.02)
    found = calibrant.evaluate(y, p, metrics=["brier", "nll"], classes=[0, 1])
    for name, event in (("brier", 2 * (0.98**2 - 0.02**2)), ("nll", np.log(0.98 / 0.02))):
        span = found[name].interval
        assert span.low == pytest.approx(found[name].value)
        assert span.high - span.low >= 3.5 * event / 3000  # a count of 0 may have been 3.69


def test_one_weight_above_all_infers_nothing():
    rng = np.random.default_rng(0)
    p = rng.random(200)
    y, weight = (rng.random(200) < p).astype(int), np.full(200, 0.5)
    weight[0] = 1e6
    found = calibrant.evaluate(y, p, sample_weight=weight)
    assert all(one.interval is None and one.pvalue is None for one in found)
    assert found.verdict.status == "cannot tell"
    assert "are worth 1, too few" in str(found)
    compared = calibrant.compare(y, p, p**2, sample_weight=weight)
    assert all(one.interval is None and one.pvalue is None for one in compared)
    weight[0] = 1.0
    assert calibrant.evaluate(y, p, sample_weight=weight)["brier"].interval is not None


def test_a_limit_on_a_pvalue_has_the_draws_that_break_it():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**3).astype(int)
    assert not calibrant.check(y, p, min_pvalues=0.01, n_resamples=20).passed
    assert not calibrant.check(y, p, min_pvalues={"ece": 0.0005}).passed
    with pytest.raises(ValueError, match=r"must be at least 0\.0001"):
        calibrant.check(y, p, min_pvalues=1e-5)
    assert not calibrant.check(y, p, min_pvalues=0.01, n_resamples=0).passed  # no p-value keeps no limit
    coin = (rng.random(500) < 0.5).astype(int)
    assert not calibrant.check(coin, p, min_pvalues={"brier": 0.0005}).passed  # its law needs no draws


def test_one_row_shows_nothing():
    verdict = calibrant.evaluate([1], [0.9]).verdict
    assert "With 1 row no gap would show." in verdict
    assert "collect about 1 " not in verdict.advice
