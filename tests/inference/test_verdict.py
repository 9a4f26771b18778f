"""The verdict: status, direction and words from facts alone; nobody reads the sentence."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.core.results import Interval
from calibrant.inference.error_bars import RegressionFacts
from calibrant.inference.slices import with_groups
from calibrant.inference.verdict import ClassGap, Facts, Verdict, judge


def facts(predicted, observed, low, high, *, pvalue, detectable, ks=None, event=None, gaps=(), n=5000):
    gap = Interval(predicted - observed, low, high, 0.95, "hall", n)
    ks = abs(predicted - observed) if ks is None else ks
    return Facts(
        n,
        2 if event is not None else 5,
        observed,
        predicted,
        ks,
        0.002,
        0.001,
        pvalue,
        detectable,
        (predicted, observed),
        gaps,
        observed,
        predicted,
        gap,
        event,
        claim_rows=200,
    )


CASES = {
    "over": (facts(0.983, 0.936, 0.043, 0.052, pvalue=0.001, detectable=0.006), "miscalibrated", "over"),
    "under": (facts(0.758, 0.81, -0.06, -0.04, pvalue=0.001, detectable=0.01), "miscalibrated", "under"),
    "small": (facts(0.90, 0.89, 0.005, 0.015, pvalue=0.001, detectable=0.006), "small gap", "over"),
    "proven": (facts(0.939, 0.936, -0.002, 0.008, pvalue=0.4, detectable=0.01), "calibrated within tolerance", None),
    "nothing": (facts(0.84, 0.82, -0.005, 0.045, pvalue=0.2, detectable=0.031), "no gap found", None),
    "too few": (facts(0.8, 0.69, -0.05, 0.27, pvalue=0.3, detectable=0.19, n=30), "cannot tell", None),
    "mixed": (facts(0.936, 0.935, -0.01, 0.012, pvalue=0.001, detectable=0.01, ks=0.03), "right on average", "mixed"),
    "classes": (
        facts(0.9, 0.9, -0.01, 0.01, pvalue=0.5, detectable=0.01, gaps=(ClassGap("cat", 0.1, 1e-5),)),
        "right on average",
        "mixed",
    ),
    "risk": (facts(0.036, 0.016, 0.015, 0.025, pvalue=0.001, detectable=0.004, event="fraud"), "miscalibrated", "over"),
    "no test": (facts(0.9, 0.8, 0.05, 0.15, pvalue=None, detectable=None), "cannot tell", None),
}


@pytest.mark.parametrize("case", CASES)
def test_status_direction_and_five_words(case):
    known, status, direction = CASES[case]
    verdict = judge(known)
    assert (verdict.status, verdict.direction) == (status, direction)
    assert 0 < len(verdict.headline.split()) <= 5
    assert verdict.sentence in verdict.text
    assert verdict.to_dict()["status"] == status
    assert verdict.next_step in ("repair", "use", "add rows", "collect rows")
    assert not re.search(r"\d %|\d \d{3}\b", verdict)  # 95%, 10,000


def test_words():
    assert judge(CASES["over"][0]).headline == "Overconfident by 4.7 points"
    assert judge(CASES["under"][0]).headline == "Too cautious by 5.2 points"
    assert judge(CASES["risk"][0]).headline == "Risk overstated twofold"
    assert "in 3.60% of cases; it happens in 1.60%" in judge(CASES["risk"][0])
    assert judge(CASES["proven"][0]).headline == "Calibrated within 2 points"
    assert "but a gap up to 3.1 points could hide" in judge(CASES["nothing"][0])
    assert judge(CASES["mixed"][0]).headline == "Right on average, wrong inside"


def test_tolerance_moves_the_border():
    known = CASES["small"][0]
    assert judge(known, 0.02).status == "small gap"
    assert judge(known, 0.01).status == "miscalibrated"
    assert judge(CASES["proven"][0], 0.005).status == "no gap found"


def test_a_claim_needs_thirty_rows():
    known = CASES["over"][0]
    assert "When it says" in judge(known)
    from dataclasses import replace

    assert "When it says" not in judge(replace(known, claim_rows=29.0))


def test_it_is_a_string_with_fields():
    verdict = judge(CASES["over"][0])
    assert isinstance(verdict, str)
    assert json.loads(json.dumps({"verdict": verdict}))["verdict"] == verdict.text
    again = pickle.loads(pickle.dumps(verdict))  # noqa: S301 -- our own bytes
    assert again == verdict
    assert again.to_dict() == verdict.to_dict()
    with pytest.raises(TypeError, match="no field"):
        Verdict("x", nonsense=1)


def test_rare_events_are_judged_by_the_event():
    rng = np.random.default_rng(0)
    true = rng.beta(1, 60, 20_000)
    y = rng.random(20_000) < true
    found = calibrant.evaluate(y, np.clip(2.2 * true, 0, 1), rng=0, n_resamples=200)
    assert found.verdict.direction == "over"
    assert "overstated" in found.verdict.headline
    assert re.search(r"in 3\.\d+% of cases; it happens in 1\.\d+%", str(found))


def test_errors_that_cancel_are_seen():
    """Truth p ± 10 points, symmetric about one half: 0.1 said "no miscalibration found" in 50 of 60 samples."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.15, 0.85, 2000)
        y = rng.random(2000) < p + np.where(p > 0.5, -0.1, 0.1)
        verdict = calibrant.evaluate(y, p, metrics=[], rng=seed, n_resamples=200).verdict
        found += verdict.found
        if verdict.found:
            assert verdict.status == "right on average"
    assert found >= 18


