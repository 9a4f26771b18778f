"""Proper scores: properness, identities, closed forms, own scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import metrics
from calibrant.errors import InputError
from calibrant.scores import Brier, Log, ProperScore, RankedProbability, Spherical, as_score

GINI = ProperScore.from_entropy("gini", lambda p: 1 - (p**2).sum(axis=1))
SHANNON = ProperScore.from_entropy(
    "shannon",
    lambda p: -np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(axis=1),
    lambda p: -1 - np.log(np.maximum(p, 1e-300)),
)
HALF = ProperScore.from_function("half", lambda p, y: 0.5 * ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1))
SCORES = [Brier(), Log(), Spherical(), RankedProbability(), GINI, SHANNON, HALF]

counts = arrays(np.float64, st.tuples(st.integers(1, 6), st.just(4)), elements=st.integers(0, 9).map(float))
laws = counts.filter(lambda c: (c.sum(axis=1) > 0).all()).map(lambda c: c / c.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("score", SCORES, ids=lambda s: s.name)
@settings(max_examples=60, deadline=None)
@given(p=laws, q=laws)
def test_properness_and_identities(score, p, q):
    rows = min(len(p), len(q))
    p, q = p[:rows], q[:rows]
    expected, entropy, divergence = score.expected_score(p, q), score.entropy(q), score.divergence(p, q)
    assert (divergence >= -1e-8).all()  # least at the truth
    assert score.divergence(q, q) == pytest.approx(np.zeros(rows), abs=1e-8)
    finite = np.isfinite(expected)
    assert expected[finite] == pytest.approx((entropy + divergence)[finite], abs=1e-7)
    assert (np.isposinf(expected[~finite]) & np.isposinf(divergence[~finite])).all()
    assert (entropy >= score.infimum(4) - 1e-8).all()
    mixture = 0.5 * (p + q)
    assert (score.entropy(mixture) >= 0.5 * (score.entropy(p) + entropy) - 1e-8).all()  # concave


@pytest.mark.parametrize("score", SCORES, ids=lambda s: s.name)
def test_expected_score_is_the_sum_over_outcomes(score):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet([1.0] * 5, 20), rng.dirichlet([1.0] * 5, 20)
    by_hand = sum(q[:, k] * score.score(p, np.full(20, k)) for k in range(5))
    assert score.expected_score(p, q) == pytest.approx(by_hand, rel=1e-8)


def test_closed_forms():
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.5, 0.0])
    assert Brier().divergence(p, q)[0] == pytest.approx(0.04 + 0.09 + 0.01)
    assert Log().divergence(p, q)[0] == pytest.approx(0.5 * np.log(0.5 / 0.7) + 0.5 * np.log(0.5 / 0.2))
    assert Log().entropy(q)[0] == pytest.approx(np.log(2))
    assert Spherical().entropy(q)[0] == pytest.approx(-np.sqrt(0.5))
    assert RankedProbability().divergence(p, q)[0] == pytest.approx(0.04 + 0.01)
    assert [as_score(name, "test").infimum(3) for name in ("brier", "nll", "spherical", "rps")] == [0, 0, -1, 0]


def test_rows_agree_with_the_measures():
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet([1.0] * 4, 50), rng.integers(0, 4, 50)
    pairs = {
        "brier": metrics.brier_score,
        "nll": metrics.log_score,
        "spherical": metrics.spherical_score,
        "rps": metrics.ranked_probability_score,
    }
    for name, measure in pairs.items():
        assert as_score(name, "test").score(p, y).mean() == pytest.approx(measure(y, p), rel=1e-13)


def test_scores_from_an_entropy_are_the_known_ones():
    rng = np.random.default_rng(2)
    p, y = rng.dirichlet([0.5] * 4, 50), rng.integers(0, 4, 50)
    assert GINI.score(p, y) == pytest.approx(Brier().score(p, y), abs=1e-8)
    assert SHANNON.score(p, y) == pytest.approx(Log().score(p, y), rel=1e-10)
    corners = np.eye(4)
    assert GINI.score(corners, [0, 1, 2, 2]) == pytest.approx([0, 0, 0, 2], abs=1e-8)


def test_an_exact_zero_on_the_truth_costs_infinity_unless_it_cannot_happen():
    assert np.isposinf(Log().score([[1.0, 0.0]], [1])[0])
    assert Log().expected_score([1.0, 0.0], [1.0, 0.0])[0] == 0
    assert np.isposinf(Log().divergence([1.0, 0.0], [0.5, 0.5])[0])


def test_mistakes():
    with pytest.raises(InputError, match="sum to 1"):
        Brier().score([[0.5, 0.6]], [0])
    with pytest.raises(InputError, match="one loss per row"):
        ProperScore.from_function("bad", lambda p, y: 1.0).score([[0.5, 0.5]], [0])
    with pytest.raises(InputError):
        as_score("crps", "test")
    with pytest.raises(InputError):
        Brier().score([[0.5, 0.5]], [2])
