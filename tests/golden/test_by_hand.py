"""Every measure on four rows a reader can check with pencil and paper.

Three classes; top labels 0, 0, 1, 2 with confidences 0.8, 0.6, 0.6, 0.8; hits yes, no, yes, yes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import calibrant
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import check_pairs
from calibrant.metrics import local_curve

P = np.array([[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
Y = np.array([0, 1, 1, 2])

log = math.log
H1 = -(0.8 * log(0.8) + 2 * 0.1 * log(0.1))  # entropy of rows 1 and 4
H2 = -(0.6 * log(0.6) + 2 * 0.2 * log(0.2))  # entropy of rows 2 and 3

BY_HAND = {
    "accuracy": 3 / 4,
    "confidence": 0.7,
    # bin of 0.6: accuracy 1/2, confidence 0.6; bin of 0.8: accuracy 1, confidence 0.8
    "ece": (2 * 0.1 + 2 * 0.2) / 4,
    "mce": 0.2,
    "tce": math.sqrt((2 * 0.1**2 + 2 * 0.2**2) / 4),
    # residuals t − s in score order: −0.6, +0.4, +0.2, +0.2; sums at distinct scores: −0.2, +0.2
    "ks": 0.2 / 4,
    # the same path starts at 0, falls to −0.2 and rises to +0.2
    "kuiper": 0.4 / 4,
    # two bins of two rows: frequencies 1/2 and 1 increase, then every score is a bin of its own
    "sweep": (2 * 0.1 + 2 * 0.2) / 4,
    # predicted class 0: 0.8 (right), 0.6 (wrong); class 1: 0.6 (right); class 2: 0.8 (right)
    "tl-ece": (0.2 + 0.6 + 0.4 + 0.2) / 4,
    # D(0.6) = −0.2, D(0.8) = 0.4, kernel e^{−0.2/0.4}
    "mmce": math.sqrt(0.2**2 + 0.4**2 - 2 * 0.2 * 0.4 * math.exp(-0.5)) / 4,
    # class 0: 0.1 (t 0), 0.2 (0), 0.6 (0), 0.8 (1); class 1: 0.1, 0.1 (0, 0), 0.2 (1), 0.6 (1);
    # class 2: 0.1 (0), 0.2, 0.2 (0, 0), 0.8 (1)
    "sce": ((0.1 + 0.2 + 0.6 + 0.2) + (2 * 0.1 + 0.8 + 0.4) + (0.1 + 2 * 0.2 + 0.2)) / 4 / 3,
    "cwce": math.sqrt(((0.01 + 0.04 + 0.36 + 0.04) + (2 * 0.01 + 0.64 + 0.16) + (0.01 + 2 * 0.04 + 0.04)) / 4),
    # every distinct score is a range of its own: plain means over 4, 3 and 3 ranges
    "ace": ((0.1 + 0.2 + 0.6 + 0.2) / 4 + (0.1 + 0.8 + 0.4) / 3 + (0.1 + 0.2 + 0.2) / 3) / 3,
    "tace": ((0.1 + 0.2 + 0.6 + 0.2) / 4 + (0.1 + 0.8 + 0.4) / 3 + (0.1 + 0.2 + 0.2) / 3) / 3,
    "uce": (2 * H1 / log(3) + 2 * abs(0.5 - H2 / log(3))) / 4,
    # 0.04 + 0.01 + 0.01; 0.36 + 0.64 + 0.04; 0.04 + 0.16 + 0.04; 0.01 + 0.01 + 0.04
    "brier": (0.06 + 1.04 + 0.24 + 0.06) / 4,
    "rbs": math.sqrt((0.06 + 1.04 + 0.24 + 0.06) / 4),
    "nll": -(2 * log(0.8) + log(0.2) + log(0.6)) / 4,
    "spherical": -(2 * 0.8 / math.sqrt(0.66) + (0.2 + 0.6) / math.sqrt(0.44)) / 4,
    # cumulative forecasts against outcomes: (0.8, 0.9) vs (1, 1); (0.6, 0.8) vs (0, 1); (0.2, 0.8) vs (0, 1); (0.1, 0.2) vs (0, 0)
    "rps": (0.05 + 0.40 + 0.08 + 0.05) / 4,
    "entropy": (H1 + H2) / 2,
}
#: Estimators defined by an integral or a fixed point: worked out by an independent program in their own tests.
ELSEWHERE = {"kde", "smece", "skce", "ce-kde"}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_by_hand(name):
    assert calibrant.metric(name, Y, P) == pytest.approx(BY_HAND[name], abs=1e-12)


def test_every_measure_has_a_value_by_hand_or_its_own_oracle():
    assert {m.name for m in declared()} == set(BY_HAND) | ELSEWHERE


def test_debiased_error():
    """Two bins of two rows: 0.5·(0.1² − 0.25/1) + 0.5·(0.2² − 0) < 0, so the debiased error is 0."""
    assert calibrant.metric("tce", Y, P, debias=True) == 0.0
    y, p = [1] * 9 + [0], [0.6] * 10  # one bin: t̄ = 0.9, gap 0.3, noise 0.9·0.1/9
    assert calibrant.metric("tce", y, p, debias=True) == pytest.approx(math.sqrt(0.09 - 0.01), abs=1e-12)


def test_uce_toy():
    """Constant p = (0.6, 0.4) with 60 % class 0: calibrated by ECE and MMCE, not by UCE."""
    p, y = [[0.6, 0.4]] * 5, [0, 0, 0, 1, 1]
    assert calibrant.metric("ece", y, p) == pytest.approx(0, abs=1e-12)
    assert calibrant.metric("mmce", y, p) == pytest.approx(0, abs=1e-12)
    assert calibrant.metric("uce", y, p) == pytest.approx(0.570951, abs=5e-7)


def test_mmce_recursion_equals_the_double_sum():
    rng = np.random.default_rng(0)
    p = rng.random(200).round(2)
    y = rng.random(200) < p
    s = np.maximum(p, 1 - p)
    t = (p > 0.5) == y
    for width in (0.4, 0.01):
        kernel = np.exp(-np.abs(s[:, None] - s[None, :]) / width)
        double = math.sqrt(((t - s) @ kernel @ (t - s)).clip(0)) / 200
        assert calibrant.metric("mmce", y, p, width=width) == pytest.approx(double, abs=1e-12)


def test_smece_equals_a_direct_convolution():
    """smECE by its definition: images of the Gaussian at the reflected scores, integrated on a fine grid."""
    rng = np.random.default_rng(1)
    s = rng.uniform(0.5, 1, 400)
    t = rng.random(400) < s - 0.1
    found = calibrant.evaluate(t, s, pairs=True, metrics=["smece"], n_resamples=0)["smece"].value
    grid = (np.arange(4000) + 0.5) / 4000

    def error(sigma):
        total = np.zeros_like(grid)
        for image in (-s, s, 2 - s, 2 + s, s - 2):
            total += (np.exp(-0.5 * ((grid[:, None] - image) / sigma) ** 2) * (t - s)).sum(axis=1)
        return np.abs(total / (sigma * math.sqrt(2 * math.pi))).mean() / 400

    assert error(found) == pytest.approx(found, abs=2e-5)


def test_kde_equals_a_direct_sum():
    """The density estimates by plain sums over samples instead of the fast transform."""
    rng = np.random.default_rng(2)
    s = rng.uniform(0.4, 1, 300)
    t = rng.random(300) < s**1.5
    found = calibrant.evaluate(t, s, pairs=True, metrics=["kde"], n_resamples=0)["kde"].value
    half = 3 * s[t].std() * 600**-0.2
    x = np.linspace(-0.6, 1.6, 2**14)
    x = x[(x > 0) & (x < 1)]

    def density(values):
        both = np.concatenate([values, np.where(values < 0.5, -values, 2 - values)])
        u = (x[:, None] - both) / half
        return (np.where(np.abs(u) < 1, 35 / 32 * (1 - u * u) ** 3, 0) / half).sum(axis=1)

    everything, hits = density(s), density(s[t])
    frequency = np.minimum(np.divide(hits, everything, out=np.zeros_like(hits), where=everything > 0), 1)
    weight = everything / 300
    expected = np.trapezoid(np.abs(x - frequency) * weight, x) / np.trapezoid(weight, x)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("b0", "b1", "truth"), [(0.5, -1.5, 0.074443), (0.2, -1.9, 0.023459)])
def test_kde_converges_to_zhangs_truth(b0, b1, truth):
    """Zhang et al. (2020), section 5: class-1 view, truth by quadrature."""
    rng = np.random.default_rng(3)
    n = 400_000
    y = rng.integers(0, 2, n)
    x = rng.normal(np.where(y == 1, -1.0, 1.0), 1.0)
    p = 1 / (1 + np.exp(-b0 - b1 * x))
    assert calibrant.metric("kde", y, p, view="class-1") == pytest.approx(truth, abs=1.5e-3)


@pytest.mark.parametrize("score", [0.5, 0.731, 0.9, 0.999])
@pytest.mark.parametrize("norm", [1, 2])
def test_kde_of_a_constant_score_is_its_gap(score, norm):
    """Seven of ten right at one confidence: the error is |score − 0.7| and nothing else, whatever the norm."""
    correct, confidence = [True] * 7 + [False] * 3, [score] * 10
    found = calibrant.evaluate(correct, confidence, pairs=True, metrics=["kde"], n_resamples=0)["kde"].value
    assert found == pytest.approx(abs(score - 0.7), abs=5e-4)
    forecast = check_pairs(correct, confidence, caller="test")
    recipe = lookup("kde").build(norm=norm)
    assert recipe.value(forecast) == pytest.approx(abs(score - 0.7), abs=5e-4)


@pytest.mark.parametrize("scores", [[0.0, 0.0, 1.0], [1.0], [0.0], [0.6, 0.6, 0.60001]])
def test_kde_of_ties_stays_in_the_unit_interval(scores):
    """Scores at the ends and next to each other leave a kernel a few grid steps wide; a mean gap is at most 1."""
    for outcome in (True, False):
        for bandwidth in ("published", "text", 1e-4):
            found = calibrant.evaluate([outcome] * len(scores), scores, pairs=True, metrics=["kde"], n_resamples=0)
            assert 0 <= found["kde"].value <= 1
            value = (
                lookup("kde")
                .build(bandwidth=bandwidth)
                .value(check_pairs([outcome] * len(scores), scores, caller="test"))
            )
            assert 0 <= value <= 1


def test_classwise_maximum_norm_is_the_largest_gap():
    """Both classes are off by 0.9 in their only bin: the maximum is 0.9, not the sum 1.8; so is the limit of the norms."""
    y, p = [0] * 10, [0.9] * 10
    assert calibrant.metric("cwce", y, p, norm=math.inf) == pytest.approx(0.9)
    assert calibrant.metric("cwce", y, p, norm=400) == pytest.approx(0.9, abs=2e-3)
    assert calibrant.metric("mce", y, p, view="classwise") == pytest.approx(0.9)


def test_local_curve_at_zero_counts_zeros_only():
    """A miss at 0, a hit just above it, a miss at 0.5: left side 0, right side 1/(1 + 0.9^50), the curve their mean.

    Were the second row taken for a zero, the left side would be 1/2, the right side 0 and the curve 1/4.
    """
    curve = local_curve([0, 1, 0], [0.0, 1e-12, 0.5], view="class-1")
    right = 1.0 / (1.0 + 0.9**50)
    assert curve.frequency[0] == pytest.approx(0.5 * (0.0 + right), abs=1e-9)