def test_json_has_text_and_judgment():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 300)
    found = calibrant.evaluate(rng.random(300) < p, p, rng=0, n_resamples=50)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["verdict"] == str(found.verdict)
    assert document["judgment"]["status"] == found.verdict.status
    assert set(document["judgment"]["gap"]) == {"value", "low", "high"}


@pytest.mark.parametrize(
    ("ratio", "pvalues", "status", "direction"),
    [
        (4.0, {"bias": 0.5, "ratio": 1e-6, "pit-ks": 1e-6, "ence": 1e-6}, "miscalibrated", "over"),
        (0.4, {"bias": 0.5, "ratio": 1e-6, "pit-ks": 0.1, "ence": 0.1}, "miscalibrated", "under"),
        (1.0, {"bias": 0.5, "ratio": 0.5, "pit-ks": 0.1, "ence": 1e-6}, "right on average", "mixed"),
        (1.0, {"bias": 0.5, "ratio": 0.5, "pit-ks": 0.1, "ence": 0.5}, "no gap found", None),
    ],
)
def test_error_bars_have_the_same_kind_of_verdict(ratio, pvalues, status, direction):
    gap = Interval(0.01, -0.01, 0.03, 0.95, "wilson", 1000)
    known = RegressionFacts(1000, 1000.0, 2.0, 1.0, ratio, 0.0, 0.89, gap, 0.03, 0.11, pvalues)
    verdict = judge(known)
    assert (verdict.status, verdict.direction) == (status, direction)
    assert len(verdict.headline.split()) <= 5


def test_coverage_decides_where_the_spread_has_no_test():
    """Samples and quantiles have a null distribution of the PIT alone."""
    gap = Interval(0.19, 0.15, 0.23, 0.95, "wilson", 1000)
    verdict = judge(RegressionFacts(1000, 1000.0, 2.0, 1.0, 1.0, 0.0, 0.71, gap, 0.03, 0.11, {"pit-ks": 1e-6}))
    assert (verdict.status, verdict.direction, verdict.headline) == ("miscalibrated", "over", "Error bars too narrow")


def test_nobody_reads_the_sentence():
    source = Path(calibrant.__file__).parent
    readers = [
        f"{path.name}:{number}"
        for path in source.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(
            r"verdict(\.text)?\.(startswith|endswith|find|split|partition)\(|in (\w+\.)*verdict\b(?!s|\.)", line
        )
    ]
    assert readers == []


def test_verdict_is_frozen_and_travels() -> None:
    verdict = Verdict("No gap found.", status="no gap found", pvalue=0.4)
    with pytest.raises(AttributeError, match="does not change"):
        verdict.status = "miscalibrated"
    with pytest.raises(AttributeError):
        del verdict.status
    stored = pickle.loads(pickle.dumps(verdict))  # noqa: S301 -- our own bytes
    for again in (stored, copy.copy(verdict), copy.deepcopy(verdict)):
        assert again == verdict
        assert again.to_dict() == verdict.to_dict()
        assert type(again) is Verdict


@pytest.mark.parametrize(("factor", "status"), [(0.2, "miscalibrated"), (2.0, "miscalibrated"), (1.0, None)])
def test_the_tolerance_of_a_rare_event_is_a_part_of_its_rate(factor, status):
    rng = np.random.default_rng(0)
    risk = rng.beta(0.5, 30, 40_000)
    happened = rng.random(40_000) < risk
    verdict = calibrant.evaluate(happened, risk * factor, n_resamples=200, rng=0).verdict
    assert verdict.tolerance == 0.004  # a quarter of 1.6%
    if status is None:
        assert verdict.status in ("calibrated within tolerance", "no gap found")
    else:
        assert (verdict.status, verdict.next_step) == (status, "repair")
    asked = calibrant.evaluate(happened, risk * factor, tolerance=0.03, n_resamples=200, rng=0).verdict
    assert asked.tolerance == 0.03  # what is asked for is kept


