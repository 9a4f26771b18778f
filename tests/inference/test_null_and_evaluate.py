"""If calibrated: replicates, p-values, evaluate, verdicts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calibrant
from calibrant import metrics as _metrics  # noqa: F401  -- declares every metric
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.errors import InputError
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.inference.null import draw_labels, null_distribution


def model(n, k=4, sharp=1.0, seed=0):
    """Labels drawn from p; the forecast is p made sharper."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 1.5
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    q = p**sharp
    return np.minimum(y, k - 1), q / q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", [m.name for m in declared() if not m.descriptive and m.name not in {"skce", "ce-kde"}])
def test_fast_replicates_have_the_law_of_slow_ones(name):
    """Cells, classes and score tables resample what label-by-label recomputation resamples."""
    y, p = model(150, 3)
    forecast = check_forecast(y, p, caller="test")
    recipe = lookup(name).build()
    fast = null_distribution({name: recipe}, forecast, 600, np.random.default_rng(0))[name]
    labels = draw_labels(forecast, 200, np.random.default_rng(1))
    slow = np.array([recipe.value(forecast.with_codes(row)) for row in labels])
    error = np.hypot(fast.std / 600**0.5, slow.std() / 200**0.5)
    assert abs(fast.mean - slow.mean()) < 4.5 * error + 1e-12
    assert fast.std == pytest.approx(slow.std(), rel=0.35)


@pytest.mark.parametrize("k", [2, 5, 100])
def test_labels_follow_the_forecast(k):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1] * k, 6)
    forecast = check_forecast(np.zeros(6, int), p, caller="test")
    labels = draw_labels(forecast, 20_000, rng)
    shares = np.stack([(labels == j).mean(axis=0) for j in range(k)], axis=1)
    assert np.abs(shares - p).max() < 5 * 0.5 / 20_000**0.5


def test_integer_weights_equal_repeated_rows_in_the_null():
    y, p = model(120, 3)
    w = np.random.default_rng(1).integers(0, 4, 120)
    rows = np.repeat(np.arange(120), w)
    recipes = {name: lookup(name).build() for name in ("ece", "ks", "cwce", "brier")}
    weighted = null_distribution(
        recipes, check_forecast(y, p, caller="t", sample_weight=w), 800, np.random.default_rng(2)
    )
    repeated = null_distribution(recipes, check_forecast(y[rows], p[rows], caller="t"), 800, np.random.default_rng(3))
    for name in recipes:
        assert weighted[name].mean == pytest.approx(repeated[name].mean, rel=0.08)
        assert weighted[name].std == pytest.approx(repeated[name].std, rel=0.25)


def test_other_weights_are_importance_weights():
    y, p = model(60)
    found = calibrant.evaluate(y, p, sample_weight=np.full(60, 0.5), rng=0)
    same = calibrant.evaluate(y, p, sample_weight=np.full(60, 0.125), rng=0)
    assert found["ece"].pvalue == same["ece"].pvalue > 0
    assert "60 rows are worth 60 equally weighted ones" in str(found)
    tests = [calibrant.test_calibration(y, p, sample_weight=np.full(60, w), rng=0) for w in (0.5, 0.125)]
    assert tests[0].pvalue == tests[1].pvalue > 0


