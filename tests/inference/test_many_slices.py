"""More than fifty slices: fewer steps, shared orders, and the same promise."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant.core import counts
from calibrant.inference import slices
from calibrant.inference.slices import correct, slice_tests


def parts(number=120, n=300, sharper=0.0, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(number):
        p = rng.random(n)
        y = rng.random(n) < np.clip(p + sharper * (0.5 - p), 0.0, 1.0)
        out.append(calibrant.Summary(2, coarse=True).update(y.astype(int), p))
    return out


def test_many_slices_keep_their_error_rate():
    tests = slice_tests(parts(), 400, 0)
    found = np.array([test.pvalue for test in tests])
    assert 0.4 < found.mean() < 0.6
    assert (found < 0.1).mean() < 0.2
    draws = np.stack([test.scores[1:] for test in tests])
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).mean() < 1.5 / np.sqrt(400)  # slices are independent although they share orders


def test_few_and_many_slices_agree(monkeypatch):
    given = parts(60, 1000, sharper=0.12)
    many = slice_tests(given, 400, 0)
    monkeypatch.setattr(slices, "DETAILED", 1000)
    few = slice_tests(given, 400, 0)
    assert np.mean([abs(a.pvalue - b.pvalue) for a, b in zip(many, few, strict=True)]) < 0.06
    assert [a.ks[1] for a in many] == pytest.approx([b.ks[1] for b in few], rel=0.15)
    found = [sum(p < 0.05 for p in correct(tests)) for tests in (many, few)]
    assert abs(found[0] - found[1]) <= 5


def test_counts_near_their_mean_need_no_law(monkeypatch):
    rng = np.random.default_rng(0)
    cases = []
    for _ in range(150):
        expected = rng.uniform(20, 3000, 3)
        variance = expected * rng.uniform(0.3, 1.0, 3)
        cases.append((expected, variance, np.rint(rng.normal(expected, np.sqrt(variance)))))
    asked, real = [], counts.count_law
    monkeypatch.setattr(counts, "count_law", lambda *given: asked.append(given) or real(*given))
    quick = [counts.family_pvalues(*case) for case in cases]
    assert 60 < len(asked) < 330  # of 450
    monkeypatch.setattr("scipy.special.ndtr", np.zeros_like)  # no bound: every law is made
    slow = [counts.family_pvalues(*case) for case in cases]
    np.testing.assert_array_equal(quick, slow)
    assert (np.array(slow) < 1).any()


def test_many_slices_of_clustered_rows_draw_their_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 3000)
    y = np.minimum((p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1), 2)
    site = {"site": np.arange(3000) % 60}
    found = calibrant.evaluate(y, p, by=site, groups=np.arange(3000) // 3, n_resamples=60, rng=0)
    assert len(found.slices) == 60
    assert all(part.evaluation.facts.share == 0.7 for part in found.slices)  # classes have their part of the error rate
