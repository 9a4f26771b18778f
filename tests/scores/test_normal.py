"""Scores of mean and variance: closed forms against quadrature and against the regression room."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.errors import InputError
from calibrant.scores import DawidSebastiani, NormalCRPS


@pytest.mark.parametrize("score", [DawidSebastiani(), NormalCRPS()], ids=lambda s: s.name)
def test_expected_score_is_the_integral_and_the_truth_is_best(score):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = ((rng.normal(), rng.uniform(0.3, 3)) for _ in range(2))
        y = q[0] + np.sqrt(q[1]) * nodes
        by_hand = np.dot(weights, score.score((np.full(60, p[0]), np.full(60, p[1])), y)) / np.sqrt(2 * np.pi)
        assert score.expected_score(p, q)[0] == pytest.approx(by_hand, abs=2e-3 if score.name == "crps" else 1e-10)
        assert score.divergence(p, q)[0] > 0
        assert score.divergence(q, q)[0] == pytest.approx(0, abs=1e-12)
    assert score.infimum() == (-np.inf if score.name == "dss" else 0)


def test_same_numbers_as_the_regression_measures():
    regression = pytest.importorskip("calibrant.regression")
    rng = np.random.default_rng(1)
    y, mean, variance = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.2, 2, 50)
    for score, measure in ((DawidSebastiani(), regression.dss), (NormalCRPS(), regression.crps)):
        assert score.score((mean, variance), y).mean() == pytest.approx(measure(y, mean, variance), abs=1e-12)


def test_mistakes():
    for law in ((0.0, 0.0), (np.nan, 1.0), (0.0, -1.0)):
        with pytest.raises(InputError, match="positive variances"):
            DawidSebastiani().entropy(law)