def test_json_and_markdown_say_what_the_text_says():
    """How weights were read and why p-values are missing stand in JSON too; Markdown shows the slices."""
    y, p = model(200)
    weight = np.where(np.arange(200) < 5, 1e6, 1.5)
    found = calibrant.evaluate(y, p, sample_weight=weight, rng=0)
    assert found["ece"].pvalue is None
    assert found.to_dict()["notes"] == list(found.notes)
    assert any("importance weights" in note for note in found.to_dict()["notes"])
    site = np.where(np.arange(200) % 2, "a|b", "c")
    sliced = calibrant.evaluate(y, p, by={"site": site}, groups=np.arange(200) % 15, n_resamples=50, rng=0)
    lines = sliced.to_markdown().splitlines()
    heads = next(i for i, line in enumerate(lines) if line.startswith("| slice | n |"))
    assert sorted(line.split(" | ")[:2] for line in lines[heads + 2 :]) == [
        ["| site=a\\|b", "100"],
        ["| site=c", "100"],
    ]
    assert sliced.whole.to_markdown() in sliced.to_markdown()
    few = calibrant.evaluate(y, p, by={"site": site}, groups=np.arange(200) // 20 * 2, n_resamples=50, rng=0)
    assert [part["notes"] for part in few.to_dict()["slices"]] == [list(one.evaluation.notes) for one in few.slices]


def test_deterministic_whatever_the_threads(monkeypatch):
    from calibrant.core import parallel

    y, p = model(3000)
    many = calibrant.evaluate(y, p, rng=5).to_dict()
    monkeypatch.setattr(parallel, "cores", lambda n_jobs=None: 1)
    assert calibrant.evaluate(y, p, rng=5).to_dict() == many


def test_large_n_uses_cells_and_few_label_draws():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5] * 3, 60_000)
    y = (rng.random(60_000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, 2)
    found = calibrant.evaluate(y, p, rng=0, n_resamples=200)
    assert 0.005 < found["ks"].pvalue <= 1
    assert found["cwce"].null_mean == pytest.approx(found["cwce"].value, rel=0.5)


@pytest.mark.parametrize(
    ("sharp", "start"),
    [
        (2.0, "Not calibrated: overconfident by"),
        (0.5, "Not calibrated: too cautious by"),
        (1.0, "No gap found so far"),
    ],
)
def test_verdicts(sharp, start):
    y, p = model(4000, sharp=sharp, seed=1)
    assert calibrant.evaluate(y, p, rng=0).verdict.startswith(start)


def test_mixed_verdict_names_the_classes():
    rng = np.random.default_rng(3)
    n = 6000
    p = np.tile([0.5, 0.3, 0.2], (n, 1))
    y = rng.choice(3, size=n, p=[0.5, 0.2, 0.3])  # the top label is right as often as claimed
    found = calibrant.evaluate(y, p, classes=[0, 1, 2], rng=0)
    assert found.verdict.status == "right on average"
    assert found.verdict.startswith("Right overall, 2 classes off.")
    assert re.search(r"“1” over-predicted by 1[01] points, “2” under-predicted by", found.verdict)


def test_pairs_refuse_what_needs_vectors():
    y, p = model(500)
    hit, confidence = p.argmax(axis=1) == y, p.max(axis=1)
    found = calibrant.evaluate(hit, confidence, pairs=True, rng=0)
    assert found["ece"].value == pytest.approx(calibrant.metric("ece", y, p))
    with pytest.raises(InputError, match="whole probability vectors"):
        calibrant.evaluate(hit, confidence, pairs=True, metrics=["brier"], rng=0)


def test_two_classes_show_both_errors():
    rng = np.random.default_rng(0)
    p = rng.random(800)
    y = rng.random(800) < p
    found = calibrant.evaluate(y, p, rng=0)
    assert found["ece@class-1"].value == calibrant.metric("ece", y, p, view="class-1")
    assert found["ece"].value == calibrant.metric("ece", y, p)
    assert "gap between confidence and accuracy (class-1)" in str(found)
    assert found["ece@class-1"].bound == "lower"


def test_result_objects():
    y, p = model(300)
    found = calibrant.evaluate(y, p, rng=0, n_resamples=50)
    assert found.n == 300
    assert found.to_frame().shape[0] == len(found.results)
    assert "<table" in found._repr_html_()
    with pytest.raises(KeyError, match="ece"):
        found["nonsense"]


def test_check_pairs_is_the_same_door():
    forecast = check_pairs([1, 0], [0.5, 0.5], caller="test")
    assert forecast.n_classes == 0


def test_intervals_and_facts_side_by_side_are_those_of_one_thread(monkeypatch):
    """Many rows: the two are found at once, each with draws of its own, so nothing depends on who is first."""
    y, p = model(3000, 4, sharp=1.5, seed=4)
    forecast = check_forecast(y, p, caller="test")
    found = []
    for border in (10**9, 100):
        monkeypatch.setattr("calibrant.inference.evaluation.CHUNK_SCORES", border)
        found.append(evaluate_evidence(forecast.with_codes(forecast.codes), n_resamples=200, rng=3).to_dict())
    assert found[0] == found[1]


def test_the_value_of_a_mean_score_is_the_same_with_and_without_its_moments():
    y, p = model(5000, 7, sharp=1.3, seed=6)
    for weights in (None, np.random.default_rng(0).integers(0, 3, 5000)):
        for name in ("brier", "nll", "accuracy", "spherical"):
            recipe = lookup(name).build()
            alone, both = (check_forecast(y, p, caller="test", sample_weight=weights) for _ in range(2))
            both.null_moments(recipe)
            assert (alone.value(recipe), alone.moments(recipe)) == (both.value(recipe), both.moments(recipe))


def test_class_counts_tell_likely_rows_apart():
    """The rows whose class is likelier than not are found by their top label; an even row is not one of them."""
    y, p = model(2000, 3, sharp=2.0, seed=7)
    p[:3] = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]]
    weights = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    counts = check_forecast(y, p, caller="test", sample_weight=weights).class_counts()
    miss = np.where(p > 0.5, 1.0 - p, 0.0)
    likely = [weights @ (p > 0.5), weights @ miss, weights @ (miss * (1.0 - miss))]
    np.testing.assert_allclose(counts.likely, likely, rtol=1e-12)
    np.testing.assert_allclose(counts.expected, weights @ p, rtol=1e-12)
