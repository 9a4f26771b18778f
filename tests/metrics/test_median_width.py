"""The width of a kernel from the median distance: two classes are measured by the probability of the second."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant.core.kernels import median_distance


@pytest.mark.parametrize(("kernel", "factor"), [("exponential", np.sqrt(2)), ("total-variation", 1.0)])
def test_scores_next_to_zero_keep_their_distance(kernel, factor):
    score = np.array([9.9584125e-01, 1.7120332e-12, 1.0, 0.0, 0.0, 0.0])
    points = np.stack([1 - score, score], axis=1)  # 1 − 1.7e-12 has lost five digits of it
    apart = [abs(a - b) for i, a in enumerate(score) for b in score[i + 1 :]]
    assert median_distance(points, kernel) == pytest.approx(factor * np.median(apart), rel=1e-14)


def test_copies_and_counts_agree_at_a_width_of_rounding_errors():
    y, score, w = np.array([0, 1, 1, 1]), np.array([9.9584125e-01, 1.7120332e-12, 1.0, 0.0]), np.array([1, 3, 1, 4])
    counted = calibrant.metric("skce", y, score, sample_weight=w, estimator="biased")
    copied = calibrant.metric("skce", np.repeat(y, w), np.repeat(score, w), estimator="biased")
    assert counted == pytest.approx(copied, rel=1e-12)
    assert counted == pytest.approx(
        0.859772997, rel=1e-8
    )  # what the loops of fuzz/oracle_classes.py gave before they were touched