@pytest.mark.parametrize("classes", [2, 4])
def test_too_few_resamplings_never_clear_a_model(classes):
    """Twenty draws cannot reject at 5% where the error rate is shared with the classes; nothing positive is said."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(classes, 0.3), 3000)
    y = np.array([rng.choice(classes, p=row) for row in 0.4 * p + 0.6 / classes])
    enough = {2: 20, 4: 28}[classes]
    few = calibrant.evaluate(y, p, n_resamples=enough - 1, rng=0).verdict
    assert (few.status, few.found, few.next_step) == ("cannot tell", False, "add rows")
    assert f"at least {enough} resamplings" in few.sentence
    assert f"at least {enough} resamplings" in few.advice
    assert few.headline == "Too few resamplings to tell"
    assert calibrant.evaluate(y, p, n_resamples=enough, rng=0).verdict.found


def test_too_few_resamplings_of_error_bars():
    from calibrant.regression import evaluate as evaluate_means

    rng = np.random.default_rng(0)
    y, zero, one = 0.995 * rng.standard_normal(4000), np.zeros(4000), np.ones(4000)
    assert evaluate_means(y, zero, one, n_resamples=79, rng=0).verdict.headline == "Too few resamplings to tell"
    assert evaluate_means(y, zero, one, n_resamples=80, rng=0).verdict.status != "cannot tell"


def test_one_joint_test_has_one_pvalue():
    """More than two classes: the sentence names the p-value of the fields, that of the whole test."""
    known = facts(0.9, 0.8, 0.05, 0.15, pvalue=0.0014, detectable=0.01, gaps=(ClassGap("cat", 0.1, 1e-5),))
    verdict = judge(known)
    assert verdict.pvalue == 1e-5
    assert "joint test p < 0.001" in verdict
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(10, 0.1), 4000)
    y = np.array([rng.choice(10, p=row) for row in 0.7 * p + 0.3 * np.eye(10)[0]])
    found = calibrant.evaluate(y, p, metrics=["ece"], n_resamples=1000, rng=0).verdict
    assert found.pvalue < 0.001
    assert "joint test p < 0.001" in found


def test_a_bias_of_the_means_is_said_beside_narrow_error_bars():
    gap = Interval(0.19, 0.15, 0.23, 0.95, "wilson", 1000)
    pvalues = {"bias": 1e-6, "ratio": 1e-6, "pit-ks": 1e-6, "ence": 0.4}
    verdict = judge(RegressionFacts(1000, 1000.0, 2.0, 1.0, 4.0, 0.28, 0.71, gap, 0.03, 0.11, pvalues))
    assert verdict.headline == "Error bars too narrow"
    assert "means are too low by 0.28 predicted standard deviations" in verdict.sentence
    assert verdict.lower().count("too low") == 1
    assert "2 times as large" in verdict
    steady = judge(RegressionFacts(1000, 1000.0, 2.0, 1.0, 4.0, 0.0, 0.71, gap, 0.03, 0.11, pvalues | {"bias": 0.5}))
    assert "eans are" not in steady


def test_a_group_whose_gaps_cancel_has_no_direction():
    """Words of direction stand only where the interval of the gap excludes 0."""
    rng = np.random.default_rng(0)
    n = 8000
    site = np.array(["cancels", "high", "fine", "fine"])[np.arange(n) % 4]
    p = rng.uniform(0.1, 0.9, n)
    truth = np.where(site == "cancels", 0.5 + 0.75 * (p - 0.5), np.where(site == "high", p - 0.05, p + 0.02))
    y = rng.random(n) < truth
    settings = {"n_resamples": 500, "rng": 0}
    sliced = calibrant.evaluate(y, p, by={"site": site}, **settings)
    gaps = {part.by["site"]: part.evaluation.facts.gap for part in sliced.slices}
    assert gaps["cancels"].low < 0 < gaps["cancels"].high < gaps["high"].low + 0.05
    calm = calibrant.evaluate(rng.random(n) < p, p, **settings)
    off = [part for part in sliced.slices if part.by["site"] != "fine"]
    assert all(part.corrected < 0.05 for part in off)
    verdict = with_groups(calm, off).verdict
    assert verdict.headline == "Right overall, 2 groups off"
    assert "points too much for “high” and is right only on average for “cancels”" in verdict.sentence
    alone = with_groups(calm, [part for part in off if part.by["site"] == "cancels"]).verdict
    assert alone.sentence.endswith("But it is right only on average for “cancels”.")
