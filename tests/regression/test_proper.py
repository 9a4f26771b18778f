"""DSS and CRPS as proper-score objects, the kernel U-score, decomposition and improvement."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import regression as room
from calibrant.errors import InputError
from calibrant.scores import ProperScore

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
SCORES = [room.DawidSebastiani(), room.NormalCRPS()]


@pytest.mark.parametrize("score", SCORES, ids=lambda s: s.name)
def test_expected_score_is_the_integral_and_divergence_is_positive(score):
    rng = np.random.default_rng(0)
    p, q = (np.stack([rng.normal(size=20), rng.gamma(2.0, 1.0, 20) + 0.1], axis=1) for _ in range(2))
    assert isinstance(score, ProperScore)
    for row in range(20):
        y = q[row, 0] + np.sqrt(q[row, 1]) * NODES
        want = WEIGHTS @ score.score(np.repeat(p[row : row + 1], len(y), axis=0), y)
        tolerance = 2e-3 if score.name == "crps" else 1e-9  # the CRPS has a kink
        assert score.expected_score(p[row], q[row])[0] == pytest.approx(want, abs=tolerance)
    assert (score.divergence(p, q) > 0).all()
    assert score.divergence(p, p) == pytest.approx(0, abs=1e-12)
    assert score.entropy(q) == pytest.approx(score.expected_score(q, q))


def test_scores_agree_with_the_functions():
    rng = np.random.default_rng(1)
    mean, variance, y = rng.normal(size=50), rng.gamma(2.0, 1.0, 50), rng.normal(size=50)
    laws = np.stack([mean, variance], axis=1)
    assert SCORES[0].score(laws, y).mean() == pytest.approx(room.dss(y, mean, variance))
    assert SCORES[1].score(laws, y).mean() == pytest.approx(room.crps(y, mean, variance))
    with pytest.raises(InputError, match="rows"):
        SCORES[0].score(mean, y)
    with pytest.raises(InputError, match="positive"):
        SCORES[0].entropy([0.0, -1.0])


def test_kernel_score():
    rng = np.random.default_rng(2)
    mean, variance, y = rng.normal(size=30), rng.gamma(2.0, 1.0, 30), rng.normal(size=30)
    laws = np.stack([mean, variance], axis=1)
    score = room.NormalKernelScore((0.8, 1.7))
    i, j = np.triu_indices(30, 1)
    assert score.score(laws[i], laws[j], y[i], y[j]).mean() == pytest.approx(score.mean(y, mean, variance))
    # calibrated pairs have expected score 0, and it equals the integral over both truths
    assert score.expected_score(laws[:15], laws[15:], laws[:15], laws[15:]) == pytest.approx(0, abs=1e-15)
    a, b = np.array([0.3, 0.5]), np.array([-0.2, 2.0])
    ya, yb = (law[0] + np.sqrt(law[1]) * NODES for law in (a, b))
    one, two = (np.repeat(laws[k : k + 1], len(NODES) ** 2, axis=0) for k in (0, 1))
    grid = score.score(one, two, np.repeat(ya, len(NODES)), np.tile(yb, len(NODES))).reshape(len(NODES), -1)
    assert WEIGHTS @ grid @ WEIGHTS == pytest.approx(score.expected_score(laws[0], laws[1], a, b)[0], abs=1e-10)
    assert score.divergence(laws[0], laws[1], a, b) == score.expected_score(laws[0], laws[1], a, b)
    assert (score.entropy(laws, laws) == 0).all()


def test_decomposition_adds_up_and_finds_the_truth():
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=20_000), rng.gamma(2.0, 1.0, 20_000) + 0.05
    y = mean + np.sqrt(variance) * rng.standard_normal(20_000)
    wide = room.decomposition(y, mean, 3 * variance, rng=0)
    assert wide.score == pytest.approx(wide.entropy + wide.calibration - wide.sharpness)
    assert wide.score == pytest.approx(room.dss(y, mean, 3 * variance))
    truth = 1 / 3 - 1 + np.log(3)  # d(N(μ, 3v), N(μ, v))
    assert wide.calibration == pytest.approx(truth, abs=0.01)
    right = room.decomposition(y, mean, variance, rng=0)
    assert right.calibration == pytest.approx(0, abs=0.002)
    assert right.sharpness == pytest.approx(wide.sharpness, abs=1e-3)  # a one-to-one map keeps the sharpness
    gain = room.compare(y, (mean, 3 * variance), (mean, variance), injective=True)["dss"].change
    assert gain == pytest.approx(truth, abs=0.02)  # improvement = change of the proper calibration error


def test_upper_bound_exists_for_crps_only():
    y, mean, variance = [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]
    assert room.upper_bound(y, mean, variance) == pytest.approx(room.crps(y, mean, variance))
    with pytest.raises(InputError, match="finite inf g"):
        room.upper_bound(y, mean, variance, score="dss")
    assert room.upper_bound(y, mean, variance) >= room.calibration_error(
        np.tile(y, 20), np.tile(mean, 20), np.tile(variance, 20), score="crps", rng=0
    )


def test_samples_and_quantiles_are_scored_as_they_are():
    """Not as the normal distribution with their mean and variance: theirs are skewed."""
    rng = np.random.default_rng(4)
    y, samples = rng.gamma(1.0, 2.0, 400), room.Samples(rng.gamma(1.0, 2.0, (400, 30)))
    table = room.Quantiles([0.1, 0.5, 0.9], samples.quantile([0.1, 0.5, 0.9]))
    for forecast in (samples, table):
        crps = room.crps(y, forecast)
        assert room.upper_bound(y, forecast) == pytest.approx(crps)
        assert room.decomposition(y, forecast, score="crps", rng=0).score == pytest.approx(crps)
    assert room.decomposition(y, samples, rng=0).score == pytest.approx(room.dss(y, samples))
